"""Triton kernels of sum reductions: any axes, in stages that each read their data once.

A contiguous tensor's axes, neighbours of one kind joined, alternate between kept and reduced. A stage folds the last
reduced group: along contiguous memory (`_sum_rows`, and `_sum_slices` where a second reduced group can be folded with
it), or down columns (`_sum_columns`). Intermediate sums are float32. Where the outputs are too few to occupy the GPU,
a stage is split, and a second launch adds the parts: no atomics, so a result is the same on every run.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from tileops.ops.kernels.support import MULTIPROCESSORS, ceil_div, on_device, power_of_two

# Programs that a launch of small tiles aims at: eight on each multiprocessor.
_PROGRAMS = 8 * MULTIPROCESSORS
# A contiguous reduction of at most this many elements is never split: a second launch costs more than it saves.
_UNSPLIT = 32768
# Rows shorter than this share a program.
_SHORT_ROW = 1024


@triton.jit
def _sum_rows(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    # x [rows, cols] -> out [rows]; COLS holds a whole row.
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    mask = (row < rows)[:, None] & (col < cols)[None, :]
    x = tl.load(x_ptr + row.to(tl.int64)[:, None] * cols + col[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(x, axis=1).to(out_ptr.dtype.element_ty), mask=row < rows)


@triton.jit
def _sum_slices(x_ptr, out_ptr, groups, kept, cols, chunks, col_chunks, GROUPS: tl.constexpr, COLS: tl.constexpr):
    # x [groups, kept, cols] -> out [splits, kept]: program (k, s) adds chunks s, s + splits, ... of x[:, k, :].
    k = tl.program_id(0)
    split = tl.program_id(1)
    total = tl.zeros([GROUPS, COLS], tl.float32)
    for chunk in range(split, chunks, tl.num_programs(1)):
        group = (chunk // col_chunks) * GROUPS + tl.arange(0, GROUPS)
        col = (chunk % col_chunks) * COLS + tl.arange(0, COLS)
        mask = (group < groups)[:, None] & (col < cols)[None, :]
        at = (group.to(tl.int64)[:, None] * kept + k) * cols + col[None, :]
        total += tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + split * kept + k, tl.sum(total).to(out_ptr.dtype.element_ty))


@triton.jit
def _sum_columns(x_ptr, out_ptr, outer, rows, cols, row_chunks, col_chunks, ROWS: tl.constexpr, COLS: tl.constexpr):
    # x [outer, rows, cols] -> out [splits, outer, cols]: program (o, c, s) adds row chunks s, s + splits, ...
    pid = tl.program_id(0)
    split = tl.program_id(1)
    o = pid // col_chunks
    col = (pid % col_chunks) * COLS + tl.arange(0, COLS)
    col_mask = col < cols
    total = tl.zeros([ROWS, COLS], tl.float32)
    for chunk in range(split, row_chunks, tl.num_programs(1)):
        row = chunk * ROWS + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & col_mask[None, :]
        at = (o.to(tl.int64) * rows + row[:, None]) * cols + col[None, :]
        total += tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    out_at = (split.to(tl.int64) * outer + o) * cols + col
    tl.store(out_ptr + out_at, tl.sum(total, axis=0).to(out_ptr.dtype.element_ty), mask=col_mask)


def _fold_contiguous(x: torch.Tensor, groups: int, kept: int, cols: int, out: torch.Tensor) -> None:
    """out [kept] = sum of x [groups, kept, cols] over its first and last axes."""
    if groups == 1 and cols < _SHORT_ROW:
        tile_cols = power_of_two(cols)
        tile_rows = max(1, min(4096 // tile_cols, power_of_two(ceil_div(kept, _PROGRAMS))))
        warps = max(1, min(4, tile_rows * tile_cols // 256))
        _sum_rows[(ceil_div(kept, tile_rows),)](x, out, kept, cols, ROWS=tile_rows, COLS=tile_cols, num_warps=warps)
        return
    region = groups * cols
    split = region > _UNSPLIT and not (region <= 2 * _UNSPLIT and kept >= MULTIPROCESSORS // 2)
    tile = 8192 if split or kept >= 4 * MULTIPROCESSORS else _UNSPLIT
    tile_cols = min(power_of_two(cols), tile)
    tile_groups = min(power_of_two(groups), tile // tile_cols)
    col_chunks = ceil_div(cols, tile_cols)
    chunks = col_chunks * ceil_div(groups, tile_groups)
    splits = max(1, min(chunks, _PROGRAMS // kept)) if split else 1
    parts = out if splits == 1 else torch.empty((splits, kept), dtype=torch.float32, device=x.device)
    _sum_slices[(kept, splits)](
        x,
        parts,
        groups,
        kept,
        cols,
        chunks,
        col_chunks,
        GROUPS=tile_groups,
        COLS=tile_cols,
        num_warps=max(1, min(32, tile_groups * tile_cols // 512)),
    )
    if splits > 1:
        if kept == 1:
            _fold_contiguous(parts, 1, 1, splits, out)
        else:
            _fold_columns(parts, 1, splits, kept, out)


def _fold_columns(x: torch.Tensor, outer: int, rows: int, cols: int, out: torch.Tensor) -> None:
    """out [outer, cols] = sum of x [outer, rows, cols] over its middle axis."""
    tile_cols = min(power_of_two(cols), 128)
    tile_rows = min(power_of_two(rows), 4096 // tile_cols)
    if tile_rows * tile_cols < 4096:  # few rows: a wider tile instead, as far as that leaves enough programs
        spare = min(4096 // (tile_rows * tile_cols), power_of_two(outer * cols // (tile_cols * 2 * MULTIPROCESSORS)))
        tile_cols = min(power_of_two(cols), tile_cols * spare)
    col_chunks = ceil_div(cols, tile_cols)
    row_chunks = ceil_div(rows, tile_rows)
    splits = max(1, min(row_chunks // 4, _PROGRAMS // (outer * col_chunks)))
    parts = out if splits == 1 else torch.empty((splits, outer, cols), dtype=torch.float32, device=x.device)
    _sum_columns[(outer * col_chunks, splits)](
        x,
        parts,
        outer,
        rows,
        cols,
        row_chunks,
        col_chunks,
        ROWS=tile_rows,
        COLS=tile_cols,
        num_warps=max(1, min(4, tile_rows * tile_cols // 256)),
    )
    if splits > 1:
        _fold_columns(parts, 1, splits, outer * cols, out)


def sum_parts(parts: torch.Tensor, out: torch.Tensor) -> None:
    """out = parts.sum(0), added in float32: parts [S, *out.shape], both contiguous and not empty."""
    with on_device(parts):
        _fold_columns(parts, 1, parts.shape[0], out.numel(), out)


def sum_over(
    x: torch.Tensor, dims: tuple[int, ...], out_shape: tuple[int, ...], out_dtype: torch.dtype
) -> torch.Tensor:
    """Sum of x over `dims` (non-negative, distinct), added in float32, as a new contiguous tensor.

    Args:
      x: any shape.
      dims: axes to reduce.
      out_shape: shape of the result, reduced axes dropped or kept as 1.
      out_dtype: its element type.
    """
    out = torch.empty(out_shape, dtype=out_dtype, device=x.device)
    if out.numel() == 0:
        return out
    if x.numel() == 0:
        return out.zero_()
    axes: list[tuple[int, bool]] = []  # (size, reduced), alternating
    for axis, size in enumerate(x.shape):
        if size == 1:
            continue
        reduced = axis in dims
        if axes and axes[-1][1] == reduced:
            axes[-1] = (axes[-1][0] * size, reduced)
        else:
            axes.append((size, reduced))
    if not any(reduced for _, reduced in axes):
        return out.copy_(x.reshape(out_shape))
    with on_device(x):
        _fold_all(x.contiguous(), axes, out)
    return out


def _fold_all(x: torch.Tensor, axes: list[tuple[int, bool]], out: torch.Tensor) -> None:
    """Fold alternating (size, reduced) axes of contiguous x, the last reduced group first, into `out`."""
    while True:
        columns = 1 if axes[-1][1] else axes.pop()[0]
        folded, _ = axes.pop()
        kept = [size for size, _ in axes]
        groups = 1
        if columns == 1 and len(axes) == 2 and folded >= _SHORT_ROW:  # [reduced, kept, reduced] in one stage
            groups, _ = axes.pop(0)
            kept = kept[1:]
        last = not any(reduced for _, reduced in axes)
        outer = math.prod(kept)
        target = out if last else torch.empty((outer, columns), dtype=torch.float32, device=x.device)
        if columns == 1:
            _fold_contiguous(x, groups, outer, folded, target)
        else:
            _fold_columns(x, outer, folded, columns, target)
            axes.append((columns, False))
        if last:
            return
        x, axes = target, _joined(axes)


def _joined(axes: list[tuple[int, bool]]) -> list[tuple[int, bool]]:
    """Alternating axes again, after a group between two of one kind has gone."""
    joined: list[tuple[int, bool]] = []
    for size, reduced in axes:
        if joined and joined[-1][1] == reduced:
            joined[-1] = (joined[-1][0] * size, reduced)
        else:
            joined.append((size, reduced))
    return joined
