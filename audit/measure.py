"""Rows through Nsight Compute, one child process each; what it costs one row costs no other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tileops.audit import counters, exceptions, ncu, report, saved
from tileops.audit.calls import DeclaredCall
from tileops.perf.harness.catalogue import Sources
from tileops.proto import audit_pb2

# Verdicts on fewer reads than declared; what ncu cannot see may explain them.
_SHORT = frozenset((audit_pb2.VERDICT_FAIL, audit_pb2.VERDICT_EXEMPT))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How rows are measured.

    Attributes:
      program: ncu, or why there is none.
      sources: where the ops come from.
      device: "cuda:N".
      implementation: name of the one to audit; "" for what the op chooses by itself.
      timeout_s: longest that a row may take. Seconds.
      save_csv: keeps what ncu printed; None for nothing.
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
    """Audit rows in order.

    Args:
      rows: what to audit.
      table: the configured exceptions.
      settings: how.
      found: the report; what the rows tell of the machine is noted in it.

    Yields:
      A judged row for each, whatever became of it.
    """
    for one in rows:
        yield _outcome(one, table, settings, found)


def _outcome(
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
        profiled = ncu.profile(settings.program, arguments, settings.timeout_s)
    except ncu.NcuError as error:
        return report.row(one, implementation=settings.implementation, error=str(error))
    facts = profiled.facts
    row = judged(one, profiled.csv, facts, table)
    if row.verdict in _SHORT:
        try:
            facts["copies"] = ncu.copies(arguments, settings.timeout_s)
        except ncu.NcuError as error:
            row.reason += f"; whether the driver copied for it outside any kernel is not known ({error})"
        else:
            row = judged(one, profiled.csv, facts, table)
    _note_machine(found, facts, settings.program.version)
    if facts["declared_read_bytes"] != one.read_bytes:
        error = (
            f"the op declares {facts['declared_read_bytes']} read bytes for the measured call and {one.read_bytes} for the"
            " same call on meta: its read half depends on more than the checked call"
        )
        return report.row(one, implementation=facts["implementation"], error=error)
    if settings.save_csv is not None:
        name = {"op": one.op_class.ENTRY, "case_id": one.case.case_id, "profiler_version": settings.program.version}
        settings.save_csv.append({**facts, **name}, profiled.csv)
    return row


def judged(
    one: DeclaredCall, csv: str, facts: Mapping[str, Any], table: Sequence[exceptions.ReadException]
) -> audit_pb2.AuditRow:
    """The row that ncu's CSV of its call makes.

    Args:
      one: the row.
      csv: what ncu printed.
      facts: what is known of the call: `implementation`; `copies` where they were looked for; `calls`, how many the CSV
        is of, where the program that made them says so.
      table: the configured exceptions.
    """
    implementation = facts.get("implementation", "")
    try:
        measured = counters.parse(csv)
    except counters.CounterError as error:
        return report.row(one, implementation=implementation, error=f"{error}{ncu.remedy(csv)}")
    is_one_call = facts.get("calls") == 1
    if measured.repeats > 1 and not is_one_call:
        error = (
            f"the same {len(measured.kernels) // measured.repeats} kernel(s) follow one another {measured.repeats}"
            " times: one call is to be profiled. If one call launches them so often, let //audit:bytes measure it: it"
            " counts calls"
        )
        return report.row(one, implementation=implementation, counters=measured, error=error)
    exception = None if one.call is None else exceptions.find(table, one.call)
    row = report.row(one, implementation=implementation, counters=measured, exception=exception)
    if row.verdict == audit_pb2.VERDICT_FAIL and not is_one_call:
        row.reason += f", or the file lacks kernels of the call (it has {len(measured.kernels)})"
    if row.verdict in _SHORT and facts.get("copies"):
        error = (
            f"the call leaves {len(facts['copies'])} copies to the driver ({facts['copies'][0]}), whose reads are in no"
            " kernel's counters: audit an implementation that copies by a kernel, with --implementation"
        )
        return report.row(one, implementation=implementation, counters=measured, error=error)
    return row


def _note_machine(found: audit_pb2.AuditReport, facts: dict, version: str) -> None:
    for name in ("device_name", "driver_version", "torch_version"):
        setattr(found, name, facts.get(name, ""))
    found.profiler_version = version


def note_saved(found: audit_pb2.AuditReport, facts: dict) -> None:
    """Take over what a saved call tells of the machine.

    Raises:
      saved.SavedError: the report already speaks of another device.
    """
    name = facts.get("device_name", "")
    if found.device_name and name and found.device_name != name:
        raise saved.SavedError(f"calls of {found.device_name} and of {name}: an audit is of one device")
    _note_machine(found, facts, facts.get("profiler_version", ""))
