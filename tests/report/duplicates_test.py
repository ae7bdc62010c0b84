"""One row measured twice in a file: refused with both places, or chosen among, by every command that reads times."""

import json
import os
import subprocess
import sys

import pytest

from tileops.perf.runs import duplicates, scan
from tileops.perf.runs import reader as runfile
from tileops.proto import benchmark_pb2
from tileops.tests.report import builders

ERROR = benchmark_pb2.STATUS_ERROR

# The rows of "a": 30 us, 10 us, 20 us; "b" once, before an error of it.
TWICE = (
    builders.record(case_id="a", ns=30_000),
    builders.record(case_id="b", ns=5_000),
    builders.record(case_id="a", ns=10_000),
    builders.record(case_id="a", ns=20_000),
)
CHOSEN_NS = {"fastest": 10_000, "slowest": 30_000, "first": 30_000, "last": 20_000}


def _times(reader, choice):
    return [record.timing.device_busy_ns for record in duplicates.records(reader, choice) if record.case_id == "a"]


@pytest.fixture
def command(tmp_path):
    """Runs a command of perf/ in `tmp_path`; returns (status, stdout, stderr)."""
    environment = dict(os.environ, BUILD_WORKING_DIRECTORY=str(tmp_path), PYTHONPATH=os.pathsep.join(sys.path))
    (tmp_path / "gpu.textproto").write_text(builders.PROFILE_TEXT)

    def run(name, *flags):
        done = subprocess.run(
            [sys.executable, "-m", f"tileops.perf.{name}", *flags],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.parametrize("name", ["run.binpb", "run.jsonl"])
def test_a_row_measured_twice_is_refused_with_both_places(tmp_path, name):
    reader = runfile.read_run(builders.write_run(tmp_path / name, *TWICE))
    pieces = [piece for piece in scan.scan(reader.path) if piece.entry.HasField("record")]
    places = [f"line {piece.line}" if name.endswith(".jsonl") else f"byte {piece.start}" for piece in pieces]
    assert places[0] == "line 2" or name == "run.binpb"
    with pytest.raises(duplicates.DuplicateError) as refused:
        list(duplicates.records(reader))
    said = str(refused.value)
    assert f"SiLUFwdOp a torch was measured twice, in record 1 (at {places[0]}) and record 3 (at " in said
    assert f"record 3 (at {places[2]});" in said and "--duplicates=fastest|slowest|first|last" in said
    assert str(reader.path) in said


def test_every_other_row_is_counted(tmp_path):
    records = [builders.record(case_id=case) for case in "abcabc"]
    with pytest.raises(duplicates.DuplicateError, match="SiLUFwdOp a torch .* and 2 more rows;"):
        list(duplicates.records(runfile.read_run(builders.write_run(tmp_path / "run.binpb", *records))))


@pytest.mark.parametrize("choice", duplicates.CHOICES)
@pytest.mark.parametrize("name", ["run.binpb", "run.jsonl"])
def test_a_choice_leaves_one_and_says_so(tmp_path, name, choice):
    reader = runfile.read_run(builders.write_run(tmp_path / name, *TWICE))
    assert _times(reader, choice) == [CHOSEN_NS[choice]]
    (problem,) = reader.problems
    assert str(problem) == f"2 records of rows that were measured twice are left out (--duplicates={choice})"


@pytest.mark.parametrize("choice", [None, *duplicates.CHOICES])
def test_what_resume_writes_and_what_differs_is_no_duplicate(tmp_path, choice):
    records = [
        builders.record(status=ERROR),
        builders.record(status=ERROR),
        builders.record(ns=2),
        builders.record(ns=3, status=ERROR),
        builders.record(ns=4, implementation="triton"),
        builders.record(ns=5, case_id="other"),
        builders.record(ns=6, op="OtherFwdOp"),
        builders.record(ns=7, op="SkippedFwdOp", status=benchmark_pb2.STATUS_SKIPPED),
        builders.record(ns=8, op="SkippedFwdOp", status=benchmark_pb2.STATUS_SKIPPED),
    ]
    reader = runfile.read_run(builders.write_run(tmp_path / "run.binpb", *records))
    assert list(duplicates.records(reader, choice)) == records
    assert not reader.problems


@pytest.mark.parametrize("choice, expected", [("fastest", 9.0), ("slowest", 9.0), ("first", 0.0), ("last", 0.0)])
def test_a_success_without_a_time_is_neither_fastest_nor_slowest(tmp_path, choice, expected):
    records = [builders.record(case_id="a", ns=ns) for ns in (None, 9.0, None)]
    reader = runfile.read_run(builders.write_run(tmp_path / "run.binpb", *records))
    assert _times(reader, choice) == [expected]


def test_an_error_behind_two_successes_still_takes_them_back(tmp_path):
    records = [builders.record(case_id="a", ns=1), builders.record(case_id="a", ns=2)]
    records.append(builders.record(case_id="a", ns=None, status=ERROR))
    reader = runfile.read_run(builders.write_run(tmp_path / "run.binpb", *records))
    kept = list(duplicates.records(reader, "fastest"))
    assert [record.status for record in kept] == [benchmark_pb2.STATUS_OK, ERROR]


def test_two_files_may_have_one_row(tmp_path):
    runs = [builders.write_run(tmp_path / f"{at}.binpb", builders.record(ns=at), started_s=at) for at in (1, 2)]
    (row,) = builders.report(runs, None).rows
    assert row.actual_time_s == 2e-9


REPORTING = {
    "roofline": ["--run=twice.binpb"],
    "compare": ["--base=once.binpb", "--new=twice.binpb"],
    "stability": ["--base=twice.binpb", "--new=once.binpb", "--longer_than_us=0"],
    "reprice": ["--run=twice.binpb"],
}


@pytest.mark.parametrize("name, flags", REPORTING.items(), ids=REPORTING)
def test_a_command_refuses_such_a_file(tmp_path, command, name, flags):
    builders.write_run(tmp_path / "twice.binpb", *TWICE)
    builders.write_run(tmp_path / "once.binpb", *TWICE[:2], started_s=2_000)
    status, out, err = command(name, *flags)
    assert (status, out) == (2, "")
    assert "record 1 (at byte " in err and "record 3 (at byte " in err and "--duplicates=" in err
    assert len(err.splitlines()) == 1


@pytest.mark.requirement("5.2.4")
@pytest.mark.parametrize("choice, ns", CHOSEN_NS.items())
def test_the_choice_decides_what_the_commands_say(tmp_path, command, choice, ns):
    builders.write_run(tmp_path / "twice.binpb", *TWICE)
    builders.write_run(tmp_path / "once.binpb", *TWICE[1:3], started_s=2_000)
    told = f"(--duplicates={choice})"
    status, out, err = command(
        "roofline", "--run=twice.binpb", "--profile=gpu.textproto", "--format=json", f"--duplicates={choice}"
    )
    rows = {row["case_id"]: row for row in json.loads(out)["rows"]}
    assert rows["a"]["actual_time_s"] == pytest.approx(ns / 1e9) and told in err
    status, out, _ = command("compare", "--base=once.binpb", "--new=twice.binpb", f"--duplicates={choice}")
    assert status == (0 if ns == 10_000 else 1) and told in out
    status, out, _ = command(
        "stability", "--base=once.binpb", "--new=twice.binpb", "--longer_than_us=0", f"--duplicates={choice}"
    )
    assert status == (0 if ns == 10_000 else 1) and told in out
    assert f"SiLUFwdOp a torch: 10.00 us, then {ns / 1e3:.2f} us" in out


@pytest.mark.parametrize("choice", [None, *duplicates.CHOICES])
def test_a_conversion_keeps_every_record_unless_one_is_chosen(tmp_path, command, choice):
    builders.write_run(tmp_path / "twice.binpb", *TWICE)
    flags = [] if choice is None else [f"--duplicates={choice}"]
    status, _, err = command("records", "--in=twice.binpb", "--out=new.jsonl", *flags)
    reader = runfile.read_run(tmp_path / "new.jsonl")
    times = [record.timing.device_busy_ns for record in reader.records() if record.case_id == "a"]
    assert status == 0 and times == ([30_000, 10_000, 20_000] if choice is None else [CHOSEN_NS[choice]])
    assert reader.footer.records == len(times) + 1 and not reader.problems
    assert ("left out" in err) == (choice is not None)
