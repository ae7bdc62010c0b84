"""Triton kernels of the elementwise family: gated SiLU and broadcast addition, one pass over the data each."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tileops.ops.kernels.support import ceil_div, elementwise_tile, on_device

# Outer axes that the broadcast kernel decodes; an addition that needs more is expanded first.
_OUTER_AXES = 4


@triton.jit
def _silu_and_mul(x_ptr, out_ptr, rows, cols, col_blocks, ROWS: tl.constexpr, COLS: tl.constexpr):
    pid = tl.program_id(0)
    row = (pid // col_blocks) * ROWS + tl.arange(0, ROWS)
    col = (pid % col_blocks) * COLS + tl.arange(0, COLS)
    mask = (row < rows)[:, None] & (col < cols)[None, :]
    row = row.to(tl.int64)
    gate_at = x_ptr + row[:, None] * (2 * cols) + col[None, :]
    gate = tl.load(gate_at, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(gate_at + cols, mask=mask, other=0.0).to(tl.float32)
    value = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(out_ptr + row[:, None] * cols + col[None, :], value.to(out_ptr.dtype.element_ty), mask=mask)


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """silu(x[..., :N]) * x[..., N:] of x [*B, 2N], computed in float32, as a contiguous [*B, N] of x's dtype."""
    x = x.contiguous()
    cols = x.shape[-1] // 2
    out = torch.empty((*x.shape[:-1], cols), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    rows = out.numel() // cols
    tile_rows, tile_cols, warps = elementwise_tile(rows, cols)
    col_blocks = ceil_div(cols, tile_cols)
    with on_device(x):
        _silu_and_mul[(ceil_div(rows, tile_rows) * col_blocks,)](
            x, out, rows, cols, col_blocks, ROWS=tile_rows, COLS=tile_cols, num_warps=warps
        )
    return out


@triton.jit
def _add(
    a_ptr, b_ptr, out_ptr, alpha, rows, cols, col_blocks,
    size1, size2, size3,
    a0, a1, a2, a3, a_col,
    b0, b1, b2, b3, b_col,
    OUTER: tl.constexpr, A_FIXED: tl.constexpr, B_FIXED: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    row = (pid // col_blocks) * ROWS + tl.arange(0, ROWS)
    col = (pid % col_blocks) * COLS + tl.arange(0, COLS)
    row_mask = row < rows
    mask = row_mask[:, None] & (col < cols)[None, :]

    # A row number holds the outer axes, the last varying fastest; axis 0 takes what the others leave.
    rest = row
    a_row = tl.zeros([ROWS], tl.int64)
    b_row = tl.zeros([ROWS], tl.int64)
    if OUTER > 3:
        a_row += (rest % size3).to(tl.int64) * a3
        b_row += (rest % size3).to(tl.int64) * b3
        rest = rest // size3
    if OUTER > 2:
        a_row += (rest % size2).to(tl.int64) * a2
        b_row += (rest % size2).to(tl.int64) * b2
        rest = rest // size2
    if OUTER > 1:
        a_row += (rest % size1).to(tl.int64) * a1
        b_row += (rest % size1).to(tl.int64) * b1
        rest = rest // size1
    a_row += rest.to(tl.int64) * a0
    b_row += rest.to(tl.int64) * b0

    # An operand that does not vary along the columns is read once a row.
    wide = col.to(tl.int64)
    if A_FIXED:
        a = tl.load(a_ptr + a_row, mask=row_mask, other=0.0).to(tl.float32)[:, None]
    else:
        a = tl.load(a_ptr + a_row[:, None] + (wide * a_col)[None, :], mask=mask, other=0.0).to(tl.float32)
    if B_FIXED:
        b = tl.load(b_ptr + b_row, mask=row_mask, other=0.0).to(tl.float32)[:, None]
    else:
        b = tl.load(b_ptr + b_row[:, None] + (wide * b_col)[None, :], mask=mask, other=0.0).to(tl.float32)
    value = (a + alpha * b).to(out_ptr.dtype.element_ty)
    value = tl.broadcast_to(value, ROWS, COLS)
    tl.store(out_ptr + row.to(tl.int64)[:, None] * cols + col[None, :], value, mask=mask)


def _collapse(
    shape: tuple[int, ...], a_strides: tuple[int, ...], b_strides: tuple[int, ...]
) -> list[tuple[int, int, int]]:
    """Axes as (size, stride of a, stride of b), neighbours joined where one stride walks both operands over both."""
    axes: list[tuple[int, int, int]] = []
    for size, a, b in zip(shape, a_strides, b_strides, strict=True):
        if size == 1:
            continue
        if axes and axes[-1][1] == a * size and axes[-1][2] == b * size:
            axes[-1] = (axes[-1][0] * size, a, b)
        else:
            axes.append((size, a, b))
    return axes or [(1, 1, 1)]


def add(a: torch.Tensor, b: torch.Tensor, alpha: float) -> torch.Tensor:
    """a + alpha * b with broadcasting of both, computed in float32, as a contiguous tensor of a's dtype.

    The result must hold fewer than 2**31 elements: rows and columns are counted in 32 bits.
    """
    shape = torch.broadcast_shapes(a.shape, b.shape)
    out = torch.empty(shape, dtype=a.dtype, device=a.device)
    if out.numel() == 0:
        return out
    a, b = a.expand(shape), b.expand(shape)
    axes = _collapse(shape, a.stride(), b.stride())
    if len(axes) > _OUTER_AXES + 1:
        a, b = a.contiguous(), b.contiguous()
        axes = _collapse(shape, a.stride(), b.stride())
    cols, a_col, b_col = axes.pop()
    outer = max(len(axes), 1)
    axes += [(1, 0, 0)] * (_OUTER_AXES - len(axes))
    sizes, a_strides, b_strides = zip(*axes, strict=True)
    rows = out.numel() // cols
    tile_rows, tile_cols, warps = elementwise_tile(rows, cols)
    col_blocks = ceil_div(cols, tile_cols)
    with on_device(a):
        _add[(ceil_div(rows, tile_rows) * col_blocks,)](
            a, b, out, float(alpha), rows, cols, col_blocks, *sizes[1:], *a_strides, a_col, *b_strides, b_col,
            OUTER=outer, A_FIXED=a_col == 0, B_FIXED=b_col == 0, ROWS=tile_rows, COLS=tile_cols, num_warps=warps,
        )  # fmt: skip
    return out
