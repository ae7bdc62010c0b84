"""Triton kernel of poolings over one to three axes: a tile of outputs walks its windows tap by tap.

Neighbouring outputs share most of their taps, so a tap is read from DRAM once and then from L1. An axis that a call lacks
has length 1 and a window of one tap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from tileops.ops.kernels.support import ceil_div, elementwise_tile, on_device

# Windows of at most this many taps are unrolled.
_UNROLLED_TAPS = 32
_INT32 = 2**31
# Outputs of a program.
_TILE = 1024


class Windows(NamedTuple):
    """The windows of a pooling, per axis: the innermost axis last."""

    kernel: Sequence[int]
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]


@triton.jit
def _tap(at, inside, x_ptr, best, place, AVERAGE: tl.constexpr, INDICES: tl.constexpr, plane_at):
    # Takes one tap of each window into the running sum, or into the running maximum and its place.
    if AVERAGE:
        best += tl.load(x_ptr + plane_at + at, mask=inside, other=0.0).to(tl.float32)
    else:
        value = tl.load(x_ptr + plane_at + at, mask=inside, other=float("-inf")).to(tl.float32)
        if INDICES:
            taken = (value > best) | (value != value) | (inside & (place < 0))
            place = tl.where(taken, at, place)
            best = tl.where(taken, value, best)
        else:
            best = tl.maximum(best, value, propagate_nan=tl.PropagateNan.ALL)
    return best, place


@triton.jit
def _pool(
    x_ptr,
    out_ptr,
    indices_ptr,
    rows,
    D,
    H,
    W,
    OUT_D,
    OUT_H,
    OUT_W,
    col_blocks,
    stride_d,
    stride_h,
    stride_w,
    pad_d,
    pad_h,
    pad_w,
    step_d,
    step_h,
    step_w,
    divisor,
    K_D: tl.constexpr,
    K_H: tl.constexpr,
    K_W: tl.constexpr,
    AVERAGE: tl.constexpr,
    DIVISOR: tl.constexpr,
    INDICES: tl.constexpr,
    UNROLLED: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    # x [planes, D, H, W] -> out [planes, OUT_D, OUT_H, OUT_W]. A row of outputs is one (plane, d, h). What depends on the
    # row or on the column alone is computed for ROWS or COLS values, not for each output.
    pid = tl.program_id(0)
    row = pid // col_blocks * ROWS + tl.arange(0, ROWS)
    col = pid % col_blocks * COLS + tl.arange(0, COLS)
    row_mask = row < rows
    h0 = row % OUT_H * stride_h - pad_h
    rest = row // OUT_H
    d0 = rest % OUT_D * stride_d - pad_d
    plane_at = rest // OUT_D
    if WIDE:
        plane_at = plane_at.to(tl.int64)
    plane_at = (plane_at * (D * H * W))[:, None]
    w0 = col * stride_w - pad_w
    col_mask = col < OUT_W
    place = tl.full([ROWS, COLS], -1, tl.int32)
    if AVERAGE:
        best = tl.zeros([ROWS, COLS], tl.float32)
    else:
        best = tl.full([ROWS, COLS], float("-inf"), tl.float32)
    if UNROLLED:
        for kd in tl.static_range(K_D):
            for kh in tl.static_range(K_H):
                d, h = d0 + kd * step_d, h0 + kh * step_h
                row_inside = row_mask & (d >= 0) & (d < D) & (h >= 0) & (h < H)
                row_at = (d * H + h) * W
                for kw in tl.static_range(K_W):
                    w = w0 + kw * step_w
                    inside = row_inside[:, None] & (col_mask & (w >= 0) & (w < W))[None, :]
                    at = row_at[:, None] + w[None, :]
                    best, place = _tap(at, inside, x_ptr, best, place, AVERAGE, INDICES, plane_at)
    else:
        for kd in range(K_D):
            for kh in range(K_H):
                d, h = d0 + kd * step_d, h0 + kh * step_h
                row_inside = row_mask & (d >= 0) & (d < D) & (h >= 0) & (h < H)
                row_at = (d * H + h) * W
                for kw in range(K_W):
                    w = w0 + kw * step_w
                    inside = row_inside[:, None] & (col_mask & (w >= 0) & (w < W))[None, :]
                    at = row_at[:, None] + w[None, :]
                    best, place = _tap(at, inside, x_ptr, best, place, AVERAGE, INDICES, plane_at)
    if AVERAGE:
        if DIVISOR == "given":
            best = tl.div_rn(best, tl.zeros([ROWS, COLS], tl.float32) + divisor)
        else:
            if DIVISOR == "padded":  # a window may run over the right padding, where it ends
                count_d = tl.minimum(d0 + K_D, D + pad_d) - d0
                count_h = tl.minimum(h0 + K_H, H + pad_h) - h0
                count_w = tl.minimum(w0 + K_W, W + pad_w) - w0
            else:
                count_d = tl.minimum(d0 + K_D, D) - tl.maximum(d0, 0)
                count_h = tl.minimum(h0 + K_H, H) - tl.maximum(h0, 0)
                count_w = tl.minimum(w0 + K_W, W) - tl.maximum(w0, 0)
            best = tl.div_rn(best, ((count_d * count_h)[:, None] * count_w[None, :]).to(tl.float32))
    if WIDE:
        row = row.to(tl.int64)
    out_at = (row * OUT_W)[:, None] + col[None, :]
    mask = row_mask[:, None] & col_mask[None, :]
    tl.store(out_ptr + out_at, best.to(out_ptr.dtype.element_ty), mask=mask)
    if INDICES:
        # A dilated window may have no tap inside: then the first position that is not negative, on each axis.
        first_d = d0 + tl.maximum(0, (step_d - 1 - d0) // step_d) * step_d
        first_h = h0 + tl.maximum(0, (step_h - 1 - h0) // step_h) * step_h
        first_w = w0 + tl.maximum(0, (step_w - 1 - w0) // step_w) * step_w
        first = ((first_d * H + first_h) * W)[:, None] + first_w[None, :]
        tl.store(indices_ptr + out_at, tl.where(place < 0, first, place).to(tl.int64), mask=mask)


def max_pool(x: torch.Tensor, windows: Windows, spatial: Sequence[int], with_indices: bool) -> list[torch.Tensor]:
    """Returns the maximum of each window, and with `with_indices` also its place.

    NaN wins over every number and the last NaN over the first; of equal maxima the first wins.

    Args:
      x: [N, C, *L] of one to three axes L, each channel of fewer than 2**31 elements.
      windows: an item for each axis of L.
      spatial: lengths of the output's axes.
      with_indices: whether to return int64 places in the channel, in row-major order.
    """
    out = x.new_empty((*x.shape[:2], *spatial))
    results = [out, torch.empty(out.shape, dtype=torch.int64, device=x.device)] if with_indices else [out]
    _launch(x, windows, results, average=False, divisor=None, counts_padding=False)
    return results


def avg_pool(
    x: torch.Tensor, windows: Windows, spatial: Sequence[int], counts_padding: bool, divisor: int | None
) -> torch.Tensor:
    """Returns the mean of each window, added in float32 and rounded once.

    Args:
      x, windows, spatial: as in `max_pool`; the dilation is 1.
      counts_padding: whether the padding on both sides counts as elements of a window.
      divisor: replaces the number of elements, unless None.
    """
    out = x.new_empty((*x.shape[:2], *spatial))
    _launch(x, windows, [out], average=True, divisor=divisor, counts_padding=counts_padding)
    return out


def _launch(
    x: torch.Tensor,
    windows: Windows,
    results: list[torch.Tensor],
    *,
    average: bool,
    divisor: int | None,
    counts_padding: bool,
) -> None:
    out = results[0]
    if not out.numel():
        return

    def three(values: Sequence[int], lacking: int) -> list[int]:
        return [lacking] * (3 - len(values)) + list(values)

    kernel = three(windows.kernel, 1)
    cols = out.shape[-1]
    rows = out.numel() // cols
    tile_rows, tile_cols, warps = elementwise_tile(rows, cols, _TILE)
    col_blocks = ceil_div(cols, tile_cols)
    with on_device(x):
        _pool[(ceil_div(rows, tile_rows) * col_blocks,)](
            x.contiguous(),
            out,
            results[-1],
            rows,
            *three(x.shape[2:], 1),
            *three(out.shape[2:], 1),
            col_blocks,
            *three(windows.stride, 1),
            *three(windows.padding, 0),
            *three(windows.dilation, 1),
            float(divisor or 1),
            K_D=kernel[0],
            K_H=kernel[1],
            K_W=kernel[2],
            AVERAGE=average,
            DIVISOR="given" if divisor is not None else "padded" if counts_padding else "inside",
            INDICES=len(results) > 1,
            UNROLLED=math.prod(kernel) <= _UNROLLED_TAPS,
            WIDE=max(x.numel(), out.numel()) + tile_rows * tile_cols >= _INT32,
            ROWS=tile_rows,
            COLS=tile_cols,
            num_warps=warps,
        )
