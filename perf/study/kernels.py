"""A kernel that profits from a flush: an addition that marks what it reads as first to be evicted."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_TILE = 2048


@triton.jit
def _add(one_ptr, other_ptr, target_ptr, count, TILE: tl.constexpr):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    mask = at < count
    one = tl.load(one_ptr + at, mask=mask, eviction_policy="evict_first")
    other = tl.load(other_ptr + at, mask=mask, eviction_policy="evict_first")
    tl.store(target_ptr + at, one + other, mask=mask)


def add_with_hints(one: torch.Tensor, other: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Writes one + other into `target` and returns it. Contiguous tensors of one shape and dtype, on the current GPU."""
    _add[(triton.cdiv(target.numel(), _TILE),)](one, other, target, target.numel(), TILE=_TILE)
    return target
