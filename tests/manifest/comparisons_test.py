"""Comparisons that no call fulfils, and names that mean something else where they stand, are defects that say so."""

from __future__ import annotations

import pytest

from tileops.tests.manifest.entries import check, codes, small

FORALL = {"N": "Dim", "T": "DType[float16 | float32]"}
PARAMS = {
    "k": {"type": "'a' | 'b'", "default": "a"},
    "w": {"type": "'a' | 'b' | None", "default": None},
    "f": {"type": "bool | int", "default": 0},
    "n": {"type": "int", "default": 3},
    "u": {"type": "int | 'a' | 'b'", "default": 3},
    "pads": {"type": "tuple[int, int]", "default": [0, 0]},
}
X = {"x": {"dtype": "T", "shape": "[N]"}}
ROWS = [{"label": "row", "N": 4, "dtype_cases": [{"T": "float16"}]}]


def made(**parts):
    return small(**{"forall": FORALL, "params": PARAMS, "inputs": X, "workloads": ROWS, **parts})


def priced(condition):
    return made(roofline={"flops": f"N if {condition} else 2 * N"})


@pytest.mark.parametrize(
    "condition",
    [
        "'float16' == T == 'float32'",
        "k == 'a' == 'b'",
        "('zz', k) == ('a', 'b')",
        "(k, n) == ('a', 1.5)",
        "(N, n) == (1, 2, 3)",
        "pads == (1, 2, 3)",
        "'a' == w == 'b'",
        "u in ('a', 'zz')",
    ],
)
def test_a_comparison_that_no_call_fulfils_is_refused(condition):
    assert codes(priced(condition)) == ["R012"]


@pytest.mark.parametrize(
    "condition",
    ["'float16' == T == T", "1 == n != 2", "(k, n) == ('a', 1)", "pads == (1, 2)", "'a' == k == w", "u in ('a', 1)"],
)
def test_a_comparison_that_some_call_fulfils_is_taken(condition):
    assert codes(priced(condition)) == []


@pytest.mark.parametrize("condition", ["f == True", "f == 1", "1 != f", "n in (1, True)", "f in (0, 2)"])
def test_a_bool_is_not_compared_with_a_number(condition):
    assert codes(priced(condition)) == ["R012"]


@pytest.mark.parametrize(("index", "fits"), [("2", False), ("-3", False), ("-2", True), ("1", True), ("+1", True)])
def test_a_constant_index_lies_within_the_items(index, fits):
    assert codes(made(roofline={"flops": f"(N, 2 * N)[{index}]"})) == ([] if fits else ["R012"])


def test_what_is_not_among_values_that_include_none_is_present():
    flops = "N if w in ('a', None) else (2 * N if w.value == 'b' else 3 * N)"
    assert codes(made(roofline={"flops": flops})) == []
    assert codes(made(roofline={"flops": flops.replace("in (", "not in (")})) == ["R013"]


@pytest.mark.parametrize(
    ("dtype", "meant"),
    [("flaot16", "float16"), ("half", "float16"), ("torch.float16", "float16"), ("bf16", "bfloat16")],
)
def test_a_misspelt_dtype_of_a_tensor_is_told_with_the_nearest(dtype, meant):
    _, _, found = check(made(outputs={"y": {"dtype": dtype, "shape": "[N]"}}))
    assert [one.code for one in found] == ["M024"] and f"did you mean {meant}?" in found[0].message


def test_an_unknown_index_as_a_dtype_is_an_unknown_name():
    assert codes(made(outputs={"y": {"dtype": "U", "shape": "[N]"}})) == ["M021"]


@pytest.mark.parametrize("rule", ["T == float16", "category(promote_types(T, float32)) == 'float'"])
def test_a_dtype_by_itself_outside_a_tensors_dtype_is_told_what_to_write(rule):
    _, _, found = check(made(shape_rules=[rule]))
    assert [one.code for one in found] == ["M021"] and "in quotes" in found[0].message


@pytest.mark.parametrize("field", ["optional", "mutated"])
def test_true_in_quotes_is_no_flag(field):
    _, _, found = check(made(inputs={**X, "z": {"dtype": "T", "shape": "[N]", field: "true"}}))
    assert [one.code for one in found] == ["M021"] and "did you mean True?" in found[0].message


def test_a_value_list_in_a_rule_is_told_once():
    ids = {"dtype": "int32", "shape": "[G]", "values": "as_tensor(sizes)"}
    parts = {"forall": {**FORALL, "G": "Dim", "sizes": "Seq[Int]"}, "inputs": {**X, "ids": ids}}
    _, _, found = check(made(**parts, shape_rules=["sum(sizes) == N"]))
    assert [one.code for one in found] == ["M021"] and "only generators may read it" in found[0].message


def test_a_func_path_has_no_spaces_around_it():
    assert codes(made(roofline={"func": " acme.b "})) == ["R020"]
