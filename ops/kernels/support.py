"""Helpers of all Triton kernels: whether a kernel can run, on which device, and the size of its tiles.

The module does not import Triton, so that op classes can use it on a machine without Triton.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os

import torch

from tileops.ops.checked_call import CheckedCall

# Triton reads this variable when a kernel is defined. Its interpreter then runs kernels on CPU tensors, for tests.
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
_FOUND = importlib.util.find_spec("triton") is not None

# An H200 has 132 multiprocessors. Launches of fewer programs leave some of them idle.
MULTIPROCESSORS = 132


def triton_serves(call: CheckedCall) -> bool:
    """Returns, as a `when`, whether Triton is installed and the call is on a GPU (or on the CPU in its interpreter)."""
    return _FOUND and (call.device.startswith("cuda") or (_INTERPRETED and call.device == "cpu"))


def on_device(tensor: torch.Tensor) -> contextlib.AbstractContextManager[None]:
    """Returns a context in which the tensor's GPU is current: Triton launches on the current GPU, not the tensor's."""
    if tensor.is_cuda and tensor.device.index != torch.cuda.current_device():
        return torch.cuda.device(tensor.device)
    return contextlib.nullcontext()


def power_of_two(n: int) -> int:
    """Returns the smallest power of two that is at least max(n, 1)."""
    return 1 << max(n - 1, 0).bit_length()


def ceil_div(a: int, b: int) -> int:
    """Returns a / b rounded up."""
    return -(-a // b)


def vector_unit(n: int) -> int:
    """Returns the largest power of two up to 16 that divides n.

    Triton detects only arguments that are multiples of 16. An example: n = 24. A kernel that takes n // 8 = 3 and
    multiplies it by the constant 8 also knows that 8 divides n, and widens its loads.
    """
    return math.gcd(n, 16)


def column_tile(cols: int, most: int) -> int:
    """Returns the columns of a tile: the widest power of two up to `most` that wastes under an eighth of the lanes.

    If no width does, it returns the one that wastes least.
    """
    whole = power_of_two(cols)
    if whole <= 256:
        return whole
    widths = [width for width in (2048, 1024, 512, 256) if width <= min(whole, most)] or [256]
    return min(widths, key=lambda width: (max(ceil_div(cols, width) * width * 8, cols * 9), -width))


def elementwise_tile(rows: int, cols: int, most: int = 2048) -> tuple[int, int, int]:
    """Returns the tile of a streaming kernel over a [rows, cols] grid: (rows of a tile, columns of a tile, warps).

    A program takes `most` elements, a power of two of at least 256, or fewer if multiprocessors would be idle. An
    example: 2048 elements in four warps are 16 per thread, two 16-byte loads of a 2-byte type.
    """
    elements = most
    while elements > 256 and rows * cols < elements * MULTIPROCESSORS:
        elements //= 2
    tile_cols = column_tile(cols, elements)
    tile_rows = min(max(elements // tile_cols, 1), power_of_two(rows))
    return tile_rows, tile_cols, max(1, min(4, tile_rows * tile_cols // 256))
