"""What a run says at its end, and the status that it ends with."""

import pathlib

import pytest

from tileops.perf.harness import files
from tileops.perf.harness.rows import Shard
from tileops.proto import benchmark_pb2
from tileops.tests.harness.runs import ERROR, OK, SKIPPED, TIMEOUT

WHOLE, PART = Shard(), Shard(index=2, count=3)


@pytest.mark.parametrize(
    ("statuses", "shard", "status", "nothing"),
    [
        ([OK, SKIPPED], WHOLE, 0, None),
        ([SKIPPED, SKIPPED], WHOLE, 1, "every row was skipped"),
        ([], WHOLE, 1, "no implementation serves a row"),
        ([SKIPPED], PART, 0, None),
        ([], PART, 0, None),
        ([SKIPPED, ERROR], WHOLE, 1, None),
        ([OK, TIMEOUT], PART, 1, None),
    ],
)
def test_a_run_that_measured_nothing_has_failed_unless_it_is_a_part(capsys, statuses, shard, status, nothing):
    outcomes = {("A", str(at), "torch"): one for at, one in enumerate(statuses)}
    assert files.finish(pathlib.Path("run.binpb"), [], outcomes, shard) == status
    said = [line for line in capsys.readouterr().err.splitlines() if "nothing was measured: " in line]
    assert [line.partition("measured: ")[2] for line in said] == ([nothing] if nothing else [])


def test_the_summary_groups_what_was_skipped_and_names_what_failed():
    def record(op, case_id, status, message, implementation=""):
        return benchmark_pb2.BenchmarkRecord(
            op=op, case_id=case_id, status=status, message=message, implementation=implementation
        )

    skipped, error = benchmark_pb2.STATUS_SKIPPED, benchmark_pb2.STATUS_ERROR
    lines = files.summary(
        [
            record("A", "one", skipped, "too long for this machine: about 9 s; 5 is the limit"),
            record("A", "two", skipped, "too long for this machine: about 12 s; 5 is the limit"),
            record("B", "one", skipped, "no implementation: bring one"),
            record("B", "four", skipped, "does not serve this row"),
            record("B", "two", error, "wrong result", "fast"),
            record("B", "three", benchmark_pb2.STATUS_OK, ""),
        ]
    )
    assert lines == [
        "skipped 2, too long for this machine: 5 is the limit",
        "  A: one (about 9 s), two (about 12 s)",
        "skipped 1, no implementation: bring one",
        "  B: one",
        "skipped 1, does not serve this row",
        "  B: four",
        "error: B two fast: wrong result",
    ]


def test_a_program_without_the_repository_sends_the_run_to_one(tmp_path, monkeypatch, capsys):
    run = pathlib.Path("/somewhere/my run.binpb")
    monkeypatch.delenv("BUILD_WORKING_DIRECTORY", raising=False)
    monkeypatch.setattr(files, "__file__", str(tmp_path / "perf" / "harness/files.py"))
    files._say_next(run, "")
    said = capsys.readouterr().err
    assert "copy /somewhere/my run.binpb to a machine with the repository" in said
    assert "./bazelw run //perf:roofline -- --run='my run.binpb'\n" in said
    (tmp_path / "bazelw").touch()
    files._say_next(run, "")
    said = capsys.readouterr().err
    assert "copy" not in said and "--run='/somewhere/my run.binpb'\n" in said
