"""Formulas of mixture-of-experts permutation without padding."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tileops.ops.checked_call import CheckedCall


class MoePermuteTerms(NamedTuple):
    """What the routing of one call decides.

    Attributes:
      local_pairs: (token, slot) pairs whose expert is local.
      tokens_read: tokens with at least one such pair, whose rows of hidden_states are read.
      experts_hit: local experts that receive at least one pair.
      map_entries_read: distinct entries of expert_map that topk_ids names; 0 without a map.
    """

    local_pairs: int
    tokens_read: int
    experts_hit: int
    map_entries_read: int


def moe_permute_terms(call: CheckedCall) -> MoePermuteTerms:
    """Count what topk_ids and expert_map decide in this call. Raises OpNotAvailableError where they have no values.

    An id outside [0, num_experts) is local to nobody, and neither is a map entry outside [0, num_experts_local).
    """
    ids = call.values("topk_ids")
    known = (ids >= 0) & (ids < call.params["num_experts"])
    local = np.where(known, ids, -1)
    map_entries_read = 0
    if call.present("expert_map"):
        local = np.where(known, call.values("expert_map")[local], -1)
        map_entries_read = np.unique(ids[known]).size
    is_local = (local >= 0) & (local < call.params["num_experts_local"])
    return MoePermuteTerms(
        local_pairs=int(np.count_nonzero(is_local)),
        tokens_read=int(np.count_nonzero(is_local.any(axis=1))),
        experts_hit=int(np.unique(local[is_local]).size),
        map_entries_read=map_entries_read,
    )


def moe_permute_nopad_roofline(call: CheckedCall) -> tuple[int, int]:
    """(flops, bytes) of hidden_states [M, H], topk_ids [M, K] and perhaps expert_map -> perm_h [M * K, H] and indices.

    FLOPs: the integer arithmetic that is the op's result (section 1.3): one add a local pair for its expert's count,
    one add a local expert for the prefix sum of the counts (true_offsets and expert_first_token_offset hold the same
    values, which are reused), one add a local pair for its row, its expert's offset plus its rank. Copies count 0.
    Bytes (sections 1.2 and 4.7): the reads of `moe_permute_nopad_read_bytes`; written are local_pairs rows of perm_h,
    since rows past them are unspecified, and the other four outputs whole.
    """
    terms = moe_permute_terms(call)
    indices = call.bytes_of("true_offsets", "true_sizes", "expert_first_token_offset", "fwd_idx")
    written = terms.local_pairs * _row_bytes(call) + indices
    flops = 2 * terms.local_pairs + call.params["num_experts_local"]
    return flops, _moe_permute_reads(call, terms) + written


def moe_permute_nopad_read_bytes(call: CheckedCall) -> int:
    """The read half of `moe_permute_nopad_roofline`.

    The hidden rows of tokens with at least one local pair, topk_ids whole, and the distinct entries of expert_map that
    topk_ids names. (Charging the map whole would be over 1% of a single-token call, which section 1.2 rules out.)
    """
    return _moe_permute_reads(call, moe_permute_terms(call))


def _moe_permute_reads(call: CheckedCall, terms: MoePermuteTerms) -> int:
    entry_bytes = 0
    if terms.map_entries_read:
        record = call.tensors["expert_map"]
        entry_bytes = record.bytes // record.shape[0]
    return terms.tokens_read * _row_bytes(call) + call.tensors["topk_ids"].bytes + terms.map_entries_read * entry_bytes


def _row_bytes(call: CheckedCall) -> int:
    """Bytes of one row of hidden_states; 0 where there are none."""
    record = call.tensors["hidden_states"]
    return record.bytes // max(record.shape[0], 1)
