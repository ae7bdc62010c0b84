"""What a plugin may bring to a run: names of its own, modules beside its file, and at least one implementation."""

import os
import pathlib

import pytest

from tileops.tests.bench import runs

OP = ("--op=RMSNormFwdOp", "--label=llama-8b-decode")
REGISTER = """\
from tileops.ops import catalogue

op_class = catalogue.load()["RMSNormFwdOp"]
"""


@pytest.fixture
def project(tmp_path):
    """Runs the bench with the project's ops where the user stands in `tmp_path`; returns (status, stdout, stderr)."""

    def run(*flags, **options):
        process = runs.start(tmp_path, *flags, **options)
        out, err = process.communicate(timeout=240)
        return process.returncode, out, err

    return run


def _write(path: pathlib.Path, code: str) -> pathlib.Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(code)
    return path


@pytest.mark.parametrize("code", [
    "op_class.register('torch', lambda op, call, x, w: x * 2)",
    "op_class.register('triton', lambda op, call, x, w: x)",
    "from tileops.ops.implementations import implementation\n"
    "class RMSNormFwdOp(op_class):\n"
    "    @implementation('torch')\n"
    "    def _mine(self, call, x, w):\n"
    "        return x\n",
], ids=["the reference", "another", "a class of its own"])  # fmt: skip
def test_a_plugin_may_not_take_the_name_of_an_implementation_that_the_op_has(tmp_path, project, code):
    path = _write(tmp_path / "fake.py", REGISTER + code)
    status, out, err = project("--list", *OP, "--plugin=fake.py")
    assert (status, out) == (2, "") and len(err.splitlines()) == 1, err
    assert f"--plugin={path}: its implementation" in err
    assert "of RMSNormFwdOp takes the place of the one of that name that the op has already" in err
    assert "give one of them another name" in err


def test_a_plugin_may_not_bring_a_class_whose_reference_is_another(tmp_path, project):
    _write(
        tmp_path / "fake.py",
        "from tileops.ops.generated import normalization as generated\n"
        "from tileops.ops.implementations import implementation\n"
        "class RMSNormFwdOp(generated.RMSNormFwdOp):\n"
        "    @implementation('mine')\n"
        "    def _mine(self, call, x, w):\n"
        "        return x\n",
    )
    status, out, err = project("--list", *OP, "--plugin=fake.py")
    assert (status, out) == (2, "") and len(err.splitlines()) == 1, err
    assert "RMSNormFwdOp has the reference 'mine' now, in place of 'torch'" in err


def test_a_plugin_finds_the_modules_beside_it_on_import_and_in_a_call(tmp_path, project):
    """Wherever the user stands, and before what lies there; but not before Python's own and the project's."""
    plugin = REGISTER + (
        "import helper, json\n"
        "assert hasattr(json, 'loads')\n"
        "def right(op, call, x, w):\n"
        "    import later\n"
        "    return later.right(op, call, x, w)\n"
        "op_class.register('right', right)\n"
    )
    path = _write(tmp_path / "plug" / "main.py", plugin)
    _write(path.parent / "helper.py", "")
    _write(path.parent / "json.py", "")
    _write(path.parent / "torch.py", "raise ImportError('not this one')\n")
    _write(path.parent / "tileops.py", "raise ImportError('not this one')\n")
    _write(path.parent / "later.py", (
        "from tileops.ops import catalogue\n"
        "def right(op, call, x, w):\n"
        "    reference = catalogue.load()['RMSNormFwdOp'].implementations()[0]\n"
        "    return reference.function(op, call, x, w)\n"
    ))  # fmt: skip
    _write(tmp_path / "helper.py", "raise ImportError('this one lies where the user stands')\n")
    status, _, err = project("--device=cpu", *OP, "--plugin=plug/main.py", "--implementation=right")
    assert status == 0 and "1 records: 1 ok" in err, err


def test_two_plugins_with_unlike_modules_of_one_name_are_told(tmp_path, project):
    for name in ("one", "two"):
        path = _write(tmp_path / name / "main.py", f"{REGISTER}import helper\nop_class.register('{name}', helper.right)\n")
        _write(path.parent / "helper.py", "def right(op, call, x, w):\n    return x\n")
    status, _, err = project("--list", *OP, "--plugin=one/main.py", "--plugin=two/main.py")
    assert status == 2 and len(err.splitlines()) == 1, err
    told = os.path.join(tmp_path, "one", "helper.py")
    assert f"the module 'helper' beside it is not the one that is loaded, which is {told}" in err


def test_a_plugin_that_registers_nothing_is_named_and_goes_along(tmp_path, project):
    path = _write(tmp_path / "forgot.py", "def mine(op, call, x, w):\n    return x\n")
    _write(tmp_path / "more.py", f"{REGISTER}op_class.register('more', lambda op, call, x, w: x)\n")
    status, out, err = project("--list", *OP, "--plugin=forgot.py", "--plugin=more.py")
    assert status == 0 and "more" in out
    (line,) = err.splitlines()
    assert f"--plugin={path}: registers no implementation of an op of this run" in line
    status, _, err = project("--list", *OP, "--plugin=forgot.py", "--implementation=mine")
    assert status == 2 and "registers no implementation" in err and "--implementation=mine: no selected op has one" in err


def test_a_plugin_that_only_brings_a_class_is_not_named(tmp_path, bench):
    _write(
        tmp_path / "ours.py",
        "import tileops_generated_toy as generated\nclass ScaleFwdOp(generated.ScaleFwdOp):\n    pass\n",
    )
    status, _, err = bench("--list", "--plugin=ours.py")
    assert (status, err) == (0, "")


def test_a_plugin_of_private_ops_without_their_manifest_is_told_what_is_missing(tmp_path, project):
    _write(tmp_path / "ours.py", "\nimport tileops_generated_private as generated\n")
    status, _, err = project("--list", "--plugin=ours.py")
    assert status == 2 and "No module named 'tileops_generated_private' (ours.py:2)" in err
    assert "that is family 'private' of a manifest outside the project: name its folder with --spec_dir" in err
