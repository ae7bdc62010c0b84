"""Predicates on contents that satisfy them, on contents that do not, and on what generators make."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.manifest.language import generators, predicates

lengths = st.lists(st.integers(0, 40), max_size=8)


@given(lengths)
def test_offsets_are_offsets_of_their_segments(values):
    offsets = generators.offsets(values)
    assert predicates.holds("prefix_offsets", offsets, (sum(values),))
    assert predicates.holds("max_segment", offsets, (max(values, default=0),))
    assert not values or not predicates.holds("max_segment", offsets, (max(values) - 1,))
    assert not predicates.holds("prefix_offsets", offsets, (sum(values) + 1,))


@pytest.mark.parametrize("values", [[], [1, 3], [0, 2, 1, 3], [0, 2], [[0, 3]]])
def test_what_are_no_offsets_to_3(values):
    assert not predicates.holds("prefix_offsets", np.asarray(values, dtype=np.int32), (3,))


@given(st.lists(st.integers(-20, 20)), st.integers(-20, 20), st.integers(-20, 20))
def test_in_range_is_half_open(values, lo, hi):
    wanted = all(lo <= value < hi for value in values)
    assert predicates.holds("in_range", np.asarray(values, dtype=np.int64), (lo, hi)) is wanted


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=6), st.integers(0, 18))
def test_a_paged_cache_fits_where_old_and_new_tokens_do(sequences, cap):
    cached = np.asarray([old for old, _ in sequences], dtype=np.int32)
    cu = generators.offsets([new for _, new in sequences])
    wanted = all(old + new <= cap for old, new in sequences)
    assert predicates.holds("attn.paged_fits", cached, (cu, cap)) is wanted
    assert predicates.holds("attn.paged_fits", cached, (cu.tolist(), cap)) is wanted


@pytest.mark.parametrize(
    ("cached", "cu"),
    [([1, 1], [0, 1]), ([-1], [0, 1]), ([1], [1, 0]), ([[1]], [0, 1]), ([1], [[0, 1]]), ([1], [])],
    ids=[
        "offsets of other sequences",
        "negative cache",
        "falling offsets",
        "rank 2",
        "offsets of rank 2",
        "no offsets",
    ],
)
def test_a_paged_cache_that_describes_no_batch_does_not_fit(cached, cu):
    assert not predicates.holds("attn.paged_fits", np.asarray(cached), (cu, 100))


def test_differences_do_not_wrap_around():
    assert not predicates.holds("max_segment", np.asarray([-128, 127], dtype=np.int8), (10,))
    assert not predicates.holds("attn.paged_fits", np.asarray([127], dtype=np.int8), ([0, 100], 200))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (0, 3), (2, 3), (1, 1, 1)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("prefix_offsets", (3,)),
        ("max_segment", (3,)),
        ("in_range", (0, 3)),
        ("sums_to", (3,)),
        ("exclusive_prefix_of", ([0, 1],)),
        ("indices_within", ([0, 1],)),
        ("indices_within", ([],)),
        ("chunk_offsets_of", ([0, 1], 3)),
        ("chunk_offsets_of", ([], 3)),
        ("moe.layout_valid", ({"kind": "Nopad"}, 1, 1)),
        ("moe.layout_valid", ({"kind": "masked", "max_m": 1}, 1, 1)),
        ("attn.paged_fits", ([0, 1], 3)),
    ],
)
def test_contents_of_any_shape_get_an_answer(name, args, shape, dtype):
    assert predicates.holds(name, np.zeros(shape, dtype=dtype), args) in (True, False)


def _holds(name: str, contents, *args) -> bool:
    return predicates.holds(name, np.asarray(contents, dtype=np.int64), args)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-20, 20), max_size=6), st.integers(-3, 3))
def test_a_sum_is_that_of_all_values(values, off):
    assert _holds("sums_to", values, sum(values) + off) is (off == 0)


def test_a_sum_does_not_wrap_around():
    assert predicates.holds("sums_to", np.asarray([127, 127], dtype=np.int8), (254,))


@settings(max_examples=60, deadline=None)
@given(lengths, st.data())
def test_an_exclusive_prefix_is_the_sum_before_each_size(sizes, data):
    wanted = [sum(sizes[:at]) for at in range(len(sizes))]
    assert _holds("exclusive_prefix_of", wanted, sizes)
    assert not _holds("exclusive_prefix_of", [*wanted, sum(sizes)], sizes)
    changed = data.draw(st.lists(st.integers(0, 9), max_size=8))
    assert _holds("exclusive_prefix_of", changed, sizes) is (changed == wanted)


@settings(max_examples=60, deadline=None)
@given(lengths, st.lists(st.tuples(st.integers(-2, 9), st.integers(-2, 9)), max_size=4))
def test_indices_name_a_segment_and_a_place_in_it(sizes, pairs):
    offsets = generators.offsets(sizes)
    assert _holds("indices_within", generators.token_indices(sizes), offsets)
    wanted = all(0 <= i < len(sizes) and 0 <= j < sizes[i] for i, j in pairs)
    assert _holds("indices_within", np.asarray(pairs, dtype=np.int64).reshape(-1, 2), offsets.tolist()) is wanted


@settings(max_examples=60, deadline=None)
@given(lengths, st.integers(-2, 9), st.lists(st.integers(0, 9), max_size=9))
def test_chunk_offsets_are_offsets_of_the_counts_of_pieces(sizes, chunk, changed):
    offsets = generators.offsets(sizes)
    if chunk <= 0:
        assert not _holds("chunk_offsets_of", [0] * (len(sizes) + 1), offsets, chunk)
        return
    wanted = generators.chunk_offsets(sizes, chunk).tolist()
    assert _holds("chunk_offsets_of", wanted, offsets, chunk)
    assert _holds("chunk_offsets_of", changed, offsets, chunk) is (changed == wanted)


def test_offsets_that_fall_have_no_pieces():
    assert not _holds("chunk_offsets_of", [0, 1, 1], [0, 3, 2], 4)


def _layout(form: str, size: int, by_row: bool = False) -> dict:
    if form == "masked":
        return {"kind": "masked", "max_m": size}
    kind = "per_row" if by_row else "physical_psum"
    return {"kind": "contiguous", "packing": form, "metadata_kind": kind, "alignment": size}


@pytest.mark.parametrize(
    ("layout", "rows", "experts", "good", "bad"),
    [
        (_layout("masked", 6), 24, 4, [[6, 3, 0, 6]], [[6, 3, 7, 0], [6, -1, 0, 0], [6, 3, 0]]),
        (_layout("tight", 1), 7, 3, [[3, 5, 7], [0, 0, 7]], [[3, 5, 6], [5, 3, 7], [-1, 5, 7], [3, 7]]),
        (_layout("tight", 1), 0, 2, [[0, 0]], [[0, 1], []]),
        (
            _layout("tight", 1, by_row=True),
            4,
            3,
            [[0, 0, 1, 2], [2, 2, 2, 2]],
            [[0, 0, 1, 3], [1, 0, 1, 2], [-1, 0, 1, 2], [0, 1, 2]],
        ),
        (
            _layout("aligned", 4),
            16,
            3,
            [[6, 10, 14], [4, 4, 4], [0, 0, 16], [1, 5, 16]],
            [[6, 7, 14], [6, 10, 17], [-1, 4, 4], [6, 10]],
        ),
        (
            _layout("aligned", 2, by_row=True),
            6,
            2,
            [[0, 0, 1, 1, 2, 2], [1, 1, 1, 1, 1, 1]],
            [[0, 1, 1, 1, 2, 2], [0, 0, 1, 1, 3, 3], [1, 1, 0, 0, 2, 2], [0, 0, 1, 1]],
        ),
        ({"kind": "Padded", "block": 4}, 16, 3, [[6, 10, 14]], [[6, 7, 14]]),
        ({"kind": "Nopad"}, 7, 3, [[3, 5, 7]], [[3, 5, 6]]),
    ],
)
def test_the_contents_of_a_layout(layout, rows, experts, good, bad):
    assert [_holds("moe.layout_valid", contents, layout, rows, experts) for contents in good] == [True] * len(good)
    assert [_holds("moe.layout_valid", contents, layout, rows, experts) for contents in bad] == [False] * len(bad)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(0, 9), st.integers(1, 6), st.booleans())
def test_what_the_generator_says_of_a_layout_is_valid(size, tiles, experts, by_row):
    for form, rows in (("tight", tiles), ("aligned", tiles * size), ("masked", experts * size)):
        layout = _layout(form, size, by_row)
        contents = generators.generate("moe.layout_metadata", (layout, rows, experts), 0)
        assert _holds("moe.layout_valid", contents, layout, rows, experts)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(0, 99))
def test_what_the_generator_says_of_a_routing_is_valid(experts, tokens):
    layout = _layout("masked", max(tokens, 1))
    contents = generators.generate("moe.masked_routed_metadata", (layout, experts, tokens), 0)
    assert _holds("moe.layout_valid", contents, layout, 0, experts) and _holds("sums_to", contents, tokens)
