"""The whole path, through the commands a user types: manifest -> generated ops -> bench -> run file -> report."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tileops.perf.comparison import reprice_join
from tileops.perf.report import runs
from tileops.perf.runs import reader as runfile
from tileops.perf.runs import writer as run_writer
from tileops.tools.cli import paths


@pytest.fixture
def run(tmp_path):
    """Runs a command of the project in an empty folder; returns the finished process."""

    def command(module: str, *flags: str) -> subprocess.CompletedProcess:
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), BUILD_WORKING_DIRECTORY=str(tmp_path))
        arguments = [sys.executable, "-m", f"tileops.{module}", *flags]
        return subprocess.run(arguments, env=environment, cwd=tmp_path, capture_output=True, text=True)

    return command


def test_a_cpu_run_proves_the_path_and_prices_nothing(run, tmp_path):
    flags = ("--device=cpu", "--rows=all", "--op=SumFwdOp", "--label=long-seq", "--out=cpu.binpb")
    bench = run("perf.bench", *flags)
    assert bench.returncode == 0, bench.stderr
    report = run("perf.roofline", "--run=cpu.binpb", "--format=json")
    assert report.returncode == 0, report.stderr
    (row,) = json.loads(report.stdout)["rows"]
    assert row["case_id"] == "long-seq-bfloat16"
    assert (row["verdict"], row["blank_reason"], row["efficiency"]) == ("blank", "no_cupti", None)
    assert row["flops"] == 64 * 32768 and row["bytes"] == 2 * (64 * 32768 + 64)
    assert row["actual_time_s"] > 0


def _edited_spec(folder: pathlib.Path, file: str, old: str, new: str) -> None:
    """The project's manifest with one edit in one file."""
    folder.mkdir()
    for source in paths.data_path("manifest", "spec").glob("*.yaml"):
        text = source.read_text()
        if source.stem == file:
            assert old in text
            text = text.replace(old, new)
        (folder / source.name).write_text(text)


def _report_at_prices_of(run, tmp_path: pathlib.Path, flags: tuple[str, ...]) -> subprocess.CompletedProcess:
    """The report of the recorded runs, priced by the formulas of `spec`."""
    priced = run("perf.bench", "--device=meta", "--spec_dir=spec", "--out=priced.binpb", *flags)
    assert priced.returncode == 0, priced.stderr
    readers = [runfile.read_run(path) for path in runs.run_paths([])]
    # The newest record of a row counts, as for the command.
    newest = {
        (record.op, record.case_id, record.implementation): record for reader in readers for record in reader.records()
    }
    recorded = list(newest.values())
    roofs = {(record.op, record.case_id): record.roof_key for record in recorded}
    prices = list(runfile.read_run(tmp_path / "priced.binpb").records())
    for price in prices:  # classes of a manifest outside the project declare no roof
        price.roof_key = roofs.get((price.op, price.case_id), "")
    joined = reprice_join.join(recorded, prices)
    with run_writer.RunWriter(tmp_path / "repriced.binpb", readers[0].header) as writer:
        for record in joined.records:
            writer.write(record)
    return run("perf.roofline", "--run=repriced.binpb", "--implementation=all")


@pytest.mark.requirement("1.1.2", "1.2.5", "3.1", "4.3.12")
@pytest.mark.parametrize(
    ("file", "op", "old", "new"),
    [
        ("gemm", "GEMMFwdOp", '"2 * M * N * K"', '"3 * M * N * K"'),
        (
            "elementwise_gated",
            "SiLUAndMulFwdOp",
            'flops: "6 * prod(M) * N"',
            'flops: "6 * prod(M) * N"\n    bytes: "13 * (bytes(input) + bytes(output)) // 10"',
        ),
    ],
    ids=["flops times 1.5", "bytes times 1.3"],
)
def test_a_formula_edit_that_inflates_work_fails_the_recorded_runs(run, tmp_path, file, op, old, new):
    _edited_spec(tmp_path / "spec", file, old, new)
    report = _report_at_prices_of(run, tmp_path, (f"--op={op}",))
    assert report.returncode == 1
    assert "formula error" in report.stdout and "health: failed" in report.stdout


def test_the_manifest_as_it_is_passes_the_recorded_runs(run, tmp_path):
    _edited_spec(tmp_path / "spec", "gemm", '"2 * M * N * K"', '"2 * M * N * K"')
    report = _report_at_prices_of(run, tmp_path, ())
    assert report.returncode == 0, report.stdout


def test_a_defect_of_a_manifest_stops_the_bench_with_file_and_line(run, tmp_path):
    _edited_spec(tmp_path / "spec", "gemm", '"2 * M * N * K"', '"2 * M * N * Q"')
    bench = run("perf.bench", "--device=meta", "--spec_dir=spec")
    assert bench.returncode == 2
    lines = (tmp_path / "spec" / "gemm.yaml").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "N * Q" in text)
    assert f"gemm.yaml:{line}: GEMMFwdOp: roofline.flops: unknown name 'Q'" in bench.stderr
