"""Triton kernels of reductions whose state is one number: any axes, in stages that each read their data once.

A contiguous tensor's axes, neighbours of one kind joined, alternate between kept and reduced. A stage folds the last
reduced group: along contiguous memory (`_fold_rows`, and `_fold_slices` where a second reduced group can be folded with
it), or down columns (`_fold_columns`). Where the outputs are too few to occupy the GPU, a stage is split, and a second
launch folds the parts: no atomics, so a result is the same on every run.

`FOLDS` says what each reduction does. An example, the Euclidean norm: the first stage squares what it reads, every stage
adds, and the last stage takes the root. What lies between two stages is float32, or an integer for counts.
"""

from __future__ import annotations

import dataclasses
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fold:
    """What a reduction does with each value, with two of them, and with the result.

    Attributes:
      combine: "sum", "max", "min" or "product".
      load: what the first stage takes of each value: "value", "size", "square" or "is_nonzero".
      finish: what the last stage makes of the result: "value", "root" or "mean".
      start: what changes no result, also as a value that is read.
      of_nothing: the result over no values.
      state: dtype of what lies between two stages.
    """

    combine: str
    load: str = "value"
    finish: str = "value"
    start: float = 0
    of_nothing: float = 0.0
    state: torch.dtype = torch.float32

    def first(self) -> Fold:
        """Returns this fold without the last stage's part."""
        return dataclasses.replace(self, finish="value")

    def rest(self) -> Fold:
        """Returns this fold over results of `first`."""
        start = self.start if self.load == "value" else {"sum": 0, "max": 0, "min": 1}[self.combine]
        return dataclasses.replace(self, load="value", start=start)


FOLDS = {
    "sum": Fold(combine="sum"),
    "mean": Fold(combine="sum", finish="mean", of_nothing=math.nan),
    "amax": Fold(combine="max", start=-math.inf),
    "amin": Fold(combine="min", start=math.inf),
    "prod": Fold(combine="product", start=1, of_nothing=1.0),
    "norm_1": Fold(combine="sum", load="size"),
    "norm_2": Fold(combine="sum", load="square", finish="root"),
    "norm_inf": Fold(combine="max", load="size"),
    "any": Fold(combine="max", load="is_nonzero", state=torch.int32),
    "all": Fold(combine="min", load="is_nonzero", start=1, of_nothing=1.0, state=torch.int32),
    "count_nonzero": Fold(combine="sum", load="is_nonzero", state=torch.int64),
}
_STATES = {torch.float32: tl.float32, torch.int32: tl.int32, torch.int64: tl.int64}


@triton.jit
def _loaded(x, LOAD: tl.constexpr, STATE: tl.constexpr):
    if LOAD == "is_nonzero":
        wide = x if x.dtype.is_int() else x.to(tl.float32)
        return (wide != 0).to(STATE)  # NaN differs from 0, minus 0 does not
    wide = x.to(STATE)
    if LOAD == "size":
        return tl.abs(wide)
    if LOAD == "square":
        return wide * wide
    return wide


@triton.jit
def _combined(x, y, COMBINE: tl.constexpr):
    if COMBINE == "sum":
        return x + y
    if COMBINE == "product":
        return x * y
    if COMBINE == "max":
        return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _product(x, y):
    return x * y


@triton.jit
def _along(x, axis: tl.constexpr, COMBINE: tl.constexpr):
    if COMBINE == "sum":
        return tl.sum(x, axis=axis)
    if COMBINE == "product":
        return tl.reduce(x, axis, _product)
    most = tl.max(x, axis=axis) if COMBINE == "max" else tl.min(x, axis=axis)
    if x.dtype.is_floating():  # tl.max drops NaN
        most = tl.where(tl.max((x != x).to(tl.int32), axis=axis) != 0, float("nan"), most)
    return most


@triton.jit
def _finished(x, count, FINISH: tl.constexpr):
    if FINISH == "mean":
        return tl.div_rn(x, count)
    if FINISH == "root":
        return tl.sqrt_rn(x)
    return x


@triton.jit
def _fold_rows(
    x_ptr,
    out_ptr,
    rows,
    cols,
    count,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    COMBINE: tl.constexpr,
    LOAD: tl.constexpr,
    FINISH: tl.constexpr,
    START: tl.constexpr,
    STATE: tl.constexpr,
):
    # x [rows, cols] -> out [rows]; COLS holds a whole row.
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    mask = (row < rows)[:, None] & (col < cols)[None, :]
    x = tl.load(x_ptr + row.to(tl.int64)[:, None] * cols + col[None, :], mask=mask, other=START)
    folded = _finished(_along(_loaded(x, LOAD, STATE), 1, COMBINE), count, FINISH)
    tl.store(out_ptr + row, folded.to(out_ptr.dtype.element_ty), mask=row < rows)


@triton.jit
def _fold_slices(
    x_ptr,
    out_ptr,
    groups,
    kept,
    cols,
    chunks,
    col_chunks,
    count,
    GROUPS: tl.constexpr,
    COLS: tl.constexpr,
    COMBINE: tl.constexpr,
    LOAD: tl.constexpr,
    FINISH: tl.constexpr,
    START: tl.constexpr,
    STATE: tl.constexpr,
):
    # x [groups, kept, cols] -> out [splits, kept]: program (k, s) folds chunks s, s + splits, ... of x[:, k, :].
    k = tl.program_id(0)
    split = tl.program_id(1)
    total = tl.full([GROUPS, COLS], START, STATE)
    for chunk in range(split, chunks, tl.num_programs(1)):
        group = (chunk // col_chunks) * GROUPS + tl.arange(0, GROUPS)
        col = (chunk % col_chunks) * COLS + tl.arange(0, COLS)
        mask = (group < groups)[:, None] & (col < cols)[None, :]
        at = (group.to(tl.int64)[:, None] * kept + k) * cols + col[None, :]
        total = _combined(total, _loaded(tl.load(x_ptr + at, mask=mask, other=START), LOAD, STATE), COMBINE)
    folded = _finished(_along(tl.reshape(total, [GROUPS * COLS]), 0, COMBINE), count, FINISH)
    tl.store(out_ptr + split * kept + k, folded.to(out_ptr.dtype.element_ty))


@triton.jit
def _fold_columns(
    x_ptr,
    out_ptr,
    outer,
    rows,
    cols,
    row_chunks,
    col_chunks,
    count,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    COMBINE: tl.constexpr,
    LOAD: tl.constexpr,
    FINISH: tl.constexpr,
    START: tl.constexpr,
    STATE: tl.constexpr,
):
    # x [outer, rows, cols] -> out [splits, outer, cols]: program (o, c, s) folds row chunks s, s + splits, ...
    pid = tl.program_id(0)
    split = tl.program_id(1)
    o = pid // col_chunks
    col = (pid % col_chunks) * COLS + tl.arange(0, COLS)
    col_mask = col < cols
    total = tl.full([ROWS, COLS], START, STATE)
    for chunk in range(split, row_chunks, tl.num_programs(1)):
        row = chunk * ROWS + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & col_mask[None, :]
        at = (o.to(tl.int64) * rows + row[:, None]) * cols + col[None, :]
        total = _combined(total, _loaded(tl.load(x_ptr + at, mask=mask, other=START), LOAD, STATE), COMBINE)
    out_at = (split.to(tl.int64) * outer + o) * cols + col
    folded = _finished(_along(total, 0, COMBINE), count, FINISH)
    tl.store(out_ptr + out_at, folded.to(out_ptr.dtype.element_ty), mask=col_mask)


def _constants(fold: Fold, x: torch.Tensor) -> dict[str, object]:
    """Returns the constants of a kernel that say what it folds; what lies beside x is a number of its kind."""
    return {
        "COMBINE": fold.combine,
        "LOAD": fold.load,
        "FINISH": fold.finish,
        "START": float(fold.start) if x.is_floating_point() else int(fold.start),
        "STATE": _STATES[fold.state],
    }


def _contiguous(
    x: torch.Tensor, groups: int, kept: int, cols: int, out: torch.Tensor, fold: Fold, count: float
) -> None:
    """out [kept] = x [groups, kept, cols] folded over its first and last axes."""
    if groups == 1 and cols < _SHORT_ROW:
        tile_cols = power_of_two(cols)
        tile_rows = max(1, min(4096 // tile_cols, power_of_two(ceil_div(kept, _PROGRAMS))))
        warps = max(1, min(4, tile_rows * tile_cols // 256))
        _fold_rows[(ceil_div(kept, tile_rows),)](
            x, out, kept, cols, count, ROWS=tile_rows, COLS=tile_cols, **_constants(fold, x), num_warps=warps
        )
        return
    region = groups * cols
    split = region > _UNSPLIT and not (region <= 2 * _UNSPLIT and kept >= MULTIPROCESSORS // 2)
    tile = 8192 if split or kept >= 4 * MULTIPROCESSORS else _UNSPLIT
    tile_cols = min(power_of_two(cols), tile)
    tile_groups = min(power_of_two(groups), tile // tile_cols)
    col_chunks = ceil_div(cols, tile_cols)
    chunks = col_chunks * ceil_div(groups, tile_groups)
    splits = max(1, min(chunks, _PROGRAMS // kept)) if split else 1
    parts = out if splits == 1 else torch.empty((splits, kept), dtype=fold.state, device=x.device)
    _fold_slices[(kept, splits)](
        x,
        parts,
        groups,
        kept,
        cols,
        chunks,
        col_chunks,
        count,
        GROUPS=tile_groups,
        COLS=tile_cols,
        **_constants(fold if splits == 1 else fold.first(), x),
        num_warps=max(1, min(32, tile_groups * tile_cols // 512)),
    )
    if splits > 1:
        if kept == 1:
            _contiguous(parts, 1, 1, splits, out, fold.rest(), count)
        else:
            _columns(parts, 1, splits, kept, out, fold.rest(), count)


def _columns(x: torch.Tensor, outer: int, rows: int, cols: int, out: torch.Tensor, fold: Fold, count: float) -> None:
    """out [outer, cols] = x [outer, rows, cols] folded over its middle axis."""
    tile_cols = min(power_of_two(cols), 128)
    tile_rows = min(power_of_two(rows), 4096 // tile_cols)
    if tile_rows * tile_cols < 4096:  # few rows: a wider tile instead, as far as that leaves enough programs
        spare = min(4096 // (tile_rows * tile_cols), power_of_two(outer * cols // (tile_cols * 2 * MULTIPROCESSORS)))
        tile_cols = min(power_of_two(cols), tile_cols * spare)
    col_chunks = ceil_div(cols, tile_cols)
    row_chunks = ceil_div(rows, tile_rows)
    splits = max(1, min(row_chunks // 4, _PROGRAMS // (outer * col_chunks)))
    parts = out if splits == 1 else torch.empty((splits, outer, cols), dtype=fold.state, device=x.device)
    _fold_columns[(outer * col_chunks, splits)](
        x,
        parts,
        outer,
        rows,
        cols,
        row_chunks,
        col_chunks,
        count,
        ROWS=tile_rows,
        COLS=tile_cols,
        **_constants(fold if splits == 1 else fold.first(), x),
        num_warps=max(1, min(4, tile_rows * tile_cols // 256)),
    )
    if splits > 1:
        _columns(parts, 1, splits, outer * cols, out, fold.rest(), count)


def sum_parts(parts: torch.Tensor, out: torch.Tensor) -> None:
    """out = parts.sum(0), added in float32: parts [S, *out.shape], both contiguous and not empty."""
    with on_device(parts):
        _columns(parts, 1, parts.shape[0], out.numel(), out, FOLDS["sum"], 1.0)


def fold_over(
    name: str, x: torch.Tensor, dims: tuple[int, ...], out_shape: tuple[int, ...], out_dtype: torch.dtype
) -> torch.Tensor:
    """Returns the fold `name` of `FOLDS` over axes of x, as a new contiguous tensor.

    Args:
      name: of the fold.
      x: any shape; floats up to 32 bits, and bool and integers too if the fold counts or asks what is not 0.
      dims: axes to reduce, non-negative and distinct.
      out_shape: shape of the result, reduced axes dropped or kept as 1.
      out_dtype: its element type.
    """
    fold = FOLDS[name]
    out = torch.empty(out_shape, dtype=out_dtype, device=x.device)
    if out.numel() == 0:
        return out
    if x.numel() == 0:
        return out.fill_(fold.of_nothing)
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
        axes.append((1, True))
    with on_device(x):
        _fold_all(_whole(x.contiguous()), axes, _whole(out), fold, float(x.numel() // out.numel()))
    return out


def _whole(x: torch.Tensor) -> torch.Tensor:
    """Returns a bool tensor as bytes, since Triton has no memory of bools, and others as they are."""
    return x.view(torch.uint8) if x.dtype == torch.bool else x


def _fold_all(x: torch.Tensor, axes: list[tuple[int, bool]], out: torch.Tensor, fold: Fold, count: float) -> None:
    """Folds alternating (size, reduced) axes of contiguous x, the last reduced group first, into `out`."""
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
        target = out if last else torch.empty((outer, columns), dtype=fold.state, device=x.device)
        stage = fold if last else fold.first()
        if columns == 1:
            _contiguous(x, groups, outer, folded, target, stage, count)
        else:
            _columns(x, outer, folded, columns, target, stage, count)
            axes.append((columns, False))
        if last:
            return
        x, axes, fold = target, _joined(axes), fold.rest()


def _joined(axes: list[tuple[int, bool]]) -> list[tuple[int, bool]]:
    """Alternating axes again, after a group between two of one kind has gone."""
    joined: list[tuple[int, bool]] = []
    for size, reduced in axes:
        if joined and joined[-1][1] == reduced:
            joined[-1] = (joined[-1][0] * size, reduced)
        else:
            joined.append((size, reduced))
    return joined
