"""Two rules of correctness that look at elements by kind and by sign: where a result is not finite, and its bias.

Not finite. An example, a float16 result. If the reference, in float32, is minus infinity (a masked score) or NaN, the
result must be the same. If the reference is 70000, float16 has no such number, and the result must be infinity. If the
reference is 65510, just short of the 65520 from which rounding gives infinity, a result that is off by as much as
passes may be either. Everywhere else the result must be finite. What is left is compared by size, with both 0 where
either is not finite.

Bias. Rounding has no sign, so over many elements its errors cancel. An example: an RMSNorm in bfloat16 whose results
are all 1% too large. Each is within the tolerance, since rounding alone may cost an element 0.4%. But the errors of
4096 honest results cancel to some 0.01%, and these add up to 1%. With y a result, r the reference and rn(r) the
reference rounded to the dtype, the bias is

    sum(w * (y - rn(r)) * r) / sum(w * r**2)

over elements of different r. The weight w = 1 / (r**2 + m**2) counts each element by its relative error, however large
the element is beside others. m is the size whose rounding error is the noise at the element (harness/noise.py). An
element below m counts less: the error of a sum that cancels says nothing about the sum's own size.

A bias passes up to a share of a step of the dtype plus four times its standard error, which is computed from the terms
of the sum: results that were rounded several times on the way scatter more, and so have more bias by chance.
"""

from __future__ import annotations

import dataclasses
import math
import os

import torch

from tileops.perf.harness import noise
from tileops.perf.harness.expected import Wanted, WrongResultError

_FINITE, _PLUS, _MINUS, _NAN = range(4)
_KINDS = {_FINITE: "finite", _PLUS: "inf", _MINUS: "-inf", _NAN: "NaN"}


def settled(
    what: str, found: torch.Tensor, reference: torch.Tensor, tolerance: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """A result and its reference with 0 in both where either is not finite, or the two themselves if all is finite.

    Args:
      what: names the tensor in the error.
      found: the result.
      reference: in its own precision, of the same shape.
      tolerance: relative error that passes, which says how near to the dtype's largest number either is right.

    Raises:
      WrongResultError: an element is infinite or NaN and ought not to be, or the other way round, or has another sign.
    """
    given, wanted = found.detach().reshape(-1), reference.detach().reshape(-1)
    parts = [part for part in noise.chunks(given.numel()) if _concerns(given[part], wanted[part], tolerance)]
    if not parts:
        return found, reference
    given, wanted = given.clone(), wanted.clone()
    for part in parts:
        kinds, right = _kinds(given[part]), _right_kinds(wanted[part], found.dtype, tolerance)
        is_wrong = torch.stack([kinds != one for one in right]).all(dim=0)
        if count := int(is_wrong.sum()):
            first = int(torch.nonzero(is_wrong)[0])
            place = [int(one) for one in torch.unravel_index(torch.tensor(part.start + first), found.shape)]
            raise WrongResultError(
                f"{what} has a relative error of inf: it is {_KINDS[int(kinds[first])]} at {place}, where the reference"
                f" ({float(wanted[part][first]):.6g}) is {_KINDS[int(right[0][first])]} in"
                f" {str(found.dtype).removeprefix('torch.')}; {count} or more of {found.numel()} elements differ so"
            )
        either = (kinds != _FINITE) | (_kinds(wanted[part]) != _FINITE)
        given[part] = torch.where(either, torch.zeros_like(given[part]), given[part])
        wanted[part] = torch.where(either, torch.zeros_like(wanted[part]), wanted[part])
    return given.view(found.shape), wanted.view(reference.shape)


def _concerns(given: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> bool:
    """Whether a result or what it should be may not be finite."""
    limit = torch.finfo(given.dtype).max
    is_given = given.to(noise.working_dtype(given)).isfinite().all()
    size = wanted.to(noise.working_dtype(wanted)).abs().mul_(1 + tolerance)
    return not bool(is_given & (size <= limit).all())


def _kinds(values: torch.Tensor) -> torch.Tensor:
    values = values.to(noise.working_dtype(values))
    return (
        torch.zeros(values.shape, dtype=torch.uint8, device=values.device)
        .masked_fill_(values == float("inf"), _PLUS)
        .masked_fill_(values == -float("inf"), _MINUS)
        .masked_fill_(values.isnan(), _NAN)
    )


def _right_kinds(wanted: torch.Tensor, dtype: torch.dtype, tolerance: float) -> list[torch.Tensor]:
    """Returns what an element may be: the reference rounded to `dtype`, and values a little below and above it."""
    values = wanted.to(noise.working_dtype(wanted))
    return [_kinds((values * factor).to(dtype)) for factor in (1.0, 1 - tolerance, 1 + tolerance)]


# ---- bias


# Elements that are looked at, and how many of different values there must be. Counts.
_SAMPLE, FEWEST = 1 << 18, 256
# Steps of the dtype that pass. Work in float32 whose results are rounded to 16 or 8 bits is off by nothing that a step
# of these shows. In float32 itself the approximations of functions are off by about a step, systematically, and the
# sums of a reduction by a few. Tensor cores cut float32 operands to tf32, 7e-4 too little in a product: there rule 1
# alone holds.
STEPS = {"elementwise": 0.1, "reduction": 0.1, "product": 0.1}
WIDE_STEPS = {"elementwise": 1.0, "reduction": 8.0, "product": math.inf}
# Steps that pass in bfloat16 on a CPU under Triton's interpreter, which cuts float32 off to bfloat16 instead of
# rounding it.
_INTERPRETED_STEPS = 0.5 if os.environ.get("TRITON_INTERPRET") == "1" else 0.0
# Standard errors of the bias that pass. A factor.
DEVIATIONS = 4.0
# Elements whose rounded size lies between these, in units of the smallest normal and of the largest number of the
# dtype: others have steps that are no share of their size, or may be infinite.
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


def check_bias(what: str, found: torch.Tensor, wanted: Wanted) -> None:
    """Raises WrongResultError where a result, all of it finite, is off in one direction; `what` names it."""
    measured = bias_of(found, wanted)
    if measured is not None and not abs(measured.bias) <= measured.passes:
        raise WrongResultError(
            f"{what} is too {'large' if measured.bias > 0 else 'small'} by {abs(measured.bias):.3g} of its size in the"
            f" mean of {measured.elements} elements, and {measured.passes:.3g} passes: rounding errs in both directions"
        )


def bias_of(found: torch.Tensor, wanted: Wanted) -> Bias | None:
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
