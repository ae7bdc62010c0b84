"""The table of exceptions: closed conditions, evaluated on calls, and reported where they do nothing or everything."""

import pytest

from tileops.audit import exceptions
from tileops.audit.calls import declared
from tileops.ops import catalogue

CLASSES = catalogue.load()
OP = "BatchNormFwdOp"


def calls(op=OP):
    return [declared(CLASSES[op], case).call for case in CLASSES[op].CASES]


def entry(when, reason="loads are predicated away", op=OP):
    return exceptions.ReadException(op=op, when=when, reason=reason)


def check(*table):
    exceptions.check(table, {OP: calls()}, CLASSES)


def test_the_projects_table_is_of_the_right_form_and_every_exception_fires():
    ops = {one.op for one in exceptions.EXCEPTIONS}
    found = {op: calls(op) for op in ops if op in CLASSES}
    exceptions.check(exceptions.EXCEPTIONS, found, CLASSES)
    assert exceptions.notes(exceptions.EXCEPTIONS, found) == []


@pytest.mark.parametrize(
    "when", ["training", "C > 128 and not training", "present(weight)", "T == 'bfloat16'", "len(L) > 1"]
)
def test_a_predicate_over_the_call_is_accepted_and_decides_by_the_call(when):
    check(entry(when))
    assert {exceptions.holds(entry(when), call) for call in calls()} == {True, False}


@pytest.mark.requirement("4.5.9")
@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("True", "reads nothing of the call"),
        ("1 < 2", "reads nothing of the call"),
        ("X > 3", "reads X; the call has"),
        ("C", "not True or False"),
        ("lambda: True", "not in the language"),
        ("__import__('os')", "calls '__import__'"),
        ("bytes(x) > 4", "calls 'bytes'"),
        ("present(nothing)", "present\\(\\) takes one tensor"),
        ("C > ", "no expression"),
        ("C // 0 == 1", "ZeroDivisionError"),
    ],
)
def test_anything_else_is_refused_with_its_place(when, said):
    with pytest.raises(exceptions.ExceptionTableError, match=said) as caught:
        check(entry(when))
    assert "audit/exceptions.py: BatchNormFwdOp" in str(caught.value)


PERMUTE = "MoePermuteNopadFwdOp"


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ("max(max(row) for row in topk_ids) < num_experts", True),
        ("min(min(row) for row in topk_ids) < 0", False),
        ("len(topk_ids) == M and len(topk_ids[0]) == K", True),
        ("present(expert_map) and -1 in expert_map", None),
    ],
)
def test_a_condition_may_read_the_values_of_metadata(when, holds):
    found = calls(PERMUTE)
    exceptions.check((entry(when, op=PERMUTE),), {PERMUTE: found}, CLASSES)
    met = {exceptions.holds(entry(when, op=PERMUTE), call) for call in found}
    assert met == ({True, False} if holds is None else {holds})


def test_other_tensors_have_no_values_for_a_condition():
    with pytest.raises(exceptions.ExceptionTableError, match="reads hidden_states; the call has .*topk_ids"):
        exceptions.check((entry("max(hidden_states) > 0", op=PERMUTE),), {PERMUTE: calls(PERMUTE)}, CLASSES)


@pytest.mark.requirement("4.5.6")
def test_an_exception_gives_a_reason_names_an_op_and_stands_once():
    with pytest.raises(exceptions.ExceptionTableError) as caught:
        check(entry("training", reason=" "), entry("training"), entry("training", op="NoSuchOp"))
    lines = str(caught.value).splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == ["gives no reason", "appears twice", "there is no such op"]


def test_the_exception_that_holds_for_a_call_is_found():
    table = (entry("training"), entry("not training and C == 64"))
    met = [exceptions.conditions(table, call) for call in calls()]
    assert {exceptions.find(table, OP, one) for one in met} == {*table, None}
    assert exceptions.conditions((entry("training", op="SumFwdOp"),), calls()[0]) == {}
    assert exceptions.find(table, "SumFwdOp", {"training": True}) is None


def test_a_condition_that_no_row_meets_is_reported():
    assert exceptions.notes((entry("C == 7"),), {OP: calls()}) == [
        f"{OP}: no row meets the condition of the exception when 'C == 7'"
    ]


def test_an_op_of_which_every_row_is_exempt_is_reported():
    (note,) = exceptions.notes((entry("training"), entry("not training")), {OP: calls()})
    assert "every row is exempt" in note
