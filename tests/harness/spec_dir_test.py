"""A team's own manifest, outside the project: emitted, priced and run with what a plugin brings."""

import os
import subprocess
import sys

import pytest

from tileops.perf.runs import reader
from tileops.proto import benchmark_pb2

SPEC = """\
NegateFwdOp:
  family: private
  status: spec-only
  ref_api: torch.neg
  signature:
    forall: {S: Shape, T: "DType[float16 | float32]"}
    inputs:
      x: {dtype: T, shape: "[*S]"}
    outputs:
      output: {dtype: T, shape: "[*S]"}
  workloads:
    - {label: little, S: [4, 8], dtype_cases: [{T: float32}]}
  roofline:
    flops: "prod(S)"
"""
PLUGIN = """\
import tileops_generated_private as generated
import torch
from tileops.ops.implementations import implementation

class NegateFwdOp(generated.NegateFwdOp):
    @implementation("torch")
    def _torch(self, call, x):
        return -x

def late(op, call, x):
    return torch.neg(x)

NegateFwdOp.register("late", late)
"""


@pytest.fixture
def bench(tmp_path):
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "private.yaml").write_text(SPEC)
    (tmp_path / "ours.py").write_text(PLUGIN)
    environment = dict(os.environ, BUILD_WORKING_DIRECTORY=str(tmp_path), PYTHONPATH=os.pathsep.join(sys.path))

    def run(*flags):
        done = subprocess.run(
            [sys.executable, "-m", "tileops.perf.bench", "--spec_dir=spec", "--out=run.binpb", *flags],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr

    return run


def records(tmp_path):
    return list(reader.read_run(tmp_path / "run.binpb").records())


def test_a_private_entry_is_priced_before_it_has_code(tmp_path, bench):
    status, err = bench("--device=meta")
    assert status == 0, err
    (record,) = records(tmp_path)
    assert (record.op, record.family) == ("NegateFwdOp", "private")
    assert (record.flops, record.bytes, record.read_bytes) == (32, 256, 128)
    assert record.roof_key == ""


def test_a_private_entry_runs_with_its_plugin(tmp_path, bench):
    status, err = bench("--device=cpu", "--plugin=ours.py")
    assert status == 0, err
    assert {record.implementation: record.status for record in records(tmp_path)} == {
        "torch": benchmark_pb2.STATUS_OK,
        "late": benchmark_pb2.STATUS_OK,
    }
    assert {record.roof_key for record in records(tmp_path)} == {"cuda_core.fp32"}


def test_a_formula_that_raises_is_named(tmp_path, bench):
    (tmp_path / "spec" / "private.yaml").write_text(SPEC.replace("prod(S)", "prod(S) // (S[0] - 4)"))
    status, err = bench("--device=meta")
    assert status == 1, err
    (record,) = records(tmp_path)
    assert "NegateFwdOp: flops (private.yaml:14) has no value for this call: integer division" in record.message
    assert record.message in err


def test_a_row_without_its_nullable_output_is_measured(tmp_path, bench):
    spec = SPEC.replace(
        '[*S]"}\n  workloads', '[*S]"}\n      sign: {dtype: T, shape: "[*S]", nullable: signed}\n  workloads'
    )
    spec = spec.replace("    inputs:", "    params: {signed: {type: bool, default: false}}\n    inputs:")
    (tmp_path / "spec" / "private.yaml").write_text(spec)
    code = PLUGIN.replace("return -x", "return -x, None").replace("torch.neg(x)", "torch.neg(x), None")
    (tmp_path / "ours.py").write_text(code)
    status, err = bench("--device=cpu", "--plugin=ours.py")
    assert status == 0, err
    assert [(record.implementation, record.status) for record in records(tmp_path)] == [
        ("torch", benchmark_pb2.STATUS_OK),
        ("late", benchmark_pb2.STATUS_OK),
    ]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("'rows': 4.0", "roofline_data_terms() gave 4.0 for 'rows'; return names with ints"),
        ("'rows': 2**63", "roofline_data_terms() gave 9223372036854775808 for 'rows'"),
    ],
)
def test_a_data_term_that_is_no_count_is_told_with_the_method_that_gave_it(tmp_path, bench, code, said):
    (tmp_path / "ours.py").write_text(
        PLUGIN.replace("    @impl", f"    def roofline_data_terms(self):\n        return {{{code}}}\n\n    @impl")
    )
    status, err = bench("--device=meta", "--plugin=ours.py")
    assert status == 1 and said in err


FORMULAS = "def negate(call):\n    return call.tensors['x'].bytes, 7\n"


def _with_func(path):
    return SPEC.replace('flops: "prod(S)"', f'func: "{path}"')


@pytest.mark.parametrize("command", ["codegen.validate", "ops.conformance.conformance", "perf.bench"])
def test_a_formula_in_the_folder_that_the_user_stands_in_is_found(tmp_path, bench, command):
    (tmp_path / "spec" / "private.yaml").write_text(
        _with_func("ours_formulas.negate").replace("spec-only", "implemented")
    )
    (tmp_path / "ours_formulas.py").write_text(FORMULAS)
    plugin = [] if command == "codegen.validate" else ["--plugin=ours.py"]
    if command == "perf.bench":
        status, err = bench("--device=cpu", *plugin)
    else:
        environment = dict(os.environ, BUILD_WORKING_DIRECTORY=str(tmp_path), PYTHONPATH=os.pathsep.join(sys.path))
        done = subprocess.run(
            [sys.executable, "-m", f"tileops.{command}", "--spec_dir=spec", *plugin],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        status, err = done.returncode, done.stdout + done.stderr
    assert status == 0, err


def test_a_formula_that_is_not_written_yet_costs_its_own_row_alone(tmp_path, bench):
    later = _with_func("nowhere_formulas.negate").replace("NegateFwdOp", "LaterFwdOp")
    (tmp_path / "spec" / "private.yaml").write_text(SPEC + later)
    status, err = bench("--device=meta")
    assert status == 1 and "LaterFwdOp" in err and "No module named 'nowhere_formulas'" in err
    priced = {record.op: record.status for record in records(tmp_path)}
    assert priced == {"NegateFwdOp": benchmark_pb2.STATUS_OK, "LaterFwdOp": benchmark_pb2.STATUS_ERROR}


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            None,
            "No module named 'ours_formulas'; put it into {folder}, where the command runs, install it, or name by"
            " --root=ours_formulas=DIR the folder in which ours_formulas is",
        ),
        ("import nowhere\n", "No module named 'nowhere' (ours_formulas.py:1)"),
    ],
)
def test_a_formula_whose_module_cannot_be_imported_is_told_with_its_line_in_the_manifest(tmp_path, bench, code, said):
    (tmp_path / "spec" / "private.yaml").write_text(
        _with_func("ours_formulas.negate").replace("spec-only", "implemented")
    )
    if code is not None:
        (tmp_path / "ours_formulas.py").write_text(code)
    status, err = bench("--device=meta")
    assert status == 2 and "tileops-generated" not in err and len(err.splitlines()) == 1
    assert "private.yaml:14: func: ours_formulas cannot be imported: ModuleNotFoundError: " in err
    assert err.rstrip().endswith(said.format(folder=tmp_path))


def test_a_formula_that_raises_is_told_with_its_line(tmp_path, bench):
    (tmp_path / "spec" / "private.yaml").write_text(_with_func("ours_formulas.negate"))
    (tmp_path / "ours_formulas.py").write_text("def negate(call):\n    return 1 // 0, 7\n")
    status, err = bench("--device=meta")
    assert status == 1 and "(private.yaml:14: func) raised ZeroDivisionError" in err
    assert "(ours_formulas.py:2, in negate)" in err


def test_an_op_without_inputs_is_priced_without_code(tmp_path, bench):
    spec = SPEC.replace('{S: Shape, T: "DType[float16 | float32]"}', "{}").replace(
        'inputs:\n      x: {dtype: T, shape: "[*S]"}', "inputs: {}"
    )
    spec = spec.replace("    inputs:", '    params: {S: {type: "list[int]"}}\n    inputs:').replace(
        "dtype: T,", "dtype: float32,"
    )
    (tmp_path / "spec" / "private.yaml").write_text(spec.replace(", dtype_cases: [{T: float32}]", ""))
    status, err = bench("--device=meta")
    assert status == 0, err
    assert [(record.flops, record.bytes) for record in records(tmp_path)] == [(32, 128)]


def test_a_price_that_no_run_file_holds_is_told_as_flops_or_bytes_with_the_limit(tmp_path, bench):
    (tmp_path / "spec" / "private.yaml").write_text(SPEC.replace("prod(S)", "prod(S) * 1152921504606846976"))
    status, err = bench("--device=meta")
    assert status == 1 and "flops of eval_roofline() gave 36893488147419103232, but a price must be at most" in err


def test_a_defect_of_a_private_manifest_is_said_with_its_line(tmp_path, bench):
    (tmp_path / "spec" / "private.yaml").write_text(SPEC.replace("prod(S)", "product(S)"))
    status, err = bench("--device=meta")
    assert status == 2 and "private.yaml:" in err and "product" in err
    assert not (tmp_path / "run.binpb").exists()


FORMULA = """\
def price(call):
    sizes = call.indices["S"]
    if sizes == (6, 6):
        raise ValueError("no price of six")
    return sizes[0], call.bytes("x")
"""


@pytest.fixture
def rooted(tmp_path):
    """A manifest whose formula is in a package that is called as this project is."""
    spec = SPEC.replace('flops: "prod(S)"', "func: tileops._costs.price").replace(
        "    - {label: little", "    - {label: six, S: [6, 6], dtype_cases: [{T: float32}]}\n    - {label: little"
    )
    (tmp_path / "spec" / "private.yaml").write_text(spec)
    package = tmp_path / "theirs" / "tileops"
    package.mkdir(parents=True)
    (package / "_costs.py").write_text(FORMULA)
    return package / "_costs.py"


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_a_formula_of_another_package_prices_in_every_process_and_fails_its_row_alone(tmp_path, bench, rooted, device):
    flags = [f"--device={device}", "--root=tileops=theirs", "--rows=all"]
    status, err = bench(*(flags[:2] if device == "meta" else [*flags, "--plugin=ours.py"]))
    found = records(tmp_path)
    assert status == 1, err
    right = [record for record in found if record.label == "little"]
    wrong = [record for record in found if record.label == "six"]
    assert right and {(one.status, one.flops, one.bytes) for one in right} == {(benchmark_pb2.STATUS_OK, 4, 128)}
    assert wrong and all(
        "NegateFwdOp: tileops._costs.price raised ValueError: no price of six" in one.message for one in wrong
    )
    (plugin,) = [one for one in reader.read_run(tmp_path / "run.binpb").header.plugins if one.name.startswith("--root")]
    assert (plugin.name, list(plugin.sources)) == ("--root=tileops", ["tileops._costs"])


def test_a_root_needs_a_manifest_and_a_formula_its_root(tmp_path, bench, rooted):
    status, err = bench("--device=meta")
    assert status == 1 and "tileops._costs.price cannot be used" in err
    done = subprocess.run(
        [sys.executable, "-m", "tileops.perf.bench", "--root=tileops=theirs", "--list"],
        env=dict(os.environ, BUILD_WORKING_DIRECTORY=str(tmp_path), PYTHONPATH=os.pathsep.join(sys.path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "--root says where formulas of another manifest are" in done.stderr


def test_files_of_one_name_in_two_directories_are_shards_of_one_family(tmp_path, bench):
    (tmp_path / "spec2").mkdir()
    (tmp_path / "spec2" / "private.yaml").write_text(SPEC.replace("NegateFwdOp", "SecondFwdOp"))
    status, err = bench("--device=meta", "--spec_dir=spec2")
    assert status == 0, err
    assert {record.op for record in records(tmp_path)} == {"NegateFwdOp", "SecondFwdOp"}


def test_an_op_or_types_in_two_directories_are_refused_with_both_files(tmp_path, bench):
    (tmp_path / "spec2").mkdir()
    (tmp_path / "spec2" / "private.yaml").write_text(SPEC)
    status, err = bench("--device=meta", "--spec_dir=spec2")
    assert status == 2 and "spec/private.yaml:1" in err and "spec2/private.yaml:1" in err
    for name in ("spec", "spec2"):
        (tmp_path / name / "types.yaml").write_text("{}\n")
    status, err = bench("--device=meta", "--spec_dir=spec2")
    assert status == 2 and "spec/types.yaml and " in err and "spec2/types.yaml" in err


@pytest.mark.parametrize("module", ["tileops.codegen.validate", "tileops.codegen.emit"])
def test_programs_of_one_spec_dir_refuse_a_second(tmp_path, module):
    environment = dict(os.environ, BUILD_WORKING_DIRECTORY=str(tmp_path), PYTHONPATH=os.pathsep.join(sys.path))
    flags = ["--check"] if module.endswith("emit") else []
    done = subprocess.run(
        [sys.executable, "-m", module, "--spec_dir=a", "--spec_dir=b", *flags],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--spec_dir takes one folder, and 2 are named: a, b" in done.stderr and done.stderr.count("\n") == 1


def test_resume_and_prices_are_held_to_the_manifest(tmp_path, bench):
    assert bench("--device=meta")[0] == 0
    (told,) = reader.read_run(tmp_path / "run.binpb").header.plugins
    assert told.name == "--spec_dir=spec" and list(told.sources) == ["private.yaml"]
    (tmp_path / "spec" / "private.yaml").write_text(SPEC.replace("prod(S)", "2 * prod(S)"))
    status, err = bench("--device=meta", "--resume")
    assert status == 2 and "spec is not the same (its private.yaml)" in err and len(err.splitlines()) == 1
    (tmp_path / "spec" / "private.yaml").write_text(SPEC)
    assert bench("--device=meta", "--resume")[0] == 0
