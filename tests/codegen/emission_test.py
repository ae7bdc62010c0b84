"""Emission: plain Python that explains itself, the same every time, one branch a group of equal points."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

from tileops.codegen import pipeline
from tileops.codegen.analysis import Traffic
from tileops.codegen.func_paths import check_func
from tileops.codegen.source_text import LINE_LENGTH
from tileops.manifest.language import expr
from tileops.manifest.plans.trees import Leaf, Split
from tileops.tests.manifest.entries import OP, VALID, check, variant

PROJECT = pipeline.analyse_files(pipeline.chosen_spec_files())
SOURCES = PROJECT.modules()


@pytest.mark.requirement("4.1.4", "4.4.e")
def test_the_project_manifest_has_no_defect():
    assert [str(found) for found in PROJECT.diagnostics] == []


def test_the_projects_func_formulas_resolve():
    for checked, analysis in PROJECT.entries.values():
        check_func(checked.entry, analysis, PROJECT.diagnostics)
    assert [str(found) for found in PROJECT.diagnostics] == []


@pytest.mark.requirement("2.2.14")
def test_the_projects_func_formulas_are_named_in_one_package():
    funcs = [analysis.func for _, analysis in PROJECT.entries.values() if analysis.func]
    assert funcs and all(re.fullmatch(r"tileops\.perf\.formulas\.\w+", func) for func in funcs), funcs


@pytest.mark.nightly  # analysis_imports_test holds it for every change
def test_emission_is_the_same_under_every_order_of_hashing(tmp_path):
    outputs = set()
    for seed in ("0", "1", "99"):
        folder = tmp_path / seed
        subprocess.run(
            [sys.executable, "-m", "tileops.codegen.emit", f"--out_dir={folder}"],
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        )
        outputs.add(tuple((path.name, path.read_bytes()) for path in sorted(folder.iterdir())))
    assert len(outputs) == 1


@pytest.mark.parametrize("family", sorted(SOURCES))
def test_generated_code_holds_no_parser_and_no_expression_string(family):
    tree = ast.parse(SOURCES[family])
    imported = {
        name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert imported <= {
        "__future__",
        "builtins",
        "math",
        "tileops.manifest.language",
        "tileops.ops",
        "tileops.ops.cases",
        "tileops.ops.checked_call",
        "tileops.ops.op",
        "tileops.perf.formulas",
        "torch",  # says where a call without a tensor is
    }
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"eval", "exec", "compile", "__import__", "getattr"}


# What emission leaves on one line, however long: a case, a text of the entry, one let, one rule, one check of a value.
# A line of a docstring's text is indented by six.
WHOLE = re.compile(r'\s+(_WorkloadCase\(|"|\w+ = |_primitives\.|\{"|if not \()| {6}\S')


@pytest.mark.parametrize("family", sorted(SOURCES))
def test_generated_code_keeps_the_line_length(family):
    """Calls, mappings and sums are broken."""
    longer = [line for line in SOURCES[family].splitlines() if len(line) > LINE_LENGTH]
    assert [line for line in longer if not WHOLE.match(line)] == []


@pytest.mark.parametrize("family", sorted(SOURCES))
def test_a_case_is_one_line(family):
    found = {}
    for node in ast.parse(SOURCES[family]).body:
        if isinstance(node, ast.ClassDef):
            value = next(one.value for one in node.body if isinstance(one, ast.Assign) and one.targets[0].id == "CASES")
            found[node.name] = value.end_lineno - value.lineno - 1
    cases = {op: len(checked.cases) for op, (checked, _) in PROJECT.entries.items() if checked.entry.family == family}
    assert found == cases


GEMM_CHECK = """\
        # a: T Mat[trans_a, M, K]
        T = _a_dtype
        if T not in ("float16", "bfloat16"):
            raise _checks.dtype_error("GEMMFwdOp", "a", "T", ("float16", "bfloat16"), _a_dtype)
        if not trans_a:
            # a: T[M, K]
            if _len(_a_shape) != 2:
                raise _checks.rank_error("GEMMFwdOp", "a", "[M, K]", _a_shape)
            M = _a_shape[0]
            K = _a_shape[1]
        else:
            # a: T[K, M]
            if _len(_a_shape) != 2:
                raise _checks.rank_error("GEMMFwdOp", "a", "[K, M]", _a_shape)
            K = _a_shape[0]
            M = _a_shape[1]
        # b: T Mat[trans_b, K, N]
        if _b_dtype != T:
            raise _checks.dtype_error("GEMMFwdOp", "b", "T", (T,), _b_dtype)
        if not trans_b:
            # b: T[K, N]
            if _len(_b_shape) != 2:
                raise _checks.rank_error("GEMMFwdOp", "b", "[K, N]", _b_shape)
            if _b_shape[0] != K:
                raise _checks.axis_error("GEMMFwdOp", "b", 0, "K", K, _b_shape)
            N = _b_shape[1]
        else:
            # b: T[N, K]
            if _len(_b_shape) != 2:
                raise _checks.rank_error("GEMMFwdOp", "b", "[N, K]", _b_shape)
            N = _b_shape[0]
            if _b_shape[1] != K:
                raise _checks.axis_error("GEMMFwdOp", "b", 1, "K", K, _b_shape)
        # What this call binds, and what it promises to return.
        _inputs = {"a": _TensorRecord(_a_shape, _a_dtype), "b": _TensorRecord(_b_shape, _b_dtype)}
        _indices = {"M": M, "N": N, "K": K, "T": T}
        _outputs = {"d": _TensorRecord((M, N), T)}
        return _CheckedCall("GEMMFwdOp", self.params, _indices, _inputs, _outputs, _device, {})
"""


def test_two_flags_that_nothing_relates_are_branched_on_one_after_the_other():
    assert GEMM_CHECK in SOURCES["gemm"]


def test_a_formula_names_its_place_in_the_spec_file():
    line = PROJECT.entries["GEMMFwdOp"][0].entry.roofline["flops"].line
    assert f"# gemm.yaml:{line}: flops" in SOURCES["gemm"]


def test_points_that_fold_alike_share_a_branch():
    _, analysis, _ = check(VALID)
    (tree,) = analysis.flops.trees
    assert isinstance(tree, Split) and tree.discriminant.key == "present(scale)"
    assert [(value, expr.to_source(leaf.value)) for value, leaf in tree.branches] == [
        (False, "prod(B) * N"),
        (True, "prod(B) * N * 2"),
    ]
    same = check(variant("roofline.flops", "prod(B) * (3 if present(scale) else 3)"))[1]
    assert expr.to_source(same.flops.trees[0].value) == "prod(B) * 3"


def test_derived_bytes_follow_the_effects():
    _, analysis, _ = check(VALID)
    (tree,) = analysis.traffic
    assert tree.discriminant.key == "flip"
    assert dict(tree.branches) == {
        False: Leaf(Traffic(read=("x", "state", "ids", "scale"), written=("y",))),
        True: Leaf(Traffic(read=("x", "state", "ids", "scale"), written=("state", "y"))),
    }


def test_a_write_only_input_is_written_and_not_read():
    _, analysis, found = check(
        variant(
            "signature.inputs.state",
            {"dtype": "float32", "shape": "Pair[flip, N, 3]", "mutated": True, "write_only": True},
        )
    )
    assert found == []
    assert analysis.traffic == (Leaf(Traffic(read=("x", "ids", "scale"), written=("state", "y"))),)


def test_an_entry_with_its_own_bytes_gets_no_generated_read_half():
    checked, analysis, _ = check(variant("roofline.bytes", "bytes(x) + (bytes(scale) if present(scale) else 0)"))
    source = pipeline.module_source("demo", [(checked, analysis)])
    assert "eval_roofline_read_bytes" not in source
    assert '_bytes = _call.tensors["x"].bytes + _call.tensors["scale"].bytes' in source


def test_a_func_path_that_does_not_resolve_is_R021_for_implemented_entries_alone():
    for status, wanted in (("implemented", ["R021"]), ("spec-only", [])):
        entry = variant("roofline", {"func": "tileops.perf.formulas.no_such_formula"})
        entry["status"] = status
        found = pipeline.Diagnostics()
        checked, analysis, _ = check(entry)
        check_func(checked.entry, analysis, found)
        assert [one.code for one in found] == wanted


def test_text_of_a_spec_file_cannot_leave_its_docstring_or_string():
    assert [one.code for one in check(variant("ref_api", 'x"""\nimport os\n"""'))[2]] == ["M012"]
    entry = variant("signature.shape_rules.0", """N > 1 or 'a\\\\n\"\"\"' == 'a\\\\n\"\"\"'""")
    assert check(entry)[2] == []
    checked, analysis, _ = check(entry)
    source = pipeline.module_source("demo", [(checked, analysis)])
    names = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import)]
    assert [alias.name for node in names for alias in node.names] == []


def test_a_default_cannot_leave_the_docstring():
    entry = variant("signature.params.note", {"type": "str", "default": '\n"""; import os; """\\'})
    checked, analysis, found = check(entry)
    assert found == []
    tree = ast.parse(pipeline.module_source("demo", [(checked, analysis)]))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import)]


def _emit(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tileops.codegen.emit", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)})


@pytest.mark.requirement("4.4.e", "4.4.5e")
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("A: [1", "demo.yaml:1: not YAML"),
        (yaml.safe_dump({OP: variant("roofline.flops", "Q * 2")}, sort_keys=False), "unknown name 'Q'"),
    ],
)
def test_a_defect_fails_the_emission_with_file_and_line_and_writes_nothing(tmp_path, text, place):
    spec = pathlib.Path(tmp_path, "demo.yaml")
    spec.write_text(text)
    done = _emit(f"--spec={spec}", f"--out={tmp_path}/demo.py")
    assert done.returncode == 1
    assert place in done.stderr and f"{spec}:" in done.stderr
    assert not (tmp_path / "demo.py").exists()


def test_bad_usage_exits_2(tmp_path):
    assert _emit("--check", f"--spec_dir={tmp_path}").returncode == 2
    assert _emit().returncode != 0
