"""//perf:roofline as a user runs it: flags, output and exit status."""

import csv
import json
import os
import subprocess
import sys

import pytest

from tileops.proto import benchmark_pb2
from tileops.tests.perf_report import builders

# 20e6 bytes in 100 us, 4.8e12 bytes/s at most: possible. In 1 us it is not.
POSSIBLE = dict(bytes=20_000_000, flops=1_000)


@pytest.fixture
def roofline(tmp_path):
    """Runs the command in `tmp_path`; returns (status, stdout, stderr)."""
    environment = dict(os.environ, BUILD_WORKING_DIRECTORY=str(tmp_path))
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)

    def run(*flags):
        done = subprocess.run(
            [sys.executable, "-m", "tileops.perf.roofline", *flags],
            env=environment,
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout, done.stderr

    (tmp_path / "gpu.textproto").write_text(builders.PROFILE_TEXT)
    return run


def test_a_healthy_run_exits_0(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    status, out, err = roofline("--run=run.binpb", "--profile=gpu.textproto")
    assert (status, err) == (0, "")
    assert "health: ok" in out


def test_a_formula_error_exits_1(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(ns=1_000))
    status, out, _ = roofline("--run=run.binpb", "--profile=gpu.textproto")
    assert status == 1
    assert "health: failed" in out


def test_a_cpu_run_is_blank_with_no_cupti(tmp_path, roofline):
    builders.write_run(
        tmp_path / "run.binpb",
        builders.record(source=benchmark_pb2.TIMING_SOURCE_HOST_CLOCK),
        device="Some CPU",
    )
    status, out, _ = roofline("--run=run.binpb")
    assert status == 0
    assert "blank: no_cupti" in out


def test_the_profile_is_matched_by_the_devices_name(tmp_path, roofline):
    run = tmp_path / "run.jsonl"
    builders.write_run(run, builders.record(**POSSIBLE), device="nvidia h200")
    status, out, _ = roofline("--run=run.jsonl", "--format=json")
    assert status == 0
    assert json.loads(out)["profile"]["gpu"] == "NVIDIA H200"
    builders.write_run(run, builders.record(**POSSIBLE), device="NVIDIA H200 NVL")
    status, out, _ = roofline("--run=run.jsonl", "--format=json")
    assert status == 0
    (row,) = json.loads(out)["rows"]
    assert row["blank_reason"] == "no_profile"


def test_another_devices_profile_is_an_error_unless_predicting(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(), device="Other GPU")
    flags = ["--run=run.binpb", "--profile=gpu.textproto"]
    status, out, err = roofline(*flags)
    assert (status, out) == (2, "")
    assert "'Test GPU'" in err and "'Other GPU'" in err and "--predict" in err
    status, out, _ = roofline(*flags, "--predict", "--format=json")
    assert status == 0
    document = json.loads(out)
    assert document["is_prediction"]
    (row,) = document["rows"]
    assert row["sol_time_s"] == pytest.approx(50e-6)
    assert row["actual_time_s"] is None


def test_reproducible_leaves_out_what_varies(tmp_path, roofline):
    outputs = []
    for started_s in (1_000, 2_000):
        builders.write_run(
            tmp_path / "run.binpb", builders.record(**POSSIBLE), started_s=started_s
        )
        for form in ("json", "table", "csv"):
            flags = ["--run=run.binpb", f"--format={form}", "--reproducible"]
            outputs.append(roofline(*flags)[1])
    assert outputs[:3] == outputs[3:]
    (run,) = json.loads(outputs[0])["runs"]
    assert not {"run_id", "started_at", "hostname_hash", "project_revision"} & set(run)
    assert run["device_name"] == builders.DEVICE


def test_out_is_relative_to_where_the_user_stands(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    status, out, _ = roofline("--run=run.binpb", "--format=csv", "--out=report.csv")
    assert (status, out) == (0, "")
    (row,) = csv.DictReader((tmp_path / "report.csv").open())
    assert row["op"] == "SiluFwdOp"


def test_filters(tmp_path, roofline):
    builders.write_run(
        tmp_path / "run.binpb",
        builders.record(op="SiluFwdOp", implementation="torch"),
        builders.record(op="SiluFwdOp", implementation="triton", ns=90_000),
        builders.record(op="GemmFwdOp", family="gemm"),
    )

    def rows(*flags):
        out = roofline("--run=run.binpb", "--format=json", "--sort=op", *flags)[1]
        return [(r["op"], r["implementation"]) for r in json.loads(out)["rows"]]

    assert rows() == [("GemmFwdOp", "torch"), ("SiluFwdOp", "triton")]
    assert rows("--family=gemm") == [("GemmFwdOp", "torch")]
    assert rows("--op=Silu*,Gemm*", "--implementation=torch") == [
        ("GemmFwdOp", "torch"),
        ("SiluFwdOp", "torch"),
    ]
    assert len(rows("--implementation=all")) == 3


def test_an_interrupted_run_is_priced_and_told(tmp_path, roofline):
    path = builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    path.write_bytes(path.read_bytes()[:-1])
    status, out, err = roofline("--run=run.binpb", "--profile=gpu.textproto")
    assert status == 0
    assert "1 row, " in out
    assert "run.binpb: at byte" in err and "no footer" in err


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--run=missing.binpb"], "missing.binpb: No such file"),
        (["--run=gpu.textproto"], "gpu.textproto: not a run file"),
        (["--run=run.binpb", "--profile=missing.textproto"], "missing.textproto"),
        (["--run=run.binpb", "--profile=No GPU"], "no profile of that name: 'No GPU'"),
        (["--run=run.binpb", "--predict"], "no profile names the device"),
        (["--run=run.binpb", "--run=other.binpb"], "several devices"),
        (["--run=run.binpb", "--out=missing/report"], "cannot write"),
        (["--run=run.binpb", "--format=html"], "--format=html"),
        (["--no_such_flag"], "no_such_flag"),
        (["run.binpb"], "unexpected argument 'run.binpb'"),
    ],
)
def test_bad_usage_exits_2_with_one_line(tmp_path, roofline, flags, message):
    builders.write_run(tmp_path / "run.binpb", builders.record())
    builders.write_run(tmp_path / "other.binpb", builders.record(), device="Other")
    status, out, err = roofline(*flags)
    assert (status, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("roofline: ")
    assert message in line


def test_help_exits_0(roofline):
    status, out, _ = roofline("--help")
    assert status == 0
    for flag in ("--run", "--profile", "--format", "predict", "reproducible"):
        assert flag in out
