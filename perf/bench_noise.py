"""How far an honest result is off, element by element: what rounding costs, measured on the reference itself.

An element of a sum has no size of its own to be judged by: where summands cancel it is small and its error is not. The
reference runs twice on the same inputs, in high precision and as coarsely as an implementation may compute; what lies
between the two is the size of honest errors there. A block of neighbours shares one such size, since one pair of
results is chance: the median, over groups of the block, of a group's largest. About one element in twelve is off by more.
A mean would be that of the largest alone where sizes differ widely, as in powers, and a plain median that of small
columns where a block has large ones beside them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

# Neighbours, in memory order, that share one size of error; members of a group, which are spread over a block. Counts.
BLOCK = 256
GROUP = 8
# Elements worked on at a time, so that a large tensor needs no second one of twice its size. A count, of whole blocks.
CHUNK = 1 << 26
# Bits of a float32 mantissa that operands of a tensor core in tf32 do not have.
_TF32_DROPS = 13


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


def _typical(values: torch.Tensor) -> torch.Tensor:
    """Of each block the median of its groups' largest values, none of them negative; the last block may be short."""
    whole = values.numel() // BLOCK * BLOCK
    found = values[:whole].view(-1, GROUP, BLOCK // GROUP).amax(dim=1).median(dim=1).values
    rest = values[whole:]
    if rest.numel():
        rest = torch.nn.functional.pad(rest, (0, -rest.numel() % GROUP))
        found = torch.cat([found, rest.view(GROUP, -1).amax(dim=0).median().reshape(1)])
    return found
