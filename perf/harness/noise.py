"""How far an honest result is off, element by element: what rounding costs, measured on the reference itself.

An element of a sum has no size of its own to be judged by: where summands cancel it is small and its error is not. The
reference runs twice on the same inputs, in high precision and as coarsely as an implementation may compute; what lies
between the two is the size of honest errors there. A block of neighbours shares one such size, since one pair of
results is chance: the median, over groups of the block, of a group's largest. About one element in twelve is off by
more. A mean would be that of the largest alone where sizes differ widely, as in powers, and a plain median that of
small columns where a block has large ones beside them.

Neighbours say too much where an element is no sum: its error goes with its own size, and a small one among large ones
is allowed theirs. So elements of like size, anywhere in the tensor, share a second size of error, and the smaller of
the two holds. The second comes from the coarse run and from one on inputs that are off by half a step of their dtype.
That moves a sum by the size of its summands, however small it is itself, and anything else by a share of itself.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import torch

# Neighbours, in memory order, that share one size of error; members of a group, which are spread over a block. Counts.
BLOCK = 256
GROUP = 8
# Elements worked on at a time, so that a large tensor needs no second one of twice its size. A count, of whole blocks.
CHUNK = 1 << 26
# Elements of a tensor that are looked at for errors by size, the classes of size they fall into, and the least number
# in a class: its largest error is to show the few that are sums of large summands. Counts.
SAMPLE, CLASSES, LEAST = 1 << 18, 64, 256
# Bits of a float32 mantissa that operands of a tensor core in tf32 do not have.
_TF32_DROPS = 13


@dataclasses.dataclass(frozen=True, kw_only=True)
class Noise:
    """How far an honest result is off, in the unit of its tensor.

    Attributes:
      blocks: in each block of neighbours, in memory order.
      edges: largest size of an element in each class but the last, ascending.
      errors: in each class of size; infinite where it is not known.
    """

    blocks: torch.Tensor
    edges: torch.Tensor
    errors: torch.Tensor

    def of(self, part: slice, sizes: torch.Tensor) -> torch.Tensor:
        """The noise of each of the elements in a chunk, `part`, whose sizes are `sizes`."""
        return torch.minimum(spread(self.blocks, part, sizes.numel()), self._by_size(sizes))

    def at(self, positions: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        """The noise of elements at `positions` in memory order, whose sizes are `sizes`."""
        return torch.minimum(self.blocks[positions // BLOCK], self._by_size(sizes))

    def _by_size(self, sizes: torch.Tensor) -> torch.Tensor:
        return self.errors[torch.searchsorted(self.edges, sizes, out_int32=True)]


def measured(fine: torch.Tensor, coarse: torch.Tensor, moved: torch.Tensor | None) -> Noise:
    """What lies between the reference's result and a coarse one, and one on inputs that are a little off.

    Args:
      fine: the result in high precision.
      coarse: as coarsely as an implementation may compute it.
      moved: of inputs that are half a step off, which may be `coarse` itself; None where that is not known, and an
        element's neighbours count alone: a sum that cancels and anything else would look alike.
    """
    flat, stride = fine.detach().reshape(-1), _stride(fine.numel())
    values = flat[::stride].to(working_dtype(fine))
    # What is not finite is compared by kind and has no size: it is counted with the smallest.
    is_finite = values.isfinite()
    sizes, order = values.abs().where(is_finite, values.new_zeros(())).sort()
    errors = torch.full_like(sizes, math.inf) if moved is None else torch.zeros_like(sizes)
    for other in () if moved is None else (coarse, moved):
        found = other.detach().reshape(-1)[::stride].to(sizes.dtype)
        # What is not finite on moved inputs is at the border of its domain: nothing is known there.
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
    """What a result may be off by because it is next to nothing: flushed to 0, or in a step of the smallest numbers.

    Devices flush numbers below the smallest normal one where that is 2^-126 or less, and nowhere else.
    """
    info = torch.finfo(dtype)
    return info.smallest_normal if info.smallest_normal < 1e-30 else info.smallest_normal * info.eps


def moved(tensor: torch.Tensor, seed: int, steps: float = 0.5) -> torch.Tensor:
    """Floating-point values that are off by up to `steps` steps of their dtype, at random, in higher precision.

    16- and 8-bit values come in float32, wider ones in float64; float64 ones are off by whole steps.
    """
    generator = torch.Generator(tensor.device).manual_seed(seed)
    wide = torch.float64 if tensor.itemsize > 2 else torch.float32
    change = torch.rand(tensor.shape, generator=generator, device=tensor.device, dtype=wide).mul_(2).sub_(1)
    change.mul_(torch.finfo(tensor.dtype).eps * steps).add_(1)
    return change.mul_(tensor.to(wide) if tensor.itemsize == 1 else tensor)  # 8 bits have no arithmetic


def chunks(count: int) -> Iterator[slice]:
    """Slices that cover `count` elements."""
    return (slice(start, start + CHUNK) for start in range(0, count, CHUNK))


def working_dtype(tensor: torch.Tensor) -> torch.dtype:
    """What differences from a tensor are computed in: there is no arithmetic in 8 bits, and 16 would round it."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def between(coarse: torch.Tensor, fine: torch.Tensor) -> torch.Tensor:
    """Size of |coarse - fine| in each block, one element a block, in memory order.

    What is not finite in either counts as no error.
    """
    fine, coarse = fine.detach().reshape(-1), coarse.detach().reshape(-1)
    dtype = working_dtype(fine)
    found = [
        _typical(coarse[part].to(dtype).sub(fine[part].to(dtype)).abs_().nan_to_num_(0.0, 0.0))
        for part in chunks(fine.numel())
    ]
    return torch.cat(found) if found else fine.new_empty(0, dtype=dtype)


def of_size(fine: torch.Tensor, fraction: float) -> torch.Tensor:
    """`fraction` of the size of values in each block: a tolerance's, for want of a second run."""
    flat, dtype = fine.detach().reshape(-1), working_dtype(fine)
    found = [_typical(flat[part].to(dtype).abs()).mul_(fraction) for part in chunks(flat.numel())]
    return torch.cat(found) if found else flat.new_empty(0, dtype=dtype)


def spread(noise: torch.Tensor, part: slice, count: int) -> torch.Tensor:
    """The noise of each of `count` elements, of which `part` is a chunk."""
    blocks = noise[part.start // BLOCK : part.start // BLOCK + math.ceil(count / BLOCK)]
    return blocks.repeat_interleave(BLOCK)[:count]


def as_tf32(tensor: torch.Tensor) -> torch.Tensor:
    """Float32 values rounded to the mantissa that tensor cores read, in float32."""
    half = 1 << (_TF32_DROPS - 1)
    return tensor.contiguous().view(torch.int32).add(half).bitwise_and_(-(1 << _TF32_DROPS)).view(torch.float32)


def _stride(count: int) -> int:
    """Of elements that are looked at; odd, since columns come in even numbers."""
    return max(1, count // SAMPLE) | 1


def _typical(values: torch.Tensor) -> torch.Tensor:
    """Of each block the median of its groups' largest values, none of them negative; the last block may be short."""
    whole = values.numel() // BLOCK * BLOCK
    found = values[:whole].view(-1, GROUP, BLOCK // GROUP).amax(dim=1).median(dim=1).values
    rest = values[whole:]
    if rest.numel():
        rest = torch.nn.functional.pad(rest, (0, -rest.numel() % GROUP))
        found = torch.cat([found, rest.view(GROUP, -1).amax(dim=0).median().reshape(1)])
    return found
