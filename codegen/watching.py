"""Waits for changes of files, for a command that works again after each save.

The files' inodes, sizes and times of change are compared 20 times per second. This finds all ways in which editors save:
they write in place, or write a second file and give it the first one's name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

_POLL_S = 0.05
# How long a file may be missing before it counts as deleted: some editors remove a file and then write it anew.
_MISSING_S = 1.0

State = dict[str, tuple[int, int, int, int]]


def state(files: Iterable[str]) -> State:
    """Returns what a save changes of each file that exists: its inode, size and times of change."""
    found: State = {}
    for file in files:
        try:
            status = os.stat(file)
        except OSError:
            continue
        found[file] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


def changed(before: State, after: State) -> list[str]:
    """Returns the files that were saved, made or deleted between two states."""
    return sorted(file for file in before.keys() | after.keys() if before.get(file) != after.get(file))


def next_state(files: Callable[[], Iterable[str]], seen: State) -> State:
    """Waits until the files differ from the state `seen`, and returns their new state.

    Waits on while a file is being written, and while a file is missing that may come back.

    Args:
      files: Returns the files that there are now.
      seen: The state of the files before the caller last read them.
    """
    before, since = seen, time.monotonic()
    while True:
        found = state(files())
        if found != before:
            since = time.monotonic()
        may_return = seen.keys() - found.keys() and time.monotonic() - since < _MISSING_S
        if found == before and found != seen and not may_return:
            return found
        before = found
        time.sleep(_POLL_S)
