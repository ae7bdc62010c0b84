"""Triton kernels that order routed (token, slot) pairs by expert and copy each token's row to where its pairs land.

A pair's place is its rank: how many local pairs come before it, by (local expert, flat index). Up to _ONE_LAUNCH pairs
every program counts that for its own token's pairs, and the whole op is one launch; beyond, blocks of pairs are
counted per expert and the counts scanned first (three launches). Either way a token's row is read once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tileops.ops.kernels.support import MULTIPROCESSORS, ceil_div, on_device, power_of_two

# Pairs up to which ranking against all of them costs less than two more launches.
_ONE_LAUNCH = 4096
# Pairs whose experts are counted together by one program.
_BLOCK = 1024
# Counts that the scanning program holds at a time.
_SCAN_TILE = 16384
# Elements of a row that a program holds in registers.
_MAX_ROW_TILE = 8192
# Experts whose sizes one program counts in the one-launch kernel, against so many pairs at a time.
_EXPERTS, _PAIRS_AT_ONCE = 8, 1024


@triton.jit
def _local_expert(ids_ptr, map_ptr, at, mask, num_experts, num_local, MAPPED: tl.constexpr):
    """Local expert of the pairs at `at`; num_local where it is not local or the pair is masked."""
    expert = tl.load(ids_ptr + at, mask=mask, other=-1)
    known = (expert >= 0) & (expert < num_experts)
    if MAPPED:
        local = tl.load(map_ptr + expert, mask=known, other=-1)
    else:
        local = tl.where(known, expert, -1)
    return tl.where((local >= 0) & (local < num_local), local, num_local)


@triton.jit
def _permute_in_one_launch(
    hidden_ptr,
    ids_ptr,
    map_ptr,
    perm_ptr,
    offsets_ptr,
    sizes_ptr,
    first_ptr,
    rows_ptr,
    tokens,
    width,
    pairs,
    num_experts,
    num_local,
    row_tiles,
    SLOTS: tl.constexpr,
    MAPPED: tl.constexpr,
    PAIRS: tl.constexpr,
    TILE: tl.constexpr,
    EXPERTS: tl.constexpr,
    PAIRS_AT_ONCE: tl.constexpr,
):
    # Programs below tokens * row_tiles copy a piece of a token's row; the others count EXPERTS experts each.
    # key = expert * pairs + flat index orders all pairs; pairs that are not local have the largest experts.
    pid = tl.program_id(0)
    copiers = tokens * row_tiles
    if pid < copiers:
        token = pid // row_tiles
        col = (pid % row_tiles) * TILE + tl.arange(0, TILE)
        col_mask = col < width
        values = tl.load(hidden_ptr + token.to(tl.int64) * width + col, mask=col_mask)
        flat = tl.arange(0, PAIRS)
        keys = _local_expert(ids_ptr, map_ptr, flat, flat < pairs, num_experts, num_local, MAPPED) * pairs + flat
        for slot in tl.static_range(SLOTS):
            pair = token * SLOTS + slot
            expert = _local_expert(ids_ptr, map_ptr, pair, True, num_experts, num_local, MAPPED)
            row = -1
            if expert < num_local:
                row = tl.sum((keys < expert * pairs + pair).to(tl.int32))
                tl.store(perm_ptr + row.to(tl.int64) * width + col, values, mask=col_mask)
            if pid % row_tiles == 0:
                tl.store(rows_ptr + pair, row)
    else:
        experts = (pid - copiers) * EXPERTS + tl.arange(0, EXPERTS)
        before = tl.zeros([EXPERTS], tl.int32)
        own = tl.zeros([EXPERTS], tl.int32)
        for start in range(0, pairs, PAIRS_AT_ONCE):
            some = start + tl.arange(0, PAIRS_AT_ONCE)
            locals_ = _local_expert(ids_ptr, map_ptr, some, some < pairs, num_experts, num_local, MAPPED)
            before += tl.sum((locals_[None, :] < experts[:, None]).to(tl.int32), axis=1)
            own += tl.sum((locals_[None, :] == experts[:, None]).to(tl.int32), axis=1)
        is_expert = experts < num_local
        tl.store(offsets_ptr + experts, before, mask=is_expert)
        tl.store(sizes_ptr + experts, own, mask=is_expert)
        # One entry further stands the total: every local pair comes before "expert" num_local.
        tl.store(first_ptr + experts, before.to(tl.int64), mask=experts <= num_local)


@triton.jit
def _count_experts(
    ids_ptr,
    map_ptr,
    counts_ptr,
    pairs,
    num_experts,
    num_local,
    MAPPED: tl.constexpr,
    BLOCK: tl.constexpr,
    BINS: tl.constexpr,
):
    # counts [blocks, BINS]; what is not local falls into bin num_local, which nobody reads.
    block = tl.program_id(0)
    flat = block * BLOCK + tl.arange(0, BLOCK)
    local = _local_expert(ids_ptr, map_ptr, flat, flat < pairs, num_experts, num_local, MAPPED)
    tl.store(counts_ptr + block * BINS + tl.arange(0, BINS), tl.histogram(local, BINS))


@triton.jit
def _scan_counts(
    counts_ptr,
    bases_ptr,
    offsets_ptr,
    sizes_ptr,
    first_ptr,
    blocks,
    num_local,
    AT_ONCE: tl.constexpr,
    BINS: tl.constexpr,
):
    # bases [blocks, BINS]: first row of each block's pairs of each expert.
    expert = tl.arange(0, BINS)
    is_expert = expert < num_local
    sizes = tl.zeros([BINS], tl.int32)
    for start in range(0, blocks, AT_ONCE):
        block = start + tl.arange(0, AT_ONCE)
        mask = (block < blocks)[:, None] & is_expert[None, :]
        sizes += tl.sum(tl.load(counts_ptr + block[:, None] * BINS + expert[None, :], mask=mask, other=0), axis=0)
    offsets = tl.cumsum(sizes, axis=0) - sizes
    tl.store(offsets_ptr + expert, offsets, mask=is_expert)
    tl.store(sizes_ptr + expert, sizes, mask=is_expert)
    tl.store(first_ptr + expert, offsets.to(tl.int64), mask=expert <= num_local)
    running = offsets
    for start in range(0, blocks, AT_ONCE):
        block = start + tl.arange(0, AT_ONCE)
        mask = (block < blocks)[:, None] & is_expert[None, :]
        counts = tl.load(counts_ptr + block[:, None] * BINS + expert[None, :], mask=mask, other=0)
        bases = running[None, :] + tl.cumsum(counts, axis=0) - counts
        tl.store(bases_ptr + block[:, None] * BINS + expert[None, :], bases, mask=mask)
        running += tl.sum(counts, axis=0)


@triton.jit
def _permute_counted(
    hidden_ptr,
    ids_ptr,
    map_ptr,
    bases_ptr,
    perm_ptr,
    rows_ptr,
    width,
    pairs,
    num_experts,
    num_local,
    row_tiles,
    SLOTS: tl.constexpr,
    MAPPED: tl.constexpr,
    BLOCK: tl.constexpr,
    BINS: tl.constexpr,
    TILE: tl.constexpr,
):
    pid = tl.program_id(0)
    token = pid // row_tiles
    col = (pid % row_tiles) * TILE + tl.arange(0, TILE)
    col_mask = col < width
    values = tl.load(hidden_ptr + token.to(tl.int64) * width + col, mask=col_mask)
    for slot in tl.static_range(SLOTS):
        pair = token * SLOTS + slot
        block = pair // BLOCK
        expert = _local_expert(ids_ptr, map_ptr, pair, True, num_experts, num_local, MAPPED)
        row = -1
        if expert < num_local:
            flat = block * BLOCK + tl.arange(0, BLOCK)
            local = _local_expert(ids_ptr, map_ptr, flat, flat < pair, num_experts, num_local, MAPPED)
            rank = tl.sum((local == expert).to(tl.int32))
            row = tl.load(bases_ptr + block * BINS + expert) + rank
            tl.store(perm_ptr + row.to(tl.int64) * width + col, values, mask=col_mask)
        if pid % row_tiles == 0:
            tl.store(rows_ptr + pair, row)


def permute(
    hidden: torch.Tensor, topk_ids: torch.Tensor, expert_map: torch.Tensor | None, num_experts: int, num_local: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows of `hidden` by expert, and the indices that say where each went.

    Args:
      hidden: [M, H].
      topk_ids: [M, K] int32, global experts; the kernels unroll over K.
      expert_map: [num_experts] int32, local expert or -1; None: global ids are local ones.
      num_experts: number of global experts; an id outside [0, num_experts) is local to nobody.
      num_local: number of local experts, all of which one program scans.

    Returns:
      perm_h [M*K, H] (rows past the number of local pairs are left as they are), true_offsets [num_local] int32,
      true_sizes [num_local] int32, expert_first_token_offset [num_local + 1] int64, fwd_idx [M*K] int32.
    """
    hidden, topk_ids = hidden.contiguous(), topk_ids.contiguous()
    mapped = expert_map is not None
    expert_map = topk_ids if expert_map is None else expert_map.contiguous()
    (tokens, slots), width = topk_ids.shape, hidden.shape[1]
    pairs = tokens * slots
    perm = hidden.new_empty((pairs, width))
    offsets = topk_ids.new_empty(num_local)
    sizes = topk_ids.new_empty(num_local)
    first = topk_ids.new_empty(num_local + 1, dtype=torch.int64)
    rows = topk_ids.new_empty(pairs)
    outputs = (perm, offsets, sizes, first, rows)
    with on_device(hidden):
        if pairs <= _ONE_LAUNCH and pairs * (num_local + 1) < 2**31:
            tile, row_tiles, warps = _row_tile(tokens, width)
            experts = ceil_div(num_local + 1, _EXPERTS)
            _permute_in_one_launch[(tokens * row_tiles + experts,)](
                hidden,
                topk_ids,
                expert_map,
                perm,
                offsets,
                sizes,
                first,
                rows,
                tokens,
                width,
                pairs,
                num_experts,
                num_local,
                row_tiles,
                SLOTS=slots,
                MAPPED=mapped,
                PAIRS=power_of_two(pairs),
                TILE=tile,
                EXPERTS=_EXPERTS,
                PAIRS_AT_ONCE=min(_PAIRS_AT_ONCE, power_of_two(pairs)),
                num_warps=warps,
            )
            return outputs
        blocks = ceil_div(pairs, _BLOCK)
        bins = power_of_two(num_local + 1)
        counts = topk_ids.new_empty((blocks, bins))
        bases = topk_ids.new_empty((blocks, bins))
        _count_experts[(blocks,)](
            topk_ids,
            expert_map,
            counts,
            pairs,
            num_experts,
            num_local,
            MAPPED=mapped,
            BLOCK=_BLOCK,
            BINS=bins,
            num_warps=4,
        )
        _scan_counts[(1,)](
            counts,
            bases,
            offsets,
            sizes,
            first,
            blocks,
            num_local,
            AT_ONCE=max(1, min(power_of_two(blocks), _SCAN_TILE // bins)),
            BINS=bins,
            num_warps=16,
        )
        tile, row_tiles, warps = _row_tile(tokens, width)
        _permute_counted[(tokens * row_tiles,)](
            hidden,
            topk_ids,
            expert_map,
            bases,
            perm,
            rows,
            width,
            pairs,
            num_experts,
            num_local,
            row_tiles,
            SLOTS=slots,
            MAPPED=mapped,
            BLOCK=_BLOCK,
            BINS=bins,
            TILE=tile,
            num_warps=warps,
        )
    return outputs


def _row_tile(tokens: int, width: int) -> tuple[int, int, int]:
    """(elements of a program's piece of a row, pieces of a row, warps): whole rows once tokens fill the GPU."""
    tile = min(power_of_two(width), _MAX_ROW_TILE)
    while tile > 1024 and tokens * ceil_div(width, tile) < 2 * MULTIPROCESSORS:
        tile //= 2
    return tile, max(1, ceil_div(width, tile)), max(1, min(8, tile // 256))
