"""Triton kernel of skinny matrix products: few rows of a against a long, K-contiguous b, split along K.

Such a product reads b once and computes little, so what counts is how many multiprocessors stream b at a time. Each
program takes a block of b's rows and a stretch of K, with b as the left operand of the tensor cores: their left side
is at least 64 long, and the few rows of a would waste it. Stretches leave float32 parts that a second launch adds.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tileops.ops.kernels.reduction import folds
from tileops.ops.kernels.support import MULTIPROCESSORS, ceil_div, on_device, power_of_two


@triton.jit
def _skinny(a_ptr, b_ptr, out_ptr, m, n, k, steps, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr):
    # a [m, k], b [n, k] -> out [splits, m, n]: program (j, s) goes `steps` tiles along K from s * steps.
    row_m = tl.arange(0, TILE_M)
    row_n = tl.program_id(0) * TILE_N + tl.arange(0, TILE_N)
    split = tl.program_id(1)
    mask_m = row_m < m
    mask_n = row_n < n
    first = split * steps * TILE_K
    at_k = first + tl.arange(0, TILE_K)
    a_at = a_ptr + row_m[None, :] * k + at_k[:, None]
    b_at = b_ptr + row_n.to(tl.int64)[:, None] * k + at_k[None, :]
    total = tl.zeros([TILE_N, TILE_M], tl.float32)
    for step in range(tl.minimum(steps, tl.cdiv(k - first, TILE_K))):
        mask_k = at_k < k - step * TILE_K
        b = tl.load(b_at, mask=mask_n[:, None] & mask_k[None, :], other=0.0)
        a = tl.load(a_at, mask=mask_k[:, None] & mask_m[None, :], other=0.0)
        total = tl.dot(b, a, total)
        a_at += TILE_K
        b_at += TILE_K
    out_at = out_ptr + (split * m + row_m).to(tl.int64)[None, :] * n + row_n[:, None]
    tl.store(out_at, total.to(out_ptr.dtype.element_ty), mask=mask_n[:, None] & mask_m[None, :])


def matmul_skinny(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b.T, added in float32, as a contiguous [M, N] of a's dtype.

    Args:
      a: [M, K], float16 or bfloat16, 1 <= M <= 128.
      b: [N, K], of the same dtype; K >= 1.
    """
    a, b = a.contiguous(), b.contiguous()
    (m, k), n = a.shape, b.shape[0]
    out = torch.empty((m, n), dtype=a.dtype, device=a.device)
    if out.numel() == 0:
        return out
    tile_m = max(16, power_of_two(m))
    # Every block of b's rows reads the whole of a, from the L2: the taller a is, the fewer blocks b is cut into.
    tile_n = 128 if tile_m > 64 else 64
    tile_k = 64 if tile_m > 64 else 128
    tiles_n = ceil_div(n, tile_n)
    tiles_k = ceil_div(k, tile_k)
    # As many programs as run at a time (two a multiprocessor while their buffers fit), eight steps each or more.
    at_a_time = MULTIPROCESSORS if tile_m > 64 else 2 * MULTIPROCESSORS
    splits = max(1, min(at_a_time // tiles_n, tiles_k // 8))
    steps = ceil_div(tiles_k, splits)
    splits = ceil_div(tiles_k, steps)
    # 227 KiB of shared memory hold three stages of both operands' tiles for each of two programs, or four for one.
    stages = 3 if tile_m == 64 else 4
    parts = out if splits == 1 else torch.empty((splits, m, n), dtype=torch.float32, device=a.device)
    with on_device(a):
        _skinny[(tiles_n, splits)](
            a,
            b,
            parts,
            m,
            n,
            k,
            steps,
            TILE_M=tile_m,
            TILE_N=tile_n,
            TILE_K=tile_k,
            num_warps=8 if tile_m > 64 else 4,
            num_stages=stages,
        )
    if splits > 1:
        folds.sum_parts(parts, out)
    return out
