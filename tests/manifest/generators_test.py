"""Generators by their laws and against plain loops; the seeded ones' streams."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.manifest.language import declarations, extents, generators

lengths = st.lists(st.integers(0, 40), max_size=8)
sizes = st.integers(1, 9)

_MASKED = {"kind": "masked", "max_m": 16}
_ARGUMENTS = {
    "as_tensor": ([3, 1],),
    "running_sums": ([3, 1],),
    "offsets": ([3, 1],),
    "starts": ([3, 1],),
    "padded_offsets": ([3, 1], 4),
    "chunk_indices": ([3, 1], 2),
    "token_indices": ([3, 1],),
    "chunk_offsets": ([3, 1], 2),
    "local_expert_map": (8, 4, 2),
    "packed_positions": ([3, 1],),
    "full": ((3, 1), 4),
    "key_windows": ([3, 1], 1, 2, "start"),
    "moe.layout_metadata": (_MASKED, 32, 2),
    "moe.masked_routed_metadata": (_MASKED, 2, 9),
    "topk_ids": (50, 8, 64),
    "random_ids": (400, 64),
    "sample_indices": (50, 640),
    "causal_topk_indices": (2, 9, 3, 4, 99, 9, 1),
    "attn.sparse_topk_positions": ([30, 10], 4, 3),
    "paged_block_table": (10, 8, 100),
    "nsa_block_indices": ([200, 100], 16, 4, 2),
    "nsa_block_counts": (50, 2, 16),
}
_SEEDED = [
    "topk_ids",
    "random_ids",
    "sample_indices",
    "causal_topk_indices",
    "attn.sparse_topk_positions",
    "paged_block_table",
    "nsa_block_indices",
    "nsa_block_counts",
]


def test_the_registry_pairs_each_generator_with_its_own_extent_and_knows_which_draw():
    for name, one in generators.REGISTRY.items():
        function = name.replace(".", "_")
        assert one.extent is getattr(extents, function) and one.fill is getattr(generators, function)
    assert [name for name, one in generators.REGISTRY.items() if one.is_seeded] == _SEEDED


def test_every_declared_generator_fills_its_rank_with_int64():
    assert list(_ARGUMENTS) == list(declarations.GENERATORS)
    for name, args in _ARGUMENTS.items():
        filled = generators.generate(name, args, seed=1)
        rank = declarations.GENERATORS[name].form(len(args)).rank
        assert filled.ndim == (len(args[0]) if rank is None else rank) and filled.dtype == np.int64


@pytest.mark.parametrize("name", _SEEDED)
def test_a_seeded_stream_is_its_own(name):
    first = generators.generate(name, _ARGUMENTS[name], seed=7)
    np.random.seed(3)
    np.random.default_rng(3).random(1000)
    generators.generate("topk_ids", (9, 3, 9), seed=1)
    assert (generators.generate(name, _ARGUMENTS[name], seed=7) == first).all()
    assert not (generators.generate(name, _ARGUMENTS[name], seed=8) == first).all()


def test_a_seeded_generator_leaves_the_global_stream_alone():
    np.random.seed(5)
    before = np.random.get_state()[1].tolist()
    for name in _SEEDED:
        generators.generate(name, _ARGUMENTS[name], seed=7)
    assert np.random.get_state()[1].tolist() == before


@given(st.lists(st.integers(-40, 40), max_size=8))
def test_running_sums_include_each_value(values):
    assert generators.running_sums(values).tolist() == [sum(values[: at + 1]) for at in range(len(values))]


@given(lengths)
def test_offsets_begin_with_0_and_starts_lack_the_total(values):
    wanted = [sum(values[:at]) for at in range(len(values) + 1)]
    assert generators.offsets(values).tolist() == wanted
    assert not values or generators.starts(values).tolist() == wanted[:-1]


def test_the_published_names_have_their_published_meaning():
    wanted = {
        "prefix_sum": [0, 3, 3, 5],
        "exclusive_prefix_sum": [0, 3, 3],
        "padded_exclusive_prefix_sum": [0, 4, 4, 8],
    }
    assert wanted.keys() == declarations.SYNONYMS.keys()
    for written, contents in wanted.items():
        name = declarations.SYNONYMS[written]
        more = (4,) if name == "padded_offsets" else ()
        assert generators.generate(name, ([3, 0, 2], *more), seed=0).tolist() == contents


@given(lengths, sizes)
def test_padded_offsets_begin_each_length_at_a_multiple(values, pad):
    offsets = generators.padded_offsets(values, pad)
    assert offsets[0] == 0 and len(offsets) == len(values) + 1 and not (offsets % pad).any()
    assert [0 <= room - value < pad for room, value in zip(np.diff(offsets), values, strict=True)] == [True] * len(
        values
    )
    assert (generators.padded_offsets(values, 1) == generators.offsets(values)).all()


@given(lengths, sizes)
def test_chunks_are_counted_within_each_sequence(values, chunk):
    wanted = [[i, j] for i, value in enumerate(values) for j in range(-(-value // chunk))]
    found = generators.chunk_indices(values, chunk)
    assert found.shape == (len(wanted), 2) and found.tolist() == wanted
    offsets = generators.chunk_offsets(values, chunk)
    assert len(offsets) == len(values) + 1 and offsets[-1] == len(wanted)
    for i, value in enumerate(values):
        if value:
            assert found[offsets[i]].tolist() == [i, 0]


@given(lengths)
def test_tokens_are_chunks_of_one(values):
    assert generators.token_indices(values).tolist() == generators.chunk_indices(values, 1).tolist()


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), sizes)
def test_without_empty_sequences_the_indices_are_flash_linear_attentions(values, chunk):
    local = np.concatenate([np.arange(-(-value // chunk)) for value in values])
    wanted = np.stack(((local == 0).cumsum() - 1, local), axis=1)  # as its prepare_chunk_indices counts them
    assert (generators.chunk_indices(values, chunk) == wanted).all()


@given(st.integers(0, 20), st.integers(0, 6), st.integers(6, 30))
def test_topk_ids_are_distinct_experts(rows, k, experts):
    ids = generators.generate("topk_ids", (rows, k, experts), seed=0)
    assert ids.shape == (rows, k)
    assert all(len(set(row)) == k and all(0 <= expert < experts for expert in row) for row in ids.tolist())


@given(st.integers(0, 200), st.integers(1, 2**53))
def test_random_ids_lie_below_their_bound(count, bound):
    ids = generators.generate("random_ids", (count, bound), seed=0)
    assert ids.shape == (count,) and ids.dtype == np.int64
    assert all(0 <= value < bound for value in ids.tolist())


def test_random_ids_are_drawn_each_for_itself():
    ids = generators.generate("random_ids", (1000, 10), seed=0)
    assert np.bincount(ids, minlength=10).min() > 50


@given(st.integers(0, 8), st.integers(0, 8), st.integers(0, 20))
def test_no_page_stands_twice_in_a_block_table(batch, width, spare):
    pool = batch * width + spare
    pages = generators.generate("paged_block_table", (batch, width, pool), seed=0)
    assert pages.shape == (batch, width)
    assert len(set(pages.ravel().tolist())) == batch * width
    assert all(0 <= page < pool for page in pages.ravel().tolist())


def test_pages_are_in_no_order():
    pages = generators.generate("paged_block_table", (1, 100, 100), seed=0)[0]
    assert sorted(pages.tolist()) == list(range(100)) and pages.tolist() != list(range(100))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=5), st.integers(1, 7), st.integers(0, 6), st.integers(0, 3))
def test_selected_blocks_are_distinct_ascending_and_begin_at_or_before_their_token(values, block, selected, heads):
    found = generators.generate("nsa_block_indices", (values, block, selected, heads), seed=0)
    total = sum(values)
    assert found.shape == (total, heads, selected)
    for token, (_, position) in enumerate(generators.token_indices(values).tolist()):
        for drawn in found[token].tolist():
            taken = min(selected, position // block + 1)
            chosen, fill = drawn[:taken], drawn[taken:]
            assert chosen == sorted(set(chosen)) and all(index >= 0 and index * block <= position for index in chosen)
            assert fill == [total] * (selected - taken)


def test_every_block_is_selected_by_some_token():
    found = generators.generate("nsa_block_indices", ([512], 16, 4, 2), seed=0)
    assert set(found.ravel().tolist()) == {*range(32), 512}


@given(st.integers(0, 30), st.integers(0, 4), sizes)
def test_counts_lie_between_1_and_the_selected(tokens, heads, selected):
    counts = generators.generate("nsa_block_counts", (tokens, heads, selected), seed=0)
    assert counts.shape == (tokens, heads)
    assert all(1 <= count <= selected for count in counts.ravel().tolist())


def test_every_count_occurs():
    assert set(generators.generate("nsa_block_counts", (200, 2, 4), seed=0).ravel().tolist()) == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("as_tensor", ([2**63],)),
        ("running_sums", ([2**62, 2**62],)),
        ("offsets", ([2**64],)),
        ("offsets", ([3, -1],)),
        ("starts", ([],)),
        ("starts", ([-1],)),
        ("starts", ([2**62, 2**62],)),
        ("padded_offsets", ([1, -1], 4)),
        ("padded_offsets", ([1], 0)),
        ("chunk_indices", ([-1], 4)),
        ("chunk_indices", ([1], 0)),
        ("chunk_indices", ([2**40], 1)),
        ("token_indices", ([-1],)),
        ("token_indices", ([2**60, 2**60],)),
        ("chunk_offsets", ([-1], 4)),
        ("chunk_offsets", ([4], -4)),
        ("local_expert_map", (8, 4, 5)),
        ("local_expert_map", (2**60, 1, 0)),
        ("topk_ids", (4, 9, 8)),
        ("topk_ids", (-1, 2, 8)),
        ("topk_ids", (2**40, 2, 8)),
        ("random_ids", (-1, 8)),
        ("random_ids", (4, 0)),
        ("random_ids", (4, 2**53 + 1)),
        ("random_ids", (2**40, 8)),
        ("paged_block_table", (-1, 3, 5)),
        ("paged_block_table", (1, 1, 2**60)),
        ("nsa_block_indices", ([-1], 4, 2, 1)),
        ("nsa_block_indices", ([4], 0, 2, 1)),
        ("nsa_block_indices", ([4], 4, -2, 1)),
        ("nsa_block_indices", ([2**20], 1, 2, 1)),
        ("nsa_block_indices", ([2**60], 2**50, 2, 1)),
        ("nsa_block_counts", (4, 2, 0)),
        ("nsa_block_counts", (-4, 2, 1)),
        ("nsa_block_counts", (2**40, 2, 1)),
    ],
)
def test_outside_its_domain_a_generator_raises_value_error(name, args):
    with pytest.raises(ValueError, match="."):
        generators.generate(name, args, seed=0)


@settings(max_examples=60, deadline=None)
@given(
    lengths,
    st.lists(st.integers(-9, 9), max_size=6),
    st.integers(1, 9),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(0, 9),
)
def test_an_extent_tells_the_shape_and_the_range_of_what_is_made(values, whole, block, few, some, seed):
    calls = {
        "as_tensor": (whole,),
        "running_sums": (whole,),
        "offsets": (values,),
        "starts": ([*values, few],),
        "padded_offsets": (values, block),
        "chunk_indices": (values, block),
        "token_indices": (values,),
        "chunk_offsets": (values, block),
        "local_expert_map": (few + some, few, some),
        "topk_ids": (some, few, few + some),
        "paged_block_table": (few, some, few * some + block),
        "nsa_block_indices": (values, block, few, some),
        "nsa_block_counts": (few, some, block),
    }
    for name, args in calls.items():
        told, made = generators.extent(name, args), generators.generate(name, args, seed)
        assert told.shape == made.shape, name
        assert told.within is None or not made.size or told.within[0] <= made.min() and made.max() <= told.within[1], (
            name
        )


def test_an_extent_is_told_without_making_anything():
    assert generators.extent("topk_ids", (2**20, 2, 256)) == extents.Extent(
        shape=(2**20, 2), within=(0, 255), work=2**28
    )
