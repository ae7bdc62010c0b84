"""Diagnostics of spec files (what is wrong, where, under a stable code), and the table of the codes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Protocol

# Code -> what it says, in one line. `docs/defect-codes.md` explains each; M belongs to the manifest, R to the roofline.
CODES: dict[str, str] = {
    "M001": "the file cannot be read or is not YAML",
    "M002": "a key is twice in one mapping",
    "M003": "a document is too large or too deep",
    "M004": "an entry takes too much effort to check",
    "M005": "a form of YAML that is not accepted",
    "M010": "a required field is missing",
    "M011": "a field is unknown",
    "M012": "a field has the wrong type",
    "M013": "a name is not allowed",
    "M014": "a name is declared twice",
    "M015": "an op is in two files",
    "M016": "an entry's family differs from its file's",
    "M020": "an expression is not in the language",
    "M021": "an expression reads an unknown name",
    "M022": "an expression has the wrong kind",
    "M023": "a kind or parameter type is not in the language",
    "M024": "a dtype is unknown",
    "M025": "a value is read without a guard that shows it present",
    "M026": "a shape rule says what a shape or a `let` should",
    "M027": "a shape rule decides nothing, or rejects every call",
    "M028": "constants leave an expression without a value",
    "M030": "a type family is misused",
    "M031": "a type family's cases do not match its discriminant",
    "M040": "an index cannot be solved from the inputs",
    "M041": "a `let` or family refers to itself",
    "M042": "an entry has too many discriminant points",
    "M050": "an effect is inconsistent",
    "M051": "a metadata tensor is inconsistent",
    "M052": "a presence condition is no discriminant",
    "M053": "dtype combinations do not fit the dtype indices",
    "M060": "a workload row does not fit the signature",
    "M061": "a workload case id is not distinct",
    "M062": "a workload row's tensors do not infer back to the row",
    "M063": "an optional tensor is not covered by the rows",
    "M064": "a metadata tensor's contents break a requirement",
    "M065": "a metadata tensor's contents are no values of its dtype",
    "M070": "a composition is inconsistent",
    "R001": "the roofline block is missing or mixes its modes",
    "R002": "a roofline field is not a non-empty string",
    "R010": "a formula is not in the expression language",
    "R011": "a formula reads an unknown name",
    "R012": "a formula has the wrong kind",
    "R013": "a formula reads an absent tensor",
    "R020": "a func path has the wrong form",
    "R021": "a func path does not resolve",
}


MAX_MESSAGE = 1000


@dataclasses.dataclass(frozen=True, order=True)
class Diagnostic:
    """One defect: `file:line: Op: field: message [CODE]`. `line` counts from 1."""

    file: str
    line: int
    op: str
    field: str
    message: str
    code: str

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.op, self.field) if part)
        return f"{self.file}:{self.line}: {place + ': ' if place else ''}{self.message} [{self.code}]"


class Diagnostics:
    """Collects the defects of one or more files; each is reported once."""

    def __init__(self) -> None:
        self._found: dict[Diagnostic, None] = {}

    def add(self, file: str, line: int, op: str, field: str, code: str, message: str) -> None:
        """Records a defect. `code` is a key of CODES."""
        if code not in CODES:
            raise KeyError(f"unknown defect code {code}")
        self._found.setdefault(Diagnostic(file, line, printable(op), printable(field), printable(message), code))

    def add_of_file(self, file: str, line: int, code: str, message: str) -> None:
        """Records a defect of a file that belongs to no entry."""
        self.add(file, line, "", "", code, message)

    def add_all(self, found: Iterable[Diagnostic]) -> None:
        """Records defects that another collection has recorded."""
        self._found.update(dict.fromkeys(found))

    def __iter__(self):
        """Yields the defects by file and line, and in the order found if both are equal."""
        return iter(sorted(self._found, key=lambda found: (found.file, found.line)))

    def __len__(self) -> int:
        return len(self._found)

    def of(self, op: str) -> list[Diagnostic]:
        """Returns the defects of one entry."""
        return [found for found in self if found.op == op]


class Report(Protocol):
    """Takes a defect of the field `path` of one entry. It stands on the field's line unless `line` is another."""

    def __call__(self, path: str, code: str, message: str, line: int = 0) -> None: ...


def line_at(lines: Mapping[str, int], path: str, otherwise: int) -> int:
    """Returns the line of the field `path` or, if it has none, of the nearest member that holds the field.

    Args:
      lines: lines by field path.
      path: the field, as in `workloads[0].M`.
      otherwise: the line if no member has one.
    """
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path, otherwise)


def printable(text: str) -> str:
    """Returns text of a spec file as one line of printable characters, cut if it is too long."""
    if len(text) > MAX_MESSAGE:
        text = f"{text[: MAX_MESSAGE // 2]} ... {text[-MAX_MESSAGE // 2 :]}"
    return (
        text if text.isprintable() else "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
    )
