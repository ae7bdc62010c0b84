"""The rows to audit: every branch that rows take is taken, by as few rows as can be."""

import itertools

import pytest
from hypothesis import given, settings, strategies

from tileops.audit import choose
from tileops.ops.cases import WorkloadCase
from tileops.ops.op import Op
from tileops.perf.harness.rows import SelectionError


def case(name, branches, size=1):
    return WorkloadCase(
        case_id=name,
        label=name,
        params={},
        indices={},
        dtypes={},
        tensors=(),
        input_bytes=size,
        output_bytes=0,
        branches=tuple(branches),
    )


def names(cases):
    return [found.case_id for found in choose.cover(cases)]


def test_one_row_stands_for_all_that_take_the_same_branches_and_it_is_the_largest():
    assert names([case("small", [0]), case("large", [0], 9), case("middle", [0], 5)]) == ["large"]


def test_a_row_whose_branches_another_takes_too_is_left_out():
    assert names([case("a", [0, 1], 1), case("b", [0], 100), case("c", [2], 1)]) == ["a", "c"]


def test_where_greed_takes_three_the_smallest_choice_of_two_is_found():
    greedy = case("greedy", [0, 1, 2, 3], 1)
    assert names([greedy, case("left", [0, 1, 4]), case("right", [2, 3, 5])]) == ["left", "right"]


def test_rows_stay_in_the_manifests_order():
    assert names([case("b", [1]), case("a", [0])]) == ["b", "a"]


def test_an_entry_without_branches_is_audited_by_its_largest_row():
    assert names([case("a", [], 1), case("b", [], 2)]) == ["b"]
    assert names([]) == []


@pytest.mark.requirement("4.5.19")
@settings(max_examples=150, deadline=None)
@given(strategies.lists(strategies.sets(strategies.integers(0, 6), min_size=1), min_size=1, max_size=7))
def test_the_choice_covers_and_no_smaller_one_does(sets):
    cases = [case(str(at), sorted(branches)) for at, branches in enumerate(sets)]
    found = choose.cover(cases)
    wanted = set().union(*sets)
    assert set().union(*(one.branches for one in found)) == wanted
    for few in itertools.combinations(sets, len(found) - 1):
        assert set().union(*few) != wanted


def test_rows_are_named_by_case_id_where_a_label_has_several_dtypes():
    rows = [(Op, case(f"prefill-{dtype}", [0])) for dtype in ("float16", "bfloat16", "float32")]
    assert choose.with_case_ids(rows, ()) == rows
    assert choose.with_case_ids(rows, ("*-float32", "*-bfloat16")) == rows[1:]
    with pytest.raises(SelectionError, match="--case=\\*-int8 fits no case; there are: prefill-bfloat16, "):
        choose.with_case_ids(rows, ("*-int8",))


def test_branches_that_no_row_takes_are_named():
    class Half(Op, generated=True):
        ENTRY = "Half"
        BRANCHES = ("bytes: flip = False", "bytes: flip = True")
        CASES = (case("only", [0]),)

    assert choose.unreached(Half) == ["bytes: flip = True"]
