"""Primitives by their own laws, and against NumPy. Other files compare primitives that follow PyTorch with it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileops.manifest.language import primitives
from tileops.manifest.language.adt import AdtValue

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


def test_what_has_a_negative_size_is_no_shape():
    for outside in (
        lambda: primitives.broadcast((3, -1), (3, 1)),
        lambda: primitives.reduced((2, -3), 0, False, "full"),
    ):
        with pytest.raises(ValueError, match="is no shape: a size is negative"):
            outside()


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


@given(st.integers(-50, 50), st.integers(1, 5), st.data())
def test_per_axis_of_an_int_one_item_or_a_fallback_is_the_same_on_every_axis(value, n, data):
    i = data.draw(st.integers(0, n - 1))
    assert primitives.per_axis(value, i, n) == primitives.per_axis([value], i, n) == value
    assert primitives.per_axis(None, i, n, value) == primitives.per_axis(None, i, n, (value,)) == value
    assert primitives.per_axis(value, i, n, value + 1) == value


@given(st.lists(st.none() | st.integers(-50, 50), min_size=1, max_size=5), st.integers(-50, 50), st.data())
def test_per_axis_takes_the_fallback_for_an_item_that_is_none(values, fallback, data):
    n = data.draw(st.sampled_from([len(values), len(values) + 1])) if len(values) == 1 else len(values)
    i = data.draw(st.integers(0, n - 1))
    item = values[0] if len(values) == 1 else values[i]
    assert primitives.per_axis(values, i, n, fallback) == (fallback if item is None else item)
    assert primitives.per_axis(values, i, n, [fallback]) == (fallback if item is None else item)
    if item is None:
        with pytest.raises(ValueError, match="no fallback"):
            primitives.per_axis(values, i, n)
    else:
        assert primitives.per_axis(values, i, n) == item


@given(st.integers(-5, 10_000))
def test_an_expansion_is_the_one_number_whose_square_and_double_make_it(q):
    found = [n for n in range(1, 101) if n * n + 2 * n == q]
    if found:
        assert [primitives.mhc_expansion(q)] == found
        return
    with pytest.raises(ValueError, match=f"== {q}"):
        primitives.mhc_expansion(q)


@pytest.mark.parametrize(("n", "off"), [(1, 1), (10**18, 1), (10**18, -1), (3, 1)])
def test_an_expansion_of_a_large_number_is_exact(n, off):
    assert primitives.mhc_expansion(n * n + 2 * n) == n
    with pytest.raises(ValueError):
        primitives.mhc_expansion(n * n + 2 * n + off)


@pytest.mark.parametrize(
    ("number", "wanted"),
    [(True, "bool"), (0, "int"), (-(10**30), "int"), (0.0, "float"), (float("inf"), "float"), ("uint8", "int")],
)
def test_category_of_a_number_is_that_of_its_type(number, wanted):
    assert primitives.category(number) == wanted


@given(st.lists(st.integers(), min_size=1, max_size=5))
def test_per_axis_of_an_item_an_axis_is_that_item(values):
    assert [primitives.per_axis(values, i, len(values)) for i in range(len(values))] == values
    assert [primitives.per_axis(None, i, len(values), values) for i in range(len(values))] == values


@dataclasses.dataclass(frozen=True)
class _Padded:
    block: int
    kind: str = "Padded"


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(1, 9))
def test_a_padded_layout_holds_every_routing(counts, block):
    capacity = primitives.moe_capacity(_Padded(block), sum(counts), len(counts))
    needed = sum(-(-count // block) * block for count in counts)
    assert capacity >= needed and capacity % block == 0
    assert capacity < sum(counts) + len(counts) * (block - 1) + block  # and is not rounded up twice


def test_a_padded_layout_of_blocks_of_1_is_one_without_gaps():
    assert primitives.moe_capacity(_Padded(1), 37, 5) == primitives.moe_capacity({"kind": "Nopad"}, 37, 5) == 37


def test_a_masked_layout_has_its_capacity_for_each_expert():
    assert primitives.moe_capacity({"kind": "Masked", "capacity": 16}, 37, 5) == 80


_CONTIGUOUS = {"kind": "contiguous", "packing": "tight", "metadata_kind": "physical_psum", "alignment": 1}


@pytest.mark.parametrize("kind", ["physical_psum", "per_row"])
@pytest.mark.parametrize(
    ("published", "ours"),
    [
        (_CONTIGUOUS, {"kind": "Nopad"}),
        ({**_CONTIGUOUS, "packing": "aligned", "alignment": 8}, _Padded(8)),
        ({"kind": "masked", "max_m": 16}, {"kind": "Masked", "capacity": 16}),
    ],
)
def test_a_published_layout_has_the_capacity_of_ours(published, ours, kind):
    published = {name: kind if name == "metadata_kind" else value for name, value in published.items()}
    assert primitives.moe_capacity(published, 37, 5) == primitives.moe_capacity(ours, 37, 5)
    assert primitives.moe_layout(published).by_row == (kind == "per_row" and "packing" in published)


@pytest.mark.parametrize("layout", [_Padded(8), {"kind": "Padded", "block": 8}, AdtValue("Padded", (("block", 8),))])
def test_a_layout_is_an_object_a_mapping_or_an_algebraic_value(layout):
    assert primitives.moe_capacity(layout, 10, 3) == 32


@given(st.integers(0, 10**12), st.integers(1, 100))
def test_balanced_sizes_sum_to_the_total_and_differ_by_at_most_one(total, count):
    sizes = primitives.balanced_sizes(total, count)
    assert len(sizes) == count and sum(sizes) == total
    assert sizes[0] - sizes[-1] <= 1 and list(sizes) == sorted(sizes, reverse=True)


@given(st.integers(), st.integers(0, 100))
def test_repeat_is_a_constant_list(value, count):
    assert list(primitives.repeat(value, count)) == [value] * count


@given(st.integers(-5, 200))
def test_range_is_pythons(count):
    assert primitives.range(count) == range(count)


@given(st.integers(1, 2**80))
def test_log2_floor_is_the_largest_exponent_within(value):
    exponent = primitives.log2_floor(value)
    assert 2**exponent <= value < 2 ** (exponent + 1)


_OUTSIDE = {
    "broadcast": lambda: primitives.broadcast((2,), (3,)),
    "an axis of reduced": lambda: primitives.reduced((2, 3), 2, False, "full"),
    "a divisor of 0": lambda: primitives.ceil_div(1, 0),
    "a logarithm of 0": lambda: primitives.log2_floor(0),
    "max of nothing": lambda: primitives.max(()),
    "min of nothing": lambda: primitives.min(()),
    "an absent value without fallback": lambda: primitives.per_axis(None, 0, 2),
    "an axis past the last": lambda: primitives.per_axis(1, 2, 2),
    "an axis before the first": lambda: primitives.per_axis((1, 2), -1, 2),
    "3 items for 2 axes": lambda: primitives.per_axis((1, 2, 3), 0, 2),
    "no item for 2 axes": lambda: primitives.per_axis((), 0, 2),
    "a layout without kind": lambda: primitives.moe_capacity({"block": 2}, 4, 2),
    "an unknown layout": lambda: primitives.moe_capacity({"kind": "ragged"}, 4, 2),
    "a padded layout without block": lambda: primitives.moe_capacity({"kind": "Padded"}, 4, 2),
    "an algebraic value without block": lambda: primitives.moe_capacity(AdtValue("Padded", ()), 4, 2),
    "an aligned layout without alignment": lambda: primitives.moe_capacity(
        {"kind": "contiguous", "packing": "aligned", "metadata_kind": "per_row"}, 4, 2
    ),
    "an alignment of 0": lambda: primitives.moe_capacity({**_CONTIGUOUS, "packing": "aligned", "alignment": 0}, 4, 2),
    "a negative max_m": lambda: primitives.moe_capacity({"kind": "masked", "max_m": -1}, 4, 2),
    "what is no layout": lambda: primitives.moe_capacity(7, 4, 2),
    "blocks of 0": lambda: primitives.moe_capacity({"kind": "Padded", "block": 0}, 4, 2),
    "a negative capacity": lambda: primitives.moe_capacity({"kind": "Masked", "capacity": -1}, 4, 2),
    "negative rows": lambda: primitives.moe_capacity({"kind": "Nopad"}, -1, 2),
    "negative experts": lambda: primitives.moe_capacity({"kind": "Nopad"}, 1, -2),
    "a negative total": lambda: primitives.balanced_sizes(-1, 2),
    "no sizes": lambda: primitives.balanced_sizes(0, 0),
    "a negative count": lambda: primitives.repeat(1, -1),
    "a list that is too long": lambda: primitives.repeat(1, 2**62),
    "sizes that are too many": lambda: primitives.balanced_sizes(2**62, 2**62),
    "a range that is too long": lambda: primitives.range(2**62),
}


@pytest.mark.parametrize("call", _OUTSIDE.values(), ids=_OUTSIDE.keys())
def test_outside_its_domain_a_primitive_raises_value_error(call):
    with pytest.raises(ValueError, match="."):
        call()


_LARGEST_HALF = 65504


@pytest.mark.parametrize(
    ("value", "dtype", "wanted"),
    [
        (True, "bool", True),
        (1, "bool", True),
        (0.0, "bool", True),
        (2, "bool", True),
        (0.5, "bool", True),
        (float("nan"), "bool", True),
        (10**400, "bool", True),
        (255, "uint8", True),
        (256, "uint8", False),
        (-1, "uint8", True),
        (-255, "uint8", True),
        (-256, "uint8", False),
        (-1.0, "uint8", False),
        (-0.5, "uint8", False),
        (255.0, "uint8", True),
        (255.5, "uint8", False),
        (1 - 2**64, "uint64", True),
        (-(2**64), "uint64", False),
        (True, "uint8", True),
        (False, "float8_e4m3fn", True),
        (-128, "int8", True),
        (-129, "int8", False),
        (3.0, "int32", True),
        (3.5, "int32", True),
        (127.5, "int8", False),
        (-128.5, "int8", False),
        (float("inf"), "int64", False),
        (float("nan"), "int64", False),
        (2**63 - 1, "int64", True),
        (2**63, "int64", False),
        (2**64 - 1, "uint64", True),
        (2**64, "uint64", False),
        (0.1, "float16", True),
        (_LARGEST_HALF, "float16", True),
        (_LARGEST_HALF + 1, "float16", False),
        (-_LARGEST_HALF, "float16", True),
        (-_LARGEST_HALF - 1, "float16", False),
        (1e39, "float32", False),
        (1e39, "bfloat16", False),
        (1e38, "bfloat16", True),
        (1e300, "float64", True),
        (10**400, "float64", False),
        (10**400, "int64", False),
        (float("inf"), "float16", True),
        (float("-inf"), "float8_e5m2", True),
        (float("inf"), "float8_e4m3fn", False),
        (float("nan"), "float8_e4m3fn", True),
        (448, "float8_e4m3fn", True),
        (449, "float8_e4m3fn", False),
        (0, "float8_e8m0fnu", False),
        (-1, "float8_e8m0fnu", False),
        (1, "float8_e8m0fnu", True),
        (1e39, "complex64", False),
        (1e39, "complex128", True),
        (float("inf"), "complex64", True),
    ],
)
def test_representable_is_what_pytorch_converts(value, dtype, wanted):
    assert primitives.representable(value, dtype) is wanted


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(2, True), (0, True), (-(2**70), True), (True, True), (2.0, False), (0.5, False), (float("inf"), False)],
)
def test_is_int_asks_for_the_type_of_a_number_and_not_for_its_value(value, wanted):
    assert primitives.is_int(value) is wanted
