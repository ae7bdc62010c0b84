"""One audit, from its checked flags to its exit status. audit/bytes.py reads the flags and imports this module late."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence

from google.protobuf import message

from tileops.audit import calls, choose, exceptions, measure, ncu, render, report, saved, saved_rows
from tileops.ops.op import Op
from tileops.perf.harness import catalogue, environment
from tileops.proto import audit_pb2
from tileops.tools.cli import command, output, paths, progress, words

_BINPB = ".binpb"
_DEFAULT_OUT = f"tileops-audit{_BINPB}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What the flags ask for.

    Attributes:
      choice: which rows, with which implementation.
      from_csv: the files of saved counters to judge; empty to measure.
      form: "table" or "json".
      lists_only: --list.
      generated_dir, plugins, device, out, save_csv, ncu, row_timeout_s: the flags of these names.
    """

    choice: choose.Choice
    generated_dir: str | None
    plugins: Sequence[str]
    device: str
    form: str
    out: str | None
    from_csv: Sequence[pathlib.Path]
    save_csv: str | None
    ncu: str
    row_timeout_s: float
    lists_only: bool


def perform(request: Request) -> int:
    """Audits; returns the exit status. Raises UserError."""
    choice = request.choice
    sources = _sources(request)
    classes = catalogue.load(sources)
    by_op = choice.by_op(classes)
    if request.lists_only and not request.from_csv:
        choose.print_rows(choice.to_measure(classes, by_op))
        return command.EXIT_OK
    # A measurement always leaves a file.
    out = request.out if request.from_csv else request.out or _DEFAULT_OUT
    output.check(out, _is_audit if _keeps_binpb(out) else ("audit", request.form), request.from_csv)
    output.check(request.save_csv, saved.is_saved, flag="save_csv")
    found = report.new_report()
    for op in by_op:
        found.unreached.extend(audit_pb2.UnreachedBranch(op=op, branch=text) for text in choose.unreached(classes[op]))
    table = _exception_table(classes, by_op, found)
    if not request.from_csv:
        return _measure(request, choice.to_measure(classes, by_op), table, sources, found)
    chosen = saved_rows.Chosen(classes=classes, cases=by_op, implementation=choice.implementation)
    unjudged = saved_rows.judge(request.from_csv, chosen, table, found)
    status = _finish(request, found, is_measurement=False)
    for line in unjudged:
        command.say(line)
    return status or (command.EXIT_UNUSABLE if unjudged else command.EXIT_OK)


def _sources(request: Request) -> catalogue.Sources:
    generated = None if request.generated_dir is None else str(paths.user_path(request.generated_dir))
    return catalogue.Sources(generated_dir=generated, plugins=tuple(map(paths.plugin_path, request.plugins)))


def _keeps_binpb(out: str | None) -> bool:
    return out is not None and out.endswith(_BINPB)


def _is_audit(path: pathlib.Path) -> bool:
    """Returns whether a file is an audit, as protobuf."""
    try:
        return bool(audit_pb2.AuditReport.FromString(path.read_bytes()).premises)
    except message.DecodeError:
        return False


def _exception_table(
    classes: Mapping[str, type[Op]], by_op: Mapping[str, list], found: audit_pb2.AuditReport
) -> tuple[exceptions.ReadException, ...]:
    """Returns the checked table. The report gets what a review of the table should know."""
    table = exceptions.EXCEPTIONS
    rows = {
        op: [one.call for case in classes[op].CASES if (one := calls.declared(classes[op], case)).call is not None]
        for op in dict.fromkeys(one.op for one in table)
        if op in classes
    }
    exceptions.check(table, rows, classes)
    found.notes.extend(exceptions.notes(table, {op: calls for op, calls in rows.items() if op in by_op}))
    return table


def _measure(
    request: Request,
    chosen: Sequence[tuple],
    table: tuple[exceptions.ReadException, ...],
    sources: catalogue.Sources,
    found: audit_pb2.AuditReport,
) -> int:
    program: ncu.Program | ncu.NcuError
    try:
        program = ncu.find(str(paths.user_path(request.ncu)) if os.sep in request.ncu else request.ncu)
    except ncu.NcuError as error:
        program = error
    device = request.device if ":" in request.device else f"{request.device}:0"
    save_csv = None if request.save_csv is None else saved.Writer(paths.user_path(request.save_csv), len(chosen))
    settings = measure.Settings(
        program=program,
        sources=sources,
        device=device,
        implementation=request.choice.implementation,
        timeout_s=request.row_timeout_s,
        save_csv=save_csv,
    )
    found.project_revision = environment.describe_prices(reproducible=False).project_revision
    rows = [calls.declared(op_class, case) for op_class, case in chosen]
    interrupted = False
    try:
        with progress.bar(len(rows)) as shown:
            for row in measure.measure(rows, table, settings, found):
                found.rows.append(row)
                shown.begin(f"measured {row.op} {row.case_id}")
                shown.end()
                if report.is_measured(found):  # after every row: what is measured outlives this process
                    _write_binpb(request, found, says=False)
    except KeyboardInterrupt:
        interrupted = True
        command.say(f"interrupted after {len(found.rows)} of {words.counted(len(rows), 'row')}")
        found.rows.extend(report.row(one, skip="interrupted before its turn") for one in rows[len(found.rows) :])
    if save_csv is not None:
        save_csv.close()
    status = _finish(request, found, is_measurement=True)
    return command.EXIT_INTERRUPTED if interrupted else status


def _write_binpb(request: Request, found: audit_pb2.AuditReport, says: bool = True) -> None:
    out = request.out or _DEFAULT_OUT
    if out.endswith(_BINPB):
        output.write(out, lambda file: file.write(found.SerializeToString()), binary=True, says=says)


def _finish(request: Request, found: audit_pb2.AuditReport, *, is_measurement: bool) -> int:
    """Writes the report, and the protobuf file of a measurement; returns the exit status of its rows."""
    write = render.write_table if request.form == "table" else render.write_json
    if request.out and not _keeps_binpb(request.out):
        output.write(request.out, lambda file: write(found, file))
        return _status(report.counts(found.rows), len(found.rows))
    if request.out or (is_measurement and (report.is_measured(found) or not paths.user_path(_DEFAULT_OUT).exists())):
        _write_binpb(request, found)
    elif is_measurement:
        command.say(f"nothing was measured: {_DEFAULT_OUT} stays as it was (--out writes this report to a file)")
    write(found, sys.stdout)
    return _status(report.counts(found.rows), len(found.rows))


def _status(counts: dict[str, int], rows: int) -> int:
    def told(verdict: str) -> str:
        return f"{verdict}: {counts[verdict]} of {words.counted(rows, 'row')}"

    if counts["FAIL"]:
        command.say(f"{told('FAIL')}; the formula claims reads that the call did not make")
    if counts["NO-VERDICT"]:
        command.say(f"{told('NO-VERDICT')}, which is not a pass; the op declares no read half")
    if counts["ERROR"]:
        command.say(f"{told('ERROR')}; no usable measurement, and the report says why")
    if counts["FAIL"]:
        return command.EXIT_FOUND
    return command.EXIT_UNUSABLE if counts["ERROR"] or counts["NO-VERDICT"] else command.EXIT_OK
