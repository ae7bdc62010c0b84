"""What every Triton kernel needs around it: whether it can run, on which device, and how large its tiles are.

Nothing here imports Triton, so that op classes can ask on a machine that has none.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os

import torch

from tileops.ops.checked_call import CheckedCall

# Triton reads the same variable when a kernel is defined; its interpreter then runs kernels on CPU tensors, for tests.
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
_FOUND = importlib.util.find_spec("triton") is not None

# An H200 has 132 multiprocessors; smaller launches than this leave some of them without work.
MULTIPROCESSORS = 132


def triton_serves(call: CheckedCall) -> bool:
    """A `when`: Triton is installed, and the call is on a GPU (or on the CPU under Triton's interpreter)."""
    return _FOUND and (call.device.startswith("cuda") or (_INTERPRETED and call.device == "cpu"))


def on_device(tensor: torch.Tensor) -> contextlib.AbstractContextManager[None]:
    """Make the tensor's GPU current, since Triton launches on the current one whatever its arguments live on."""
    if tensor.is_cuda and tensor.device.index != torch.cuda.current_device():
        return torch.cuda.device(tensor.device)
    return contextlib.nullcontext()


def power_of_two(n: int) -> int:
    """The least power of two that is at least max(n, 1)."""
    return 1 << max(n - 1, 0).bit_length()


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


def vector_unit(n: int) -> int:
    """The greatest power of two up to 16 that divides n.

    Triton notices only that an argument is a multiple of 16; a kernel that takes n // unit and multiplies it by a
    constant unit knows the smaller multiples too, and widens its loads by them.
    """
    return math.gcd(n, 16)


def column_tile(cols: int, most: int) -> int:
    """Columns of a tile: a power of two up to `most`, as wide as wastes under an eighth of the lanes, if any does."""
    whole = power_of_two(cols)
    if whole <= 256:
        return whole
    widths = [width for width in (2048, 1024, 512, 256) if width <= min(whole, most)] or [256]
    return min(widths, key=lambda width: (max(ceil_div(cols, width) * width * 8, cols * 9), -width))


def elementwise_tile(rows: int, cols: int, most: int = 2048) -> tuple[int, int, int]:
    """Tile of a streaming kernel over a [rows, cols] grid: (rows of a tile, columns of a tile, warps).

    A program takes `most` elements, a power of two from 256 (2048 is 16 a thread in four warps, two 16-byte loads of a
    2-byte type), fewer where that would leave multiprocessors idle.
    """
    elements = most
    while elements > 256 and rows * cols < elements * MULTIPROCESSORS:
        elements //= 2
    tile_cols = column_tile(cols, elements)
    tile_rows = min(max(elements // tile_cols, 1), power_of_two(rows))
    return tile_rows, tile_cols, max(1, min(4, tile_rows * tile_cols // 256))
