"""Help, usage errors and lists of every command import no torch. The answer to an unknown name is short."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tileops.ops import catalogue, row_index
from tileops.ops import errors as ops_errors
from tileops.tools.cli import gpu_driver, nearest

# Runs a module as its command, and says on the last line of stdout whether torch was imported.
_RUN = """
import runpy, sys
sys.argv = sys.argv[1:]
status = 0
try:
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
except SystemExit as ended:
    status = ended.code or 0
print("torch" if any(name == "torch" or name.startswith("torch.") for name in sys.modules) else "none")
sys.exit(status)
"""
COMMANDS = (
    "perf.bench",
    "perf.roofline",
    "perf.compare",
    "perf.league",
    "perf.stability",
    "perf.records",
    "perf.reprice",
    "perf.predict",
    "perf.calibrate",
    "perf.clock_study",
    "audit.bytes",
    "ops.conformance.conformance",
    "codegen.emit",
    "codegen.explain",
    "codegen.validate",
    "manifest.schema",
)


def run(command: str, *flags: str) -> tuple[int, list[str], str, str]:
    """(status, lines of stdout, stderr, what of torch was imported)."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN, f"tileops.{command}", *flags],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    *lines, imported = done.stdout.splitlines()
    return done.returncode, lines, done.stderr, imported


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_wrong_flags_import_no_torch(command):
    status, lines, _, imported = run(command, "--help")
    assert (status, imported) == (0, "none") and len(lines) > 3
    status, _, err, imported = run(command, "--no_such_flag")
    assert (status, imported) == (2, "none") and "no_such_flag" in err


@pytest.mark.parametrize(
    ("command", "flags", "said"),
    [
        ("perf.bench", ["--op=GEMM"], "--op=GEMM fits no op; the nearest are GEMMFwdOp, "),
        ("perf.bench", ["--family=gem"], "--family=gem fits no family; the nearest are gemm, "),
        (
            "perf.bench",
            ["--label=qqqq", "--list"],
            "--label=qqqq fits no label; ./bazelw run //perf:bench -- --list lists all",
        ),
        (
            "perf.bench",
            ["--implementation=tritn"],
            "--implementation=tritn: no selected op has an implementation of this name; there are: channels_last, cudnn, ",
        ),
        ("perf.bench", ["--device=gpu"], "--device=gpu: "),
        ("perf.bench", ["--shard=3/2"], "--shard=3/2: "),
        ("perf.bench", ["--plugin=nowhere.py"], "--plugin=nowhere.py: there is no file"),
        ("perf.bench", ["--spec_dir=a", "--generated_dir=b"], "exclude each other"),
        ("perf.bench", ["--reproducible", "--device=cpu"], "--reproducible needs"),
        ("perf.bench", ["--device=meta", "--out=nowhere/x.binpb"], "x.binpb: No such file or directory"),
        ("perf.bench", ["--device=meta", "--out=x.txt"], "--out=x.txt: a run file ends in .binpb or .jsonl"),
        ("perf.bench", ["--max_row_seconds=soon"], "--max_row_seconds=soon: write a number ("),
        (
            "perf.bench",
            ["--baselines=liger", "--baselines_dir=nowhere"],
            "--baselines_dir=nowhere: there is no such folder",
        ),
        ("perf.reprice", ["--run=nowhere.binpb"], "nowhere.binpb"),
        ("perf.compare", [], "--base and --new are required ("),
        ("perf.stability", ["--new=a.binpb"], "--base is required ("),
        ("perf.calibrate", ["--base=H20O"], "no profile of that name: 'H20O' (the nearest are "),
        ("perf.calibrate", ["--out=nowhere/x.textproto"], "x.textproto: No such file or directory"),
        ("perf.clock_study", [], "--study is required"),
        ("perf.clock_study", ["--study=flush", "--device=cpu"], "--device=cpu: the experiments need a GPU"),
        ("perf.roofline", ["--op=Gem"], "no record matches --op=Gem; the nearest are GEMMFwdOp, "),
        ("perf.roofline", ["--profile=H20O"], "no profile of that name: 'H20O' (the nearest are "),
        ("perf.roofline", ["--format=csv", "--out=x.json"], "--format=csv contradicts --out=x.json"),
        ("audit.bytes", ["--op=GEMM"], "--op=GEMM fits no op; the nearest are GEMMFwdOp, "),
        ("audit.bytes", ["--op=GEMM*", "--case=nowhere"], "--case=nowhere fits no case; "),
        ("audit.bytes", ["--device=cpu"], "--device=cpu: "),
        ("ops.conformance.conformance", ["--op=GEMM"], "--op=GEMM fits no op; the nearest are GEMMFwdOp, "),
        ("ops.conformance.conformance", ["--plugin=nowhere.py"], "--plugin=nowhere.py: there is no file"),
        ("codegen.explain", ["--op=GEMM"], "--op=GEMM fits no op; the nearest are GEMMFwdOp, "),
        ("codegen.emit", ["--family=gem", "--out=x.py"], "no family 'gem'; the nearest are gemm, "),
        ("codegen.emit", ["--spec_dir=nowhere", "--check"], "/nowhere: there is no such folder"),
        ("codegen.validate", ["--spec_dir=nowhere"], "/nowhere: there is no such folder"),
        ("codegen.validate", [f"--spec_dir={__file__}"], "light_commands_test.py: it is a file; name its folder"),
        ("codegen.validate", ["--op=GEMM"], "--op=GEMM fits no op; the nearest are GEMMFwdOp, "),
    ],
)
def test_usage_errors_import_no_torch_and_take_one_line(command, flags, said):
    status, lines, err, imported = run(command, *flags)
    assert (status, lines, imported) == (2, [], "none"), err
    assert said in err and len(err.splitlines()) == 1 and len(err) < 400
    if "the nearest are" in err:
        assert " lists all " in err and err.partition("the nearest are")[2].partition(";")[0].count(",") <= 2


@pytest.mark.parametrize(
    ("flags", "said"), [([], "exists, and this command replaces"), (["--resume"], "not a run file")]
)
def test_a_file_that_is_no_run_is_refused_without_torch(tmp_path, flags, said):
    (tmp_path / "diary.binpb").write_text("a diary")
    status, lines, err, imported = run("perf.bench", "--device=meta", f"--out={tmp_path}/diary.binpb", *flags)
    assert (status, lines, imported) == (2, [], "none") and said in err and len(err.splitlines()) == 1


@pytest.mark.skipif(gpu_driver.is_present(), reason="a GPU driver is here, so that torch is asked for the GPU")
@pytest.mark.parametrize(
    ("command", "flags", "said"),
    [
        ("perf.bench", ["--device=cuda"], "--device=cuda: this machine has no GPU driver"),
        ("perf.calibrate", [], "there is no CUDA device here"),
        ("perf.clock_study", ["--study=flush"], "--device=cuda:0: the experiments need a GPU"),
    ],
)
def test_a_gpu_that_is_not_there_is_refused_without_torch(command, flags, said):
    status, lines, err, imported = run(command, *flags)
    assert (status, lines, imported) == (2, [], "none") and said in err


def test_help_begins_with_what_the_command_does_and_names_no_path():
    _, lines, _, _ = run("perf.bench", "--help")
    assert lines[0].startswith("Measures workload rows") and not any("bench.py" in line for line in lines)


def test_an_unknown_op_of_the_catalogue_is_named_with_its_nearest():
    with pytest.raises(KeyError, match="^no op 'GemFwdOp'; the nearest are GEMMFwdOp, .* lists all ") as found:
        catalogue.load()["GemFwdOp"]
    assert isinstance(found.value, ops_errors.UnknownOpError)


def test_the_list_is_what_the_ops_themselves_say():
    """Rows, order and implementations, of all rows and of a part; and the audit's, with the branches of each."""
    classes = catalogue.load().values()
    status, lines, _, imported = run("perf.bench", "--list")
    assert (status, imported) == (0, "none")
    assert lines == [
        "\t".join((op.ENTRY, case.case_id, ",".join(op.implementation_names()))) for op in classes for case in op.CASES
    ]
    parts = [run("perf.bench", "--list", f"--shard={at}/2") for at in (1, 2)]
    assert sorted(parts[0][1] + parts[1][1]) == sorted(lines) and {part[3] for part in parts} == {"none"}
    status, lines, _, imported = run("audit.bytes", "--list", "--rows=all")
    assert (status, imported) == (0, "none")
    assert lines == [
        "\t".join((op.ENTRY, case.case_id, "; ".join(op.BRANCHES[at] for at in case.branches)))
        for op in classes
        for case in op.CASES
    ]


def test_the_index_has_the_prices_that_parts_are_made_by():
    for name, op in row_index.load().items():
        assert all(case.bytes > 0 for case in op.CASES), name
    silu = row_index.load()["SiLUAndMulFwdOp"].CASES[0]
    assert silu.flops % 6 == 0 and silu.input_bytes + silu.input_bytes // 2 == silu.bytes  # 2N in, N out


def test_names_are_all_told_where_they_are_few_and_the_nearest_where_they_are_many():
    assert nearest.instead("x", [], "CMD") == "there are: none"
    assert nearest.instead("x", ["b", "a"], "CMD") == "there are: a, b"
    many = [f"{word}FwdOp" for word in "Abs Add GEMM GroupedGEMM Mul ReLU SiLU Sub Tanh".split()]
    assert nearest.instead("gemm*", many, "CMD") == "the nearest are GEMMFwdOp, GroupedGEMMFwdOp; CMD lists all 9"
    assert nearest.instead("xyzzy", many, "CMD") == "CMD lists all 9"  # nothing is near
    assert nearest.instead("Sliu", many, "CMD").startswith("the nearest are SiLUFwdOp; ")
    assert nearest.rows(spec_dir=["my ops"], plugin=["a.py"]) == f"{nearest.ROWS} '--spec_dir=my ops' --plugin=a.py"
