"""Where a command's data goes: stdout, or a file that is written whole or not at all."""

import contextlib
import io
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterable
from typing import IO, Any

from tileops.tools.cli import errors, paths


class OutputError(errors.UserError):
    """A file that cannot be written; the message says which and why."""


def refuse_input(name: str | None, inputs: Iterable[pathlib.Path]) -> None:
    """Raises OutputError where what is to be written is one of the files to be read.

    Args:
      name: The path of --out, as the user gave it; None is stdout.
      inputs: The files that the command reads.
    """
    if name is None:
        return
    path = paths.user_path(name)
    for read in inputs:
        if os.path.isfile(path) and os.path.isfile(read) and path.samefile(read):
            raise OutputError(
                f"--out={name} is a file that this command reads, {read}, and would be lost; name another one"
            )


def write(name: str | None, render: Callable[[Any], None], binary: bool = False) -> None:
    """Has `render` write its data, as a stream, to where the user wants it.

    On a full disk, and where `render` raises, a file that was there stays as it
    was. What is no regular file (a pipe, a device) is written to as it is.

    Args:
      name: A path as the user gave it; None is stdout.
      render: Writes the data to the file that it is given: a TextIO, or with `binary` a BinaryIO.
      binary: Whether that is a file of bytes, not of text.

    Raises:
      OutputError: The file cannot be written, or stdout is closed.
    """
    if name is None:
        render(_stdout(binary))
        return
    path = paths.user_path(name)
    try:
        _write_file(path.resolve(), render, binary)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def _stdout(binary: bool) -> IO:
    """Returns stdout: UTF-8 in a file or a pipe, as in --out; a terminal keeps its encoding."""
    if sys.stdout is None:
        raise OutputError("stdout is closed; --out names a file to write")
    if binary:
        return sys.stdout.buffer
    assert isinstance(sys.stdout, io.TextIOWrapper)
    if sys.stdout.isatty():
        sys.stdout.reconfigure(errors="backslashreplace")
    else:
        sys.stdout.reconfigure(encoding="utf-8")
    return sys.stdout


def _write_file(path: pathlib.Path, render: Callable[[Any], None], binary: bool) -> None:
    mode, encoding = ("wb", None) if binary else ("w", "utf-8")
    if path.exists() and not path.is_file():
        with open(path, mode, encoding=encoding) as file:
            render(file)
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, mode, encoding=encoding) as file:
            render(file)
        if path.exists():
            shutil.copymode(path, beside)
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
