"""Where //perf:roofline reads from and writes to: pipes, files, full disks and terminals."""

import json
import os
import pty
import resource
import signal
import subprocess
import sys

import pytest

from tileops.tests.report import builders
from tileops.tests.report.builders import POSSIBLE


def test_runs_come_through_a_pipe(tmp_path, start):
    for suffix in (".jsonl", ".binpb"):
        path = builders.write_run(tmp_path / f"run{suffix}", builders.record(**POSSIBLE))
        command = start("--run=/dev/stdin", "--format=json", stdin=subprocess.PIPE)
        out, err = command.communicate(path.read_bytes())
        assert (command.returncode, err) == (0, b"")
        assert len(json.loads(out)["rows"]) == 1


@pytest.mark.parametrize("flag", ["--format=table", "--help"])
def test_a_reader_that_left_is_no_formula_error(tmp_path, start, flag):
    records = [builders.record(case_id=f"c{i}", **POSSIBLE) for i in range(2_000)]
    builders.write_run(tmp_path / "run.binpb", *records)
    command = start("--run=run.binpb", flag)
    command.stdout.close()
    assert command.stderr.read() == b""
    assert command.wait() == 0


@pytest.mark.parametrize("rows", [1, 2_000])
def test_a_full_disk_under_stdout_is_one_line(tmp_path, start, rows):
    records = [builders.record(case_id=f"c{i}", **POSSIBLE) for i in range(rows)]
    builders.write_run(tmp_path / "run.binpb", *records)
    with open("/dev/full", "w") as full:
        command = start("--run=run.binpb", stdout=full)
    assert command.stderr.read() == (b"roofline: cannot write the output: No space left on device\n")
    assert command.wait() == 2


def limit_files_to(size):
    """Returns what makes a process fail to write more than `size` bytes to a file."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path, start, roofline):
    records = [builders.record(case_id=f"c{i}", **POSSIBLE) for i in range(100)]
    builders.write_run(tmp_path / "run.binpb", *records)
    flags = ["--run=run.binpb", "--format=json", "--out=report"]
    assert roofline(*flags)[0] == 0
    size = (tmp_path / "report").stat().st_size
    old = (tmp_path / "report").read_text()[:100]
    (tmp_path / "report").write_text(old)
    before = sorted(tmp_path.iterdir())
    command = start(*flags, preexec_fn=limit_files_to(size - 1))
    (line,) = command.stderr.read().splitlines()
    assert b"cannot write" in line and b"report: File too large" in line
    assert command.wait() == 2
    assert (tmp_path / "report").read_text() == old
    assert sorted(tmp_path.iterdir()) == before


def test_no_room_for_the_temporary_file_is_one_line(tmp_path, start):
    # More than the store keeps in memory.
    records = [builders.record(case_id=f"c{i}", message="x" * 500, **POSSIBLE) for i in range(10_000)]
    builders.write_run(tmp_path / "run.binpb", *records)
    command = start("--run=run.binpb", preexec_fn=limit_files_to(1_000))
    (line,) = command.stderr.read().splitlines()
    assert b"cannot keep the rows of the report in " in line and b"TMPDIR" in line
    assert command.wait() == 2


def test_out_keeps_links_and_modes_and_writes_to_pipes(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    assert roofline("--run=run.binpb", "--out=real.txt")[0] == 0
    (tmp_path / "real.txt").chmod(0o640)
    (tmp_path / "link").symlink_to("real.txt")
    assert roofline("--run=run.binpb", "--out=link")[0] == 0
    assert (tmp_path / "link").is_symlink()
    assert "health: ok" in (tmp_path / "real.txt").read_text()
    assert (tmp_path / "real.txt").stat().st_mode & 0o777 == 0o640
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert roofline("--run=run.binpb", "--out=pipe")[0] == 0
    assert b"health: ok" in os.read(reader, 100_000)
    os.close(reader)


def test_the_ending_of_out_tells_the_form_and_a_run_file_is_never_overwritten(tmp_path, roofline):
    run = builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    other = builders.write_run(tmp_path / "other.binpb", builders.record(**POSSIBLE))
    before = other.read_bytes()
    for form, begin in (("json", "{"), ("csv", "op,"), ("html", "<!DOCTYPE html>"), ("txt", "Test GPU")):
        for _ in range(2):  # an earlier report is replaced
            status, out, err = roofline("--run=run.binpb", f"--out=report.{form}")
            assert (status, out) == (0, "") and err.splitlines()[-1] == f"roofline: wrote {tmp_path}/report.{form}"
        assert (tmp_path / f"report.{form}").read_text().startswith(begin)
        status, _, err = roofline("--run=run.binpb", f"--format={form if form != 'txt' else 'table'}", f"--out={other}")
        assert status == 2 and "exists, and this command replaces only its own earlier output" in err
    assert other.read_bytes() == before != run


def _shown(terminal: int) -> bytes:
    """What a terminal was shown until its other end was closed."""
    shown = b""
    try:
        while chunk := os.read(terminal, 10_000):
            shown += chunk
    except OSError:
        pass  # What Linux says where the other end of a terminal closed.
    return shown


def test_a_problem_is_told_once_on_a_terminal(tmp_path, start):
    path = builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    path.write_bytes(path.read_bytes()[:-1])
    ours, theirs = pty.openpty()
    command = start("--run=run.binpb", stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = _shown(ours)
    assert command.wait() == 0
    assert shown.count(b"no footer") == 1


def test_a_problem_is_told_once_where_both_streams_are_one(tmp_path, start, roofline):
    path = builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    path.write_bytes(path.read_bytes()[:-1])
    out, _ = start("--run=run.binpb", stderr=subprocess.STDOUT).communicate()
    assert out.count(b"no footer") == 1
    _, out, err = roofline("--run=run.binpb")  # each may be read without the other
    assert out.count("no footer") == err.count("no footer") == 1


def test_stderr_shows_control_characters_escaped(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(op="a\x1b[2J\nb"))
    _, _, err = roofline("--run=run.binpb", "--op=x")
    assert err.endswith(": a\\x1b[2J\\nb\n")


@pytest.mark.parametrize("form", ["table", "json", "csv", "html"])
def test_a_closed_stdout_is_one_line(tmp_path, roofline, start, form):
    builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    flags = ("--run=run.binpb", "--profile=gpu.textproto", f"--format={form}")
    command = start(*flags, preexec_fn=lambda: os.close(1))
    _, err = command.communicate()
    assert (command.returncode, err) == (2, b"roofline: stdout is closed; --out names a file to write\n")
    command = start(*flags, f"--out={tmp_path}/report", preexec_fn=lambda: os.close(1))
    assert (command.communicate()[1], command.returncode) == (f"roofline: wrote {tmp_path}/report\n".encode(), 0)


@pytest.mark.parametrize("form", ["table", "csv", "html"])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_stdout_holds_what_out_would_whatever_the_locale(tmp_path, start, form, encoding):
    builders.write_run(tmp_path / "run.binpb", builders.record(op="\u00c4\u65e5\u672cFwdOp", **POSSIBLE))
    flags = ("--run=run.binpb", "--profile=gpu.textproto", f"--format={form}")
    environment = dict(
        os.environ,
        BUILD_WORKING_DIRECTORY=str(tmp_path),
        PYTHONPATH=os.pathsep.join(sys.path),
        PYTHONIOENCODING=encoding,
    )
    command = start(*flags, env=environment)
    out, err = command.communicate()
    assert (command.returncode, err) == (0, b"")
    assert start(*flags, "--out=report").wait() == 0
    assert out == (tmp_path / "report").read_bytes()


def test_a_terminal_of_another_encoding_shows_escapes(tmp_path, start):
    builders.write_run(tmp_path / "run.binpb", builders.record(op="\u65e5FwdOp", **POSSIBLE))
    environment = dict(
        os.environ,
        BUILD_WORKING_DIRECTORY=str(tmp_path),
        PYTHONPATH=os.pathsep.join(sys.path),
        PYTHONIOENCODING="ascii",
        TERM="dumb",
        COLUMNS="300",
    )
    ours, theirs = pty.openpty()
    command = start("--run=run.binpb", "--profile=gpu.textproto", stdout=theirs, env=environment)
    os.close(theirs)
    shown = _shown(ours)
    assert (command.communicate()[1], command.returncode) == (b"", 0)
    assert b"\\u65e5FwdOp" in shown
