"""Infinities and NaN of a result against the reference's: by position, sign and kind.

An example, a float16 result. Where the reference, in float32, is minus infinity (a masked score) or NaN, the result must
be the same. Where the reference is 70000, float16 has no such number, and the result must be infinity. Where it is 65510,
just short of the 65520 from which on rounding gives infinity, a result that is off by as much as passes may be either.
Everywhere else the result must be finite. What is left is compared by size, with both 0 where either is not finite.
"""

from __future__ import annotations

import torch

from tileops.perf.harness import noise
from tileops.perf.harness.expected import WrongResultError

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
    """What an element may be: as the reference is when it is rounded to `dtype`, and as it is a little below and above."""
    values = wanted.to(noise.working_dtype(wanted))
    return [_kinds((values * factor).to(dtype)) for factor in (1.0, 1 - tolerance, 1 + tolerance)]
