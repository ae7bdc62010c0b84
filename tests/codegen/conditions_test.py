"""Conditions of presence and of effects: the finite facts of a call decide them, whatever form they have."""

from __future__ import annotations

import pytest
import torch

from tileops.tests.codegen.emitted import build
from tileops.tests.manifest.entries import OP, check, small

X = {"dtype": "float32", "shape": "[N]"}
BOOLS = {name: {"type": "bool", "default": False} for name in "fgh"}


def _entry(params, inputs, **parts):
    return small(params=params, inputs=inputs, outputs={"y": X}, **parts)


def _codes(entry):
    return [one.code for one in check(entry)[2]]


@pytest.mark.parametrize(
    ("params", "condition"),
    [
        ({"k": {"type": "int | None", "default": None}}, "present(k) and k.value > 2"),
        ({"k": {"type": "list[int] | None", "default": None}}, "present(k) and len(k.value) > 0"),
        ({"f": {"type": "bool", "default": False}, "n": {"type": "int", "default": 1}}, "f and n > 2"),
    ],
)
@pytest.mark.parametrize("field", ["optional", "mutated"])
def test_a_condition_that_reads_more_than_finite_facts_is_refused(params, condition, field):
    assert _codes(_entry(params, {"x": X, "z": {**X, field: condition}})) == ["M052"]


@pytest.mark.parametrize("condition", ["f if g else h", "f in (g, h)", "(f if g else h) == h", "not (f if g else h)"])
def test_a_condition_may_choose_between_facts(condition):
    assert _codes(_entry(BOOLS, {"x": {**X, "mutated": condition}})) == []


@pytest.mark.parametrize("value", [None, False, True])
def test_a_write_under_a_chosen_condition_is_charged_on_its_branch(value, tmp_path):
    params = {"w": {"type": "bool | None", "default": None}}
    entry = _entry(params, {"x": {**X, "mutated": "w.value if present(w) else False"}})
    instance = build(tmp_path, {OP: entry})[OP](w=value)
    instance(torch.empty(8, device="meta"))
    assert instance.eval_roofline()[1] == (3 if value else 2) * 8 * 4


def test_a_rule_that_chooses_between_facts_is_a_domain_restriction():
    family = {"R": {"params": {"b": "Bool", "n": "Dim"}, "match": ["b"], "cases": {False: "[n]"}}}
    entry = _entry(
        {name: BOOLS[name] for name in "fg"},
        {"x": {"dtype": "float32", "shape": "R[f, N]"}},
        types=family,
        shape_rules=["not (f if g else f)"],
    )
    assert _codes(entry) == []


@pytest.mark.parametrize("argument", ["q", "present(k) and k.value > 2"])
def test_a_family_is_chosen_by_what_the_points_decide(argument):
    family = {"R": {"params": {"b": "Bool", "n": "Dim"}, "match": ["b"], "cases": {False: "[n]", True: "[2 * n]"}}}
    params = {"f": BOOLS["f"], "k": {"type": "int | None", "default": None}}
    entry = _entry(params, {"x": {"dtype": "float32", "shape": f"R[{argument}, N]"}}, types=family, let={"q": "not f"})
    assert _codes(entry) == ["M030"]


def test_restrictions_prune_the_points_as_they_are_formed():
    """Sixteen flags in a ring of rules have 65,536 assignments; the 2,207 allowed ones fit the effort of an entry."""
    flags = {f"p{at}": {"type": "bool", "default": True} for at in range(16)}
    rules = [f"p{at} or p{(at + 1) % 16}" for at in range(16)]
    assert _codes(_entry(flags, {"x": X}, shape_rules=rules)) == []


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"roofline": {"flops": "N", "bytes": "bytes(x)   # what is read\n+ bytes(y)"}}, "R010"),
        ({"outputs": {"y": {"dtype": "float32", "shape": "[N # * 2]"}}}, "M020"),
        ({"shape_rules": ["N > 0 # and N < 4"]}, "M020"),
    ],
)
def test_no_comment_hides_a_part_of_an_expression(parts, code):
    assert _codes(small(**parts)) == [code]
