"""What parameters and construction-time tensors alone decide is checked at construction."""

from __future__ import annotations

import re

import pytest
import torch

from tileops.ops.errors import OpCallError, OpConstructionError
from tileops.tests.codegen.small_entries import demo, meta, op_class, source_of

ROW = {"label": "row", "M": 4, "dtype_cases": [{"T": "float16"}]}


def entry(params, row=None, **signature):
    return demo(
        {"flops": "M"},
        [{**ROW, **(row or {})}],
        status="spec-only",
        forall={"M": "Dim", "T": "DType[float16 | float32]"},
        params=params,
        **{
            "inputs": {"x": {"dtype": "T", "shape": "[M]"}},
            "outputs": {"y": {"dtype": "T", "shape": "[M]"}},
            **signature,
        },
    )


@pytest.mark.parametrize("rules", [["k > 2"], ["half > 0"], ["12 // half > 0"]])
def test_rules_and_lets_that_parameters_decide_are_checked_at_construction(rules):
    Op = op_class(entry({"k": {"type": "int"}}, {"k": 3}, shape_rules=rules, let={"half": "k // 2"}))
    assert Op(k=4).check(meta(3)).indices["half"] == 2
    with pytest.raises(OpConstructionError):
        Op(k=1)


def test_a_rule_compares_a_list_parameter_as_calls_do():
    params = {"pads": {"type": "tuple[int, int]", "default": [1, 1]}}
    Op = op_class(entry(params, shape_rules=["pads != (0, 0)"]))
    assert Op(pads=[0, 1]).params["pads"] == (0, 1)
    with pytest.raises(OpConstructionError):
        Op(pads=[0, 0])


def test_a_list_beside_an_object_is_held_as_a_tuple_and_the_object_as_it_is():
    params = {"p": {"type": "torch.Generator | list[int]", "default": [1, 2]}}
    Op, generator = op_class(entry(params)), torch.Generator()
    assert Op(p=[3, 4]).params["p"] == (3, 4) and Op().params["p"] == (1, 2)
    assert Op(p=generator).params["p"] is generator


@pytest.mark.parametrize(("kind", "axis", "good", "bad"), [("int", "k - 5", 6, 3), ("list[int]", "*k", [2], [-1])])
@pytest.mark.parametrize("section", ["inputs", "outputs"])
def test_an_axis_that_parameters_make_negative_is_refused_at_construction(kind, axis, good, bad, section):
    dims = {"inputs": {"x": {"dtype": "T", "shape": "[M]"}}, "outputs": {"y": {"dtype": "T", "shape": "[M]"}}}
    dims[section]["z"] = {"dtype": "T", "shape": f"[M, {axis}]"}
    Op = op_class(entry({"k": {"type": kind}}, {"k": good}, **dims))
    Op(k=good)
    with pytest.raises(OpConstructionError, match="'z'.*negative"):
        Op(k=bad)


def test_a_construction_time_tensor_has_its_dtype_and_number_of_axes_at_construction():
    params = {"w": {"type": "torch.Tensor | None", "default": None, "dtype": "float32", "shape": "[M]"}}
    Op = op_class(entry(params))
    Op(), Op(w=torch.ones(4))
    for wrong in (torch.ones(4, dtype=torch.float16), torch.ones(4, 1), 3):
        with pytest.raises(OpConstructionError, match="'w'"):
            Op(w=wrong)


@pytest.mark.parametrize("argument", ["k", "k - 1", "-k"])
def test_an_int_for_a_dim_of_a_family_is_refused_at_construction_where_parameters_make_it_negative(argument):
    types = {
        "Plane": {
            "params": {"turned": "Bool", "h": "Dim", "w": "Dim"},
            "match": "turned",
            "cases": [{"when": True, "is": "[w, h]"}, {"when": False, "is": "[abs(h), w]"}],
        }
    }
    params = {"k": {"type": "int"}, "turned": {"type": "bool", "default": False}}
    outputs = {"y": {"dtype": "T", "shape": f"Plane[turned, {argument}, M]"}}
    Op = op_class(entry(params, {"k": 0 if argument == "-k" else 2}, types=types, outputs=outputs))
    good, bad = (-2, 3) if argument == "-k" else (2, -2)
    assert Op(k=good, turned=True).check(meta(4)).outputs["y"].shape[0] == 4
    assert Op(k=bad).check(meta(4)).outputs["y"].shape[0] > 0  # where the axis is no Int, it is what it comes to
    with pytest.raises(OpConstructionError, match="'y'.*negative"):
        Op(k=bad, turned=True)


def test_an_int_for_a_dim_is_checked_in_the_call_where_a_tensor_chooses_the_case():
    types = {
        "Plane": {
            "params": {"there": "Bool", "h": "Dim"},
            "match": "there",
            "cases": [{"when": True, "is": "[h]"}, {"when": False, "is": "[1]"}],
        }
    }
    Op = op_class(
        entry(
            {"k": {"type": "int"}},
            {"k": 2},
            types=types,
            inputs={"x": {"dtype": "T", "shape": "[M]"}, "b": {"dtype": "T", "shape": "[]", "optional": True}},
            outputs={"y": {"dtype": "T", "shape": "Plane[present(b), k]"}},
        )
    )
    assert Op(k=-1).check(meta(3), None).outputs["y"].shape == (1,)
    with pytest.raises(OpCallError, match="'y'.*negative"):
        Op(k=-1).check(meta(3), meta())


@pytest.mark.parametrize(
    ("kind", "taken", "refused"),
    [
        ("Number", [True, 1, 0.5], ["1", None]),
        ("float", [1, 0.5], [True, "1"]),
        ("list[int] | tuple[int, ...]", [[], (1, 2, 3)], [[True], 3]),
        ("tuple[int] | tuple[int, int]", [(1,), [1, 2]], [(), (1, 2, 3)]),
        ("int | tuple[int, int] | 'keep'", [3, (1, 2), "keep"], ["kept", (1,), True]),
        ("list[int | None]", [[], [None, 1]], [[True], None]),
    ],
)
def test_a_parameter_takes_what_its_type_says(kind, taken, refused):
    written = taken[0] if not isinstance(taken[0], tuple) else list(taken[0])
    Op = op_class(entry({"k": {"type": kind}}, {"k": written}))
    for value in taken:
        assert Op(k=value).params["k"] == (tuple(value) if isinstance(value, list) else value)
    for value in refused:
        with pytest.raises(OpConstructionError, match="'k' is declared"):
            Op(k=value)


def test_the_two_spellings_of_a_family_emit_the_same_code():
    params = {"turned": {"type": "bool", "default": False}}
    declared = {"turned": "Bool", "h": "Dim"}
    outputs = {"y": {"dtype": "T", "shape": "Plane[turned, M]"}}
    listed = {"params": declared, "match": "turned"}
    listed["cases"] = [{"when": False, "is": "[h]"}, {"when": True, "is": "[h, 1]"}]
    mapped = {"params": declared, "match": ["turned"], "cases": {False: "[h]", True: "[h, 1]"}}
    sources = [source_of(entry(params, types={"Plane": family}, outputs=outputs)) for family in (listed, mapped)]
    assert _without_lines(sources[0]) == _without_lines(sources[1])


def _without_lines(source: str) -> str:
    """The source without the lines of the spec file that it names."""
    return re.sub(r"demo\.yaml:\d+", "", source)
