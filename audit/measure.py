"""Rows measured by Nsight Compute, one child process per row. A row that fails does not stop the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tileops.audit import counters, exceptions, ncu, report, saved
from tileops.audit.calls import DeclaredCall
from tileops.perf.harness.catalogue import Sources
from tileops.proto import audit_pb2

# Verdicts on fewer reads than declared. Copies by the driver, which ncu does not count, may explain them.
_SHORT = frozenset((audit_pb2.VERDICT_FAIL, audit_pb2.VERDICT_EXEMPT))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How rows are measured.

    Attributes:
      program: ncu, or why there is no ncu.
      sources: where the ops come from.
      device: "cuda:N".
      implementation: name of the implementation to audit; "" if the op chooses.
      timeout_s: time limit per row. Seconds.
      save_csv: keeps what ncu printed; None keeps nothing.
    """

    program: ncu.Program | ncu.NcuError
    sources: Sources
    device: str
    implementation: str
    timeout_s: float
    save_csv: saved.Writer | None


def measure(
    rows: Sequence[DeclaredCall],
    table: Sequence[exceptions.ReadException],
    settings: Settings,
    found: audit_pb2.AuditReport,
) -> Iterator[audit_pb2.AuditRow]:
    """Measures rows in order and yields each judged, whatever the outcome.

    Args:
      rows: the rows to audit.
      table: the configured exceptions.
      settings: how to measure.
      found: the report. The machine is noted in it.
    """
    for one in rows:
        yield _measured(one, table, settings, found)


def _measured(
    one: DeclaredCall, table: Sequence[exceptions.ReadException], settings: Settings, found: audit_pb2.AuditReport
) -> audit_pb2.AuditRow:
    if not one.op_class.implementation_names():
        return report.row(one, skip="the op has no implementation; bring one with --plugin")
    if one.error or one.read_bytes == 0:
        return report.row(one)
    if isinstance(settings.program, ncu.NcuError):
        return report.row(one, error=str(settings.program))
    arguments = [
        f"--op={one.op_class.ENTRY}",
        f"--case_id={one.case.case_id}",
        f"--device={settings.device}",
        f"--implementation={settings.implementation}",
        *(f"--plugin={plugin}" for plugin in settings.sources.plugins),
    ]
    if settings.sources.generated_dir is not None:
        arguments.append(f"--generated_dir={settings.sources.generated_dir}")
    try:
        csv, facts = ncu.profile(settings.program, arguments, settings.timeout_s)
    except ncu.NcuError as error:
        return report.row(one, implementation=settings.implementation, error=str(error))
    row = judged(one, csv, facts, table)
    if row.verdict in _SHORT:
        try:
            facts["copies"] = ncu.copies(arguments, settings.timeout_s)
        except ncu.NcuError as error:
            row.reason += f"; whether the driver made copies outside any kernel is unknown ({error})"
        else:
            row = judged(one, csv, facts, table)
    facts["profiler_version"] = settings.program.version
    _note_machine(found, facts)
    if facts["declared_read_bytes"] != one.read_bytes:
        reason = (
            f"the op declares {facts['declared_read_bytes']} read bytes for the measured call and {one.read_bytes} for the"
            " same call on meta: its read half depends on more than the checked call"
        )
        return report.row(one, implementation=facts["implementation"], error=reason)
    if settings.save_csv is not None:
        settings.save_csv.append({**facts, "op": one.op_class.ENTRY, "case_id": one.case.case_id}, csv)
    return row


def judged(
    one: DeclaredCall, csv: str, facts: Mapping[str, Any], table: Sequence[exceptions.ReadException]
) -> audit_pb2.AuditRow:
    """Returns the row that ncu's CSV of its call makes.

    Args:
      one: the row.
      csv: what ncu printed.
      facts: what is known of the call: `implementation`; `copies`, names of the driver's copies if they were looked for;
        `calls`, how many calls the CSV covers, if the program that made them said so; `conditions`, which conditions of
        exceptions the measured call met. A condition that the facts lack is evaluated on the row's call on meta.
      table: the configured exceptions.
    """
    implementation = facts.get("implementation", "")
    try:
        measured = counters.parse(csv)
    except counters.CounterError as error:
        return report.row(one, implementation=implementation, error=f"{error}{ncu.remedy(csv)}")
    is_one_call, count = facts.get("calls") == 1, len(measured.kernels)
    met = {} if one.call is None else exceptions.conditions(table, one.call)
    met |= facts.get("conditions", {})
    exception = exceptions.find(table, one.op_class.ENTRY, met)
    row = report.row(one, implementation=implementation, counters=measured, exception=exception)
    reason = ""
    if measured.repeats > 1 and not is_one_call:
        reason = (
            f"the file repeats the same {count // measured.repeats} kernel(s) {measured.repeats} times, and one call is"
            " to be profiled. If one call launches them so often, measure it by //audit:bytes, which counts calls"
        )
    elif row.verdict in _SHORT and facts.get("copies"):
        reason = (
            f"the call leaves {len(facts['copies'])} copies to the driver ({facts['copies'][0]}), whose reads are in no"
            " kernel's counters: audit an implementation that copies by a kernel, with --implementation"
        )
    elif row.verdict == audit_pb2.VERDICT_FAIL and not is_one_call:
        row.reason += f", or the file lacks kernels of the call (it has {count})"
    return report.row(one, implementation=implementation, counters=measured, error=reason) if reason else row


def _note_machine(found: audit_pb2.AuditReport, facts: Mapping[str, Any]) -> None:
    for name in ("device_name", "driver_version", "torch_version", "profiler_version"):
        setattr(found, name, facts.get(name, ""))


def note_saved(found: audit_pb2.AuditReport, facts: Mapping[str, Any]) -> None:
    """Notes in a report the machine of a saved call.

    Raises:
      saved.SavedError: the report has calls of another device.
    """
    name = facts.get("device_name", "")
    if found.device_name and name and found.device_name != name:
        raise saved.SavedError(f"calls of {found.device_name} and of {name}: an audit has one device")
    _note_machine(found, facts)
