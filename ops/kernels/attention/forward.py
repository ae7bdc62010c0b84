"""Triton kernel of attention forward: grouped heads, causal masks aligned at the bottom right, online softmax.

A program takes a block of queries of one head and walks the keys that its rows may see: first whole blocks that every
row sees, without masks, then the few at the mask's edge.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tileops.ops.kernels.support import ceil_div, on_device

# Scores are scaled by log2(e) so that the softmax takes exp2, which the hardware has.
_LOG2_E = 1.4426950408889634


@triton.jit
def _attend(
    q,
    total,
    weight_sum,
    row_max,
    k_ptr,
    v_ptr,
    k_row,
    v_row,
    scale,
    last_key,
    keys,
    first,
    end,
    MASKED: tl.constexpr,
    WIDTH: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Take keys first, ..., end - 1 into the running softmax of a block of queries."""
    at_width = tl.arange(0, WIDTH)
    for start in range(first, end, KEYS):
        key = start + tl.arange(0, KEYS)
        k_at = k_ptr + key.to(tl.int64)[None, :] * k_row + at_width[:, None]
        v_at = v_ptr + key.to(tl.int64)[:, None] * v_row + at_width[None, :]
        if MASKED:
            k = tl.load(k_at, mask=(key < keys)[None, :], other=0.0)
            v = tl.load(v_at, mask=(key < keys)[:, None], other=0.0)
            scores = tl.dot(q, k) * scale
            scores = tl.where((key < keys)[None, :] & (key[None, :] <= last_key[:, None]), scores, float("-inf"))
        else:
            k = tl.load(k_at)
            v = tl.load(v_at)
            scores = tl.dot(q, k) * scale
        new_max = tl.maximum(row_max, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_max[:, None])
        shrink = tl.exp2(row_max - new_max)
        weight_sum = weight_sum * shrink + tl.sum(weights, axis=1)
        total = tl.dot(weights.to(v.dtype), v, total * shrink[:, None])
        row_max = new_max
    return total, weight_sum, row_max


@triton.jit
def _attention(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    scale,
    queries,
    keys,
    heads,
    group,
    q_batch,
    q_row,
    q_head,
    k_batch,
    k_row,
    k_head,
    v_batch,
    v_row,
    v_head,
    CAUSAL: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    # The last block of queries sees the most keys, so it starts first.
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = (tl.program_id(1) % heads).to(tl.int64)
    row = block * QUERIES + tl.arange(0, QUERIES)
    at_width = tl.arange(0, WIDTH)
    row_mask = (row < queries)[:, None]
    q_at = q_ptr + batch * q_batch + head * q_head + row.to(tl.int64)[:, None] * q_row + at_width[None, :]
    q = tl.load(q_at, mask=row_mask, other=0.0)
    k_ptr += batch * k_batch + (head // group) * k_head
    v_ptr += batch * v_batch + (head // group) * v_head
    if CAUSAL:
        last_key = row + (keys - queries)
        whole = tl.minimum(block * QUERIES + (keys - queries) + 1, keys) // KEYS * KEYS
        end = tl.minimum((block + 1) * QUERIES + (keys - queries), keys)
    else:
        last_key = tl.zeros([QUERIES], tl.int32) + keys
        whole = keys // KEYS * KEYS
        end = keys
    total = tl.zeros([QUERIES, WIDTH], tl.float32)
    weight_sum = tl.zeros([QUERIES], tl.float32)
    row_max = tl.full([QUERIES], float("-inf"), tl.float32)
    # Every row sees key 0, so the first block already leaves each maximum finite.
    total, weight_sum, row_max = _attend(
        q,
        total,
        weight_sum,
        row_max,
        k_ptr,
        v_ptr,
        k_row,
        v_row,
        scale,
        last_key,
        keys,
        0,
        whole,
        MASKED=False,
        WIDTH=WIDTH,
        KEYS=KEYS,
    )
    total, weight_sum, row_max = _attend(
        q,
        total,
        weight_sum,
        row_max,
        k_ptr,
        v_ptr,
        k_row,
        v_row,
        scale,
        last_key,
        keys,
        whole,
        end,
        MASKED=True,
        WIDTH=WIDTH,
        KEYS=KEYS,
    )
    out_at = ((batch * queries + row)[:, None] * heads + head) * WIDTH + at_width[None, :]
    tl.store(out_ptr + out_at, (total / weight_sum[:, None]).to(out_ptr.dtype.element_ty), mask=row_mask)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool, scale: float) -> torch.Tensor:
    """softmax(scale q k^T) v as a contiguous [B, Sq, H, D], with scores and sums in float32.

    Args:
      q: [B, Sq, H, D], float16 or bfloat16; D a power of two from 16 to 128.
      k, v: [B, Skv, Hkv, D] of the same dtype; H a multiple of Hkv, Skv >= 1.
      is_causal: row i sees the first i + Skv - Sq + 1 keys; Sq <= Skv then.
      scale: what scores are multiplied by.
    """
    q, k, v = (tensor if tensor.stride(3) == 1 else tensor.contiguous() for tensor in (q, k, v))
    batch, queries, heads, width = q.shape
    keys, kv_heads = k.shape[1:3]
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if out.numel() == 0:
        return out
    # A tile of 128 queries keeps two groups of four warps on the tensor cores; wide heads leave room for fewer keys.
    tile_keys = 128 if width <= 64 else 64
    with on_device(q):
        _attention[(ceil_div(queries, 128), batch * heads)](
            q,
            k,
            v,
            out,
            scale * _LOG2_E,
            queries,
            keys,
            heads,
            heads // kv_heads,
            *q.stride()[:3],
            *k.stride()[:3],
            *v.stride()[:3],
            CAUSAL=is_causal,
            WIDTH=width,
            QUERIES=128,
            KEYS=tile_keys,
            num_warps=8,
            num_stages=3,
        )
    return out
