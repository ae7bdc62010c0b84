"""Triton kernel of RMS normalization: one pass, every row held in registers from its load to its store."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tileops.ops.kernels.support import MULTIPROCESSORS, ceil_div, on_device, power_of_two


@triton.jit
def _rms_norm(
    x_ptr,
    weight_ptr,
    out_ptr,
    eps,
    rows,
    cols,
    row_stride,
    WEIGHTED: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    col_mask = col < cols
    mask = (row < rows)[:, None] & col_mask[None, :]
    row = row.to(tl.int64)
    x = tl.load(x_ptr + row[:, None] * row_stride + col[None, :], mask=mask, other=0.0).to(tl.float32)
    if WEIGHTED:  # asked for before the reduction waits for x
        weight = tl.load(weight_ptr + col, mask=col_mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=1) / cols + eps)
    value = x * scale[:, None]
    if WEIGHTED:
        value = value * weight[None, :]
    tl.store(out_ptr + row[:, None] * cols + col[None, :], value.to(out_ptr.dtype.element_ty), mask=mask)


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, cols: int, eps: float) -> torch.Tensor:
    """x / sqrt(mean(x**2) + eps) * weight over the last `cols` elements of x, in float32, in x's shape and dtype.

    Args:
      x: [*B, *normalized_shape].
      weight: normalized_shape, or None for no scaling.
      cols: number of elements of normalized_shape, at most 32768 (32 a thread), or registers spill.
      eps: added to the mean square.
    """
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    flat = x.reshape(-1, cols)
    if cols > 1 and flat.stride(1) != 1:
        flat = flat.contiguous()
    rows = flat.shape[0]
    tile_cols = power_of_two(cols)
    # Few rows: eight values a thread, for the shortest wait; many: sixteen, so that more rows are in flight at once.
    warps = max(1, min(32, tile_cols // (256 if rows <= MULTIPROCESSORS else 512)))
    tile_rows = 1
    if tile_cols <= 1024:
        tile_rows = max(1, min(2048 // tile_cols, power_of_two(ceil_div(rows, 4 * MULTIPROCESSORS))))
        warps = max(1, min(4, tile_rows * tile_cols // 256))
    with on_device(x):
        _rms_norm[(ceil_div(rows, tile_rows),)](
            flat,
            x if weight is None else weight.contiguous(),
            out,
            eps,
            rows,
            cols,
            flat.stride(0),
            WEIGHTED=weight is not None,
            ROWS=tile_rows,
            COLS=tile_cols,
            num_warps=warps,
        )
    return out
