"""Prices of perf/formulas/ against counts made another way: masks spelled out, sets of what a routing names."""

import numpy as np
import pytest

from tileops.ops.checked_call import CheckedCall, TensorRecord
from tileops.ops.errors import OpNotAvailableError
from tileops.perf import formulas


class Held:
    """The least of a tensor that a checked call asks of its metadata."""

    def __init__(self, values, device="cpu"):
        self.values = np.asarray(values, dtype=np.int32)
        self.device = type("Device", (), {"type": device})
        self._version = 0

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.values

    def is_inference(self):
        return False


def attention_call(batch, queries, keys, heads, kv_heads, width, is_causal):
    query = TensorRecord((batch, queries, heads, width), "bfloat16")
    key = TensorRecord((batch, keys, kv_heads, width), "bfloat16")
    return CheckedCall(
        "GQADenseFwdOp", {"is_causal": is_causal}, {}, {"q": query, "k": key, "v": key}, {"o": query}, "meta", {}
    )


def moe_call(ids, num_experts, num_local, width, expert_map=None, device="cpu"):
    ids = np.asarray(ids, dtype=np.int32)
    tokens, slots = ids.shape
    inputs = {
        "hidden_states": TensorRecord((tokens, width), "bfloat16"),
        "topk_ids": TensorRecord((tokens, slots), "int32"),
    }
    metadata = {"topk_ids": Held(ids, device)}
    if expert_map is not None:
        inputs["expert_map"] = TensorRecord((num_experts,), "int32")
        metadata["expert_map"] = Held(expert_map, device)
    outputs = {
        "perm_h": TensorRecord((tokens * slots, width), "bfloat16"),
        "true_offsets": TensorRecord((num_local,), "int32"),
        "true_sizes": TensorRecord((num_local,), "int32"),
        "expert_first_token_offset": TensorRecord((num_local + 1,), "int64"),
        "fwd_idx": TensorRecord((tokens * slots,), "int32"),
    }
    params = {"num_experts": num_experts, "num_experts_local": num_local}
    return CheckedCall("MoePermuteNopadFwdOp", params, {}, inputs, outputs, device, metadata)


@pytest.mark.requirement("1.3.12", "1.3.13", "1.3.14", "2.2.24")
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("queries, keys", [(1, 1), (1, 9), (5, 5), (4, 11), (7, 8), (0, 5), (0, 0)])
def test_attention_counts_the_scores_that_the_mask_admits(queries, keys, is_causal):
    batch, heads, width = 3, 4, 8
    flops, moved = formulas.gqa_fwd_roofline(attention_call(batch, queries, keys, heads, 2, width, is_causal))

    expected = 0
    for row in range(queries):
        for key in range(keys):
            if not is_causal or key <= row + keys - queries:
                expected += width * 2 + width * 2 + 5
        expected += width  # the divide
    assert flops == batch * heads * expected
    query_bytes, key_bytes = batch * queries * heads * width * 2, batch * keys * 2 * width * 2
    assert moved == (2 * query_bytes + 2 * key_bytes if queries else 0)


def test_attention_without_keys_writes_its_output_and_reads_nothing():
    call = attention_call(2, 3, 0, 4, 2, 8, False)
    assert formulas.gqa_fwd_roofline(call) == (0, 2 * 3 * 4 * 8 * 2)
    assert formulas.gqa_fwd_read_bytes(call) == 0


def test_attention_reads_everything_but_the_output():
    call = attention_call(2, 3, 5, 4, 2, 8, True)
    assert formulas.gqa_fwd_roofline(call)[1] - formulas.gqa_fwd_read_bytes(call) == 2 * 3 * 4 * 8 * 2


def test_moe_all_experts_local():
    # Three tokens, two slots, five experts; expert 1 receives nothing.
    call = moe_call([[0, 4], [4, 2], [3, 0]], num_experts=5, num_local=5, width=16)
    flops, moved = formulas.moe_permute_nopad_roofline(call)
    assert flops == 6 + 5 + 6
    reads = 3 * 16 * 2 + 6 * 4
    writes = 6 * 16 * 2 + 5 * 4 + 5 * 4 + 6 * 8 + 6 * 4
    assert moved == reads + writes
    assert formulas.moe_permute_nopad_read_bytes(call) == reads
    terms = formulas.moe_permute_terms(call)
    assert (terms.local_pairs, terms.tokens_read, terms.experts_hit) == (6, 3, 4)


@pytest.mark.requirement("1.2.18")
def test_moe_with_a_map_counts_local_pairs_distinct_tokens_and_named_entries():
    ids = [[0, 4], [4, 1], [3, 0], [5, 5]]
    expert_map = [1, -1, 0, -1, -1, 2, -1]
    call = moe_call(ids, num_experts=7, num_local=3, width=10, expert_map=expert_map)
    flops, moved = formulas.moe_permute_nopad_roofline(call)

    pairs = [(token, expert_map[expert]) for token, row in enumerate(ids) for expert in row if expert_map[expert] >= 0]
    tokens = {token for token, _ in pairs}
    named = {expert for row in ids for expert in row}
    assert (len(pairs), len(tokens), len(named)) == (4, 3, 5)
    reads = len(tokens) * 10 * 2 + 8 * 4 + len(named) * 4
    writes = len(pairs) * 10 * 2 + 3 * 4 + 3 * 4 + 4 * 8 + 8 * 4
    assert moved == reads + writes
    assert flops == len(pairs) + 3 + len(pairs)
    assert formulas.moe_permute_terms(call).experts_hit == len({expert for _, expert in pairs}) == 2


def test_moe_price_follows_the_routing_and_nothing_else():
    expert_map = [0, -1]
    near = formulas.moe_permute_nopad_roofline(moe_call([[0], [0]], 2, 1, 8, expert_map))
    far = formulas.moe_permute_nopad_roofline(moe_call([[1], [1]], 2, 1, 8, expert_map))
    assert near[1] - far[1] == 2 * (2 * 8 * 2)  # two rows less, read and written
    assert far[0] == 1


def test_moe_ids_and_map_entries_out_of_range_are_local_to_nobody():
    inside = moe_call([[0, 1]], 2, 2, 8, expert_map=[0, 7])
    outside = moe_call([[0, -3]], 2, 2, 8, expert_map=[0, 1])
    assert formulas.moe_permute_terms(inside) == (1, 1, 1, 2)
    assert formulas.moe_permute_terms(outside) == (1, 1, 1, 1)


def test_moe_without_tokens():
    call = moe_call(np.zeros((0, 4)), 6, 6, 8)
    assert formulas.moe_permute_nopad_roofline(call) == (6, 6 * 4 + 6 * 4 + 7 * 8)


def test_moe_on_meta_without_values_has_no_price():
    with pytest.raises(OpNotAvailableError, match="topk_ids"):
        formulas.moe_permute_nopad_roofline(moe_call([[0]], 1, 1, 8, device="meta"))
