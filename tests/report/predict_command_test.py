"""//perf:predict: bounds for every workload row on a GPU that was never measured."""

import json
import os
import subprocess
import sys

import pytest

from tileops.tests.report import builders
from tileops.tools.cli import paths


def predict(*flags):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    return subprocess.run(
        [sys.executable, "-m", "tileops.perf.predict", *flags], env=environment, capture_output=True, text=True
    )


def has_prices():
    try:
        return paths.data_path("perf", "price_run.binpb").exists()
    except FileNotFoundError:
        return False


def test_help_and_a_named_run_need_no_prices_of_the_build(tmp_path):
    done = predict("--help")
    assert done.returncode == 0
    assert "Default: the prices of every workload row" in " ".join(done.stdout.split())
    builders.write_run(tmp_path / "run.binpb", builders.record(ns=None))
    done = predict(f"--run={tmp_path}/run.binpb", "--profile=NVIDIA H200", "--format=csv")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_profile_is_needed_and_the_listing_command_is_the_one_of_this_command(tmp_path):
    assert "Needed unless --run names a measured run" in " ".join(predict("--help").stdout.split())
    run = f"--run={tmp_path}/run.binpb"
    records = [builders.record(op=f"Op{number}FwdOp", ns=None) for number in range(9)]
    builders.write_run(tmp_path / "run.binpb", *records, device="")
    done = predict(run)
    assert done.returncode == 2 and "''" not in done.stderr
    assert (
        "a run of prices names no device; name the GPU to predict for with --profile (ls profiles lists all"
        in done.stderr
    )
    done = predict(run, "--profile=NVIDIA H200", "--op=GEM")
    listing = f"//perf:predict -- {run} '--profile=NVIDIA H200' --implementation=all --top=all lists all 9"
    assert done.returncode == 2 and listing in done.stderr


@pytest.mark.skipif(has_prices(), reason="the build made perf/price_run.binpb")
def test_prices_that_are_not_there_are_one_line():
    done = predict("--profile=NVIDIA H200")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "perf/price_run.binpb is not among" in done.stderr and "--run" in done.stderr


@pytest.mark.skipif(not has_prices() and "TEST_SRCDIR" not in os.environ, reason="the build makes perf/price_run.binpb")
def test_every_row_has_a_bound_and_no_time():
    done = predict("--profile=NVIDIA H200", "--format=json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["is_prediction"]
    bounded = [row for row in document["rows"] if row["sol_time_s"]]
    assert len(bounded) == len(document["rows"]) > 50
    assert all(row["actual_time_s"] is None for row in document["rows"])
    unsure = predict("--op=GEMMFwdOp")
    assert unsure.returncode == 2 and "name the GPU to predict for with --profile" in unsure.stderr
