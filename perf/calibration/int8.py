"""An int8 matrix product in Triton, since the library's reaches half of the tensor cores' rate.

Each program computes one tile. The copy engine loads both operands by tensor descriptors, with K contiguous, as 8-bit
tensor-core instructions need it.
"""

from collections.abc import Callable

import torch
import triton
from triton import language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# Rows of tiles that share columns of the second operand in the cache.
_GROUP = 8


@triton.jit
def _product(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    # Tiles in groups of GROUP rows, column by column within a group.
    tile = tl.program_id(0)
    columns = tl.cdiv(n, BN)
    first = tile // (GROUP * columns) * GROUP
    height = min(tl.cdiv(m, BM) - first, GROUP)
    row = (first + tile % (GROUP * columns) % height) * BM
    column = tile % (GROUP * columns) // height * BN
    total = tl.zeros((BM, BN), dtype=tl.int32)
    for at in range(0, k, BK):
        total = tl.dot(a.load([row, at]), b.load([column, at]).T, total, out_dtype=tl.int32)
    # Stored without the copy engine, for which the tile would take the operands' shared memory.
    rows = row + tl.arange(0, BM)[:, None]
    columns_of_tile = column + tl.arange(0, BN)[None, :]
    inside = (rows < m) & (columns_of_tile < n)
    tl.store(c + rows.to(tl.int64) * n + columns_of_tile, total, mask=inside)


def product_call(
    a: torch.Tensor, b: torch.Tensor, tile: tuple[int, int, int], stages: int
) -> Callable[[], torch.Tensor]:
    """Returns a function that computes a [m, k] times b [n, k] transposed once.

    Args:
      a, b: int8, contiguous.
      tile: (rows, columns, depth) of a program's tile.
      stages: Depths of operands in flight.

    Returns:
      A function that returns the int32 product [m, n], the same tensor each time.
    """
    rows, columns, depth = tile
    (m, k), (n, _) = a.shape, b.shape
    c = torch.empty((m, n), dtype=torch.int32, device=a.device)
    tiles_of_a = TensorDescriptor.from_tensor(a, [rows, depth])
    tiles_of_b = TensorDescriptor.from_tensor(b, [columns, depth])
    grid = (triton.cdiv(m, rows) * triton.cdiv(n, columns),)

    def call() -> torch.Tensor:
        _product[grid](tiles_of_a, tiles_of_b, c, m, n, k, rows, columns, depth, _GROUP, num_warps=8, num_stages=stages)
        return c

    return call
