"""Triton kernels of tensors that positions alone determine: ALiBi biases and sinusoidal embeddings. They only write."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from tileops.ops.kernels.support import ceil_div, elementwise_tile, on_device

_LOG_10000 = tl.constexpr(math.log(10000.0))
_TURN = tl.constexpr(0.5 / math.pi)


@triton.jit
def _alibi(out_ptr, rows, length, col_blocks, leading, first_step, second_step, ROWS: tl.constexpr, COLS: tl.constexpr):
    pid = tl.program_id(0)
    row = (pid // col_blocks) * ROWS + tl.arange(0, ROWS)  # a head's row of scores
    col = (pid % col_blocks) * COLS + tl.arange(0, COLS)
    mask = (row < rows)[:, None] & (col < length)[None, :]
    head = row // length
    # The heads beyond the last power of two take every other slope of the sequence that is twice as long.
    further = second_step * (2 * (head - leading) + 1).to(tl.float32)
    exponent = tl.where(head < leading, first_step * (head + 1).to(tl.float32), further)
    slope = tl.exp2(exponent)
    distance = tl.abs((row % length)[:, None] - col[None, :]).to(tl.float32)
    value = -slope[:, None] * distance
    at = row.to(tl.int64)[:, None] * length + col[None, :]
    tl.store(out_ptr + at, value.to(out_ptr.dtype.element_ty), mask=mask)


def alibi(seq_len: int, num_heads: int, out: torch.Tensor) -> torch.Tensor:
    """Write -slope[h] * |i - j| into `out` [num_heads, seq_len, seq_len], contiguous; fewer than 2**31 rows in all."""
    if out.numel() == 0:
        return out
    leading = 1 << (num_heads.bit_length() - 1)
    rows = num_heads * seq_len
    tile_rows, tile_cols, warps = elementwise_tile(rows, seq_len)
    col_blocks = ceil_div(seq_len, tile_cols)
    with on_device(out):
        _alibi[(ceil_div(rows, tile_rows) * col_blocks,)](
            out,
            rows,
            seq_len,
            col_blocks,
            leading,
            -8.0 / leading,
            -4.0 / leading,
            ROWS=tile_rows,
            COLS=tile_cols,
            num_warps=warps,
        )
    return out


@triton.jit
def _sinusoidal(out_ptr, length, width, col_blocks, ROWS: tl.constexpr, COLS: tl.constexpr):
    pid = tl.program_id(0)
    row = (pid // col_blocks) * ROWS + tl.arange(0, ROWS)
    col = (pid % col_blocks) * COLS + tl.arange(0, COLS)
    mask = (row < length)[:, None] & (col < width)[None, :]
    # Turns are counted in float64, whatever the position; the fraction of one that is left is a float32.
    power = (col - col % 2).to(tl.float64) / width
    rate = tl.exp(power * -_LOG_10000) * _TURN
    turns = row.to(tl.float64)[:, None] * rate[None, :]
    half_turns = (turns - tl.floor(turns + 0.5)).to(tl.float32) * 2.0
    half_turns = half_turns + (col % 2).to(tl.float32)[None, :] * 0.5  # a cosine is a sine a quarter turn ahead
    whole = tl.floor(half_turns + 0.5)
    r = (half_turns - whole) * 3.1415927
    square = r * r
    series = 0.008333334 - square * (0.0001984127 - square * (2.7557319e-6 - square * 2.5052108e-8))
    sine = r - r * square * (0.16666667 - square * series)
    value = tl.where(whole == 0.0, sine, -sine)
    at = row.to(tl.int64)[:, None] * width + col[None, :]
    tl.store(out_ptr + at, value.to(out_ptr.dtype.element_ty), mask=mask)


def sinusoidal(seq_len: int, d_model: int, out: torch.Tensor) -> torch.Tensor:
    """Write sin and cos of position / 10000 ** (2 i / d_model) into columns 2 i and 2 i + 1 of `out` [seq_len,
    d_model].
    """
    if out.numel() == 0:
        return out
    _, cols, _ = elementwise_tile(1, d_model)
    tile_cols = min(cols, 256)
    tile_rows = 16  # over which a column's rate is computed once
    col_blocks = ceil_div(d_model, tile_cols)
    with on_device(out):
        _sinusoidal[(ceil_div(seq_len, tile_rows) * col_blocks,)](
            out, seq_len, d_model, col_blocks, ROWS=tile_rows, COLS=tile_cols, num_warps=4
        )
    return out
