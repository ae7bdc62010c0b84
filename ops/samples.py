"""Distributions of the random inputs of a row, for ops that normally distributed values would not test.

An example: RMSNorm of normally distributed rows divides each row by a number near 1. `x * weight` without any norm is
then right within the error of bfloat16. So a row of RMSNorm draws x as `Groups`: each row has its own scale, between
2**-10 and 2**10, and its own offset; most of a row's energy lies in one element and the rest is uneven along the row,
so that the mean square of half a row, whichever half, is not the row's; and in a quarter of the rows the mean square is
about `eps`. An implementation that leaves the statistic or `eps` out, or takes either over something else, is wrong in
every dtype. Its weights are `Weights`: half of them near 1, but not so near that 1 will do.

Class attribute `Op.SAMPLES` names, by input, one of these, or an interval, a range or a list of values.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

Params = Mapping[str, Any]

# One group in this many, the first of a row's first values included, is so small that `eps` decides. A count.
_EPS_EVERY = 4
# The mean square (or the variance) of such a group, in units of eps: powers of two.
_EPS_RANGE = (-2.0, 1.0)
# Mean square of a group of scale 1, about: 1.35 for the ramp times 1.5 for every other element times 1.4 for the
# offset, and 6 for the one large element.
_ENERGY = 8.8
# Scale along a group, first to last element, and of every other element. Factors.
_RAMP, _ALTERNATION = (0.5, 2.0), math.sqrt(2.0)
# The large element of a group, in units of its scale and of the root of the number of elements, and the most in units
# of the scale; smaller groups have none. At least as much energy as all others together: with a third of it the mean
# square of every other element, the large one among them, would be that of the group. In sums it is as large as their
# scatter.
_LARGE, _ADDED_LARGE, _LARGEST, _FEWEST_FOR_LARGE = math.sqrt(6.0), 1.0, 1024.0, 8
# Offset of a group in units of its scale, of either sign: powers of two. Of a group that is added up it is this many
# times the root of the number of elements in all, so that neither the offset nor the scatter is lost in the sum.
_OFFSETS, _ADDED_OFFSETS = (-2.0, 0.0), (1.5, 2.5)
# Powers of two that the scale of a group is drawn between, by dtype; of other dtypes the last.
_SCALES = {
    torch.float16: (-8.0, 4.0),
    torch.bfloat16: (-10.0, 10.0),
    torch.float32: (-10.0, 10.0),
    torch.float64: (-10.0, 10.0),
}
_SCALES_OF_8_BITS = (-2.0, 2.0)
# Octaves between a dtype's largest number and the sum of a group, and between the least and the greatest such scale.
_HEADROOM, _ADDED_SPAN = 5.0, 12.0
# Weights: distance from 1 of those near it, size of the others. Powers of two.
_NEAR_ONE, _OTHER_WEIGHTS = (-5.0, -3.0), (-2.0, 2.0)
# Variances that `eps` does not decide. Powers of two.
_VARIANCES = (-6.0, 6.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Groups:
    """Values in groups that a statistic is taken of (a mean, a norm, a maximum, a sum): each group has its own scale
    and offset.

    Attributes:
      axes: (parameters, rank of the tensor) -> the axes that a group extends along.
      eps: the parameter that is added to a group's mean square or variance; "" if there is none. In a quarter of the
        groups it is as large as that.
      is_added: whether the op adds a group up without dividing: scale and offset then keep the sum within the dtype.
      scales: powers of two that scales are drawn between, where the dtype's own range is too wide for the op.
      is_centred: whether there is no offset: where a weighted mean of the group is the result, an offset would hide
        which weights it had.
      has_large: whether one element of each group, at random, has more energy than all others together.
      largest: the most that this element is, in units of the group's scale.
      when: the parameter that must be true; where it is not the values are normally distributed. "" for none.
    """

    axes: Callable[[Params, int], tuple[int, ...]]
    eps: str = ""
    is_added: bool = False
    scales: tuple[float, float] | None = None
    is_centred: bool = False
    has_large: bool = True
    largest: float = _LARGEST
    when: str = ""

    def draw(
        self, shape: tuple[int, ...], dtype: torch.dtype, stream: torch.Generator, params: Params, variant: int
    ) -> torch.Tensor:
        """Values of `shape`. Variant 0 has a group that `eps` decides whatever the number of groups."""
        work = torch.float32 if dtype.itemsize == 1 else dtype
        values = torch.randn(shape, generator=stream, device=stream.device, dtype=work)
        if not values.numel() or (self.when and not params[self.when]):
            return values.to(dtype)
        axes = {axis % len(shape) for axis in self.axes(params, len(shape))} if shape else set()
        groups = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        count = values.numel() // math.prod(groups)
        scale = self._scale(groups, count, dtype, stream, params, variant)
        offset = _signed(groups, _ADDED_OFFSETS if self.is_added else _OFFSETS, stream)
        if self.is_added:
            offset.div_(math.sqrt(count))
        if not self.is_centred:
            values.add_(offset.to(work))
        last = max((axis for axis in axes if shape[axis] > 1), default=None)
        for axis in axes:
            if shape[axis] > 1:
                values.mul_(
                    _uneven(shape[axis], is_last=axis == last, device=stream.device).to(work).view(_along(axis, shape))
                )
        values.mul_(scale.to(work))
        if self.has_large and count >= _FEWEST_FOR_LARGE:
            size = (_ADDED_LARGE if self.is_added else _LARGE) * math.sqrt(count)
            large = offset.sign().mul_(scale).mul_(min(size, self.largest))
            values[_one_of_each(shape, axes, stream)] = large.to(work).reshape(groups)
        if dtype.itemsize == 1:  # a cast beyond the largest number gives NaN in some of these dtypes
            values.clamp_(torch.finfo(dtype).min, torch.finfo(dtype).max)
        return values.to(dtype)

    def _scale(
        self,
        groups: tuple[int, ...],
        count: int,
        dtype: torch.dtype,
        stream: torch.Generator,
        params: Params,
        variant: int,
    ) -> torch.Tensor:
        low, high = self.scales or _SCALES.get(dtype, _SCALES_OF_8_BITS)
        if self.is_added:
            high = min(high, math.log2(torch.finfo(dtype).max) - math.log2(count) / 2 - _HEADROOM)
            low = max(low, high - _ADDED_SPAN) if low < high else high - _ADDED_SPAN
        scale = _powers(groups, (low, high), stream)
        if not self.eps:
            return scale
        tiny = _powers(groups, _EPS_RANGE, stream).mul_(params[self.eps] / _ENERGY).sqrt_()
        tiny.clamp_(min=8 * torch.finfo(dtype).smallest_normal)
        return torch.where(_decided_by_eps(groups, stream, variant), tiny, scale)


@dataclasses.dataclass(frozen=True)
class Weights:
    """Factors that results are multiplied by: half of them within 0.03 and 0.13 of 1, the others of either sign and 1/4
    to 4.
    """

    def draw(
        self, shape: tuple[int, ...], dtype: torch.dtype, stream: torch.Generator, params: Params, variant: int
    ) -> torch.Tensor:
        """Values of `shape`."""
        near = _signed(shape, _NEAR_ONE, stream).add_(1.0)
        is_near = torch.rand(shape, generator=stream, device=stream.device) < 0.5
        return torch.where(is_near, near, _signed(shape, _OTHER_WEIGHTS, stream)).to(dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variances:
    """Positive values over orders of magnitude; a quarter of them about as large as the parameter `eps`."""

    eps: str

    def draw(
        self, shape: tuple[int, ...], dtype: torch.dtype, stream: torch.Generator, params: Params, variant: int
    ) -> torch.Tensor:
        """Values of `shape`."""
        tiny = _powers(shape, _EPS_RANGE, stream).mul_(params[self.eps])
        is_tiny = _decided_by_eps(shape, stream, variant)
        return torch.where(is_tiny, tiny, _powers(shape, _VARIANCES, stream)).to(dtype)


@dataclasses.dataclass(frozen=True)
class Spread:
    """Values of either sign whose size lies between 2**low and 2**high, every order of magnitude as often."""

    low: float
    high: float

    def draw(
        self, shape: tuple[int, ...], dtype: torch.dtype, stream: torch.Generator, params: Params, variant: int
    ) -> torch.Tensor:
        """Values of `shape`."""
        return _signed(shape, (self.low, self.high), stream).to(dtype)


DRAWN = (Groups, Weights, Variances, Spread)
Listed = tuple[float, float] | range | list[float]
Sample = Listed | Groups | Weights | Variances | Spread


def _powers(shape: tuple[int, ...], between: tuple[float, float], stream: torch.Generator) -> torch.Tensor:
    """Powers of two in float32, their exponents uniform between two numbers."""
    return torch.empty(shape, device=stream.device).uniform_(*between, generator=stream).exp2_()


def _signed(shape: tuple[int, ...], between: tuple[float, float], stream: torch.Generator) -> torch.Tensor:
    sizes = _powers(shape, between, stream)
    return torch.where(torch.rand(shape, generator=stream, device=stream.device) < 0.5, -sizes, sizes)


def _decided_by_eps(groups: tuple[int, ...], stream: torch.Generator, variant: int) -> torch.Tensor:
    """Every fourth group, from the first one on in variant 0 and from a random one in others."""
    first = 0
    if variant:
        first = int(torch.randint(_EPS_EVERY, (1,), generator=stream, device=stream.device))
    numbers = torch.arange(math.prod(groups), device=stream.device).add_(first)
    return (numbers % _EPS_EVERY == 0).view(groups)


def _uneven(size: int, is_last: bool, device: torch.device) -> torch.Tensor:
    """Scale along an axis of a group: a ramp, so that its halves differ, and every other element larger."""
    factors = torch.linspace(*map(math.log2, _RAMP), size, device=device).exp2_()
    if is_last:
        factors[1::2] *= _ALTERNATION
    return factors


def _along(axis: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(-1 if position == axis else 1 for position in range(len(shape)))


def _one_of_each(shape: tuple[int, ...], axes: set[int], stream: torch.Generator) -> tuple[torch.Tensor, ...]:
    """Indices of one random element of each group."""
    groups = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(
        torch.randint(size, groups, generator=stream, device=stream.device)
        if axis in axes
        else torch.arange(size, device=stream.device).view(_along(axis, shape))
        for axis, size in enumerate(shape)
    )
