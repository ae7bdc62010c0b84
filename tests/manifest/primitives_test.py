"""Primitives against NumPy and by their own laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileops.manifest import declarations, generators, primitives
from tileops.manifest.evaluate import function

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@given(shapes, shapes)
def test_broadcast_is_numpys_and_two_sided(first, second):
    try:
        wanted = np.broadcast_shapes(first, second)
    except ValueError:
        with pytest.raises(ValueError):
            primitives.broadcast(first, second)
        return
    assert primitives.broadcast(first, second) == primitives.broadcast(second, first) == wanted


def test_broadcast_from_both_sides():
    assert primitives.broadcast((3, 1), (1, 4)) == (3, 4)


@given(shapes, st.data(), st.booleans())
def test_reduced_is_numpys_sum(shape, data, keepdim):
    rank = len(shape)
    dims = data.draw(st.one_of(st.none(), *([st.integers(-rank, rank - 1)] if rank else [])))
    assert primitives.reduced(shape, dims, keepdim, "full") == np.zeros(shape).sum(axis=dims, keepdims=keepdim).shape


def test_an_empty_dim_is_what_the_third_word_says():
    assert primitives.reduced((2, 3), (), False, "full") == ()
    assert primitives.reduced((2, 3), (), False, "noop") == (2, 3)
    with pytest.raises(ValueError):
        primitives.reduced((2, 3), (), False, "reject")


def test_rank_0_has_one_scalar_axis():
    assert primitives.valid_axes(0, 0) and primitives.valid_axes(-1, 0)
    assert not primitives.valid_axes(1, 0)
    assert primitives.reduced((), 0, False, "full") == ()


def test_axes_are_unique_from_either_end():
    assert primitives.unique_axes((0, 1), 3)
    assert not primitives.unique_axes((0, -3), 3)


@given(st.integers(0, 10**6), st.integers(1, 1000), st.integers(0, 100))
def test_divided_inverts_an_affine_axis(value, factor, offset):
    assert primitives.divided(factor * value + offset, factor, offset) == value


def test_divided_has_no_answer_outside_its_range():
    assert primitives.divided(7, 2, 0) is None
    assert primitives.divided(1, 1, 2) is None


@pytest.mark.parametrize("call", [lambda: primitives.ceil_div(1, 0), lambda: primitives.log2_floor(0), lambda: primitives.max(())])
def test_outside_its_domain_a_primitive_raises_value_error(call):
    with pytest.raises(ValueError):
        call()


def test_every_declared_primitive_is_implemented_and_described():
    for name, declared in declarations.PRIMITIVES.items():
        assert callable(function(name)) and declared.summary


def test_every_declared_generator_fills_its_rank():
    arguments = {
        "as_tensor": ([3, 1],), "prefix_sum": ([3, 1],), "exclusive_prefix_sum": ([3, 1],), "topk_ids": (5, 2, 8),
        "local_expert_map": (8, 4, 2),
    }
    assert set(arguments) == set(declarations.GENERATORS)
    for name, args in arguments.items():
        assert generators.generate(name, args, seed=1).ndim == declarations.GENERATORS[name][1]


def test_a_seeded_stream_is_its_own():
    first = generators.generate("topk_ids", (100, 8, 64), seed=7)
    np.random.default_rng(3).random(1000)
    assert (generators.generate("topk_ids", (100, 8, 64), seed=7) == first).all()
    assert not (generators.generate("topk_ids", (100, 8, 64), seed=8) == first).all()


@given(st.integers(0, 20), st.integers(0, 6), st.integers(6, 30))
def test_topk_ids_are_distinct_experts(rows, k, experts):
    ids = generators.generate("topk_ids", (rows, k, experts), seed=0)
    assert ids.shape == (rows, k)
    assert all(len(set(row)) == k and all(0 <= expert < experts for expert in row) for row in ids.tolist())
