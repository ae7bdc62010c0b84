"""Predicates on contents that satisfy them, on contents that do not, and on what generators make."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
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
    [("prefix_offsets", (3,)), ("max_segment", (3,)), ("in_range", (0, 3)), ("attn.paged_fits", ([0, 1], 3))],
)
def test_contents_of_any_shape_get_an_answer(name, args, shape, dtype):
    assert predicates.holds(name, np.zeros(shape, dtype=dtype), args) in (True, False)
