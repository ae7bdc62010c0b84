"""Sentences of the manifest language that no other test proves, one test per sentence."""

from __future__ import annotations

import copy
import itertools

import pytest
import yaml

from tileops.manifest.checks.obligations import obliges
from tileops.manifest.reading import loader
from tileops.tests.manifest.entries import OP, VALID, check, codes, parsed, small, variant

ROW = {"label": "a", "A": [2, 3], "M": 4, "K": 5, "dtype_cases": [{"T": "float16", "U": "int8"}]}


def _entry(**changed):
    """Inputs that solve each index in one way, whatever stands first."""
    return {
        "family": "demo",
        "status": "spec-only",
        "signature": {
            "forall": {
                "A": "Shape",
                "M": "Dim",
                "K": "Dim",
                "T": "DType[float16 | float32]",
                "U": "DType[int8 | int16]",
            },
            "params": {"out_dtype": {"type": "float16 | float32 | None", "default": None}},
            "inputs": {
                "x": {"dtype": "T", "shape": "[*A, 2 * M + K]"},
                "w": {"dtype": "U", "shape": "[K, M]"},
                "b": {"dtype": "T", "shape": "[3 * K + 1]"},
            },
            "outputs": {"y": {"dtype": "coalesce_dtype(out_dtype, T)", "shape": "[*A, K]"}},
        },
        "workloads": [ROW],
        "roofline": {"flops": "prod(A) * M * K"},
        **changed,
    }


# ---- entries


def test_an_empty_spec_file_is_a_defect(tmp_path):
    for text, code in (("", "M001"), ("{}", "M012"), ("[]", "M012"), ("3", "M012")):
        (tmp_path / "demo.yaml").write_text(text)
        assert [one.code for one in loader.load(loader.spec_files(str(tmp_path))).diagnostics] == [code]


def test_a_file_of_a_family_may_be_a_shard_and_each_entry_of_it_carries_the_family(tmp_path):
    (tmp_path / "demo_more.yaml").write_text(yaml.safe_dump({OP: VALID}, sort_keys=False))
    assert not list(loader.load(loader.spec_files(str(tmp_path))).diagnostics)
    (tmp_path / "demo_more.yaml").write_text(yaml.safe_dump({OP: {**VALID, "family": "demo_more"}}, sort_keys=False))
    assert not list(loader.load(loader.spec_files(str(tmp_path))).diagnostics)
    (tmp_path / "demo_more.yaml").write_text(yaml.safe_dump({OP: {**VALID, "family": "dem"}}, sort_keys=False))
    assert [one.code for one in loader.load(loader.spec_files(str(tmp_path))).diagnostics] == ["M016"]


@pytest.mark.parametrize("section", ["forall", "params", "inputs", "outputs", "let"])
def test_names_are_distinct_across_the_sections_of_a_signature(section):
    declared = {
        "forall": "Dim",
        "params": {"type": "int", "default": 1},
        "inputs": {"dtype": "float32", "shape": "[N]", "optional": True},
        "outputs": {"dtype": "float32", "shape": "[N]"},
        "let": "1",
    }
    for taken in ("N", "flip", "x", "y", "Pair", "L"):
        if taken not in VALID["signature"][section]:
            assert codes(variant(f"signature.{section}.{taken}", declared[section])) == ["M014"], taken


# ---- kinds


@pytest.mark.parametrize(
    ("term", "fine"),
    [
        ("N + 1", True),
        ("N * N", True),
        ("N // 2", True),
        ("N % 2", True),
        ("N - 1", False),
        ("N // -2", False),
        ("-N", False),
        ("N * -1", False),
        ("N + dim_", False),
        ("dim_", False),
        ("abs(dim_)", True),
        ("max((dim_, 0))", False),
        ("N // N", True),
    ],
)
def test_arithmetic_of_dims_is_a_dim_and_anything_else_an_int(term, fine):
    """An axis that is an Int carries the obligation to be at least 0; a Dim is that already."""
    entry = small(
        params={"dim_": {"type": "int", "default": 2}}, outputs={"y": {"dtype": "float32", "shape": f"[{term}]"}}
    )
    read = parsed(entry)
    assert obliges(read, read.signature.outputs["y"].shape.expr) is not fine


def test_a_dim_may_stand_for_an_int_and_a_shape_for_a_sequence_and_not_the_other_way_round():
    types = {
        "Both": {
            "params": {"swap": "Bool", "P": "Int", "Q": "Int"},
            "match": ["swap"],
            "cases": {False: "[P, Q]", True: "[Q, P]"},
        }
    }
    entry = variant("signature.types", types)
    entry["signature"]["inputs"]["state"]["shape"] = "Both[flip, N, 3]"
    assert codes(entry) == []
    for kind, given, wanted in (("Seq[Int]", "B", []), ("Shape", "B", []), ("Shape", "ks", ["M022"])):
        types["Both"]["params"] = {"swap": "Bool", "P": kind, "Q": "Int"}
        types["Both"]["cases"] = {False: "[*P, Q]", True: "[Q, *P]"}
        entry = variant("signature.types", types)
        entry["signature"]["params"]["ks"] = {"type": "list[int]", "default": [2]}
        entry["signature"]["inputs"]["state"]["shape"] = f"Both[flip, {given}, N]"
        assert codes(entry) == wanted


def test_a_bool_is_never_an_integer():
    assert codes(variant("signature.let.L", "N + (flip + 1)")) == ["M022"]
    assert codes(variant("workloads.0.N", True)) == ["M060"]
    entry = variant("signature.params.k", {"type": "int", "default": True})
    assert codes(entry) == ["M012"]


# ---- calls


def test_indices_are_solved_whatever_the_order_of_declarations():
    entry = _entry()
    for order in itertools.permutations(entry["signature"]["inputs"]):
        for indices in (entry["signature"]["forall"], dict(reversed(entry["signature"]["forall"].items()))):
            changed = copy.deepcopy(entry)
            changed["signature"]["inputs"] = {name: entry["signature"]["inputs"][name] for name in order}
            changed["signature"]["forall"] = indices
            checked, _, found = check(changed)
            assert found == []
            values = checked.cases[0].values
            assert (values["A"], values["M"], values["K"]) == ((2, 3), 4, 5)


def test_an_input_that_may_be_absent_solves_nothing_where_it_is_absent():
    entry = _entry()
    entry["signature"]["inputs"]["b"] = {"dtype": "T", "shape": "[3 * Z + 1]", "optional": True}
    entry["signature"]["forall"]["Z"] = "Dim"
    assert codes(entry) == []
    entry["signature"]["shape_rules"] = ["Z > 3"]
    assert codes(entry) == ["M040"]
    entry["signature"]["shape_rules"] = ["not present(b)"]
    _, _, (found,) = check(entry)
    expected = "'Z' is read by no call that the rules accept, though 'b' would need it; use it or remove it"
    assert (found.code, found.message) == ("M040", expected)


# ---- rows


def _case_ids(**changed):
    return [case.case_id for case in check(_entry(**changed))[0].cases]


def test_a_case_id_is_the_label_then_dtypes_in_the_order_of_forall_then_dtype_parameters():
    row = {**ROW, "out_dtype": "float32", "dtype_cases": [{"U": "int16", "T": "float16"}]}
    assert _case_ids(workloads=[row]) == ["a-float16-int16-float32"]
    assert _case_ids() == ["a-float16-int8"]  # a parameter that is None is no part of it


def test_the_default_of_a_dtype_parameter_is_part_of_a_case_id():
    signature = copy.deepcopy(_entry()["signature"])
    signature["params"]["out_dtype"] = {"type": "float16 | float32", "default": "float16"}
    assert _case_ids(signature=signature) == ["a-float16-int8-float16"]
    assert _case_ids(signature=signature, workloads=[{**ROW, "out_dtype": "float32"}]) == ["a-float16-int8-float32"]


def test_a_dtype_index_takes_the_dtype_of_another_which_the_case_id_names_once():
    signature = copy.deepcopy(_entry()["signature"])
    signature["forall"]["U"] = "DType[float16 | float32]"
    rows = [{**ROW, "dtype_cases": [{"T": "float16", "U": "T"}, {"T": "float16", "U": "float16"}]}]
    assert _case_ids(signature=signature, workloads=rows) == ["a-float16", "a-float16-float16"]
    cases = check(_entry(signature=signature, workloads=rows))[0].cases
    assert [tensor.dtype for case in cases for tensor in case.inputs] == ["float16"] * 6


@pytest.mark.parametrize("taken", ["U", "V", "M", "half"])
def test_a_dtype_index_takes_the_dtype_of_no_other_name(taken):
    assert codes(_entry(workloads=[{**ROW, "dtype_cases": [{"T": "float16", "U": taken}]}])) == ["M060"]
    assert codes(_entry(workloads=[{**ROW, "dtype_cases": [{"T": "U", "U": "T"}]}])) == ["M060"] * 2


@pytest.mark.parametrize("label", ["a", "A.b_c-9", "x" * 80])
def test_a_label_has_letters_digits_dots_and_dashes_up_to_eighty(label):
    assert codes(_entry(workloads=[{**ROW, "label": label}])) == []


@pytest.mark.parametrize("label", ["", "a b", "a/b", "\u0430", "x" * 81])
def test_no_other_label_is_one(label):
    assert codes(_entry(workloads=[{**ROW, "label": label}])) in (["M013"], ["M012"])


def test_a_row_writes_exactly_what_its_branch_reads():
    missing = {key: value for key, value in ROW.items() if key != "K"}
    assert codes(_entry(workloads=[missing])) == ["M060"]
    assert codes(_entry(workloads=[{**ROW, "Z": 3}])) == ["M060"]
    assert codes(_entry(workloads=[{**ROW, "dtype_cases": [{"T": "float16"}]}])) == ["M060"]


@pytest.mark.parametrize(("w", "said"), [(None, []), (3, []), (0, ["M060"])])
def test_the_presence_of_a_let_is_asked_in_rows_as_in_calls(w, said):
    parts = {
        "params": {"w": {"type": "int | None", "default": None}},
        "let": {"q": "w"},
        "shape_rules": ["not present(q) or q.value > 0"],
    }
    assert codes(small(workloads=[{"label": "row", "N": 4, "w": w}], **parts)) == said


def test_every_optional_tensor_of_an_implemented_entry_is_passed_in_one_row_and_omitted_in_another():
    entry = _entry(status="implemented", workloads=[ROW, {**ROW, "label": "b", "some": ["c"]}])
    entry["signature"]["inputs"]["c"] = {"dtype": "T", "shape": "[K]", "optional": True}
    assert codes(entry) == []
    for some in ([], ["c"]):
        one = copy.deepcopy(entry)
        for row in one["workloads"]:
            row["some"] = some
        assert codes(one) == ["M063"]
        assert codes({**one, "status": "spec-only"}) == []
