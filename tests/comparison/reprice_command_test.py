"""//perf:reprice as a user runs it: what it says of damage, and when it exits 1."""

import os
import subprocess
import sys

import pytest

from tileops.perf.report import runs
from tileops.perf.runs import reader
from tileops.perf.runs import writer as run_writer


def reprice(*flags):
    return subprocess.run(
        [sys.executable, "-m", "tileops.perf.reprice", *flags],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def recorded():
    """A recorded H200 run, to be changed."""
    return reader.read_run(runs.run_paths([])[0])


def test_a_row_that_todays_price_makes_impossible_fails_and_damage_is_not_laundered(tmp_path, recorded):
    path = tmp_path / "run.binpb"
    records = list(recorded.records())
    largest = max(records, key=lambda record: record.bytes)
    with run_writer.RunWriter(path, recorded.header) as writer:
        for record in records:
            if record == largest:
                # Possible at the price that it was recorded with; not at that of today.
                record.bytes, record.flops = 1_000, 1_000
                record.timing.device_busy_ns = 2_000.0
            writer.write(record)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 10] = b"\xff" * 10
    path.write_bytes(data)
    out = tmp_path / "repriced.binpb"
    done = reprice(f"--run={path}", f"--out={out}")
    assert done.returncode == 1
    assert f"{largest.op} {largest.case_id} {largest.implementation}: impossible at today's price" in done.stderr
    assert "run.binpb: at byte " in done.stderr
    repriced = reader.read_run(out)
    # Rows that are no workload rows any more were left out on purpose; one was lost.
    kept = len(list(repriced.records()))
    (problem,) = repriced.problems
    assert f"the footer counts {kept + 1} records, and {kept} records could be read" in str(problem)
    assert repriced.header == recorded.header


def test_an_ending_of_no_run_file_is_refused(tmp_path, recorded):
    done = reprice(f"--run={recorded.path}", f"--out={tmp_path / 'x.txt'}")
    assert done.returncode == 2 and "a run file ends in .binpb or .jsonl, not in .txt" in done.stderr
    assert not (tmp_path / "x.txt").exists()


def test_out_may_not_be_what_is_read(tmp_path, recorded):
    path = tmp_path / "run.binpb"
    path.write_bytes(recorded.path.read_bytes())
    done = reprice(f"--run={path}", f"--out={path}")
    assert done.returncode == 2 and "is a file that this command reads" in done.stderr
    assert path.read_bytes() == recorded.path.read_bytes()


def test_where_no_recorded_row_could_be_priced_it_fails(tmp_path, recorded):
    path = tmp_path / "run.binpb"
    record = next(recorded.records())
    with run_writer.RunWriter(path, recorded.header) as writer:
        for case_id in ("test_a", "test_b"):
            record.case_id = case_id
            writer.write(record)
        record.op = "NoSuchOp"
        writer.write(record)
    done = reprice(f"--run={path}", f"--out={tmp_path / 'out.binpb'}")
    assert done.returncode == 1
    assert "no recorded row could be priced" in done.stderr and "0 records priced again" in done.stderr
    assert len(done.stderr.splitlines()) < 10
