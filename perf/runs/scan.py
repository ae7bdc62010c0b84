"""The pieces of a run file on disk, whole and broken, whichever form it has."""

import io
import mmap
import os
import pathlib
from collections.abc import Iterator

from tileops.perf.runs import framing
from tileops.perf.runs import json as run_json
from tileops.tools.cli import errors

# How much of a mapped file is read before its pages are given back.
_WINDOW_BYTES = 16 * 2**20


class RunFileError(errors.UserError):
    """A run file that cannot be read or written; the message says which file and why."""


def scan(path: pathlib.Path, is_json: bool | None = None) -> Iterator[framing.Whole | framing.Broken]:
    """Yields the pieces of a run file, whole and broken, in order.

    Args:
      path: The file.
      is_json: As of `RunReader`.

    Raises:
      RunFileError: The file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > 0:
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
                    given_back = 0
                    for piece in _scan_open(path, file, buffer, is_json):
                        yield piece
                        if piece.end - given_back > _WINDOW_BYTES:
                            given_back = _give_back(buffer, given_back, piece.end)
    except OSError as error:
        raise RunFileError(f"cannot read {path}: {error.strerror}") from error


def scan_bytes(path: pathlib.Path, content: bytes, is_json: bool | None) -> Iterator[framing.Whole | framing.Broken]:
    """Yields the pieces of a run that was read already, from `path`."""
    yield from _scan_open(path, io.BytesIO(content), content, is_json)


def _scan_open(path: pathlib.Path, file, buffer, is_json: bool | None) -> Iterator[framing.Whole | framing.Broken]:
    """Yields the pieces of a run, given as an open file and as its bytes."""
    if is_json is None:
        is_json = run_json.holds_json(path, buffer[: run_json.HEAD_BYTES])
    if is_json:
        yield from run_json.scan(file)
    else:
        yield from framing.scan(buffer)


def _give_back(buffer: mmap.mmap, start: int, end: int) -> int:
    """Frees the memory behind a part of a mapped file that was read.

    Returns the end of the freed part: the last page boundary. A system without madvise
    keeps the pages until it needs them.
    """
    end -= end % mmap.PAGESIZE
    if hasattr(mmap, "MADV_DONTNEED"):
        buffer.madvise(mmap.MADV_DONTNEED, start, end - start)
    return end


def read_pipe(path: pathlib.Path) -> bytes | None:
    """Returns the content of a pipe; None if `path` is not a pipe."""
    try:
        return path.read_bytes() if path.is_fifo() or path.is_char_device() else None
    except OSError as error:
        raise RunFileError(f"cannot read {path}: {error.strerror}") from error
