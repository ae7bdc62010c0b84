"""Recorded times under today's prices must be physically possible.

A formula edit that inflates an op's work makes a measured row imply a rate above
a theoretical ceiling; this test says so on any machine.
"""

import os
import subprocess
import sys

import pytest

from tileops.perf.report import runs
from tileops.perf.runs import former
from tileops.perf.runs import reader as runfile
from tileops.perf.runs import writer as run_writer


def run_command(module, *flags):
    """Runs a command of perf/; returns the finished process."""
    return subprocess.run(
        [sys.executable, "-m", f"tileops.perf.{module}", *flags],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def repriced(tmp_path_factory):
    """Path of the recorded H200 runs, priced again, and what the command said."""
    path = tmp_path_factory.mktemp("repriced") / "repriced.binpb"
    done = run_command("reprice", f"--out={path}")
    assert done.returncode == 0, done.stderr
    return path, done.stderr


def test_recorded_times_are_possible_at_todays_prices(repriced):
    path, said = repriced
    done = run_command("roofline", f"--run={path}", "--implementation=all")
    assert done.returncode == 0, said + done.stdout + done.stderr


def test_every_recorded_op_still_has_a_price(repriced):
    # Single rows may come and go with the manifest; an op whose rows all went
    # would leave its formula unguarded.
    path, said = repriced
    recorded = {record.op for run in runs.run_paths([]) for record in runfile.read_run(run).records()}
    priced = {record.op for record in runfile.read_run(path).records()}
    assert priced == recorded, said


def test_the_list_of_former_rows_names_what_was_recorded_and_has_no_row_today(repriced):
    recorded, priced = (
        {(record.op, record.case_id) for path in files for record in runfile.read_run(path).records()}
        for files in (runs.run_paths([]), [repriced[0]])
    )
    assert former.load() == recorded - priced


def test_bytes_that_are_a_third_too_many_are_found(repriced, tmp_path):
    path, _ = repriced
    reader = runfile.read_run(path)
    with run_writer.RunWriter(tmp_path / "inflated.binpb", reader.header) as writer:
        for record in reader.records():
            record.bytes = record.bytes * 13 // 10
            writer.write(record)
    done = run_command("roofline", f"--run={tmp_path / 'inflated.binpb'}")
    assert done.returncode == 1
    assert "formula error" in done.stdout
