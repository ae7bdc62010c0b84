"""Whether a result is off in one direction: rounding has no sign, so over many elements its errors cancel.

An example: an RMSNorm in bfloat16 whose results are all 1% too large. Each is within the tolerance, since rounding alone
may cost an element 0.4%. But the errors of 4096 honest results cancel to some 0.01%, and these add up to 1%.

With y a result, r the reference and rn(r) the reference rounded to the dtype, the bias is

    sum(w * (y - rn(r)) * r) / sum(w * r**2)

over elements of different r. The weight w = 1 / (r**2 + m**2) counts each element by its relative error, however large it
is beside others, save that an element below m, the size whose rounding error is the noise there (harness/noise.py), counts
the less: the error of a sum that cancels says nothing about its own size.

What passes is a share of a step of the dtype, and four times the standard error of the bias, which the terms of the sum
tell themselves: results that were rounded several times on the way scatter more, and so have more by chance.
"""

from __future__ import annotations

import dataclasses
import math
import os

import torch

from tileops.perf.harness.expected import Wanted, WrongResultError

# Elements that are looked at, and how many of different values there must be. Counts.
_SAMPLE, FEWEST = 1 << 18, 256
# Steps of the dtype that pass. Work in float32 whose results are rounded to 16 or 8 bits is off by nothing that a step of
# these shows. In float32 itself the approximations of functions are off by about a step, systematically, and the sums of
# a reduction by a few. Tensor cores cut float32 operands to tf32, 7e-4 too little in a product: there rule 1 alone holds.
STEPS = {"elementwise": 0.1, "reduction": 0.1, "product": 0.1}
WIDE_STEPS = {"elementwise": 1.0, "reduction": 8.0, "product": math.inf}
# Steps that pass in bfloat16 on a CPU under Triton's interpreter, which cuts float32 off to bfloat16 instead of rounding it.
_INTERPRETED_STEPS = 0.5 if os.environ.get("TRITON_INTERPRET") == "1" else 0.0
# Standard errors of the bias that pass. A factor.
DEVIATIONS = 4.0
# Elements whose rounded size lies between these, in units of the smallest normal and of the largest number of the dtype:
# others have steps that are no share of their size, or may be infinite.
_SMALLEST, _LARGEST = 8.0, 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bias:
    """By how much results are off in one direction.

    Attributes:
      bias: relative to the results; above 0 where they are too large.
      passes: the largest size of it that passes.
      elements: how many it was taken over. A count.
    """

    bias: float
    passes: float
    elements: int


def check(what: str, found: torch.Tensor, wanted: Wanted) -> None:
    """Raises WrongResultError where a result, all of it finite, is off in one direction; `what` names it."""
    measured = of(found, wanted)
    if measured is not None and not abs(measured.bias) <= measured.passes:
        raise WrongResultError(
            f"{what} is too {'large' if measured.bias > 0 else 'small'} by {abs(measured.bias):.3g} of its size in the mean"
            f" of {measured.elements} elements, and {measured.passes:.3g} passes: rounding errs in both directions"
        )


def of(found: torch.Tensor, wanted: Wanted) -> Bias | None:
    """The bias of a result; None where it has too few different values."""
    flat, dtype = found.detach().reshape(-1), found.dtype
    positions = torch.arange(0, flat.numel(), max(1, flat.numel() // _SAMPLE) | 1, device=flat.device)
    true = wanted.tensor.detach().reshape(-1)[positions]
    rounded = true.to(dtype).to(torch.float64)
    true = true.to(torch.float64)
    limits = torch.finfo(dtype)
    is_taken = (rounded.abs() >= _SMALLEST * limits.smallest_normal) & (rounded.abs() <= _LARGEST * limits.max)
    true, order = true.where(is_taken, 0.0).sort()  # float64 has no unique() that keeps positions
    is_new = torch.ones_like(true, dtype=torch.bool)
    is_new[1:] = true[1:] != true[:-1]
    kept = order[is_new & (true != 0)]
    if kept.numel() < FEWEST:
        return None
    true, rounded, positions = (
        wanted.tensor.detach().reshape(-1)[positions[kept]].to(torch.float64),
        rounded[kept],
        positions[kept],
    )
    error = flat[positions].to(torch.float64) - rounded
    weight = true.square().add_(_least_size(true, positions, wanted, limits.eps).square_()).reciprocal_()
    terms, total = weight * error * true, float((weight * true.square()).sum())
    bias = float(terms.sum()) / total
    deviation = math.sqrt(float((terms - bias * weight * true.square()).square_().sum())) / total
    is_wide = dtype in (torch.float32, torch.float64)
    share = max((WIDE_STEPS if is_wide else STEPS)[wanted.arithmetic] * limits.eps, wanted.allowed / 8)
    if dtype == torch.bfloat16 and found.device.type == "cpu":
        share = max(share, _INTERPRETED_STEPS * limits.eps)
    return Bias(bias=bias, passes=share + DEVIATIONS * deviation, elements=kept.numel())


def _least_size(true: torch.Tensor, positions: torch.Tensor, wanted: Wanted, eps: float) -> torch.Tensor:
    """The size below which an element counts less: the one whose rounding error is the noise."""
    if wanted.noise is None:
        return true.square().mean().sqrt().expand(true.shape).clone()
    sizes = true.abs().to(wanted.noise.errors.dtype)
    return wanted.noise.at(positions, sizes).to(torch.float64).div_(eps)
