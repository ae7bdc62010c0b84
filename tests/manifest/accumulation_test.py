"""One fault is one diagnostic, and hides none that does not depend on it."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
import yaml

from tileops.manifest.reading import loader
from tileops.tests.manifest.entries import OP, check, check_text, codes, small

ROW = {"label": "row", "N": 8}
ONE_STAGE = {"kind": "composite", "stages": [{"name": "a", "op": 3}]}


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("ref_api", "torch nn", "M012"),
        ("status", "done", "M012"),
        ("composition", ONE_STAGE, "M012"),
        ("colour", "red", "M011"),
    ],
)
def test_a_field_that_no_call_depends_on_hides_neither_the_rows_defects_nor_the_formulas(path, value, code):
    entry = {**small(workloads=[{"label": "row", "N": -4}], roofline={"flops": "Zz * N"}), path: value}
    assert sorted(codes(entry)) == [code, "M060", "R011"]


def test_a_row_that_cannot_be_read_hides_no_other_and_keeps_their_numbers():
    _, _, found = check(small(workloads=[{"label": "two words", "N": -4}, {"label": "b", "N": -4}]))
    assert [(one.field, one.code) for one in found] == [("workloads[0].label", "M013"), ("workloads[1].N", "M060")]


@pytest.mark.parametrize("path", ["status", "workloads"])
def test_whether_an_optional_tensor_is_covered_waits_for_status_and_rows(path):
    optional = {"x": {"dtype": "float32", "shape": "[N]"}, "z": {"dtype": "float32", "shape": "[N]", "optional": True}}
    entry: dict[str, Any] = {**small(inputs=optional), "status": "implemented"}
    entry[path] = "done" if path == "status" else [ROW, {"label": "two words", "N": 8}]
    checked, _, found = check(entry)
    assert len(found) == 1 and checked.unreached and checked.unreached[0].startswith("coverage of optional tensors")


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"dtype_combos": [{"T": "float16"}, "float16"]}, "M012"),
        ({"dtype_combos": [{"T": 3}]}, "M012"),
        ({"dtype_combos": [{"T": "float16"}, {"T": "float16", "U": 3}]}, "M012"),
    ],
)
def test_a_dtype_combination_that_cannot_be_read_is_told_once(parts, code):
    made = small(
        forall={"N": "Dim", "T": "DType[float16 | float32]"},
        inputs={"x": {"dtype": "T", "shape": "[N]"}},
        workloads=[{**ROW, "dtype_cases": [{"T": "float16"}]}],
        **parts,
    )
    assert codes(made) == [code]


@pytest.mark.parametrize(
    "stage", [{"name": "a", "op": 3}, {"name": "a", "kernel": ""}, 3, {"name": "a", "op": "B", "kernel": 3}]
)
def test_a_stage_that_cannot_be_read_is_told_once(stage):
    assert codes({**small(), "composition": {"kind": "composite", "stages": [stage]}}) == ["M012"]


KEYS = ["? [a, b]\n: 1", ".nan: 1", "<<: {}"]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_that_cannot_be_read_is_told_once(tmp_path, key):
    file = tmp_path / "demo.yaml"
    file.write_text(key)
    assert len(loader.load([str(file)]).diagnostics) == 1
    entry = yaml.safe_dump({OP: small()}, sort_keys=False) + textwrap.indent(key, "  ")
    assert len(check_text(entry)[2]) == 1


def test_what_a_merge_key_may_bring_is_not_missing():
    assert [one.code for one in check_text(f"{OP}: {{<<: {{family: demo}}}}")[2]] == ["M005"]


def test_a_stage_that_names_op_and_kernel_is_told_once():
    stage = {"name": "a", "op": OP, "kernel": "k"}
    assert codes({**small(), "composition": {"kind": "composite", "stages": [stage]}}) == ["M070"]


def test_a_row_tells_all_of_its_faults_that_do_not_follow_from_each_other():
    forall = {"N": "Dim", "K": "Dim", "T": "DType[float16 | float32]"}
    inputs = {"x": {"dtype": "T", "shape": "[N, K]"}}
    parts = {"forall": forall, "inputs": inputs, "shape_rules": ["N > 3", "K > 4"]}

    def said(**row):
        row = {"label": "row", "dtype_cases": [{"T": "float16"}], **row}
        return sorted(one.field for one in check(small(workloads=[row], **parts))[2])

    assert said(N=4, K=5) == []
    faults = said(N=-4, Q=3, some=["x"], dtype_cases=[{"T": "float64"}])
    assert faults == ["workloads[0].N", "workloads[0].Q", "workloads[0].dtype_cases[0]", "workloads[0].some"]
    assert said() == ["workloads[0].K", "workloads[0].N"]
    assert said(N=2, K=2) == ["workloads[0]", "workloads[0]"]


def test_a_family_in_another_file_is_told_where_it_is_written(tmp_path):
    file = tmp_path / "other.yaml"
    file.write_text(f"{OP}:\n  status: spec-only\n  family: demo\n")
    (found,) = [one for one in loader.load([str(file)]).diagnostics if one.code == "M016"]
    assert (found.field, found.line) == ("family", 3)


@pytest.mark.parametrize("dtype", ["float33", "3"])
def test_a_dtype_case_is_told_by_its_number_and_line(dtype):
    entry = yaml.safe_dump(
        {OP: small(forall={"N": "Dim", "T": "DType[float16]"}, inputs={"x": {"dtype": "T", "shape": "[N]"}})}
    )
    at = entry.index("  workloads:")
    rows = f"  workloads:\n  - label: row\n    N: 8\n    dtype_cases:\n    - T: float16\n    - T: {dtype}\n"
    text = entry[:at] + rows
    _, _, (found,) = check_text(text)
    assert (
        found.field.startswith("workloads[0].dtype_cases[1]")
        and text.splitlines()[found.line - 1] == f"    - T: {dtype}"
    )


@pytest.mark.parametrize(
    ("section", "unreadable", "others"),
    [
        (
            "inputs",
            {"shape": "[N"},
            {"dtype": ("float3", "M024"), "optional": ("N + 1", "M022"), "mutated": ("Q", "M021")},
        ),
        ("inputs", {"dtype": "float32 |"}, {"shape": ("[N, Q]", "M021")}),
        ("outputs", {"shape": 3}, {"dtype": ("N", "M022"), "nullable": ("N", "M022")}),
    ],
)
def test_of_a_tensor_that_cannot_be_read_as_a_whole_each_field_is_judged(section, unreadable, others):
    tensor = {"dtype": "float32", "shape": "[N]"} | {field: value for field, (value, _) in others.items()} | unreadable
    whole = (
        {"inputs": {"w": {"dtype": "float32", "shape": "[N]"}, "x": tensor}}
        if section == "inputs"
        else {section: {"y": tensor}}
    )
    _, _, found = check(small(**whole))
    place = f"signature.{section}.{'x' if section == 'inputs' else 'y'}."
    assert {one.field for one in found} == {place + field for field in (*unreadable, *others)}
    assert {(place + field, code) for field, (_, code) in others.items()} <= {(one.field, one.code) for one in found}
