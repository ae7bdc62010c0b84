"""Help, usage errors and lists of every command import no torch. The answer to an unknown name is short."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tileops.ops import catalogue, row_index
from tileops.tools.cli import nearest

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
        ("perf.bench", ["--family=gem"], "--family=gem fits no family; there are: attention, "),
        ("perf.bench", ["--label=nowhere", "--list"], "--label=nowhere fits no label; the nearest are "),
        (
            "perf.bench",
            ["--implementation=tritn"],
            "--implementation=tritn: no selected op has one of that name; there are: cudnn, ",
        ),
        ("perf.bench", ["--device=gpu"], "--device=gpu: "),
        ("perf.bench", ["--shard=3/2"], "--shard=3/2: "),
        ("perf.bench", ["--plugin=nowhere.py"], "--plugin=nowhere.py: there is no file"),
        ("perf.bench", ["--spec_dir=a", "--generated_dir=b"], "exclude each other"),
        ("perf.bench", ["--reproducible", "--device=cpu"], "--reproducible needs"),
        ("perf.reprice", ["--run=nowhere.binpb"], "nowhere.binpb"),
        ("perf.calibrate", ["--base=H2OO"], "no profile of that name: 'H2OO' (the nearest are "),
        ("perf.clock_study", [], "--study=flush or --study=replay is wanted"),
        ("perf.clock_study", ["--study=flush", "--device=cpu"], "--device=cpu: cuda or cuda:N is wanted"),
        ("perf.roofline", ["--op=Gem"], "of --op the nearest are GEMMFwdOp, "),
        ("perf.roofline", ["--profile=H2OO"], "no profile of that name: 'H2OO' (the nearest are "),
        ("audit.bytes", ["--op=GEMM"], "--op=GEMM fits no op; the nearest are GEMMFwdOp, "),
        (
            "audit.bytes",
            ["--op=GEMM*", "--case=nowhere"],
            "--case=nowhere fits none of the selected rows; the nearest are ",
        ),
        ("audit.bytes", ["--device=cpu"], "--device=cpu: "),
        ("ops.conformance.conformance", ["--op=GEMM"], "no entry matches 'GEMM'; the nearest are GEMMFwdOp, "),
        ("codegen.explain", ["--op=GEMM"], "no op 'GEMM'; the nearest are GEMMFwdOp, "),
        ("codegen.emit", ["--family=gem", "--out=x.py"], "no family 'gem'; there are: attention, "),
        ("codegen.validate", ["--op=GEMM"], "--op=GEMM fits no op; the nearest are GEMMFwdOp, "),
    ],
)
def test_usage_errors_import_no_torch_and_take_one_line(command, flags, said):
    status, lines, err, imported = run(command, *flags)
    assert (status, lines, imported) == (2, [], "none"), err
    assert said in err and len(err.splitlines()) == 1 and len(err) < 400
    if "the nearest are" in err:
        assert " lists all " in err and err.partition("the nearest are")[2].partition(";")[0].count(",") == 2


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
    assert (
        nearest.instead("gemm*", many, "CMD")
        == "the nearest are GEMMFwdOp, GroupedGEMMFwdOp, MulFwdOp; CMD lists all 9"
    )
    assert nearest.instead("Sliu", many, "CMD").startswith("the nearest are SiLUFwdOp, ")
    assert nearest.rows(spec_dir=["my ops"], plugin=["a.py"]) == f"{nearest.ROWS} '--spec_dir=my ops' --plugin=a.py"
