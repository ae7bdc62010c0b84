"""Triton kernels of the elementwise family: one pass over the data, whatever scalar function it applies.

`_flat` serves operands that lie alike and scalars; `_strided` broadcasts and walks strides; `_gated` multiplies an
activated half of each row with its other half. The scalar function is a constant of the kernel, so each op compiles to
a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from tileops.ops.kernels.elementwise import scalar_functions
from tileops.ops.kernels.support import ceil_div, elementwise_tile, on_device

_OPERANDS = 3
# Outer axes that the strided kernel decodes; operands that need more are copied first.
_OUTER_AXES = 4
# Functions that hold so much of an element at a time that 16 of them a thread leave multiprocessors half empty.
_MANY_REGISTERS = (scalar_functions.power_half, scalar_functions.remainder, scalar_functions.floor_divide)
# Functions whose library calls must not take subnormal numbers for 0, which Triton has them do for NVIDIA's GPUs.
_OF_SUBNORMALS = (scalar_functions.remainder,) if torch.version.hip is None else ()
_TYPES = {
    torch.bool: tl.int1,
    torch.uint8: tl.uint8,
    torch.int8: tl.int8,
    torch.int16: tl.int16,
    torch.int32: tl.int32,
    torch.int64: tl.int64,
    torch.float16: tl.float16,
    torch.bfloat16: tl.bfloat16,
    torch.float32: tl.float32,
}


@triton.jit
def _apply(FUNCTION: tl.constexpr, x, y, z, p, q, r, OPERANDS: tl.constexpr, NUMBERS: tl.constexpr):
    """FUNCTION of as many operands and numbers as it takes."""
    if OPERANDS == 1:
        if NUMBERS == 0:
            return FUNCTION(x)
        elif NUMBERS == 1:
            return FUNCTION(x, p)
        elif NUMBERS == 2:
            return FUNCTION(x, p, q)
        else:
            return FUNCTION(x, p, q, r)
    elif OPERANDS == 2:
        if NUMBERS == 0:
            return FUNCTION(x, y)
        else:
            return FUNCTION(x, y, p)
    else:
        return FUNCTION(x, y, z)


@triton.jit
def _operand(value, MEETING: tl.constexpr, COMPUTE: tl.constexpr):
    """A loaded operand in the type that the operands meet in, held in the type computed in; a mask as truth values."""
    if tl.int1 == MEETING:
        return value != 0
    elif value.dtype == MEETING:
        return value.to(COMPUTE)
    elif MEETING.is_floating():  # by way of float32, as PyTorch goes
        return value.to(tl.float32).to(MEETING).to(COMPUTE)
    else:
        return value.to(MEETING).to(COMPUTE)


@triton.jit
def _result(value, TYPE: tl.constexpr, IS_BOOL: tl.constexpr):
    return (value != 0).to(tl.uint8) if IS_BOOL else value.to(TYPE)


@triton.jit
def _load_flat(pointer, at, mask, IS_SCALAR: tl.constexpr):
    """A tile of an operand; of a scalar a tile of one element, since scalar functions reduce tiles and branch on them."""
    if IS_SCALAR:
        return tl.load(pointer + tl.arange(0, 1))
    else:
        return tl.load(pointer + at, mask=mask, other=1)


@triton.jit
def _flat(
    a_ptr,
    b_ptr,
    c_ptr,
    out_ptr,
    count,
    p,
    q,
    r,
    A: tl.constexpr,
    B: tl.constexpr,
    C: tl.constexpr,
    COMPUTE: tl.constexpr,
    FUNCTION: tl.constexpr,
    A_SCALAR: tl.constexpr,
    B_SCALAR: tl.constexpr,
    C_SCALAR: tl.constexpr,
    OPERANDS: tl.constexpr,
    NUMBERS: tl.constexpr,
    IS_BOOL: tl.constexpr,
    TILE: tl.constexpr,
):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    mask = at < count
    x = _operand(_load_flat(a_ptr, at, mask, A_SCALAR), A, COMPUTE)
    y = x
    z = x
    if OPERANDS > 1:
        y = _operand(_load_flat(b_ptr, at, mask, B_SCALAR), B, COMPUTE)
    if OPERANDS > 2:
        z = _operand(_load_flat(c_ptr, at, mask, C_SCALAR), C, COMPUTE)
    value = _result(_apply(FUNCTION, x, y, z, p, q, r, OPERANDS, NUMBERS), out_ptr.dtype.element_ty, IS_BOOL)
    tl.store(out_ptr + at, tl.broadcast_to(value, TILE), mask=mask)


@triton.jit
def _offset(row, s0, s1, s2, s3, size1, size2, size3, OUTER: tl.constexpr):
    """Where a row starts: a row number holds the outer axes, the last varying fastest; axis 0 takes what is left."""
    rest = row
    at = row.to(tl.int64) * 0
    if OUTER > 3:
        at += (rest % size3).to(tl.int64) * s3
        rest = rest // size3
    if OUTER > 2:
        at += (rest % size2).to(tl.int64) * s2
        rest = rest // size2
    if OUTER > 1:
        at += (rest % size1).to(tl.int64) * s1
        rest = rest // size1
    return at + rest.to(tl.int64) * s0


@triton.jit
def _load_strided(pointer, start, col, step, row_mask, mask, FIXED: tl.constexpr):
    """A tile of an operand; one that does not vary along the columns is read once a row."""
    if FIXED:
        return tl.load(pointer + start, mask=row_mask, other=1)[:, None]
    else:
        return tl.load(pointer + start[:, None] + (col.to(tl.int64) * step)[None, :], mask=mask, other=1)


@triton.jit
def _strided(
    a_ptr,
    b_ptr,
    c_ptr,
    out_ptr,
    rows,
    cols,
    col_blocks,
    p,
    q,
    r,
    size1,
    size2,
    size3,
    a0,
    a1,
    a2,
    a3,
    a_col,
    b0,
    b1,
    b2,
    b3,
    b_col,
    c0,
    c1,
    c2,
    c3,
    c_col,
    o0,
    o1,
    o2,
    o3,
    o_col,
    A: tl.constexpr,
    B: tl.constexpr,
    C: tl.constexpr,
    COMPUTE: tl.constexpr,
    FUNCTION: tl.constexpr,
    A_FIXED: tl.constexpr,
    B_FIXED: tl.constexpr,
    C_FIXED: tl.constexpr,
    OPERANDS: tl.constexpr,
    NUMBERS: tl.constexpr,
    IS_BOOL: tl.constexpr,
    OUTER: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    pid = tl.program_id(0)
    row = (pid // col_blocks) * ROWS + tl.arange(0, ROWS)
    col = (pid % col_blocks) * COLS + tl.arange(0, COLS)
    row_mask = row < rows
    mask = row_mask[:, None] & (col < cols)[None, :]
    start = _offset(row, a0, a1, a2, a3, size1, size2, size3, OUTER)
    x = _operand(_load_strided(a_ptr, start, col, a_col, row_mask, mask, A_FIXED), A, COMPUTE)
    y = x
    z = x
    if OPERANDS > 1:
        start = _offset(row, b0, b1, b2, b3, size1, size2, size3, OUTER)
        y = _operand(_load_strided(b_ptr, start, col, b_col, row_mask, mask, B_FIXED), B, COMPUTE)
    if OPERANDS > 2:
        start = _offset(row, c0, c1, c2, c3, size1, size2, size3, OUTER)
        z = _operand(_load_strided(c_ptr, start, col, c_col, row_mask, mask, C_FIXED), C, COMPUTE)
    value = _result(_apply(FUNCTION, x, y, z, p, q, r, OPERANDS, NUMBERS), out_ptr.dtype.element_ty, IS_BOOL)
    start = _offset(row, o0, o1, o2, o3, size1, size2, size3, OUTER)
    at = start[:, None] + (col.to(tl.int64) * o_col)[None, :]
    tl.store(out_ptr + at, tl.broadcast_to(value, ROWS, COLS), mask=mask)


def apply(
    function: str,
    operands: Sequence[torch.Tensor],
    numbers: Sequence[float],
    meeting: Sequence[torch.dtype],
    compute: torch.dtype,
    out: torch.Tensor,
) -> torch.Tensor:
    """Write `function` of the operands, broadcast to `out`, into `out`, and return it.

    Args:
      function: a name of scalar_functions.
      operands: one to three tensors, of any strides; `out` itself may be among them.
      numbers: the function's parameters, after its operands.
      meeting: for each operand the dtype that it is rounded to first; bool makes it a truth value.
      compute: float32, int32 or int64.
      out: any strides; fewer than 2**31 elements, since rows and columns are counted in 32 bits.
    """
    if out.numel() == 0:
        return out
    called = {
        "COMPUTE": _TYPES[compute],
        "FUNCTION": getattr(scalar_functions, function),
        "OPERANDS": len(operands),
        "NUMBERS": len(numbers),
        "IS_BOOL": out.dtype == torch.bool,
        **dict(
            zip("ABC", (_TYPES[dtype] for dtype in (*meeting, *[compute] * (_OPERANDS - len(meeting)))), strict=True)
        ),
    }
    if called["FUNCTION"] in _OF_SUBNORMALS:
        called["enable_reflect_ftz"] = False  # an option of the compiler
    numbers = (*numbers, 0, 0, 0)[:_OPERANDS]
    views = [_as_bytes(one).expand(out.shape) for one in operands]
    target = _as_bytes(out)
    with on_device(out):
        if target.is_contiguous() and all(one.is_contiguous() or not any(one.stride()) for one in views):
            _launch_flat(views, target, numbers, called)
        else:
            _launch_strided(views, target, numbers, called)
    return out


def _most_elements(tensors: Sequence[torch.Tensor], function: object) -> int:
    """Elements of a flat program: two 16-byte loads of the widest operand a thread, or one where registers are short."""
    is_wide = max(one.element_size() for one in tensors) >= 4
    return 1024 if is_wide or function in _MANY_REGISTERS else 2048


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """bool as uint8, which holds the same 0 and 1 (other bytes are no bool, and undefined): Triton moves bytes in
    vectors.
    """
    return tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor


def _launch_flat(views: list[torch.Tensor], out: torch.Tensor, numbers: Sequence[float], called: dict) -> None:
    count = out.numel()
    _, tile, warps = elementwise_tile(1, count, _most_elements((*views, out), called["FUNCTION"]))
    scalars = [not one.is_contiguous() for one in views] + [True] * (_OPERANDS - len(views))
    views = views + [out] * (_OPERANDS - len(views))
    _flat[(ceil_div(count, tile),)](
        *views,
        out,
        count,
        *numbers,
        **called,
        A_SCALAR=scalars[0],
        B_SCALAR=scalars[1],
        C_SCALAR=scalars[2],
        TILE=tile,
        num_warps=warps,
    )


def _launch_strided(views: list[torch.Tensor], out: torch.Tensor, numbers: Sequence[float], called: dict) -> None:
    axes = _collapse(out.shape, [one.stride() for one in (*views, out)])
    if len(axes) > _OUTER_AXES + 1:
        views = [one.contiguous() for one in views]
        axes = _collapse(out.shape, [one.stride() for one in (*views, out)])
    if len(axes) > _OUTER_AXES + 1:  # an output in place, scattered over more axes
        packed = torch.empty(out.shape, dtype=out.dtype, device=out.device)
        _launch_flat(views, packed, numbers, called)
        out.copy_(packed)
        return
    (cols, steps), outer = axes[-1], axes[:-1]
    depth = max(len(outer), 1)
    outer += [(1, (0,) * (len(views) + 1))] * (_OUTER_AXES - len(outer))
    strides = [(*(axis[1][at] for axis in outer), steps[at]) for at in range(len(views) + 1)]
    unused = _OPERANDS - len(views)
    inputs = strides[:-1] + [(0,) * (_OUTER_AXES + 1)] * unused
    rows = out.numel() // cols
    tile_rows, tile_cols, warps = elementwise_tile(
        rows, cols
    )  # where a row starts is worked out once for many elements
    col_blocks = ceil_div(cols, tile_cols)
    fixed = [one[-1] == 0 for one in inputs]
    _strided[(ceil_div(rows, tile_rows) * col_blocks,)](
        *views,
        *[out] * unused,
        out,
        rows,
        cols,
        col_blocks,
        *numbers,
        *(size for size, _ in outer[1:]),
        *(stride for one in (*inputs, strides[-1]) for stride in one),
        **called,
        A_FIXED=fixed[0],
        B_FIXED=fixed[1],
        C_FIXED=fixed[2],
        OUTER=depth,
        ROWS=tile_rows,
        COLS=tile_cols,
        num_warps=warps,
    )


def _collapse(shape: Sequence[int], strides: list[tuple[int, ...]]) -> list[tuple[int, tuple[int, ...]]]:
    """Axes as (size, stride of each tensor), neighbours joined where one stride walks every tensor over both."""
    axes: list[tuple[int, tuple[int, ...]]] = []
    for size, *steps in zip(shape, *strides, strict=True):
        if size == 1:
            continue
        if axes and all(outer == step * size for outer, step in zip(axes[-1][1], steps, strict=True)):
            axes[-1] = (axes[-1][0] * size, tuple(steps))
        else:
            axes.append((size, tuple(steps)))
    return axes or [(1, (1,) * len(strides))]


@triton.jit
def _gated(x_ptr, out_ptr, rows, cols, col_blocks, FUNCTION: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    pid = tl.program_id(0)
    row = (pid // col_blocks) * ROWS + tl.arange(0, ROWS)
    col = (pid % col_blocks) * COLS + tl.arange(0, COLS)
    mask = (row < rows)[:, None] & (col < cols)[None, :]
    row = row.to(tl.int64)
    gate_at = x_ptr + row[:, None] * (2 * cols) + col[None, :]
    gate = tl.load(gate_at, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(gate_at + cols, mask=mask, other=0.0).to(tl.float32)
    value = FUNCTION(gate) * up
    tl.store(out_ptr + row[:, None] * cols + col[None, :], value.to(out_ptr.dtype.element_ty), mask=mask)


def gated(function: str, x: torch.Tensor) -> torch.Tensor:
    """function(x[..., :N]) * x[..., N:] of x [*B, 2N], computed in float32, as a contiguous [*B, N] of x's dtype."""
    x = x.contiguous()
    cols = x.shape[-1] // 2
    out = torch.empty((*x.shape[:-1], cols), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    rows = out.numel() // cols
    tile_rows, tile_cols, warps = elementwise_tile(rows, cols)
    col_blocks = ceil_div(cols, tile_cols)
    with on_device(x):
        _gated[(ceil_div(rows, tile_rows) * col_blocks,)](
            x,
            out,
            rows,
            cols,
            col_blocks,
            FUNCTION=getattr(scalar_functions, function),
            ROWS=tile_rows,
            COLS=tile_cols,
            num_warps=warps,
        )
    return out
