"""Triton kernel of dropout: random numbers are made where they are used, four at a time."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tileops.ops.kernels.support import ceil_div, elementwise_tile, on_device


@triton.jit(do_not_specialize=["seed", "threshold"])
def _dropout(x_ptr, out_ptr, count, seed, threshold, scale, TILE: tl.constexpr):
    pid = tl.program_id(0)
    counter = pid * (TILE // 4) + tl.arange(0, TILE // 4)
    first, second, third, fourth = tl.randint4x(seed, counter)
    # The words of a counter belong to four elements side by side.
    words = tl.reshape(tl.join(tl.join(first, third), tl.join(second, fourth)), [TILE])
    at = pid * TILE + tl.arange(0, TILE)
    mask = at < count
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    is_kept = words.to(tl.uint32, bitcast=True).to(tl.int64) >= threshold
    value = x * tl.where(is_kept, scale, 0.0)
    tl.store(out_ptr + at, value.to(out_ptr.dtype.element_ty), mask=mask)


def dropout(x: torch.Tensor, seed: int, threshold: int, scale: float, out: torch.Tensor) -> torch.Tensor:
    """Returns `out`: x times `scale` where its random word is `threshold` or more, times 0 elsewhere, in float32.

    Args:
      x: fewer than 2**31 elements.
      seed: key of Philox 4x32-10, in [0, 2**63); element e takes word e % 4 of counter e // 4.
      threshold: in [0, 2**32].
      scale: of the elements that are kept.
      out: written; of x's shape and dtype, or x itself.
    """
    if x.numel() == 0:
        return out
    x = x.contiguous()
    written = out if out.is_contiguous() else torch.empty_like(x)
    _, tile, warps = elementwise_tile(1, x.numel())
    tile = max(tile, 4)
    with on_device(x):
        _dropout[(ceil_div(x.numel(), tile),)](
            x, written, x.numel(), seed, threshold, scale, TILE=tile, num_warps=warps
        )
    return out if written is out else out.copy_(written)
