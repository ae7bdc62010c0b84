"""The inference plan: what it solves, in which order, and what it refuses."""

from __future__ import annotations

import copy
import itertools

import pytest

from tileops.manifest.language import expr, expr_parser
from tileops.manifest.plans.inference import MismatchError, infer
from tileops.manifest.plans.planner import affine
from tileops.tests.manifest.entries import VALID, check


@pytest.mark.parametrize(
    ("text", "solved"),
    [
        ("M", ("M", 1, "0")),
        ("2 * M", ("M", 2, "0")),
        ("M * 3 + 1", ("M", 3, "1")),
        ("1 + (M + k) * 2", ("M", 2, "k * 2 + 1")),
        ("M - 1", ("M", 1, "0 - 1")),
        ("M * k", None),
        ("k - M", None),
        ("M + M", None),
        ("M // 2", None),
        ("M * N", None),
    ],
)
def test_affine_axes(text, solved):
    found = affine(expr_parser.parse(text), {"k"})
    assert (found and (found[0], found[1], expr.to_source(found[2]))) == solved


def test_the_plan_does_not_depend_on_declaration_order():
    names = ["x", "state", "ids"]
    results = []
    for order in itertools.permutations(names):
        entry = copy.deepcopy(VALID)
        inputs = entry["signature"]["inputs"]
        entry["signature"]["inputs"] = {name: inputs[name] for name in (*order, "scale")}
        checked, _, found = check(entry)
        assert found == []
        results.append([sorted(case.values.items(), key=str) for case in checked.cases])
    assert all(result == results[0] for result in results)


def test_each_row_infers_back_from_its_own_tensors():
    checked, _, _ = check(VALID)
    assert [case.case_id for case in checked.cases] == ["plain-float16", "plain-float32", "scaled-float16"]
    plain, _, scaled = checked.cases
    assert [(t.name, t.shape) for t in plain.inputs] == [("x", (5, 6)), ("state", (3, 3)), ("ids", (4, 2))]
    assert [(t.name, t.shape) for t in scaled.inputs] == [
        ("x", (6,)),
        ("state", (3, 3)),
        ("ids", (4, 2)),
        ("scale", (3,)),
    ]
    assert plain.outputs[0].shape == (4,) and plain.outputs[0].dtype == "float16"


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (5, 7)}, "no N gives an axis of x the size 7"),
        ({"x": ()}, "x has 0 axes"),
        ({"state": (4, 3)}, "axis 0 of state is 4"),
        ({"scale": (2,)}, "axis 0 of scale is 2"),
    ],
)
def test_a_mismatch_names_tensor_and_term(shapes, message):
    checked, _, _ = check(VALID)
    steps = checked.plan.steps_at(lambda discriminant, value: value is False)
    case = next(case for case in checked.cases if case.label == "plain")
    found = {tensor.name: tensor.shape for tensor in case.inputs} | {"scale": (3,)} | shapes
    dtypes = {"x": "float16", "state": "float32", "ids": "int32", "scale": "float16"}
    with pytest.raises(MismatchError, match=message):
        infer(
            steps,
            found,
            dtypes,
            {"flip": False, "dim": None, "dtype": None},
            {"scale": True, "dim": False, "dtype": False},
        )


def test_a_dtype_parameter_of_a_row_is_part_of_its_case_id():
    entry = copy.deepcopy(VALID)
    entry["workloads"][0]["dtype"] = "float32"
    checked, _, _ = check(entry)
    assert checked.cases[0].case_id == "plain-float16-float32"
    assert checked.cases[0].outputs[0].dtype == "float32"
