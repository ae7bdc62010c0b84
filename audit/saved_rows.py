"""Rows of saved counters, judged again by today's formulas."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tileops.audit import calls, exceptions, measure, report, saved
from tileops.ops.cases import WorkloadCase
from tileops.ops.op import Op
from tileops.perf.runs import renames
from tileops.proto import audit_pb2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chosen:
    """What the flags select.

    Attributes:
      classes: every op by name.
      cases: the selected rows per selected op.
      implementation: the implementation that the CSV of one ncu run measured; "" if the flags name none.
    """

    classes: Mapping[str, type[Op]]
    cases: Mapping[str, Sequence[WorkloadCase]]
    implementation: str


def judge(
    files: Sequence[pathlib.Path],
    chosen: Chosen,
    table: Sequence[exceptions.ReadException],
    found: audit_pb2.AuditReport,
) -> list[str]:
    """Adds the selected calls of saved files to a report.

    Returns:
      What could not be judged, in words: what a file lacks that is cut off, and calls of rows that no longer exist. The
      report's notes have it too.

    Raises:
      SavedError: a file has no saved counters, or no selected call.
    """
    unjudged = []
    renamed = 0
    places = collections.defaultdict(list)
    sections = []
    for path in files:
        file = saved.read(path)
        found.notes.extend(filter(None, [file.missing]))
        unjudged += [file.missing] * file.is_cut
        for section in file.sections:
            row = _row_of(section, chosen)
            if row is None:
                gone = f"{section.place}: {section.facts['op']} has no row {section.facts['case_id']} (any more): not judged"
                found.notes.append(gone)
                unjudged.append(gone)
                continue
            op_class, case = row
            renamed += bool(section.facts) and (op_class.ENTRY, case.case_id) != _named(section)
            facts = section.facts or {"implementation": chosen.implementation}
            if case not in chosen.cases.get(op_class.ENTRY, ()):
                continue
            key = op_class.ENTRY, case.case_id, facts.get("implementation", "")
            if key not in places:
                sections.append((key, section, op_class, case, facts))
            places[key].append(section.place)
    if renamed:
        found.notes.append(renames.counted(renamed, "saved call"))
    for key, section, op_class, case, facts in sections:
        if section.facts:
            measure.note_saved(found, facts)
        one = calls.declared(op_class, case)
        error = section.defect
        if len(places[key]) > 1:
            error = f"the files have the call twice, and only one measurement can count: {', '.join(places[key])}"
        if error:
            found.rows.append(report.row(one, implementation=key[-1], error=error))
        else:
            found.rows.append(measure.judged(one, section.csv, facts, table))
    if not found.rows:
        raise saved.SavedError("\n".join([*unjudged, "no saved call fits --op, --family, --label and --case together"]))
    return unjudged


def _row_of(section: saved.Section, chosen: Chosen) -> tuple[Any, WorkloadCase] | None:
    """Returns the row that a call's line names, or the flags if it has no line; None if the row no longer exists."""
    if not section.facts:
        return _named_row(chosen, section.place)
    named = _named(section)
    for name, case_id in (named, renames.load().row(*named)):
        op_class = chosen.classes.get(name)
        case = next((case for case in op_class.CASES if case.case_id == case_id), None) if op_class else None
        if case is not None:
            return op_class, case
    return None


def _named(section: saved.Section) -> tuple[str, str]:
    """The op and case that a call of a saved audit says it is of."""
    return section.facts["op"], section.facts["case_id"]


def _named_row(chosen: Chosen, place: str) -> tuple[type[Op], WorkloadCase]:
    rows = [(chosen.classes[op], case) for op, cases in chosen.cases.items() for case in cases]
    if len(rows) > 1:
        names = ", ".join(f"{op_class.ENTRY} {case.case_id}" for op_class, case in rows[:3])
        raise saved.SavedError(
            f"{place}: an ncu run by itself does not name its row: name one row with --op and --case (now {len(rows)}:"
            f" {names}{', ...' if len(rows) > 3 else ''})"
        )
    return rows[0]
