"""Noise: how far an honest result is off per element, because of rounding. It is measured on the reference itself.

An example: a * b - c in bfloat16, with a * b = 1000.3 and c = 1000. The result is 0.3. An implementation that rounds
a * b to bfloat16 first, which gives 1000, returns 0: the honest error is as large as the result. If summands cancel, the
size of an element says nothing about its error. So the reference runs twice on the same inputs: in high precision, and
as coarsely as an implementation may compute. The difference is the size of honest errors.

By neighbours. One difference is chance, so a block of 256 neighbours shares one noise: the median, over groups of 8, of
a group's largest difference. About one element in twelve is off by more. A mean would follow the largest element alone
if sizes differ widely, as in powers. A plain median would follow the small columns if a block has a few large ones.

By size. If an element is no sum, its error goes with its own size, and a small element among large neighbours would be
allowed their errors. So elements of similar size, anywhere in the tensor, share a second noise, and the smaller of the
two counts. The second comes from the coarse run and from a run on inputs that are off by half a step of their dtype:
that moves a sum by the size of its summands, however small the sum, and anything else by a share of itself.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import torch

# Neighbours, in memory order, that share one noise; members of a group, which are spread over the block. Counts.
BLOCK = 256
GROUP = 8
# Elements worked on at a time, so that a large tensor needs no copy of twice its size. A count, of whole blocks.
CHUNK = 1 << 26
# For noise by size: sampled elements, classes of size, and the least number of elements per class. The largest error of
# a class counts, so that a few sums of large summands show in it. Counts.
SAMPLE, CLASSES, LEAST = 1 << 18, 64, 256
# Bits of a float32 mantissa that tf32 drops.
_TF32_DROPS = 13


@dataclasses.dataclass(frozen=True, kw_only=True)
class Noise:
    """How far an honest result is off, in the unit of its tensor.

    Attributes:
      blocks: per block of neighbours, in memory order.
      edges: the largest size of an element in each class but the last, ascending.
      errors: per class of size; infinite if unknown.
    """

    blocks: torch.Tensor
    edges: torch.Tensor
    errors: torch.Tensor

    def of(self, part: slice, sizes: torch.Tensor) -> torch.Tensor:
        """Returns the noise of each element of the chunk `part`, whose sizes are `sizes`."""
        return torch.minimum(spread(self.blocks, part, sizes.numel()), self._by_size(sizes))

    def at(self, positions: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        """Returns the noise of elements at `positions` in memory order, whose sizes are `sizes`."""
        return torch.minimum(self.blocks[positions // BLOCK], self._by_size(sizes))

    def _by_size(self, sizes: torch.Tensor) -> torch.Tensor:
        return self.errors[torch.searchsorted(self.edges, sizes, out_int32=True)]


def measured(fine: torch.Tensor, coarse: torch.Tensor, moved: torch.Tensor | None) -> Noise:
    """Returns the noise between the reference's result, a coarse result, and a result on inputs that are a little off.

    Args:
      fine: the result in high precision.
      coarse: the result as coarse as an implementation may compute it.
      moved: the result of inputs that are half a step off, which may be `coarse` itself. None if unknown: then only
        neighbours count, since the coarse run alone does not tell a sum that cancels from anything else.
    """
    flat, stride = fine.detach().reshape(-1), _stride(fine.numel())
    values = flat[::stride].to(working_dtype(fine))
    # Infinities and NaN are compared by kind elsewhere. Here they count as size 0.
    is_finite = values.isfinite()
    sizes, order = values.abs().where(is_finite, values.new_zeros(())).sort()
    errors = torch.full_like(sizes, math.inf) if moved is None else torch.zeros_like(sizes)
    for other in () if moved is None else (coarse, moved):
        found = other.detach().reshape(-1)[::stride].to(sizes.dtype)
        # A result that is not finite on moved inputs is at the border of its domain: its error is unknown.
        error = found.sub(values).abs_().nan_to_num_(math.inf, math.inf)
        errors = torch.maximum(errors, error.where(is_finite, error.new_zeros(()))[order])
    count = sizes.numel()
    members = max(LEAST, math.ceil(count / CLASSES))
    largest = torch.nn.functional.pad(errors, (0, -count % members)).view(-1, members).amax(dim=1)
    return Noise(
        blocks=between(coarse, fine),
        edges=sizes[members - 1 : count - 1 : members].contiguous(),
        errors=largest.cummax(dim=0).values,
    )


def smallest(dtype: torch.dtype) -> float:
    """Returns the error that always passes because it is tiny: a flush to 0, or one step of the smallest numbers.

    Devices flush subnormal numbers to 0 only if the dtype's smallest normal number is 2^-126 or less.
    """
    info = torch.finfo(dtype)
    return info.smallest_normal if info.smallest_normal < 1e-30 else info.smallest_normal * info.eps


def moved(tensor: torch.Tensor, seed: int, steps: float = 0.5) -> torch.Tensor:
    """Returns values that are off by up to `steps` steps of their dtype, at random, in higher precision.

    16- and 8-bit values become float32, wider values float64. float64 values are off by whole steps.
    """
    generator = torch.Generator(tensor.device).manual_seed(seed)
    wide = torch.float64 if tensor.itemsize > 2 else torch.float32
    change = torch.rand(tensor.shape, generator=generator, device=tensor.device, dtype=wide).mul_(2).sub_(1)
    change.mul_(torch.finfo(tensor.dtype).eps * steps).add_(1)
    return change.mul_(tensor.to(wide) if tensor.itemsize == 1 else tensor)  # 8 bits have no arithmetic


def chunks(count: int) -> Iterator[slice]:
    """Returns slices that cover `count` elements."""
    return (slice(start, start + CHUNK) for start in range(0, count, CHUNK))


def working_dtype(tensor: torch.Tensor) -> torch.dtype:
    """Returns the dtype for differences from a tensor: 8 bits have no arithmetic, and 16 bits would round it."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def between(coarse: torch.Tensor, fine: torch.Tensor) -> torch.Tensor:
    """Returns the size of |coarse - fine| in each block, one element per block, in memory order.

    An element that is not finite in either counts as no error.
    """
    fine, coarse = fine.detach().reshape(-1), coarse.detach().reshape(-1)
    dtype = working_dtype(fine)
    found = [
        _typical(coarse[part].to(dtype).sub(fine[part].to(dtype)).abs_().nan_to_num_(0.0, 0.0))
        for part in chunks(fine.numel())
    ]
    return torch.cat(found) if found else fine.new_empty(0, dtype=dtype)


def of_size(fine: torch.Tensor, fraction: float) -> torch.Tensor:
    """Returns `fraction` of the size of the values in each block, which stands in for noise that was not measured."""
    flat, dtype = fine.detach().reshape(-1), working_dtype(fine)
    found = [_typical(flat[part].to(dtype).abs()).mul_(fraction) for part in chunks(flat.numel())]
    return torch.cat(found) if found else flat.new_empty(0, dtype=dtype)


def spread(noise: torch.Tensor, part: slice, count: int) -> torch.Tensor:
    """Returns the noise of each of `count` elements of the chunk `part`."""
    blocks = noise[part.start // BLOCK : part.start // BLOCK + math.ceil(count / BLOCK)]
    return blocks.repeat_interleave(BLOCK)[:count]


def as_tf32(tensor: torch.Tensor) -> torch.Tensor:
    """Returns float32 values rounded to tf32, which tensor cores read."""
    half = 1 << (_TF32_DROPS - 1)
    return tensor.contiguous().view(torch.int32).add(half).bitwise_and_(-(1 << _TF32_DROPS)).view(torch.float32)


def _stride(count: int) -> int:
    """Returns the distance between sampled elements. It is odd, since the number of columns is often even."""
    return max(1, count // SAMPLE) | 1


def _typical(values: torch.Tensor) -> torch.Tensor:
    """Returns, per block, the median of its groups' largest values. Values are not negative; the last block may be short."""
    whole = values.numel() // BLOCK * BLOCK
    found = values[:whole].view(-1, GROUP, BLOCK // GROUP).amax(dim=1).median(dim=1).values
    rest = values[whole:]
    if rest.numel():
        rest = torch.nn.functional.pad(rest, (0, -rest.numel() % GROUP))
        found = torch.cat([found, rest.view(GROUP, -1).amax(dim=0).median().reshape(1)])
    return found
