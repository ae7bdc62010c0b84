"""One writer per run file: a lock that the system releases when its holder ends, in whatever way."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import pathlib

from tileops.perf.runs import reader
from tileops.perf.runs.scan import RunFileError
from tileops.tools.cli import command

# What a file system says that keeps no locks (some network and user-space ones).
_NO_LOCKS = frozenset((errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL))
_LOCKS = pathlib.Path("/proc/locks")


class Lock:
    """The right to write a run file, held until `release`, or until this process ends."""

    def __init__(self, path: pathlib.Path) -> None:
        """Takes the lock. A missing file is made, and stays empty; an existing file is not changed.

        A device or a pipe is not locked. If the file system has no locks, a line on stderr says so: then nothing keeps
        two runs from writing one file.

        Raises:
          RunFileError: Another process is writing the file, or it cannot be opened.
        """
        self._file: io.FileIO | None = None
        if path.exists() and not path.is_file():
            return
        while self._file is None:
            self._file = _opened(path)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                held = os.fstat(self._file.fileno())
                self.release()
                if error.errno in _NO_LOCKS:
                    why = f"{path} cannot be locked ({error.strerror})"
                    command.say(f"{why}: nothing keeps another run from writing it too")
                    return
                if not isinstance(error, BlockingIOError):
                    raise RunFileError(f"cannot lock {path}: {error.strerror}") from error
                raise RunFileError(
                    f"{path} is being written by {_holder(path, held)}; wait until it ends, or write to another file"
                ) from error
            if not _is_at(path, self._file):  # it was moved aside, or removed, between the two calls
                self.release()

    def release(self) -> None:
        """Lets others write the file. Releasing twice does nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _opened(path: pathlib.Path) -> io.FileIO:
    try:
        return open(path, "ab", buffering=0)  # makes a missing file, and changes nothing in an existing file
    except OSError as error:
        raise RunFileError(f"cannot write {path}: {error.strerror}") from error


def _is_at(path: pathlib.Path, file: io.FileIO) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except OSError:
        return False


def _holder(path: pathlib.Path, held: os.stat_result) -> str:
    """Returns who holds the lock, as far as this machine can see: its process, and the run in the file."""
    pids = ", ".join(map(str, _pids(held)))
    who = f"process {pids} of this machine" if pids else "a process that this machine cannot see"
    try:
        header = reader.read_run(path).header
    except RunFileError:  # it holds no header yet
        return who
    facts = []
    if header.HasField("started_at"):
        facts.append(f"begun {header.started_at.ToJsonString()}")
    if header.environment.hostname_hash:
        facts.append(f"on host {header.environment.hostname_hash}")
    return f"{who} (a run {' '.join(facts)})" if facts else who


def _pids(held: os.stat_result) -> list[int]:
    """Returns the processes of this machine that hold a lock of a file, by /proc; empty without /proc."""
    try:
        lines = _LOCKS.read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        fields = line.split()  # "1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF"
        if len(fields) >= 6 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(held.st_ino):
            if _has_open(int(fields[4]), held):
                found.append(int(fields[4]))
    return found


def _has_open(pid: int, held: os.stat_result) -> bool:
    """Returns whether a process has the file open: several file systems may use one inode number."""
    try:
        return any(_leads_to(entry, held) for entry in os.scandir(f"/proc/{pid}/fd"))
    except OSError:  # of another user, or ended since
        return False


def _leads_to(entry: os.DirEntry[str], held: os.stat_result) -> bool:
    try:
        return os.path.samestat(entry.stat(), held)
    except OSError:  # closed since
        return False
