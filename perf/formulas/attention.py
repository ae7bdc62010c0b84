"""Formulas of grouped-query attention forward."""

from __future__ import annotations

import math

from tileops.ops.checked_call import CheckedCall

# Section 1.3: scale, running max, subtract, exp and sum, for every score; the divide is counted per output element.
_SOFTMAX_FLOPS_PER_SCORE = 5


def gqa_scores(queries: int, keys: int, is_causal: bool) -> int:
    """Scores that the mask admits, of one query head of one sequence.

    A causal mask is aligned at the bottom right: row i sees i + keys - queries + 1 keys, none where that is negative.
    So the last min(queries, keys) rows see keys - n + 1, ..., keys of them.
    """
    if not is_causal:
        return queries * keys
    rows = min(queries, keys)
    return rows * (2 * keys - rows + 1) // 2


def gqa_fwd_roofline(call: CheckedCall) -> tuple[int, int]:
    """(flops, bytes) of q [B, Sq, H, D], k and v [B, Skv, Hkv, D] -> o [B, Sq, H, D] with `is_causal`.

    FLOPs (section 1.3): for each score that the mask admits 2 D for QK, 2 D for PV and 5 for the softmax; one divide
    for each element of o. Bytes (section 1.2): q, k, v and o once; with Sq <= Skv the last causal row sees every key.
    A call without scores reads nothing and computes nothing: it writes o. One without elements of o needs no scores.
    """
    batch, queries, heads, width = call.tensors["q"].shape
    scores = batch * heads * gqa_scores(queries, call.tensors["k"].shape[1], call.params["is_causal"])
    results = math.prod(call.tensors["o"].shape)
    flops = scores * (4 * width + _SOFTMAX_FLOPS_PER_SCORE) + results if scores and results else 0
    return flops, gqa_fwd_read_bytes(call) + call.tensors["o"].bytes


def gqa_fwd_read_bytes(call: CheckedCall) -> int:
    """The read half of `gqa_fwd_roofline`: q, k and v once, nothing where the call has no scores."""
    if 0 in (*call.tensors["q"].shape[:3], call.tensors["k"].shape[1]):
        return 0
    return call.tensors["q"].bytes + call.tensors["k"].bytes + call.tensors["v"].bytes
