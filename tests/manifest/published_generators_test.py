"""Generators of published manifests, each against a slow statement of what it gives in plain Python."""

from __future__ import annotations

import collections
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.manifest.language import generators, sampling
from tileops.manifest.language.adt import AdtValue

few = st.integers(0, 6)
some = st.integers(1, 6)
packed = st.lists(st.integers(1, 12), min_size=1, max_size=6)


def made(name: str, *args: Any, seed: int = 0) -> list:
    """What a generator makes, after its extent was held against it."""
    told, found = generators.extent(name, args), generators.generate(name, args, seed)
    assert told.shape == found.shape and found.dtype == np.int64 and found.size <= max(told.work, 1)
    assert not found.size or (told.within[0] <= found.min() and found.max() <= told.within[1])
    return found.tolist()


def exact(name: str, *args: Any) -> list:
    """As `made`, of a generator whose extent has the least and the greatest value that it makes."""
    found = made(name, *args)
    flat = np.asarray(found).reshape(-1).tolist()
    assert not flat or generators.extent(name, args).within == (min(flat), max(flat))
    return found


# ---- without draws


@settings(max_examples=60, deadline=None)
@given(packed)
def test_packed_positions_begin_anew_in_each_sequence(lengths):
    assert exact("packed_positions", lengths) == [at for length in lengths for at in range(length)]


@settings(max_examples=60, deadline=None)
@given(st.lists(few, max_size=3), st.integers(-(2**63), 2**63 - 1))
def test_full_is_one_value_everywhere(sizes, value):
    found = np.asarray(exact("full", tuple(sizes), value), dtype=np.int64)
    assert found.size == math.prod(sizes) and (found == value).all()


@settings(max_examples=60, deadline=None)
@given(packed, st.data())
def test_key_windows_start_at_the_sequence_and_end_behind_the_token(lengths, data):
    total = sum(lengths)
    first = data.draw(st.integers(0, total))
    count = data.draw(st.integers(0, total - first))
    owner = [sequence for sequence, length in enumerate(lengths) for _ in range(length)]
    tokens = range(first, first + count)
    assert exact("key_windows", lengths, first, count, "start") == [sum(lengths[: owner[p]]) for p in tokens]
    assert exact("key_windows", lengths, first, count, "end") == [p + 1 for p in tokens]


def _contiguous(alignment: int, kind: str) -> dict:
    packing = "tight" if alignment == 1 else "aligned"
    return {"kind": "contiguous", "packing": packing, "metadata_kind": kind, "alignment": alignment}


@settings(max_examples=60, deadline=None)
@given(some, st.integers(0, 20), st.integers(1, 9))
def test_metadata_of_contiguous_experts_are_balanced_ends_or_the_rows_experts(alignment, tiles, experts):
    rows = tiles * alignment
    sizes = [tiles // experts + (1 if expert < tiles % experts else 0) for expert in range(experts)]
    ends = [
        alignment * (sum(sizes[:expert]) + size) - (alignment // 2 if size else 0) for expert, size in enumerate(sizes)
    ]
    owners = [expert for expert, size in enumerate(sizes) for _ in range(size * alignment)]
    name = "moe.layout_metadata"
    assert exact(name, _contiguous(alignment, "physical_psum"), rows, experts) == ends
    assert exact(name, _contiguous(alignment, "per_row"), rows, experts) == owners
    ours = {"kind": "Nopad"} if alignment == 1 else {"kind": "Padded", "block": alignment}
    assert exact(name, ours, rows, experts) == ends


@settings(max_examples=60, deadline=None)
@given(few, st.integers(1, 9))
def test_masked_metadata_are_full_and_half_full_in_turn(size, experts):
    wanted = [size if expert % 2 == 0 else size // 2 for expert in range(experts)]
    for layout in ({"kind": "masked", "max_m": size}, AdtValue("Masked", (("capacity", size),))):
        assert exact("moe.layout_metadata", layout, experts * size, experts) == wanted


def _routed(experts: int, tokens: int) -> list[int]:
    idle = round(experts * math.exp(-tokens / experts))
    empty = {(k * experts + experts // 2) // idle for k in range(idle)}
    busy = [expert for expert in range(experts) if expert not in empty]
    weights = [2 if at % 2 == 0 else 1 for at in range(len(busy))]
    shares = [weight * tokens // sum(weights) for weight in weights]
    lost = [weight * tokens % sum(weights) for weight in weights]
    for at in sorted(range(len(busy)), key=lambda at: (-lost[at], at))[: tokens - sum(shares)]:
        shares[at] += 1
    found = dict(zip(busy, shares, strict=True))
    return [found.get(expert, 0) for expert in range(experts)]


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 60), st.integers(0, 400) | st.integers(0, 10**9))
def test_masked_routed_metadata_leave_experts_idle_and_weight_the_others(experts, tokens):
    wanted = _routed(experts, tokens)
    most, name = max(wanted), "moe.masked_routed_metadata"
    assert sum(wanted) == tokens
    assert made(name, {"kind": "masked", "max_m": most}, experts, tokens) == wanted
    assert generators.extent(name, ({"kind": "Masked", "capacity": most}, experts, tokens)).within == (0, most)
    if most:
        with pytest.raises(ValueError, match="rows of each"):
            generators.extent(name, ({"kind": "masked", "max_m": most - 1}, experts, tokens))


# ---- with draws


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 30), st.integers(0, 30))
def test_sampled_indices_differ(count, spare):
    found = made("sample_indices", count, count + spare)
    assert len(set(found)) == count and all(0 <= index < count + spare for index in found)


@settings(max_examples=60, deadline=None)
@given(some, some, st.integers(1, 2**53))
def test_random_ids_of_rows_lie_below_their_bound(rows, width, bound):
    found = made("random_ids", rows, width, bound)
    assert all(0 <= value < bound for row in found for value in row)


@settings(max_examples=60, deadline=None)
@given(few, some, st.integers(0, 30))
def test_sequences_that_share_pages_have_different_pages_of_their_own(batch, width, spare):
    pool = width + spare
    for pages in made("paged_block_table", batch, width, pool):
        assert len(set(pages)) == width and all(0 <= page < pool for page in pages)


@settings(max_examples=60, deadline=None)
@given(some, some, some, some, some, few, some)
def test_a_token_selects_among_the_keys_before_it(batch, tokens, heads, k, extent, start, stride):
    found = made("causal_topk_indices", batch, tokens, heads, k, extent, start, stride)
    for sequence in found:
        for t, by_head in enumerate(sequence):
            seen = min(max(1, (t + start) // stride), extent)
            for keys in by_head:
                chosen, rest = keys[: min(k, seen)], keys[min(k, seen) :]
                assert len(set(chosen)) == len(chosen) and all(0 <= key < seen for key in chosen)
                assert set(rest) <= {extent}


@settings(max_examples=60, deadline=None)
@given(some, st.lists(few, max_size=4), some)
def test_the_last_queries_attend_to_the_tokens_up_to_themselves(queries, more, k):
    lengths = [queries + length for length in more]
    for length, rows in zip(lengths, made("attn.sparse_topk_positions", lengths, queries, k), strict=True):
        for query, positions in enumerate(rows):
            seen = length - queries + query + 1
            chosen, rest = positions[: min(k, seen)], positions[min(k, seen) :]
            assert len(set(chosen)) == len(chosen) and all(0 <= position < seen for position in chosen)
            assert set(rest) <= {-1}


@pytest.mark.parametrize(("start", "stride", "seen"), [(2**53, 1, 9), (0, 2**70, 1), (2**53, 2**52, 2), (3, 3, 1)])
def test_far_starts_and_wide_strides_are_exact(start, stride, seen):
    (((keys,),),) = made("causal_topk_indices", 1, 1, 1, 9, 9, start, stride)
    assert keys[seen:] == [9] * (9 - seen) and sorted(keys[:seen]) == list(range(seen))


def test_what_had_two_arguments_or_enough_pages_keeps_its_values():
    stream = np.random.Generator(np.random.PCG64(7)).random(50)
    assert made("random_ids", 50, 9, seed=7) == [int(value * 9) for value in stream]
    stream = np.random.Generator(np.random.PCG64(7)).random(50)
    pages = sorted(range(50), key=lambda page: stream[page])
    assert made("paged_block_table", 6, 8, 50, seed=7) == [pages[8 * at : 8 * at + 8] for at in range(6)]


class _Counting:
    """A stream that counts its draws."""

    def __init__(self) -> None:
        self.stream, self.count = np.random.Generator(np.random.PCG64(3)), 0

    def random(self, shape):
        found = self.stream.random(shape)
        self.count += found.size
        return found


@pytest.mark.parametrize(("bound", "k"), [(131_072, 2048), (4097, 2048), (4096, 2048), (2049, 2048), (2**53, 2048)])
def test_drawing_costs_what_it_gives_and_not_the_range_it_draws_from(bound, k):
    stream = _Counting()
    found = sampling.distinct(stream, [bound] * 64, k, -1)
    ordered = np.sort(found, axis=1)
    assert (ordered[:, 1:] > ordered[:, :-1]).all() and stream.count <= 2 * found.size
    called = generators.extent("causal_topk_indices", (1, 4096, 1, 2048, 131_072, 131_072, 1))
    assert called.work == 2 * 4096 * 2048


@pytest.mark.parametrize("enough", [None, lambda limit, k: k])
@pytest.mark.parametrize(("bound", "k"), [(5, 2), (4, 2), (7, 3), (3, 3), (2, 3), (1, 1), (40, 2)])
def test_every_order_of_every_choice_is_equally_likely(bound, k, enough, monkeypatch):
    if enough is not None:  # rows then go on drawing
        monkeypatch.setattr(sampling, "_enough", enough)
    stream = np.random.Generator(np.random.PCG64(11))
    found = sampling.distinct(stream, [bound] * 40_000, k, 99)
    counts = collections.Counter(map(tuple, found.tolist()))
    orders = list(itertools.permutations(range(bound), min(k, bound)))
    assert counts.keys() == {(*order, *(99,) * (k - len(order))) for order in orders}
    wanted = 40_000 / len(orders)
    chi = sum((count - wanted) ** 2 / wanted for count in counts.values())
    assert chi < len(orders) + 5 * math.sqrt(2 * len(orders))


def test_rows_of_different_bounds_are_drawn_together():
    bounds = [1, 2, 9, 10, 11, 100, 2**40, 2**53]
    found = sampling.distinct(np.random.Generator(np.random.PCG64(1)), bounds, 5, -7)
    for bound, row in zip(bounds, found.tolist(), strict=True):
        chosen = row[: min(5, bound)]
        assert len(set(chosen)) == len(chosen) and all(0 <= value < bound for value in chosen)
        assert row[len(chosen) :] == [-7] * (5 - len(chosen))


_MASKED = {"kind": "masked", "max_m": 4}


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("packed_positions", ([],)),
        ("packed_positions", ([3, 0],)),
        ("packed_positions", ([2**29],)),
        ("full", ((3, -1), 0)),
        ("full", ((2**20, 2**20), 0)),
        ("full", ((), 2**63)),
        ("key_windows", ([], 0, 0, "start")),
        ("key_windows", ([3, 0], 0, 1, "start")),
        ("key_windows", ([3], -1, 1, "end")),
        ("key_windows", ([3], 1, -1, "end")),
        ("key_windows", ([3], 1, 3, "end")),
        ("key_windows", ([2**40], 1, 2**39, "end")),
        ("random_ids", (0, 3, 4)),
        ("random_ids", (3, 0, 4)),
        ("random_ids", (3, 4, 0)),
        ("random_ids", (2**20, 2**20, 4)),
        ("sample_indices", (5, 4)),
        ("sample_indices", (-1, 4)),
        ("sample_indices", (2**28, 2**40)),
        ("sample_indices", (4, 2**54)),
        ("paged_block_table", (2, 6, 5)),
        ("paged_block_table", (2**20, 2**10, 2**11)),
        ("causal_topk_indices", (1, 2, 3, 4, 0, 0, 1)),
        ("causal_topk_indices", (1, 2, 3, 0, 5, 0, 1)),
        ("causal_topk_indices", (0, 2, 3, 4, 5, 0, 1)),
        ("causal_topk_indices", (1, 2, 3, 4, 5, -1, 1)),
        ("causal_topk_indices", (1, 2, 3, 4, 5, 0, 0)),
        ("causal_topk_indices", (1, 2, 3, 4, 5, 2**54, 1)),
        ("causal_topk_indices", (1, 2**20, 2**10, 4, 5, 0, 1)),
        ("attn.sparse_topk_positions", ([3], 4, 2)),
        ("attn.sparse_topk_positions", ([3], 0, 2)),
        ("attn.sparse_topk_positions", ([3], 2, 0)),
        ("attn.sparse_topk_positions", ([2**20], 2**20, 2**10)),
        ("moe.layout_metadata", (_MASKED, 7, 2)),
        ("moe.layout_metadata", (_MASKED, 0, 0)),
        ("moe.layout_metadata", (_contiguous(4, "per_row"), 6, 2)),
        ("moe.layout_metadata", (_contiguous(1, "per_row"), -1, 2)),
        ("moe.layout_metadata", (_contiguous(1, "per_row"), 2**40, 2)),
        ("moe.layout_metadata", (_contiguous(1, "physical_psum"), 4, 2**40)),
        ("moe.layout_metadata", ({"kind": "ragged"}, 4, 2)),
        ("moe.masked_routed_metadata", (_contiguous(1, "per_row"), 2, 4)),
        ("moe.masked_routed_metadata", (_MASKED, 0, 0)),
        ("moe.masked_routed_metadata", (_MASKED, 2, -1)),
        ("moe.masked_routed_metadata", (_MASKED, 2, 9)),
        ("moe.masked_routed_metadata", ({"kind": "masked", "max_m": 2**70}, 2, 2**69)),
    ],
)
def test_outside_its_domain_a_generator_raises_value_error(name, args):
    with pytest.raises(ValueError, match="."):
        generators.extent(name, args)


_HOSTILE = {
    "int": (0, 1, 2**28, 2**53, 2**63 - 1),
    "list": ((), (0,), (0, 3), (2**62,)),
    "sizes": ((0, 2**63 - 1), (2**62, 0, 2**62), (2**28,)),
    "side": ("end",),
}


@pytest.mark.parametrize(
    ("name", "takes"),
    [(name, takes) for name, one in generators.REGISTRY.items() for takes in one.forms if "layout" not in takes],
)
def test_a_call_of_any_sizes_is_refused_or_filled(name, takes):
    for args in itertools.product(*(_HOSTILE[kind][:: len(takes) // 4 + 1] for kind in takes)):
        try:
            extent = generators.REGISTRY[name].extent(*args)
        except ValueError:
            continue
        if extent.work <= 10**4:
            assert generators.generate(name, args, 1).shape == extent.shape
