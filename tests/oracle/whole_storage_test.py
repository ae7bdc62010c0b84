"""A whole storage is charged only where it differs from the exact count under 1% on every row."""

from __future__ import annotations

import sys
import types

import pytest

from tileops.perf import formulas
from tileops.tests.oracle import priced_calls
from tileops.tests.oracle.recount import Recount
from tileops.tests.oracle.whole_storage import disagreement, exact_bytes

OPS = priced_calls.implemented()
CASES = [(name, case) for name, op in OPS.items() if op.FUNC for case in op.CASES]


def _price(monkeypatch, charged: int, exact: int | None) -> types.SimpleNamespace:
    """An op whose formula charges some bytes, with an exact count beside the formula or without."""
    module = types.ModuleType("planted_formulas")
    if exact is not None:
        module.exact_price = lambda call: exact
    monkeypatch.setitem(sys.modules, "planted_formulas", module)
    return types.SimpleNamespace(FUNC="planted_formulas.price", last_call=None, eval_roofline=lambda: (1, charged))


@pytest.mark.requirement("1.2.19")
@pytest.mark.parametrize(
    ("charged", "exact", "fault"),
    [
        (10_000, None, ""),
        (10_099, 10_000, ""),
        (10_000, 10_000, ""),
        (10_100, 10_000, "must be from 10000 bytes to less than 1% more"),
        (9_999, 10_000, "must be from 10000 bytes to less than 1% more"),
        (10_099, None, "10099 bytes are charged, and the recount is 10000"),
        (10_099, 10_001, "the exact count is 10001 bytes, and the recount is 10000"),
    ],
)
def test_a_whole_storage_may_be_charged_where_it_differs_under_1_percent(monkeypatch, charged, exact, fault):
    found = disagreement(_price(monkeypatch, charged, exact), Recount(read=7_000, written=3_000))
    assert found.endswith(fault) and bool(found) == bool(fault)


@pytest.mark.requirement("1.2.19")
@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}-{case.case_id}" for name, case in CASES])
def test_every_row_that_charges_a_whole_storage_differs_under_1_percent(name, case):
    op = priced_calls.call_case(OPS[name], case)
    exact = exact_bytes(op)
    if exact is not None:
        assert disagreement(op, Recount(read=exact, written=0)) == ""


def test_an_exact_count_stands_beside_the_formula_of_an_entry():
    used = {op.FUNC.rpartition(".")[2] for op in OPS.values()}
    assert {name.removeprefix("exact_") for name in formulas.__all__ if name.startswith("exact_")} <= used
