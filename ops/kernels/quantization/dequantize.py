"""Triton kernel that multiplies int8 codes by their scales, in one pass."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tileops.ops.kernels.support import ceil_div, elementwise_tile, on_device

# Elements of a program.
_MOST = 4096


@triton.jit
def _dequantize(
    q_ptr,
    scale_ptr,
    out_ptr,
    spans,
    spans_of_row,
    cols,
    length,
    row_stride,
    scales_of_row,
    scales_of_span,
    SPANS: tl.constexpr,
    COLS: tl.constexpr,
):
    # q [rows, cols], each row in spans of `length`; a span has the scale at row * scales_of_row + its number within the
    # row * scales_of_span.
    span = tl.program_id(0) * SPANS + tl.arange(0, SPANS)
    row, number = span // spans_of_row, span % spans_of_row
    within = tl.arange(0, COLS)
    col = (number * length)[:, None] + within[None, :]
    mask = (span < spans)[:, None] & (within < length)[None, :] & (col < cols)
    row = row.to(tl.int64)
    scale = tl.load(scale_ptr + row * scales_of_row + number * scales_of_span, mask=span < spans, other=0.0)
    code = tl.load(q_ptr + row[:, None] * row_stride + col, mask=mask, other=0)
    value = code.to(tl.float32) * scale[:, None]
    tl.store(out_ptr + row[:, None] * cols + col, value.to(out_ptr.dtype.element_ty), mask=mask)


def dequantize(q: torch.Tensor, scale: torch.Tensor, length: int, out_dtype: torch.dtype) -> torch.Tensor:
    """Codes times their scales: a product in float32, then one rounding.

    Args:
      q: int8 [rows, cols].
      scale: float32 [1] for all, [rows], or [rows, spans of a row].
      length: codes of a span of the last kind; 0 for the others.
      out_dtype: of the result.
    """
    rows, cols = q.shape
    out = torch.empty((rows, cols), dtype=out_dtype, device=q.device)
    if out.numel() == 0:
        return out
    if cols > 1 and q.stride(1) != 1:
        q = q.contiguous()
    scale = scale.contiguous()
    if length:
        span, tile_cols, scales_of_row, scales_of_span = length, length, scale.shape[1], 1
        tile_rows, warps = elementwise_tile(rows * scale.shape[1], length, _MOST)[::2]
    else:
        tile_rows, tile_cols, warps = elementwise_tile(rows, cols, _MOST)
        span, scales_of_row, scales_of_span = tile_cols, int(scale.shape[0] == rows and rows > 1), 0
    each = ceil_div(cols, span)
    with on_device(q):
        _dequantize[(ceil_div(rows * each, tile_rows),)](
            q,
            scale,
            out,
            rows * each,
            each,
            cols,
            span,
            q.stride(0),
            scales_of_row,
            scales_of_span,
            SPANS=tile_rows,
            COLS=tile_cols,
            num_warps=warps,
        )
    return out
