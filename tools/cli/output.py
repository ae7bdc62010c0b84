"""Where a command's data goes: stdout, or a file that is written whole or not at all.

A command replaces its own earlier output and no other file. `roofline --format=json --out=report.json` replaces a JSON
report of its own; it refuses a run file, an HTML page, a program or the JSON of another command.
"""

import contextlib
import io
import os
import pathlib
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any

from tileops.tools.cli import command, errors, paths

HELP = "File to write. Default: stdout. A file that is no earlier output of this command is not replaced."
FORMAT_HELP = (
    "Form of the output. Default: that of the ending of --out (.txt, .json, .csv, .html); table without an ending."
)
FORM_OF_ENDING = {".txt": "table", ".json": "json", ".csv": "csv", ".html": "html"}
_PAGE = rb'\A<!DOCTYPE html>\s*<html lang="en"><head><meta charset="utf-8">\s*<meta http-equiv="(?s:.{1,900}?)<title>'
# How to know a file that a command wrote, by command and form: a pattern that its first bytes have. Lines with the names of
# runs come before the titles of a table.
_MARKS = {
    ("roofline", "table"): rb"^op +case +.*SOL time",
    ("roofline", "json"): rb'\A\{\s*"is_prediction":',
    ("roofline", "csv"): rb"\Aop,family,case_id,label,implementation,(library,)?roof_key,",
    ("roofline", "html"): _PAGE + b"Roofline: ",
    ("compare", "table"): rb"^base  .*\nnew   ",
    ("compare", "json"): rb'\A\{\s*"base":',
    ("compare", "csv"): rb"\Aop,family,case_id,implementation,verdict,",
    ("compare", "html"): _PAGE + b"Comparison: ",
    ("league", "table"): rb"^\d+ rows? in which some implementation is over ",
    ("league", "json"): rb'\A\{\n"device_name": .*\n"runs":',
    ("league", "csv"): rb"\Aop,family,case_id,implementation,library,",
    ("league", "html"): _PAGE + b"Libraries beside our kernels",
    ("stability", "table"): rb"^\d+ rows? longer than ",
    ("records", "csv"): rb"\Aop,family,case_id,label,implementation,(library,is_default,)?message,",
    ("records", "textproto"): rb"\A# proto-file: proto/benchmark\.proto",
    ("clock_study", "csv"): rb"\Aaccess,size_mb,|\Aop,case_id,implementation,cupti_us,",
    ("calibrate", "profile"): rb"\A# proto-file: proto/gpu_profile\.proto",
    ("audit", "table"): rb"^ ?verdict +op +case +implementation ",
    ("audit", "json"): rb'\A\{\n"device_name": .*\n"driver_version":',
    ("schema", "json"): rb'\A\{\s*"\$schema":',
}
_HEAD_BYTES = 1 << 16


def count_or_all(flag: str, text: str) -> int | None:
    """Returns how many lines a flag asks for; None for `all`. Raises errors.UserError on any other text."""
    if text == "all":
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise errors.UserError(f"--{flag}={text}: write a number above 0, or all")
    return int(text)


# A shell that redirects stdout owns its file: it is written like stdout, not replaced by name.
_STDOUT = frozenset({"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"})


class OutputError(errors.UserError):
    """A file that cannot be written; the message says which and why."""


def form(
    name: str | None,
    chosen: str | None,
    endings: Mapping[str, str] = FORM_OF_ENDING,
    default: str = "table",
    flag: str = "format",
) -> str:
    """Returns the form of an output: the one that the user chose, or else the one of its file's ending.

    Args:
      name: The path of --out, as the user gave it; None is stdout.
      chosen: The value of the flag of the form; None if the user gave none.
      endings: The form of each ending.
      default: The form of stdout, and of a file without an ending.
      flag: The name of the flag of the form; "" if the command has one form.

    Raises:
      OutputError: The flag contradicts the ending, or the ending tells no form.
    """
    ending = pathlib.PurePath(name or "").suffix
    told = endings.get(ending)
    if chosen and ending and told and chosen != told:
        raise OutputError(f"--{flag}={chosen} contradicts --out={name}: the ending {ending} means {told}")
    if ending and not (chosen or told):
        choice = f", or choose the form by --{flag}" if flag else ""
        raise OutputError(f"--out={name}: no form has the ending {ending}; use {', '.join(endings)}{choice}")
    return chosen or told or default


def check(
    name: str | None,
    own: tuple[str, str] | Callable[[pathlib.Path], bool],
    inputs: Iterable[pathlib.Path] = (),
    flag: str = "out",
) -> None:
    """Checks that an output can be written, before the command computes it.

    Args:
      name: The path of --out, as the user gave it; None is stdout.
      own: The command and the form of its output, as in `_MARKS`. Or a function that returns whether the command may
        replace an existing file.
      inputs: The files that the command reads.
      flag: The name of the flag.

    Raises:
      OutputError: The output is one of the inputs, its folder takes no file, or another file has its name.
    """
    if name is None or name in _STDOUT:
        return
    path = paths.user_path(name)
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        return  # a pipe or a device
    path = _resolved(path, flag)
    for read in inputs:
        if os.path.isfile(path) and os.path.isfile(read) and path.samefile(read):
            raise OutputError(f"--{flag}={name} is a file that this command reads ({read}); name another one")
    if os.path.isdir(path):
        raise OutputError(f"--{flag}={name}: cannot write {path}: it is a folder")
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):  # as `write` does
            pass
    except OSError as error:
        raise OutputError(f"--{flag}={name}: cannot write {path}: {error.strerror}") from error
    if not os.path.exists(path) or not path.stat().st_size:
        return
    is_own = own(path) if callable(own) else _has_mark(path, *own)
    if not is_own:
        raise OutputError(
            f"--{flag}={name} exists, and this command replaces only its own earlier output of the same form;"
            " name another file, or remove that one"
        )


def _resolved(path: pathlib.Path, flag: str) -> pathlib.Path:
    """Returns the path that a link leads to. Raises OutputError for links that lead to each other."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise OutputError(f"--{flag}={path}: the link leads to no file: {error}") from error


def _has_mark(path: pathlib.Path, command_name: str, form: str) -> bool:
    """Returns whether a file looks like an earlier output of a command in this form."""
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
    return b"\0" not in head and re.search(_MARKS[command_name, form], head, re.MULTILINE) is not None


def write(name: str | None, render: Callable[[Any], None], binary: bool = False, says: bool = True) -> None:
    """Has `render` write its data, as a stream, to where the user wants it, and says on stderr which file it wrote.

    On a full disk, and if `render` raises, an existing file stays as it was. A pipe or device is written directly.

    Args:
      name: A path as the user gave it; None is stdout.
      render: Writes the data to the file that it is given: a TextIO, or with `binary` a BinaryIO.
      binary: Whether that is a file of bytes, not of text.
      says: Whether to say which file was written.

    Raises:
      OutputError: The file cannot be written, or stdout is closed.
    """
    if name is None or name in _STDOUT:
        render(_stdout(binary))
        return
    path = paths.user_path(name)
    try:
        is_stream = os.path.exists(path) and not os.path.isfile(path)  # a pipe or a device
        _write_file(path if is_stream else _resolved(path, "out"), render, binary)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
    if says:
        command.say(f"wrote {path}")


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
