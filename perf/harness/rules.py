"""Two rules of correctness: which elements are infinite or NaN, and whether the result is biased.

Not finite. An example, a float16 result. If the reference, in float32, is minus infinity (a masked score) or NaN, the
result must be the same. If the reference is 70000, which float16 cannot hold, the result must be infinity. Rounding to
float16 gives infinity from 65520 on. If the reference is 65510, a result within the tolerance may be either finite or
infinite. Everywhere else the result must be finite. After this check, elements that are not finite on either side
become 0 on both, and the rest is compared by size.

Bias. Rounding errors have both signs, so over many elements they cancel. An example: an RMSNorm in bfloat16 whose
results are all 1% too large. Each element passes: rounding alone may change it by 0.4%, and the tolerance is 1.6%. But
over 4096 honest results the errors cancel to 0.01% or less, while here they add up to 1%. At most about 0.1% passes.
With y a result, r the reference and rn(r) the reference rounded to the dtype, the bias is

    sum(w * (y - rn(r)) * r) / sum(w * r**2)

over elements of different r. The weight w = 1 / (r**2 + m**2) counts each element by its relative error, however large
the element is. m is the size whose rounding error equals the noise at the element (harness/noise.py). An element below
m counts less: if summands cancel, the error depends on their size, not on the size of the sum.

The limit is a share of a step of the dtype plus four standard errors of the bias. The standard error comes from the
terms of the sum: results that were rounded several times scatter more, and so have more bias by chance.
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
    """Returns a result and its reference, with 0 in both at elements where either is not finite.

    Args:
      what: the tensor's name in the error.
      found: the result.
      reference: of the same shape, in its own precision.
      tolerance: the relative error that passes. Within it of the dtype's largest number, finite and infinite are right.

    Raises:
      WrongResultError: an element is infinite or NaN and the reference is not, or the reverse, or the signs differ.
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
                f" {str(found.dtype).removeprefix('torch.')}; at least {count} of {found.numel()} elements are wrong so"
            )
        either = (kinds != _FINITE) | (_kinds(wanted[part]) != _FINITE)
        given[part] = torch.where(either, torch.zeros_like(given[part]), given[part])
        wanted[part] = torch.where(either, torch.zeros_like(wanted[part]), wanted[part])
    return given.view(found.shape), wanted.view(reference.shape)


def _concerns(given: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> bool:
    """Returns whether an element of the result is not finite, or should perhaps not be."""
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
    """Returns the kinds that pass: of the reference rounded to `dtype`, and of values just below and above it."""
    values = wanted.to(noise.working_dtype(wanted))
    return [_kinds((values * factor).to(dtype)) for factor in (1.0, 1 - tolerance, 1 + tolerance)]


# ---- bias


# Elements that are sampled, and the least number of different values among them. Counts.
_SAMPLE, FEWEST = 1 << 18, 256
# Bias that passes, in steps of the dtype.
# - 16 and 8 bits: work is done in float32, whose systematic errors are far below a step of the result.
# - float32, float64: approximations of functions are off by about a step in one direction, sums of a reduction by a few.
# - float32 products: tensor cores cut the operands to tf32, which makes a product 7e-4 too small. No bias is checked.
STEPS = {"elementwise": 0.1, "reduction": 0.1, "product": 0.1}
WIDE_STEPS = {"elementwise": 1.0, "reduction": 8.0, "product": math.inf}
# The same for bfloat16 on a CPU: Triton's interpreter cuts float32 off to bfloat16 instead of rounding.
_INTERPRETED_STEPS = 0.5 if os.environ.get("TRITON_INTERPRET") == "1" else 0.0
# Standard errors of the bias that pass in addition. A factor.
DEVIATIONS = 4.0
# Only elements of a size between these count, in units of the dtype's smallest normal and of its largest number: below,
# a step is no fixed share of the size; above, rounding may give infinity.
_SMALLEST, _LARGEST = 8.0, 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bias:
    """By how much results are off in one direction.

    Attributes:
      bias: relative to the results; above 0 if they are too large.
      passes: the largest absolute bias that passes.
      elements: how many elements were compared. A count.
    """

    bias: float
    passes: float
    elements: int


def check_bias(what: str, found: torch.Tensor, wanted: Wanted) -> None:
    """Raises WrongResultError if a finite result is off in one direction. `what` is the tensor's name in the error."""
    measured = bias_of(found, wanted)
    if measured is not None and not abs(measured.bias) <= measured.passes:
        raise WrongResultError(
            f"{what} is biased: it is too {'large' if measured.bias > 0 else 'small'} by {abs(measured.bias):.3g} of its"
            f" size, on average over {measured.elements} elements; at most {measured.passes:.3g} passes. Rounding errors"
            " cancel on average: look for a wrong factor, a missing term, or values cut off instead of rounded"
        )


def bias_of(found: torch.Tensor, wanted: Wanted) -> Bias | None:
    """Returns the bias of a result; None if it has too few different values."""
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
    """Returns the size m below which an element counts less: the size whose rounding error equals the noise."""
    if wanted.noise is None:
        return true.square().mean().sqrt().expand(true.shape).clone()
    sizes = true.abs().to(wanted.noise.errors.dtype)
    return wanted.noise.at(positions, sizes).to(torch.float64).div_(eps)
