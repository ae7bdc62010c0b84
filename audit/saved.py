"""Saved counters: one text file has ncu's CSV of many calls, each below a line that names its call.

    # tileops-audit {"op": "GEMMFwdOp", "case_id": "square-1k-float16", "implementation": "triton", ...}
    ... what ncu printed ...
    # tileops-audit end
    # tileops-audit file {"calls": 1, "rows": 1}

The last line counts the calls above it and the rows that the audit was to measure. A file without such lines is the CSV
of one ncu run, whose row the user names.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tileops.tools.cli import errors, output, words

_MARK = "# tileops-audit "
_END = f"{_MARK}end"
_FILE = f"{_MARK}file "

_TEXTS = ("op", "case_id", "implementation", "device_name", "driver_version", "torch_version", "profiler_version")


class SavedError(errors.UserError):
    """A file has no saved counters; the message says which file and where."""

    has_lines = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Section:
    """One call of a file.

    Attributes:
      facts: op, case_id, implementation, device and versions; empty for the CSV of one ncu run.
      csv: what ncu printed.
      defect: why it is no measurement of the call, such as a missing end after a kill or a full disk; "" if it is one.
      place: file and line, for messages.
    """

    facts: dict[str, Any]
    csv: str
    defect: str = ""
    place: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Saved:
    """A file.

    Attributes:
      sections: its calls, in order.
      missing: what the file lacks of its audit, in words; "" if nothing.
      is_cut: whether the file lacks its end.
    """

    sections: tuple[Section, ...]
    missing: str = ""
    is_cut: bool = False


class Writer:
    """Writes a file call by call. Earlier contents stay until the first call is measured.

    Each method raises OSError or output.OutputError if the file cannot be written.
    """

    def __init__(self, path: pathlib.Path, rows: int):
        """Checks that the file can be written. `rows` is the number of calls that the audit is to measure."""
        self._path, self._rows, self._calls = path.resolve(), rows, 0
        self._is_new = not self._path.exists()
        self._is_plain = self._is_new or self._path.is_file()
        if self._is_plain:
            self._path.open("ab").close()

    def append(self, facts: Mapping[str, Any], csv: str) -> None:
        """Adds a call."""
        self._put(f"{_MARK}{json.dumps(dict(facts), sort_keys=True)}\n{csv.rstrip()}\n{_END}\n")
        self._calls += 1

    def close(self) -> None:
        """Writes the last line, which counts the calls."""
        if self._calls:
            self._put(f"{_FILE}{json.dumps({'calls': self._calls, 'rows': self._rows})}\n")
        elif self._is_new:
            self._path.unlink(missing_ok=True)

    def _put(self, text: str) -> None:
        if self._calls or not self._is_plain:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(text)
            return
        output.write(str(self._path), lambda file: file.write(text))


def is_saved(path: pathlib.Path) -> bool:
    """Returns whether a file holds saved counters, which another audit may replace."""
    with open(path, "rb") as file:
        return file.readline().startswith(_MARK.encode())


def read(path: pathlib.Path) -> Saved:
    """Returns the calls of a file.

    Raises:
      SavedError: the file cannot be read, or the line of a call is damaged.
    """
    try:
        text = path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise SavedError(f"cannot read {path}: {error.strerror}") from error
    if not text.strip():
        raise SavedError(f"{path}: the file is empty; name a file of --save_csv, or the CSV of one ncu run")
    lines = text.splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith(_MARK) and not _is_end(line)]
    if not starts:
        if any(map(_is_end, lines)):
            raise SavedError(f"{path}: the file has ends of calls, but no line that names a call")
        return Saved(sections=(Section(facts={}, csv=text, place=str(path)),))
    if stray := [at for at in range(starts[0]) if lines[at].strip()]:
        raise SavedError(f"{path}:{stray[0] + 1}: this line is above the first line that names a call")
    sections = tuple(
        _section(lines, start, stop, f"{path}:{start + 1}")
        for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True)
    )
    last = next((line for line in reversed(lines) if line.strip()), "")
    if not last.startswith(_FILE):
        missing = (
            f"{path}: the file is cut off after {words.counted(len(sections), 'call')}: how many followed is unknown"
        )
        return Saved(sections=sections, missing=missing, is_cut=True)
    try:
        footer = json.loads(last.removeprefix(_FILE))
        calls, rows = int(footer["calls"]), int(footer["rows"])
    except (ValueError, TypeError, KeyError) as error:
        raise SavedError(f"{path}:{len(lines)}: the line that counts the calls is damaged: {last}") from error
    if calls != len(sections):
        missing = (
            f"{path}: the file has {len(sections)} of {words.counted(calls, 'call')} that were saved: it is damaged"
        )
        return Saved(sections=sections, missing=missing, is_cut=True)
    missing = (
        f"{path}: the audit measured {calls} of its {words.counted(rows, 'row')}; the file lacks the others"
        if calls < rows
        else ""
    )
    return Saved(sections=sections, missing=missing)


def _is_end(line: str) -> bool:
    return line.strip() == _END or line.startswith(_FILE)


def _section(lines: Sequence[str], start: int, stop: int, place: str) -> Section:
    facts = _facts(lines[start], place)
    end = next((at for at in range(start + 1, stop) if lines[at].strip() == _END), None)
    if end is None:
        return Section(facts=facts, csv="", defect=f"{place}: the file is cut off in this call", place=place)
    defect = ""
    if after := [at for at in range(end + 1, stop) if lines[at].strip() and not lines[at].startswith(_FILE)]:
        defect = f"{place}: line {after[0] + 1}, after this call's end, belongs to no call: the file is damaged"
    return Section(facts=facts, csv="\n".join([*lines[start + 1 : end], ""]), defect=defect, place=place)


def _facts(line: str, place: str) -> dict[str, Any]:
    try:
        facts = json.loads(line.removeprefix(_MARK))
    except ValueError as error:
        raise SavedError(f"{place}: the line that names the call is damaged: {error}") from error
    if not isinstance(facts, dict) or not {"op", "case_id"} <= facts.keys():
        raise SavedError(f"{place}: the line that names the call lacks op or case_id")
    copies = facts.get("copies", [])
    wrong = [name for name in _TEXTS if not isinstance(facts.get(name, ""), str)]
    conditions = facts.get("conditions", {})
    wrong += ["conditions"] * (
        not (isinstance(conditions, dict) and all(isinstance(met, bool) for met in conditions.values()))
    )
    wrong += ["copies"] * (not (isinstance(copies, list) and all(isinstance(one, str) for one in copies)))
    if wrong:
        raise SavedError(f"{place}: the line that names the call is damaged: {wrong[0]} is {facts[wrong[0]]!r}")
    return facts
