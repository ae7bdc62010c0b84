"""Triton kernel of batch normalization by given statistics, over x viewed as [N, C, L], L the spatial positions.

Without spatial axes (L = 1) neighbouring elements belong to different channels; with them, to one. CHANNELS_INNER says
which: a tile's columns are channels in the first layout, and its rows are in the second.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tileops.ops.kernels.support import ceil_div, elementwise_tile, on_device, vector_unit


@triton.jit
def _normalize(
    x_ptr,
    mean_ptr,
    var_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    eps,
    rows,
    col_units,
    col_blocks,
    channels,
    UNIT: tl.constexpr,
    WEIGHTED: tl.constexpr,
    BIASED: tl.constexpr,
    CHANNELS_INNER: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    cols = col_units * UNIT
    pid = tl.program_id(0)
    row = (pid // col_blocks) * ROWS + tl.arange(0, ROWS)
    col = (pid % col_blocks) * COLS + tl.arange(0, COLS)
    row_mask = row < rows
    col_mask = col < cols
    mask = row_mask[:, None] & col_mask[None, :]
    at = row.to(tl.int64)[:, None] * cols + col[None, :]
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    if CHANNELS_INNER:
        channel = col
        channel_mask = col_mask
    else:
        channel = row % channels
        channel_mask = row_mask
    mean = tl.load(mean_ptr + channel, mask=channel_mask, other=0.0)
    scale = tl.rsqrt(tl.load(var_ptr + channel, mask=channel_mask, other=1.0) + eps)
    shift = tl.zeros_like(mean)
    if WEIGHTED:
        scale *= tl.load(weight_ptr + channel, mask=channel_mask, other=0.0)
    if BIASED:
        shift = tl.load(bias_ptr + channel, mask=channel_mask, other=0.0)
    if CHANNELS_INNER:
        value = (x - mean[None, :]) * scale[None, :] + shift[None, :]
    else:
        value = (x - mean[:, None]) * scale[:, None] + shift[:, None]
    tl.store(out_ptr + at, value.to(out_ptr.dtype.element_ty), mask=mask)


def sizes(x: torch.Tensor) -> tuple[int, int, int]:
    """(N, C, L) of x [N, C, *S]."""
    samples, channels = x.shape[:2]
    return samples, channels, x.numel() // max(samples * channels, 1)


def batch_norm_inference(
    x: torch.Tensor,
    mean: torch.Tensor,
    var: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> torch.Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias by channel, in float32, in x's shape and dtype.

    Args:
      x: [N, C, *S].
      mean, var: [C] float32.
      weight, bias: [C] float32, or None for 1 and 0.
      eps: added to the variance.
    """
    x = x.contiguous()
    out = torch.empty_like(x)
    if out.numel():
        normalize(x, mean, var, weight, bias, eps, out)
    return out


def normalize(
    x: torch.Tensor,
    mean: torch.Tensor,
    var: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    out: torch.Tensor,
) -> None:
    """Writes into `out` what `batch_norm_inference` returns of x, which is contiguous and not empty."""
    samples, channels, length = sizes(x)
    inner = length == 1
    rows, cols = (samples, channels) if inner else (samples * channels, length)
    tile_rows, tile_cols, warps = elementwise_tile(rows, cols)
    col_blocks = ceil_div(cols, tile_cols)
    unit = vector_unit(cols)
    mean, var = mean.contiguous(), var.contiguous()
    with on_device(x):
        _normalize[(ceil_div(rows, tile_rows) * col_blocks,)](
            x,
            mean,
            var,
            mean if weight is None else weight.contiguous(),
            mean if bias is None else bias.contiguous(),
            out,
            eps,
            rows,
            cols // unit,
            col_blocks,
            channels,
            UNIT=unit,
            WEIGHTED=weight is not None,
            BIASED=bias is not None,
            CHANNELS_INNER=inner,
            ROWS=tile_rows,
            COLS=tile_cols,
            num_warps=warps,
        )
