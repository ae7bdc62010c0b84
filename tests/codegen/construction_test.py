"""What parameters and construction-time tensors alone decide is checked at construction."""

from __future__ import annotations

import pytest
import torch

from tileops.ops.errors import OpConstructionError
from tileops.tests.codegen.small_entries import demo, meta, op_class

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
