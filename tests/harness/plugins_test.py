"""What a plugin may bring to a run: names of its own, modules beside its file, and at least one implementation."""

import os
import pathlib
import types

import pytest

from tileops.perf.harness import plan
from tileops.perf.runs import reader
from tileops.tests.harness import runs

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


@pytest.mark.parametrize(
    "code",
    [
        "op_class.register('torch', lambda op, call, x, w: x * 2)",
        "op_class.register('triton', lambda op, call, x, w: x)",
        "from tileops.ops.implementations import implementation\n"
        "class RMSNormFwdOp(op_class):\n"
        "    @implementation('torch')\n"
        "    def _mine(self, call, x, w):\n"
        "        return x\n",
    ],
    ids=["the reference", "another", "a class of its own"],
)
def test_a_plugin_may_not_take_the_name_of_an_implementation_that_the_op_has(tmp_path, project, code):
    path = _write(tmp_path / "fake.py", REGISTER + code)
    status, out, err = project("--list", *OP, "--plugin=fake.py")
    assert (status, out) == (2, "") and len(err.splitlines()) == 1, err
    assert f"--plugin={path}: its implementation" in err
    assert "of RMSNormFwdOp has the name of an implementation of the op" in err
    assert "rename one of them" in err


def test_a_plugin_may_not_bring_a_class_whose_reference_is_another(tmp_path, project):
    _write(
        tmp_path / "fake.py",
        "from tileops.ops.generated import norm as generated\n"
        "from tileops.ops.implementations import implementation\n"
        "class RMSNormFwdOp(generated.RMSNormFwdOp):\n"
        "    @implementation('mine')\n"
        "    def _mine(self, call, x, w):\n"
        "        return x\n",
    )
    status, out, err = project("--list", *OP, "--plugin=fake.py")
    assert (status, out) == (2, "") and len(err.splitlines()) == 1, err
    assert "RMSNormFwdOp now has the reference 'mine' instead of 'torch'" in err


@pytest.mark.requirement("4.2.1")
def test_a_plugin_may_not_bring_a_class_with_a_price_of_its_own(tmp_path, project):
    _write(
        tmp_path / "dear.py",
        "from tileops.ops.families import norm as own\n"
        "class RMSNormFwdOp(own.RMSNormFwdOp, generated=True):\n"
        "    def eval_roofline(self):\n"
        "        return 10**12, 10**12\n",
    )
    status, out, err = project("--list", *OP, "--plugin=dear.py")
    assert (status, out) == (2, "") and len(err.splitlines()) == 1, err
    assert "its class RMSNormFwdOp has a price of its own" in err


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
    _write(
        path.parent / "later.py",
        (
            "from tileops.ops import catalogue\n"
            "def right(op, call, x, w):\n"
            "    reference = catalogue.load()['RMSNormFwdOp'].implementations()[0]\n"
            "    return reference.function(op, call, x, w)\n"
        ),
    )
    _write(tmp_path / "helper.py", "raise ImportError('this one lies where the user stands')\n")
    status, _, err = project("--device=cpu", *OP, "--plugin=plug/main.py", "--implementation=right")
    assert status == 0 and "1 record: 1 ok" in err, err


def test_two_plugins_with_unlike_modules_of_one_name_are_told(tmp_path, project):
    for name in ("one", "two"):
        path = _write(
            tmp_path / name / "main.py", f"{REGISTER}import helper\nop_class.register('{name}', helper.right)\n"
        )
        _write(path.parent / "helper.py", "def right(op, call, x, w):\n    return x\n")
    status, _, err = project("--list", *OP, "--plugin=one/main.py", "--plugin=two/main.py")
    assert status == 2 and len(err.splitlines()) == 1, err
    told = os.path.join(tmp_path, "one", "helper.py")
    assert f"the module 'helper' beside it is not loaded, since {told}" in err


def test_a_plugin_that_registers_nothing_is_named_and_goes_along(tmp_path, project):
    path = _write(tmp_path / "forgot.py", "def mine(op, call, x, w):\n    return x\n")
    _write(tmp_path / "more.py", f"{REGISTER}op_class.register('more', lambda op, call, x, w: x)\n")
    status, out, err = project("--list", *OP, "--plugin=forgot.py", "--plugin=more.py")
    assert status == 0 and "more" in out
    (line,) = err.splitlines()
    assert f"--plugin={path}: registers no implementation of an op of this run" in line
    status, _, err = project("--list", *OP, "--plugin=forgot.py", "--implementation=mine")
    assert (
        status == 2 and "registers no implementation" in err and "--implementation=mine: no selected op has an" in err
    )


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
    assert "this is family 'private' of a manifest outside the project: name its folder with --spec_dir" in err


def _register(*implementations):
    """Returns a plug-in of RMSNormFwdOp; each implementation is a name and its `when`."""
    lines = (
        f"op_class.register({name!r}, lambda op, call, x, w: rms(op, x, w), when={when})\n"
        for name, when in implementations
    )
    return (
        f"{REGISTER}import torch\n"
        "def on_mars(call):\n    '''The call's tensors are on Mars.'''\n    return call.device.startswith('mars')\n"
        "def rms(op, x, w):\n"
        "    return torch.nn.functional.rms_norm(x, (x.shape[-1],), w, op.params['eps'])\n" + "".join(lines)
    )


def _listed(out):
    return {tuple(line.split("\t")[:2]): line.split("\t")[2].split(",") for line in out.splitlines()}


def _measured(path):
    rows = {}
    for record in reader.read_run(path).records():
        rows.setdefault((record.op, record.case_id), []).append(record.implementation)
    return rows


CPU = (*OP, "--device=cpu", "--rows=all", "--out=run.binpb", "--max_row_seconds=60")


def test_a_plugin_that_serves_no_row_is_named_with_its_when_and_fails_the_run(tmp_path, project):
    path = _write(tmp_path / "mine.py", _register(("mine", "on_mars")))
    line = f"RMSNormFwdOp: mine of --plugin={path} does not serve"
    reason = "its when, on_mars (mine.py:5), is false: The call's tensors are on Mars."
    listed, out, err = project("--list", *CPU, "--plugin=mine.py")
    assert listed == 0 and line in err and reason in err
    status, _, err = project(*CPU, "--plugin=mine.py")
    assert status == 1 and line in err and reason in err and "0 skipped" in err
    assert _listed(out) == _measured(tmp_path / "run.binpb")
    assert "mine" not in out


def test_what_serves_some_rows_is_not_named_and_list_and_run_agree(tmp_path, project):
    _write(
        tmp_path / "mine.py",
        _register(
            ("never", "lambda call: False"),
            ("half", "lambda call: call.tensors['x'].shape[-1] == 4096"),
            ("all_", "None"),
        ),
    )
    two_rows = (*CPU, "--label=llama-70b-decode", "--plugin=mine.py")
    _, out, err = project("--list", *two_rows)
    status, _, run_err = project(*two_rows)
    for said in (err, run_err):
        assert "RMSNormFwdOp: never of --plugin=" in said and "any of the 2 selected rows" in said
        assert "when=lambda call: False)" in said  # the line that registers it
        assert "half of" not in said and "all_ of" not in said
    assert status == 0, run_err
    measured = _measured(tmp_path / "run.binpb")
    assert _listed(out) == measured
    assert sorted(len(names) for names in measured.values()) == [2, 3] and all(
        "all_" in names for names in measured.values()
    )


def test_a_name_that_serves_no_row_is_said_with_its_when(tmp_path, bench):
    flags = (
        "--device=cpu",
        "--op=Scale*",
        "--label=small",
        "--rows=all",
        "--out=run.binpb",
        runs.plugin("implementations"),
    )
    line = "ScaleFwdOp: gpu of --plugin="
    reason = "does not serve the one selected row: its when, on_cuda (implementations.py:"
    _, out, err = bench("--list", *flags, "--implementation=honest,gpu")
    assert out == "ScaleFwdOp\tsmall-float32\thonest\n" and line in err and reason in err
    assert "the call's tensors are on an NVIDIA (or ROCm) GPU." in err
    status, _, err = bench(*flags, "--implementation=honest,gpu")
    assert status == 0 and line in err and reason in err and "skipped 1, does not serve this row" in err
    status, _, err = bench(*flags, "--implementation=honest,gpu", "--resume")
    assert line in err  # by the records of the file
    status, _, err = bench(*flags, "--implementation=gpu")
    assert status == 1 and line in err


def test_prices_and_other_ops_are_of_no_implementation(tmp_path, bench):
    status, _, err = bench("--device=meta", "--op=Scale*", runs.plugin("implementations"))
    assert status == 0 and "does not serve" not in err
    status, out, err = bench("--list", "--device=meta", "--op=Scale*", "--label=small", runs.plugin("implementations"))
    assert (status, err) == (0, "") and out == "ScaleFwdOp\tsmall-float32\ttorch,honest,gpu\n"
    status, _, err = bench("--device=cpu", "--op=Scatter*", runs.plugin("implementations"))
    assert status == 0 and "does not serve" not in err


def test_a_plugin_for_ops_without_a_selected_row_is_named(tmp_path, project):
    mine = _write(tmp_path / "mine.py", REGISTER + "op_class.register('mine', lambda op, call, x, w: x)\n")
    flags = ("--device=cpu", "--op=ReLUFwdOp", "--label=elementwise-4K", "--implementation=all", f"--plugin={mine}")
    for more, expected in ((["--list"], 0), (["--out=run.binpb"], 1)):
        status, _, err = project(*flags, *more)
        assert status == expected, err
        assert f"--plugin={mine}: the ops that it implements have no selected row (RMSNormFwdOp)" in err


def test_rows_in_other_parts_of_a_run_are_selected_rows(tmp_path, project):
    mine = _write(tmp_path / "mine.py", REGISTER + "op_class.register('mine', lambda op, call, x, w: x)\n")
    flags = ("--list", "--op=R*FwdOp", "--label=elementwise-4K,llama-8b-decode", "--device=cpu", f"--plugin={mine}")
    listed = [project(*flags, f"--shard={part}/2") for part in (1, 2)]
    assert sorted("RMSNormFwdOp" in out for _, out, _ in listed) == [False, True]
    assert [err for _, _, err in listed if "have no selected row" in err] == []


def test_a_plugin_that_the_names_leave_out_is_named(tmp_path, project):
    mine = _write(tmp_path / "mine.py", REGISTER + "op_class.register('mine', lambda op, call, x, w: x)\n")
    flags = (*CPU, f"--plugin={mine}", "--implementation=torch")
    for more in ([], ["--list"]):
        status, _, err = project(*flags, *more)
        assert status == 0 and f"--implementation leaves out all that --plugin={mine} registers\n" in err


def _loop(call):
    return False


_loop.__wrapped__ = _loop


def _number(call):
    return False


_number.__doc__ = 5


class _When:
    __name__ = None

    def __call__(self, call):
        return False


_MADE: dict = {}
exec(compile("made = lambda call: False", "/nonexistent/x.py", "exec"), globals() | {"__builtins__": {}}, _MADE)


@pytest.mark.parametrize(
    ("when", "said"),
    [
        (_loop, "its when, _loop (plugins_test.py:{line}), is false: def _loop(call): return False"),
        (_number, "its when, _number (plugins_test.py:{line}), is false: def _number(call): return False"),
        (_When(), "its when, _When, is false"),
        (_MADE["made"], "its when (x.py:1), is false"),  # inspect would quote line 1 of this module
    ],
    ids=["wraps itself", "a number as docstring", "no name", "made by exec"],
)
def test_any_when_is_described(when, said):
    implementation = types.SimpleNamespace(when=when)
    line = getattr(getattr(when, "__code__", None), "co_firstlineno", 0)
    (found,) = plan.unserved({("SiLUFwdOp", "mine"): implementation}, (), {"SiLUFwdOp": 2}, {})
    assert found.endswith(": " + said.format(line=line))
