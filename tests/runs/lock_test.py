"""The lock of a run file: what it keeps out, what it leaves alone, and what is said where there can be none."""

import errno
import fcntl
import os

import pytest

from tileops.perf.runs import lock as run_lock
from tileops.perf.runs import reader
from tileops.perf.runs import writer as run_writer
from tileops.tests.report import builders


def test_one_writer_a_file_until_it_is_closed_interrupted_or_could_not_begin(tmp_path):
    path = tmp_path / "run.binpb"
    for end in ("close", "interrupt"):
        writer = run_writer.RunWriter(path, builders.header())
        with pytest.raises(reader.RunFileError, match=f"is being written by process {os.getpid()} of this machine"):
            run_writer.RunWriter(path, builders.header(), append=True)
        getattr(writer, end)()
    with pytest.raises(reader.RunFileError, match="Other GPU"):
        run_writer.RunWriter(path, builders.header("Other GPU"), append=True)
    run_writer.RunWriter(path, builders.header(), append=True).close()


def test_the_holder_is_told_with_its_run_and_without_what_nobody_knows(tmp_path, monkeypatch):
    path = tmp_path / "run.binpb"
    lock = run_lock.Lock(path)
    monkeypatch.setattr(run_lock, "_LOCKS", tmp_path / "missing")  # as on another system, or another machine's lock
    with pytest.raises(reader.RunFileError, match="a process that this machine cannot see; wait until it ends"):
        run_lock.Lock(path)
    lock.release()
    writer = run_writer.RunWriter(path, builders.header())
    with pytest.raises(
        reader.RunFileError, match=r"machine cannot see \(a run begun 1970-01-01T00:16:40Z on host def\)"
    ):
        run_lock.Lock(path)
    writer.close()


def test_a_lock_is_of_the_file_that_has_the_name_when_it_is_taken(tmp_path, monkeypatch):
    path = tmp_path / "run.binpb"
    path.write_bytes(b"old")
    flock = fcntl.flock
    moves = iter([True])

    def moved_meanwhile(file, operation):
        if next(moves, False):
            path.rename(tmp_path / "aside.binpb")
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", moved_meanwhile)
    lock = run_lock.Lock(path)
    assert path.read_bytes() == b"" and (tmp_path / "aside.binpb").read_bytes() == b"old"
    with pytest.raises(reader.RunFileError):
        run_lock.Lock(path)
    run_lock.Lock(tmp_path / "aside.binpb").release()
    lock.release()
    run_lock.Lock(path).release()


def test_a_file_system_without_locks_is_said_and_written_all_the_same(tmp_path, monkeypatch, capsys):
    def refuse(file, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with run_writer.RunWriter(tmp_path / "run.binpb", builders.header()) as writer:
        writer.write(builders.record())
    assert "run.binpb cannot be locked (No locks available): nothing keeps another run" in capsys.readouterr().err
    assert len(list(reader.read_run(tmp_path / "run.binpb").records())) == 1


def test_any_other_failure_to_lock_is_an_error(tmp_path, monkeypatch):
    def fail(file, operation):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(reader.RunFileError, match="cannot lock .*run.binpb: Input/output error"):
        run_lock.Lock(tmp_path / "run.binpb")


def test_what_is_no_plain_file_is_not_locked(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/null"):
        locks = [run_lock.Lock(tmp_path / path), run_lock.Lock(tmp_path / path)]
        assert [lock.release() for lock in locks] == [None, None]
