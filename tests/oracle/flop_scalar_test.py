"""The scalar references: they compute what the op computes, and their counts are its FLOPs at small sizes and at any."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from tileops.tests.oracle import expected, priced_calls
from tileops.tests.oracle.flop_enumerations import ENUMERATIONS
from tileops.tests.oracle.flop_references import REFERENCES
from tileops.tests.oracle.flop_scalar import FURTHER_OPINIONS, SCALAR_REFERENCES
from tileops.tests.oracle.scalar_count import Arithmetic, plain, polynomial

OPS = priced_calls.implemented()


@pytest.mark.parametrize("name", SCALAR_REFERENCES)
def test_counts_of_small_calls_are_exact_and_of_what_the_op_computes(name):
    reference = SCALAR_REFERENCES[name]
    calls = reference.calls()
    assert len(calls) == len(reference.branches) * math.prod(map(len, reference.grid.values()))
    for small in calls:
        op = OPS[name](**small.params, target="torch")
        computed = op(**dict(zip(op.INPUT_NAMES, small.inputs, strict=True)))
        flops, outputs = reference.run(op.last_call.params, small.inputs)
        assert flops == op.eval_roofline()[0], small.params
        torch.testing.assert_close(plain(outputs), computed.double(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", SCALAR_REFERENCES)
def test_the_polynomial_of_the_small_counts_is_the_price_of_every_row(name):
    assert len(OPS[name].CASES) >= 3
    for case in OPS[name].CASES:
        op = priced_calls.call_case(OPS[name], case)
        inputs = tuple(priced_calls.case_inputs(OPS[name], case).values())
        assert op.eval_roofline()[0] == SCALAR_REFERENCES[name].flops_at_scale(op.last_call.params, inputs), (
            case.case_id
        )


@pytest.mark.parametrize("name", SCALAR_REFERENCES)
def test_an_op_that_no_other_kind_counts_is_counted_by_its_scalar_reference(name, monkeypatch):
    others = {kind: {op: one for op, one in table.items() if op != name} for kind, table in _KINDS.items()}
    for kind, table in others.items():
        monkeypatch.setattr(expected, kind, table)
    known = expected.expectations.__wrapped__(name, OPS[name])
    assert len(known) == len(OPS[name].CASES) + len(SCALAR_REFERENCES[name].calls())
    assert all(one.op.eval_roofline() == (one.flops, one.nbytes) for one in known)


_KINDS = {"ENUMERATIONS": ENUMERATIONS, "REFERENCES": REFERENCES}


def test_a_further_opinion_is_on_an_op_that_another_kind_counts():
    assert SCALAR_REFERENCES.keys() & (ENUMERATIONS.keys() | REFERENCES.keys()) >= FURTHER_OPINIONS


@pytest.mark.parametrize(
    ("compute", "flops", "value"),
    [
        (lambda x, y: x + y, 1, 5),
        (lambda x, y: x - y, 1, -1),
        (lambda x, y: x * y, 1, 6),
        (lambda x, y: x / y, 1, 2 / 3),
        (lambda x, y: -x, 1, -2),
        (lambda x, y: abs(-x), 2, 2),
        (lambda x, y: 1 - x, 1, -1),
        (lambda x, y: 1 / x, 1, 0.5),
        (lambda x, y: 2 * x + 1, 2, 5),
        (lambda x, y: x.max(y).min(0), 2, 0),
        (lambda x, y: x.exp().log(), 2, 2),
        (lambda x, y: (x * y).rsqrt().tanh(), 3, math.tanh(6**-0.5)),
        (lambda x, y: x + 0, 0, 2),
        (lambda x, y: x - 0, 0, 2),
        (lambda x, y: 1 * x, 0, 2),
        (lambda x, y: x / 1, 0, 2),
    ],
)
def test_each_operation_counts_one_and_the_identity_nothing(compute, flops, value):
    arithmetic = Arithmetic()
    result = compute(arithmetic.number(2), arithmetic.number(3))
    assert (arithmetic.flops, result.value) == (flops, pytest.approx(value))


def test_a_branch_on_a_number_is_refused():
    x = Arithmetic().number(1)
    for branch in (lambda: bool(x), lambda: x == 1, lambda: x != 1, lambda: x < 2):
        with pytest.raises(TypeError):
            branch()


def _recurrence(extents):
    """h = a h + b x and y = c . h over the steps of a sequence, for each of the states; counts the operations."""
    arithmetic = Arithmetic()
    steps, states = extents["steps"], extents["states"]
    a, b, c = ([arithmetic.number(0.5)] * states for _ in "abc")
    hidden = [arithmetic.number(0)] * states
    for x in [arithmetic.number(1)] * steps:
        hidden = [one * before + other * x for one, before, other in zip(a, hidden, b, strict=True)]
        total = arithmetic.number(0)
        for one, other in zip(c, hidden, strict=True):
            total = total + one * other
    return arithmetic.flops


def _chunked(extents):
    """Scores within chunks of 4 steps, below the diagonal and on it; counts the operations."""
    arithmetic = Arithmetic()
    for _ in range(extents["chunks"]):
        for row in range(4):
            for _ in range(row + 1):
                for _ in range(extents["width"]):
                    arithmetic.number(1) * arithmetic.number(1) + arithmetic.number(1)
    return arithmetic.flops


SIZES = [{"steps": 7, "states": 5}, {"steps": 64, "states": 16}, {"steps": 8192, "states": 128}]


def test_a_recurrence_agrees_with_its_formula_at_three_sizes():
    through = polynomial({"steps": (1, 2), "states": (1, 2)}, _recurrence)
    assert [through.at(sizes) for sizes in SIZES] == [5 * sizes["steps"] * sizes["states"] for sizes in SIZES]
    assert through.at(SIZES[0]) == _recurrence(SIZES[0])


def test_a_formula_of_the_same_counts_at_the_small_sizes_disagrees_at_three():
    through = polynomial({"steps": (1, 2), "states": (1, 2)}, _recurrence)
    assert all(through.at(sizes) != 5 * min(sizes["steps"], 2) * sizes["states"] for sizes in SIZES)


def test_a_chunked_algorithm_is_a_polynomial_of_its_chunks():
    through = polynomial({"chunks": (1, 2), "width": (1, 2)}, _chunked)
    sizes = [{"chunks": 3, "width": 5}, {"chunks": 16, "width": 64}, {"chunks": 2048, "width": 128}]
    assert [through.at(one) for one in sizes] == [2 * 10 * one["chunks"] * one["width"] for one in sizes]


def test_counts_of_a_higher_degree_than_the_grid_has_miss_the_row():
    reference = SCALAR_REFERENCES["GQADenseFwdOp"]
    short = dataclasses.replace(reference, grid={**reference.grid, "queries": (1, 2)})
    case = next(case for case in OPS["GQADenseFwdOp"].CASES if case.indices["S_q"] > 2)
    op = priced_calls.call_case(OPS["GQADenseFwdOp"], case)
    inputs = tuple(priced_calls.case_inputs(OPS["GQADenseFwdOp"], case).values())
    assert short.flops_at_scale(op.last_call.params, inputs) != op.eval_roofline()[0]


def test_counts_that_follow_no_polynomial_are_an_error():
    with pytest.raises(ValueError, match="follow no polynomial"):
        polynomial({"n": (1, 2, 4)}, lambda extents: extents["n"].bit_length()).at({"n": 3})
