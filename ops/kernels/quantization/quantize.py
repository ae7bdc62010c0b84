"""Triton kernels of quantizers with one scale per group of a row, per tile or per tensor.

Groups and tiles are held in registers from their load to the store of their codes, so that data is read once. The scale
of a whole tensor takes a launch of its own, which leaves one maximum per program: no atomics.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tileops.ops.kernels.quantization import codes
from tileops.ops.kernels.quantization.codes import FP8, FP8_FLOORED, INT8
from tileops.ops.kernels.support import MULTIPROCESSORS, ceil_div, on_device, power_of_two

# Sides of a tile, and elements of a group of codes per token.
TILE = 128
# Elements that a program of the kernels for whole tensors takes at a time, and programs that leave a maximum each.
_BLOCK, _PARTS = 4096, 2 * MULTIPROCESSORS
# Elements of small groups that share a program.
_SHARED = 2048


@triton.jit
def _quantize_groups(
    x_ptr,
    divisor_ptr,
    q_ptr,
    scale_ptr,
    groups,
    groups_of_row,
    cols,
    length,
    row_stride,
    DIVIDED: tl.constexpr,
    CODES: tl.constexpr,
    GROUPS: tl.constexpr,
    COLS: tl.constexpr,
):
    # x [rows, cols], each row in groups of `length`, the last one shorter -> q [rows, cols], scale [groups].
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    row = (group // groups_of_row).to(tl.int64)
    within = tl.arange(0, COLS)
    col = ((group % groups_of_row) * length)[:, None] + within[None, :]
    mask = (group < groups)[:, None] & (within < length)[None, :] & (col < cols)
    x = tl.load(x_ptr + row[:, None] * row_stride + col, mask=mask, other=0.0).to(tl.float32)
    if DIVIDED:
        divisor = tl.load(divisor_ptr + col, mask=mask, other=1.0)
        x = tl.div_rn(x, divisor)
    largest = tl.max(codes.size_bits(x), axis=1).to(tl.float32, bitcast=True)
    scale = codes.scale_of(largest, CODES)
    tl.store(scale_ptr + group, scale, mask=group < groups)
    found = codes.code(x, tl.broadcast_to(scale[:, None], (GROUPS, COLS)), CODES)
    tl.store(q_ptr + row[:, None] * cols + col, found, mask=mask)


@triton.jit
def _quantize_tiles(x_ptr, q_ptr, scale_ptr, rows, cols, row_stride, SIDE: tl.constexpr, CODES: tl.constexpr):
    # x [rows, cols] in tiles of SIDE by SIDE, clipped at the edges -> q [rows, cols], scale [tiles down, tiles across].
    row = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    col = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    mask = (row < rows)[:, None] & (col < cols)[None, :]
    row = row.to(tl.int64)
    x = tl.load(x_ptr + row[:, None] * row_stride + col[None, :], mask=mask, other=0.0).to(tl.float32)
    largest = tl.max(tl.max(codes.size_bits(x), axis=1), axis=0).to(tl.float32, bitcast=True)
    scale = codes.scale_of(largest, CODES)
    tl.store(scale_ptr + tl.program_id(1) * tl.num_programs(0) + tl.program_id(0), scale)
    found = codes.code(x, tl.full((SIDE, SIDE), 0.0, tl.float32) + scale, CODES)
    tl.store(q_ptr + row[:, None] * cols + col[None, :], found, mask=mask)


@triton.jit
def _largest_parts(x_ptr, parts_ptr, count, blocks, BLOCK: tl.constexpr):
    # x [count] -> parts: program p takes blocks p, p + programs, ... and leaves the bits of its largest magnitude.
    largest = tl.zeros([BLOCK], tl.int32)
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        at = block * tl.full((BLOCK,), BLOCK, tl.int64) + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < count, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, codes.size_bits(x))
    tl.store(parts_ptr + tl.program_id(0), tl.max(largest, axis=0))


@triton.jit
def _quantize_whole(
    x_ptr, parts_ptr, q_ptr, scale_ptr, count, parts, CODES: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr
):
    # x [count], parts of _largest_parts -> q [count], scale [1].
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count, other=0.0).to(tl.float32)  # asked for before the maximum waits
    part = tl.arange(0, PARTS)
    bits = tl.load(parts_ptr + part, mask=part < parts, other=0)
    scale = codes.scale_of(tl.max(bits, axis=0).to(tl.float32, bitcast=True), CODES)
    if tl.program_id(0) == 0:
        tl.store(scale_ptr, scale)
    tl.store(q_ptr + at, codes.code(x, tl.full((BLOCK,), 0.0, tl.float32) + scale, CODES), mask=at < count)


@triton.jit
def _quantize_int4(w_ptr, q_ptr, params_ptr, groups, length, GROUPS: tl.constexpr, COLS: tl.constexpr):
    # w [groups, length] -> q [groups, length / 2], two codes per byte, the even column's in the high bits, and params
    # [groups, 2]: step and offset.
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    within = tl.arange(0, COLS)
    mask = (group < groups)[:, None] & (within < length)[None, :]
    is_group = group < groups
    group = group.to(tl.int64)
    w = tl.load(w_ptr + group[:, None] * length + within[None, :], mask=mask, other=0.0).to(tl.float32)
    low = tl.min(tl.where(mask, w, float("inf")), axis=1)
    high = tl.max(tl.where(mask, w, float("-inf")), axis=1)
    span = tl.where(is_group, high - low, 0.0)
    factor = tl.where(span == 0.0, 1.0, tl.div_rn(tl.full((GROUPS,), 16.0, tl.float32), span))
    offset = (high + low) * 0.5
    pairs = codes.int4((w - offset[:, None]) * factor[:, None])
    upper, lower = tl.split(tl.reshape(pairs, (GROUPS, COLS // 2, 2)))
    byte = ((upper << 4) | (lower & 15)).to(tl.int8)
    half = tl.arange(0, COLS // 2)
    at = group[:, None] * (length // 2) + half[None, :]
    tl.store(q_ptr + at, byte, mask=is_group[:, None] & (half < length // 2)[None, :])
    tl.store(params_ptr + 2 * group, tl.div_rn(tl.full((GROUPS,), 1.0, tl.float32), factor), mask=is_group)
    tl.store(params_ptr + 2 * group + 1, offset, mask=is_group)


def _shape_of_programs(groups: int, length: int) -> tuple[int, int, int]:
    """Returns the groups and the columns of a program, and its warps: whole groups, short ones several at a time."""
    cols = max(2, power_of_two(length))
    if cols > _SHARED // 2:
        return 1, cols, max(4, min(32, cols // (256 if groups <= MULTIPROCESSORS else 512)))
    shared = max(1, min(_SHARED // cols, power_of_two(ceil_div(groups, 4 * MULTIPROCESSORS))))
    return shared, cols, max(1, min(4, shared * cols // 256))


def _rows_in_place(x: torch.Tensor) -> torch.Tensor:
    """Returns x, or a copy if its rows are not contiguous."""
    return x if x.shape[1] <= 1 or x.stride(1) == 1 else x.contiguous()


def quantize_groups(
    x: torch.Tensor, length: int, kind: str, divisor: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of x and the scales of its groups.

    Args:
      x: [rows, cols].
      length: elements of a group along a row, at most 32768 (32 a thread), or registers spill; the last group of a
        row may have fewer.
      kind: "int8" or "fp8", whose largest magnitude counts as 1e-4 at least.
      divisor: [cols] in float32, which columns are divided by first; None for none.

    Returns:
      The codes [rows, cols], and the scales [rows, groups of a row] in float32.
    """
    (rows, cols), each = x.shape, ceil_div(x.shape[1], length)
    q = torch.empty((rows, cols), dtype=torch.int8 if kind == "int8" else torch.float8_e4m3fn, device=x.device)
    scale = torch.empty((rows, each), dtype=torch.float32, device=x.device)
    if q.numel() == 0:
        return q, scale
    x = _rows_in_place(x)
    shared, tile_cols, warps = _shape_of_programs(rows * each, min(length, cols))
    with on_device(x):
        _quantize_groups[(ceil_div(rows * each, shared),)](
            x,
            x if divisor is None else divisor.contiguous(),
            q,
            scale,
            rows * each,
            each,
            cols,
            length,
            x.stride(0),
            DIVIDED=divisor is not None,
            CODES=INT8 if kind == "int8" else FP8_FLOORED,
            GROUPS=shared,
            COLS=tile_cols,
            num_warps=warps,
        )
    return q, scale


def quantize_tiles(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of x [rows, cols] in float8_e4m3fn, and the scales of its tiles of 128 rows and columns."""
    down, across = (ceil_div(size, TILE) for size in x.shape)
    q = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
    scale = torch.empty((down, across), dtype=torch.float32, device=x.device)
    if q.numel() == 0:
        return q, scale
    x = _rows_in_place(x)
    with on_device(x):
        _quantize_tiles[(across, down)](
            x, q, scale, x.shape[0], x.shape[1], x.stride(0), SIDE=TILE, CODES=FP8, num_warps=8
        )
    return q, scale


def quantize_whole(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of x, which is not empty, in int8, and the scale [1] of all of it."""
    flat = x.reshape(-1)
    if flat.stride(0) != 1:
        flat = flat.contiguous()
    q = torch.empty(x.shape, dtype=torch.int8, device=x.device)
    scale = torch.empty(1, dtype=torch.float32, device=x.device)
    count = flat.numel()
    blocks = ceil_div(count, _BLOCK)
    parts = torch.empty(min(_PARTS, blocks), dtype=torch.int32, device=x.device)
    with on_device(x):
        _largest_parts[(parts.numel(),)](flat, parts, count, blocks, BLOCK=_BLOCK, num_warps=8)
        _quantize_whole[(blocks,)](
            flat,
            parts,
            q,
            scale,
            count,
            parts.numel(),
            CODES=INT8,
            PARTS=power_of_two(parts.numel()),
            BLOCK=_BLOCK,
            num_warps=8,
        )
    return q, scale


def quantize_int4(w: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Packed codes of w [rows, cols], cols even, and step and offset of each run of `length` elements.

    Args:
      w: any layout.
      length: even, at most 32768; it divides the number of elements.

    Returns:
      int8 [rows, cols / 2] and float32 [groups, 2].
    """
    q = torch.empty((w.shape[0], w.shape[1] // 2), dtype=torch.int8, device=w.device)
    groups = w.numel() // length
    params = torch.empty((groups, 2), dtype=torch.float32, device=w.device)
    if groups == 0:
        return q, params
    shared, tile_cols, warps = _shape_of_programs(groups, length)
    with on_device(w):
        _quantize_int4[(ceil_div(groups, shared),)](
            w.contiguous(), q, params, groups, length, GROUPS=shared, COLS=tile_cols, num_warps=warps
        )
    return q, params
