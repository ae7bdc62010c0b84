"""Checks across entries and outside them: ops of composites, functions of formulas, the folder that is read."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest
import yaml

from tileops.codegen import pipeline
from tileops.codegen.func_paths import check_func
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.reading import loader
from tileops.tests.manifest.entries import VALID, check, variant


def _defects(folder, **composites):
    """(op, field, message) of each defect of entries that run the named ops as stages, and of VALID."""
    entries = {"ScaleFwdOp": VALID}
    for op, stages in composites.items():
        named = [{"name": f"s{at}", "op": stage} for at, stage in enumerate(stages)]
        entries[op] = variant("composition", {"kind": "composite", "stages": named})
    (folder / "demo.yaml").write_text(yaml.safe_dump(entries, sort_keys=False))
    found = pipeline.analyse_files(loader.spec_files(str(folder)))
    assert {one.code for one in found.diagnostics} <= {"M070"}
    return [(one.op, one.field, one.message) for one in found.diagnostics]


def test_a_stage_is_run_by_an_entry_read_or_one_of_the_projects(tmp_path):
    assert _defects(tmp_path, OneFwdOp=["ScaleFwdOp", "GEMMFwdOp"]) == []
    ((op, field, message),) = _defects(tmp_path, OneFwdOp=["ScaleFwdOp", "NoSuchFwdOp"])
    assert (op, field) == ("OneFwdOp", "composition.stages[1]") and message.startswith("no op 'NoSuchFwdOp'")


def test_where_one_family_is_built_the_ops_of_others_are_not_missed(tmp_path):
    _defects(tmp_path, OneFwdOp=["NoSuchFwdOp"])
    assert list(pipeline.analyse_files(loader.spec_files(str(tmp_path)), complete=False).diagnostics) == []


def test_no_op_runs_itself(tmp_path):
    ((op, field, message),) = _defects(tmp_path, OneFwdOp=["ScaleFwdOp", "OneFwdOp"])
    assert (op, field, message) == (
        "OneFwdOp",
        "composition.stages[1]",
        "'OneFwdOp' runs OneFwdOp, which would then run itself",
    )


def test_no_op_runs_itself_through_others(tmp_path):
    found = _defects(tmp_path, OneFwdOp=["TwoFwdOp"], TwoFwdOp=["ScaleFwdOp", "ThreeFwdOp"], ThreeFwdOp=["OneFwdOp"])
    assert [(op, field) for op, field, _ in found] == [("OneFwdOp", "composition.stages[0]")]


@pytest.fixture
def formulas(monkeypatch):
    module = types.ModuleType("acme_formulas")
    exec(  # functions that this module itself defines
        "import math\nfrom os.path import join\ndef price(call): return 0, 0\ndef two(call, op): return 0, 0\n"
        "def keyword(*, call): return 0, 0\ndef defaulted(call=None): return 0, 0\n"
        "def any_number(*calls): return 0, 0\nclass Price:\n    def __call__(self, call): return 0, 0\n"
        "instance = Price()\nNUMBER = 3\n",
        vars(module),
    )
    monkeypatch.setitem(sys.modules, "acme_formulas", module)


@pytest.mark.requirement("2.2.15")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("price", ""),
        ("missing", "has no function 'missing'"),
        ("NUMBER", "is no function but a int"),
        ("Price", "is no function but a type"),
        ("instance", "is no function but a Price"),
        ("join", "is a function of posixpath; name it by that module"),
        ("two", "(call, op) must take the checked call and nothing else"),
        ("keyword", "must take the checked call"),
        ("defaulted", "must take the checked call"),
        ("any_number", "must take the checked call"),
    ],
)
def test_a_formula_is_a_function_of_its_module_that_takes_the_checked_call_and_nothing_else(formulas, name, said):
    checked, analysis, found = check(variant("roofline", {"func": f"acme_formulas.{name}"}))
    assert found == []
    later = Diagnostics()
    check_func(checked.entry, analysis, later)
    assert [(one.code, said in one.message) for one in later] == ([("R021", True)] if said else [])


@pytest.mark.parametrize("module", ["tileops.codegen.validate", "tileops.codegen.emit", "tileops.codegen.explain"])
def test_a_command_that_takes_one_folder_refuses_a_second(module):
    arguments = {"tileops.codegen.emit": ["--check"], "tileops.codegen.explain": ["--op=GEMMFwdOp"]}.get(module, [])
    done = subprocess.run(
        [sys.executable, "-m", module, "--spec_dir=a", "--spec_dir=b", *arguments],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 2
    assert done.stderr.endswith("--spec_dir takes one folder, and 2 are named: a, b\n")
