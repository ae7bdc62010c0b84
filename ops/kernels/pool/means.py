"""Triton kernel of means over chunks of a sequence: a program adds the rows of one chunk for a block of columns."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tileops.ops.kernels.support import ceil_div, on_device, power_of_two

# Rows of a chunk that are added at a time, and the columns of a program.
_ROWS = 32
_COLS = 256


@triton.jit
def _mean(
    x_ptr,
    offsets_ptr,
    chunk_ptr,
    out_ptr,
    length,
    cols,
    chunk,
    chunks,
    PACKED: tl.constexpr,
    WIDEST: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    # x [batch, length, cols] -> out [batch, chunks, cols]; PACKED: chunk_ptr has (sequence, chunk within it) of each chunk.
    number = tl.program_id(1)
    batch = tl.program_id(2).to(tl.int64)
    if PACKED:
        sequence = tl.load(chunk_ptr + 2 * number)
        begin = tl.load(offsets_ptr + sequence) + tl.load(chunk_ptr + 2 * number + 1) * chunk
        end = tl.minimum(begin + chunk, tl.load(offsets_ptr + sequence + 1))
    else:
        begin = number * chunk
        end = tl.minimum(begin + chunk, length)
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    total = tl.zeros([ROWS, COLS], WIDEST)
    for first in range(begin, end, ROWS):
        row = first + tl.arange(0, ROWS)
        mask = (row < end)[:, None] & (col < cols)[None, :]
        at = (batch * length + row)[:, None] * cols + col[None, :]
        total += tl.load(x_ptr + at, mask=mask, other=0.0).to(WIDEST)
    mean = tl.sum(total, axis=0) / (end - begin).to(WIDEST)
    tl.store(out_ptr + (batch * chunks + number) * cols + col, mean.to(out_ptr.dtype.element_ty), mask=col < cols)


def chunk_means(
    x: torch.Tensor,
    offsets: torch.Tensor | None,
    chunk_indices: torch.Tensor | None,
    chunk: int,
    chunks: int,
    accumulates_in_float64: bool,
) -> torch.Tensor:
    """Returns the mean of every chunk of `chunk` rows; a short last chunk is divided by its own length.

    Args:
      x: [B, S, H, D].
      offsets: int32 [sequences + 1], where each packed sequence begins, or None for one sequence per sample.
      chunk_indices: int32 [chunks, 2], (sequence, chunk within it), or None.
      chunk: rows of a chunk.
      chunks: of each sample.
      accumulates_in_float64: whether sums are float64, else float32.
    """
    out = x.new_empty((x.shape[0], chunks, *x.shape[2:]))
    if not out.numel():
        return out
    x, cols = x.contiguous(), x.shape[2] * x.shape[3]
    tile = min(power_of_two(cols), _COLS)
    with on_device(x):
        _mean[(ceil_div(cols, tile), chunks, x.shape[0])](
            x,
            x if offsets is None else offsets.contiguous(),
            x if chunk_indices is None else chunk_indices.contiguous(),
            out,
            x.shape[1],
            cols,
            chunk,
            chunks,
            PACKED=offsets is not None,
            WIDEST=tl.float64 if accumulates_in_float64 else tl.float32,
            ROWS=_ROWS,
            COLS=tile,
            num_warps=4,
        )
    return out
