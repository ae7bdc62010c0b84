"""Remembers checked entries, for a command that checks the same spec files again after each change."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tileops.codegen.analysis import Analysis, analyse
from tileops.manifest.check import Checked, check_entry
from tileops.manifest.diagnostics import Diagnostic, Diagnostics
from tileops.manifest.language.effort import Effort
from tileops.manifest.model import Entry


@dataclasses.dataclass(frozen=True)
class _Known:
    """An entry as it was when it was checked, and what the checks found. `limit` is the effort that they could take."""

    content: str
    line: int
    limit: int
    checked: Checked
    analysis: Analysis
    found: tuple[Diagnostic, ...]

    def holds_for(self, entry: Entry, content: str, limit: int) -> bool:
        """Returns whether checking the entry again would find the same. A message about a defect may name lines."""
        silent = not (self.found or self.checked.unreached or self.analysis.unreached)
        return (self.content, self.limit) == (content, limit) and (silent or self.line == entry.line)


class Memory:
    """Checks entries, and returns the earlier result for an entry that did not change.

    An entry did not change if the model that was read from it is the same, and with it the algebraic types that it uses.
    It may have moved to other lines of its file.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Known] = {}
        self.checks = 0  # entries that were checked, not remembered

    def check(self, entry: Entry, diagnostics: Diagnostics, allowed: Effort) -> tuple[Checked, Analysis]:
        """Returns the checks and the analysis of an entry. `diagnostics` takes the defects."""
        key, content = (entry.file, entry.op), repr(_content(entry, entry.line))
        known = self._known.get(key)
        if known is None or not known.holds_for(entry, content, allowed.limit):
            self.checks += 1
            own = Diagnostics()
            checked = check_entry(entry, own)
            known = _Known(content, entry.line, allowed.limit, checked, analyse(entry, own, checked), tuple(own))
            if allowed.exhausted or entry.malformed:
                self._known.pop(key, None)
            else:
                self._known[key] = known
        diagnostics.add_all(known.found)
        moved = dataclasses.replace(known.checked.entry, line=entry.line, lines=entry.lines)
        return dataclasses.replace(known.checked, entry=moved), known.analysis


def _content(value: Any, first: int) -> Any:
    """Returns a part of an entry as nested tuples. Its lines count from the entry's first line, `first`."""
    if isinstance(value, Mapping):
        return tuple((key, _content(each, first)) for key, each in value.items())
    if isinstance(value, tuple | list):
        return tuple(_content(each, first) for each in value)
    if not dataclasses.is_dataclass(value):
        return value
    members = [type(value).__name__]
    for field in dataclasses.fields(value):
        member = getattr(value, field.name)
        if field.name == "line":
            member -= first
        elif field.name == "lines":
            member = {path: line - first for path, line in member.items()}
        members.append(_content(member, first))
    return tuple(members)
