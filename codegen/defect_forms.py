"""Defects of spec files in the forms that other programs read: GitHub's workflow commands, and SARIF 2.1.0."""

from __future__ import annotations

import functools
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Any

from tileops.codegen.pipeline import Unreached
from tileops.manifest.diagnostics import CODES, Diagnostic
from tileops.tools.cli import paths

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"


def github_lines(found: Sequence[Diagnostic], unreached: Sequence[Unreached]) -> list[str]:
    """Returns a workflow command per defect (an error), and per check that was not made (a notice)."""
    return [
        *(
            _command("error", one.file, one.line, column, f"{one.code} {one.op}".rstrip(), _message(one))
            for one, column in zip(found, _columns(found), strict=True)
        ),
        *(_command("notice", one.file, one.line, 1, one.op, f"not judged: {one.reason}") for one in unreached),
    ]


def _command(kind: str, file: str, line: int, column: int, title: str, message: str) -> str:
    values = {"file": _repository_path(file), "line": line, "col": column, "title": title}
    properties = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in values.items() if value != "")
    return f"::{kind} {properties}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    """Returns a text with the characters that would end it, those in `more` too, in percent encoding."""
    for char in f"%\r\n{more}":
        text = text.replace(char, f"%{ord(char):02X}")
    return text


def sarif(found: Sequence[Diagnostic], unreached: Sequence[Unreached]) -> dict[str, Any]:
    """Returns a SARIF log of one run. Each code is a rule; checks that were not made are notifications."""
    means = _meanings()
    rules = [
        {"id": code, "shortDescription": {"text": text}, "help": {"text": means[code]}} for code, text in CODES.items()
    ]
    at = {code: position for position, code in enumerate(CODES)}
    results = [
        {
            "ruleId": one.code,
            "ruleIndex": at[one.code],
            "level": "error",
            "message": {"text": _message(one)},
            "locations": [_location(one.file, one.line, column, ".".join(filter(None, (one.op, one.field))))],
        }
        for one, column in zip(found, _columns(found), strict=True)
    ]
    notifications = [
        {
            "level": "note",
            "message": {"text": f"not judged: {one.reason}"},
            "locations": [_location(one.file, one.line, 1, one.op)],
        }
        for one in unreached
    ]
    run = {
        "tool": {"driver": {"name": "tileops manifest:validate", "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notifications}],
        "results": results,
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _location(file: str, line: int, column: int, name: str) -> dict[str, Any]:
    path = _repository_path(file)
    uri = pathlib.Path(path).as_uri() if os.path.isabs(path) else _relative_uri(path)
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": line, "startColumn": column}}
    return {"physicalLocation": place, **({"logicalLocations": [{"fullyQualifiedName": name}]} if name else {})}


def _relative_uri(path: str) -> str:
    return pathlib.Path("/", path).as_uri().removeprefix("file:///")


def _message(found: Diagnostic) -> str:
    return ": ".join(filter(None, (found.op, found.field, found.message)))


@functools.cache
def _meanings() -> dict[str, str]:
    """Returns what each code means and what to do, as docs/defect-codes.md explains it, without marks of Markdown."""
    text = paths.data_path("docs", "defect-codes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([MR]\d{3}) \|[^|]*\| (.*) \|$", text, re.MULTILINE)
    return {code: meaning.replace("`", "").replace("\\|", "|") for code, meaning in rows}


@functools.cache
def _repository_path(file: str) -> str:
    """Returns the path of a spec file in the repository that holds it, or else the absolute path."""
    path = paths.user_path(file).resolve()  # from a link among a program's files to the source
    for folder in path.parents:
        if (folder / ".git").exists():
            return path.relative_to(folder).as_posix()
    return path.as_posix()


def _columns(found: Sequence[Diagnostic]) -> list[int]:
    """Returns for each defect the column, from 1, of the field's name on its line, or else of the first character there."""
    lines = {file: _lines(file) for file in {one.file for one in found}}
    return [_column(lines[one.file][one.line - 1 : one.line], one.field) for one in found]


def _lines(file: str) -> list[str]:
    try:
        return pathlib.Path(file).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):  # the defect says so
        return []


def _column(line: Sequence[str], field: str) -> int:
    text = "".join(line)
    name = re.sub(r"\[\d+\]$", "", field).rpartition(".")[2]
    key = re.search(rf"(?<![\w.]){re.escape(name)}(?=[\"']?\s*:)", text) if name else None
    return key.start() + 1 if key else len(text) - len(text.lstrip()) + 1
