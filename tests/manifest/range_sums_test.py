"""Sums over ranges: the same as adding up one by one, and no slower for a long range than for a short one."""

from __future__ import annotations

import builtins

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.manifest.language import effort, expr_parser, range_sums
from tileops.manifest.language.evaluate import evaluate
from tileops.manifest.language.range_sums import range_sum
from tileops.manifest.language.sum_terms import is_range_sum

LONG = 2**20
FREE = ("a", "b")


def _linear(indices: tuple[str, ...]) -> st.SearchStrategy[str]:
    atoms = st.one_of(st.integers(-9, 9).map(str), st.sampled_from((*FREE, *indices, *indices)))
    factors = st.one_of(st.integers(-4, 4).map(str), st.sampled_from(FREE))
    return st.one_of(
        atoms,
        st.builds("{} * ({}) + {}".format, factors, atoms, atoms),
        st.builds("{} - {}".format, atoms, atoms),
        st.builds("({} + {}) // {}".format, atoms, atoms, st.sampled_from((1, 2, 3, 5, -2))),
        st.builds("({} - {}) % {}".format, atoms, atoms, st.sampled_from((1, 2, 4, -3))),
        st.builds("ceil_div({}, {})".format, atoms, st.sampled_from((1, 3, 8))),
    )


def _terms(indices: tuple[str, ...]) -> st.SearchStrategy[str]:
    linear = _linear(indices)
    bounded = st.one_of(
        linear,
        st.builds("{}(({}, {}, {}))".format, st.sampled_from(("min", "max")), linear, linear, linear),
        st.builds("abs({})".format, linear),
        st.builds("min((max(({}, {})), {}))".format, linear, linear, linear),
    )
    tests = st.builds("{} {} {}".format, bounded, st.sampled_from(("<", "<=", ">", ">=", "==", "!=")), bounded)
    either = st.one_of(
        tests,
        st.builds("{} and not {}".format, tests, tests),
        st.builds("({} or {})".format, tests, tests),
        st.builds("{} in ({}, {})".format, linear, linear, linear),
    )
    return st.one_of(
        bounded,
        st.builds("({}) * {}".format, bounded, st.sampled_from(FREE)),
        st.builds("({}) * ({})".format, bounded, bounded),
        st.builds("(({}) if {} else {})".format, bounded, either, bounded),
        st.builds("prod(({}, {}, 2))".format, linear, linear),
        st.builds("sum(({}, {}))".format, bounded, bounded),
    )


flat = st.builds("sum({} for i in range({}))".format, _terms(("i",)), st.sampled_from(("a", "b + 30", "40")))
nested = st.builds(
    "sum({} + sum({} for j in range({}) if {} < {}) for i in range({}))".format,
    _terms(("i",)),
    _terms(("i", "j")),
    st.sampled_from(("i", "i + 1", "min((i, a))", "b", "20 - i")),
    _linear(("i", "j")),
    _linear(("j",)),
    st.sampled_from(("a", "17")),
)
values = st.fixed_dictionaries({"a": st.integers(-3, 30), "b": st.integers(-6, 12)})


def brute(text: str, bound: dict[str, int]) -> int:
    """The sum as Python adds it up from the same text."""
    named = {
        "min": builtins.min,
        "max": builtins.max,
        "ceil_div": lambda value, by: -(-value // by),
        "prod": lambda items: items[0] * items[1] * items[2],
    }
    return eval(text, {**named, **bound})


@settings(max_examples=600, deadline=None)
@given(flat, values)
def test_a_sum_is_what_adding_up_gives(text, bound):
    node = expr_parser.parse(text)
    assert is_range_sum(node), text
    found = evaluate(node, bound, {})
    assert (type(found), found) == (int, brute(text, bound))


@settings(max_examples=300, deadline=None)
@given(nested, values)
def test_a_sum_within_a_sum_is_what_adding_up_gives(text, bound):
    node = expr_parser.parse(text)
    assert is_range_sum(node), text
    found = evaluate(node, bound, {})
    assert (type(found), found) == (int, brute(text, bound))


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("sum(i + 1 for i in range(S))", lambda S, W: S * (S + 1) // 2),
        ("sum(min((i + 1, W)) for i in range(S))", lambda S, W: W * (W + 1) // 2 + (S - W) * W),
        ("sum(sum(1 for j in range(S) if j <= i) for i in range(S))", lambda S, W: S * (S + 1) // 2),
        (
            "sum(sum(1 for j in range(S) if i - W < j <= i) for i in range(S))",
            lambda S, W: W * (W + 1) // 2 + (S - W) * W,
        ),
        (
            "sum(sum(1 for j in range(i + 1)) for i in range(S) if i >= W)",
            lambda S, W: (S * (S + 1) - W * (W + 1)) // 2,
        ),
        (
            "sum(i * i * (i + 2) for i in range(S))",
            lambda S, W: (S * (S - 1) // 2) ** 2 + (S - 1) * S * (2 * S - 1) // 3,
        ),
        ("sum(ceil_div(i + 1, 128) for i in range(S))", lambda S, W: 64 * (S // 128) * (S // 128 + 1)),
    ],
)
@pytest.mark.parametrize("length", [LONG, 2**30])
def test_pairs_of_long_sequences_are_counted_exactly_and_in_few_steps(text, pairs, length):
    with effort.bounded(20_000):
        assert evaluate(expr_parser.parse(text), {"S": length, "W": 4096}, {}) == pairs(length, 4096)


def test_a_long_range_takes_as_many_terms_as_a_short_one():
    seen = {}
    for length in (1_000, 2**40):
        calls = []
        range_sum(length, lambda i, calls=calls: calls.append(i) or min((i + 1, 100)))
        seen[length] = len(calls)
    assert seen[1_000] == seen[2**40] <= 4


@pytest.mark.parametrize(
    "text",
    [
        "sum(log2_floor(i + 1) for i in range(S))",
        "sum(L[i] for i in range(S))",
        "sum(min((i * i, S)) for i in range(S))",
        "sum(S // (i + 1) for i in range(S))",
        "sum(i for i in L)",
        "max(i for i in range(S))",
        "sum(i * sum(repeat(2, S)) for i in range(S))",
    ],
)
def test_other_sums_are_none_of_these(text):
    assert not is_range_sum(expr_parser.parse(text))


def test_numbers_that_are_not_whole_are_added_up_one_by_one_in_order():
    assert range_sum(1_000, lambda i: i * 0.1) == sum(i * 0.1 for i in range(1_000))


def test_a_sum_of_too_many_pieces_is_added_up_one_by_one_up_to_a_bound():
    assert range_sum(2**15, lambda i: i * 7 % 65_537) == sum(i * 7 % 65_537 for i in range(2**15))
    with pytest.raises(
        ValueError, match=f"a sum of {range_sums.MAX_WORK + 1} terms is too long: at most {range_sums.MAX_WORK}"
    ):
        range_sum(range_sums.MAX_WORK + 1, lambda i: i * 0.5)
    # Inner sums count, and the one at which the count ends is not what is too long.
    with pytest.raises(ValueError, match=f"a sum of more than {range_sums.MAX_WORK} terms is too long"):
        range_sum(2_000, lambda i: range_sum(2_000, lambda j: j * 0.5))
    assert range_sum(10, lambda i: i) == 45  # what a failed sum took is not counted again


def test_a_nested_sum_of_too_many_pieces_is_refused_after_few_steps():
    steps = []

    def rows(k):
        return range_sum(k, lambda i: range_sum(i, lambda j: abs(i * 127 - j * 129 + k) // 16_381))

    with pytest.raises(ValueError, match="is too long"):
        range_sum(LONG, rows, steps.append)
    assert sum(steps) <= range_sums.MAX_STEPS


def test_a_term_without_a_value_says_so():
    with pytest.raises(ZeroDivisionError):
        range_sum(100, lambda i: i // 0)
    assert range_sum(0, lambda i: i // 0) == range_sum(-5, lambda i: i // 0) == 0
