"""//perf:predict: bounds for every workload row on a GPU that was never measured."""

import json
import os
import subprocess
import sys

import pytest

from tileops.perf import paths


def predict(*flags):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    return subprocess.run(
        [sys.executable, "-m", "tileops.perf.predict", *flags],
        env=environment,
        capture_output=True,
        text=True,
    )


def has_prices():
    try:
        return paths.data_path("perf", "price_run.binpb").exists()
    except FileNotFoundError:
        return False


@pytest.mark.skipif(
    not has_prices() and "TEST_SRCDIR" not in os.environ,
    reason="the build makes perf/price_run.binpb",
)
def test_every_row_has_a_bound_and_no_time():
    done = predict("--profile=NVIDIA H200", "--format=json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["is_prediction"]
    bounded = [row for row in document["rows"] if row["sol_time_s"]]
    assert len(bounded) == len(document["rows"]) > 50
    assert all(row["actual_time_s"] is None for row in document["rows"])
    unsure = predict("--op=GemmFwdOp")
    assert unsure.returncode == 2 and "say with --profile" in unsure.stderr
