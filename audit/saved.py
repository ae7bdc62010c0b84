"""Saved counters: ncu's CSV of many calls in one text file, each under a line that says which call it was.

    # tileops-audit {"op": "GemmFwdOp", "case_id": "square-1k-nn-float16", "implementation": "triton", ...}
    ... what ncu printed ...
    # tileops-audit end

A file of one ncu run by itself, without such lines, is a measurement of a call that the user has to name.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

_MARK = "# tileops-audit "
_END = f"{_MARK}end"


class SavedError(Exception):
    """A file is no saved measurement; the message says which and where."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Section:
    """One call of a file.

    Attributes:
      facts: op, case_id, implementation, and where it ran; empty for a file of a bare ncu run.
      csv: what ncu printed.
      is_whole: whether the end is there: a file that a full disk or a kill cut off lacks it.
      place: file and line, for messages.
    """

    facts: dict[str, Any]
    csv: str
    is_whole: bool
    place: str


def append(path: pathlib.Path, facts: Mapping[str, Any], csv: str) -> None:
    """Add a call to a file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{_MARK}{json.dumps(dict(facts), sort_keys=True)}\n{csv.rstrip()}\n{_END}\n")


def read(path: pathlib.Path) -> list[Section]:
    """The calls of a file, in order.

    Raises:
      SavedError: it cannot be read, or a line that should name a call does not.
    """
    try:
        text = path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise SavedError(f"{path}: {error.strerror}") from error
    lines = text.splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith(_MARK) and line.strip() != _END]
    if not starts:
        return [Section(facts={}, csv=text, is_whole=True, place=str(path))]
    sections = []
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        place = f"{path}:{start + 1}"
        body = lines[start + 1 : stop]
        is_whole = any(line.strip() == _END for line in body)
        csv = "\n".join(line for line in body if line.strip() != _END)
        sections.append(Section(facts=_facts(lines[start], place), csv=csv, is_whole=is_whole, place=place))
    return sections


def _facts(line: str, place: str) -> dict[str, Any]:
    try:
        facts = json.loads(line.removeprefix(_MARK))
    except ValueError as error:
        raise SavedError(f"{place}: the line that names the call is damaged: {error}") from error
    if not isinstance(facts, dict) or not {"op", "case_id"} <= facts.keys():
        raise SavedError(f"{place}: the line that names the call lacks op or case_id")
    return facts
