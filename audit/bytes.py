"""Audits the read half of each op's bytes formula against DRAM counters, under NVIDIA Nsight Compute.

Without flags: of every op, the fewest rows that take every branch of its price, on the first GPU. Exits 1 where a
formula claims reads that the call did not make (FAIL), 2 where none fails but a row gave no usable measurement, or no
verdict since its op declares no read half.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from absl import app, flags

from tileops.audit import choose, ncu
from tileops.ops import row_index
from tileops.perf.harness import rows as bench_rows
from tileops.proto import audit_pb2
from tileops.tools.cli import (
    command,  # first: it answers Ctrl-C while torch is imported
    globs,
    later,
    nearest,
    output,
    paths,
)

# Imported when first used, since they import torch, or use what does.
calls = later.module("tileops.audit.calls")
exceptions = later.module("tileops.audit.exceptions")
measure = later.module("tileops.audit.measure")
render = later.module("tileops.audit.render")
report = later.module("tileops.audit.report")
saved = later.module("tileops.audit.saved")
saved_rows = later.module("tileops.audit.saved_rows")
bench_catalogue = later.module("tileops.perf.harness.catalogue")
bench_environment = later.module("tileops.perf.harness.environment")
bench_progress = later.module("tileops.tools.cli.progress")

_OP = flags.DEFINE_multi_string("op", [], "Globs of op names, comma-separated; repeatable.")
_FAMILY = flags.DEFINE_multi_string("family", [], "Globs of families, comma-separated; repeatable.")
_LABEL = flags.DEFINE_multi_string("label", [], "Globs of workload labels, comma-separated; repeatable.")
_CASE = flags.DEFINE_multi_string(
    "case", [], "Globs of case ids (a label with its dtypes, as --list prints them), comma-separated; repeatable."
)
_ROWS = flags.DEFINE_enum(
    "rows", "cover", ["cover", "all"], "cover: the fewest rows that take every branch of an op's price."
)
_IMPLEMENTATION = flags.DEFINE_string("implementation", "", "The one to audit. Default: what the op chooses by itself.")
_DEVICE = flags.DEFINE_string("device", "cuda", "cuda or cuda:N.")
_FORMAT = flags.DEFINE_enum("format", "table", ["table", "json"], "Form of the report.")
_OUT = flags.DEFINE_string(
    "out",
    None,
    "File to write: the audit as protobuf where it ends in .binpb (the report goes to stdout too), else the report in"
    " --format. Default: the report to stdout and, of a measurement, the protobuf to tileops-audit.binpb.",
)
_FROM_CSV = flags.DEFINE_multi_string(
    "from_csv", [], "Judge saved counters instead: what --save_csv wrote, or one ncu run's CSV; repeatable. No GPU."
)
_SAVE_CSV = flags.DEFINE_string("save_csv", None, "File that keeps what ncu printed of every row, for --from_csv.")
_NCU = flags.DEFINE_string("ncu", "ncu", "Name or path of Nsight Compute's program.")
_ROW_TIMEOUT_S = flags.DEFINE_float("row_timeout_s", 180.0, "Longest that a row may take.", lower_bound=0.1)
_GENERATED_DIR = flags.DEFINE_string(
    "generated_dir", None, "What //codegen:emit made of a manifest outside the project."
)
_PLUGIN = flags.DEFINE_multi_string("plugin", [], "Module or .py file to import first; repeatable.")
_LIST = flags.DEFINE_bool("list", False, "Print the rows and the branches that each takes; run nothing.")

_BINPB = ".binpb"
_DEFAULT_OUT = f"tileops-audit{_BINPB}"


def main(argv: Sequence[str]) -> int:
    """Audit what the flags say; returns the exit status."""
    del argv
    if not re.fullmatch(r"cuda(:\d+)?", _DEVICE.value):
        raise app.UsageError(f"--device={_DEVICE.value}: cuda or cuda:N is wanted: only a GPU has DRAM counters")
    try:
        if not (_PLUGIN.value or _GENERATED_DIR.value):
            classes = row_index.load()
            by_op = _selected(classes)
            if _LIST.value and not _FROM_CSV.value:
                return _list(_chosen(classes, by_op))
        return _audit()
    except (app.UsageError, bench_rows.SelectionError, output.OutputError) as error:
        _refuse(error)  # without the names of the next clause, which torch would be imported for
    except (bench_catalogue.CatalogueError, exceptions.ExceptionTableError, saved.SavedError) as error:
        _refuse(error)


def _refuse(error: Exception) -> NoReturn:
    """Raises an error as bad usage, whose message is the last of its lines."""
    *lines, last = str(error).splitlines()
    for line in lines:
        command.say(line)
    raise app.UsageError(last) from error


def _selected(classes: Mapping[str, bench_rows.Named]) -> dict[str, list]:
    """The rows that the flags select, by op. Raises SelectionError."""
    selection = bench_rows.Selection(
        ops=globs.of_flag(_OP.value), families=globs.of_flag(_FAMILY.value), labels=globs.of_flag(_LABEL.value)
    )
    listed_by = nearest.rows(generated_dir=[_GENERATED_DIR.value] if _GENERATED_DIR.value else [], plugin=_PLUGIN.value)
    selected = choose.with_case_ids(
        bench_rows.select(classes, selection, listed_by), globs.of_flag(_CASE.value), listed_by
    )
    if _IMPLEMENTATION.value:
        bench_rows.check_implementations((op_class for op_class, _ in selected), [_IMPLEMENTATION.value], listed_by)
    by_op: dict[str, list] = {}
    for op_class, case in selected:
        by_op.setdefault(op_class.ENTRY, []).append(case)
    return by_op


def _chosen(classes: Mapping[str, bench_rows.Named], by_op: Mapping[str, list]) -> list[tuple]:
    """Those of the selected rows that --rows asks for."""
    return [
        (classes[op], case)
        for op, cases in by_op.items()
        for case in (choose.cover(cases) if _ROWS.value == "cover" else cases)
    ]


def _list(chosen: Sequence[tuple]) -> int:
    for op_class, case in chosen:
        print(op_class.ENTRY, case.case_id, "; ".join(op_class.BRANCHES[at] for at in case.branches), sep="\t")
    return command.EXIT_OK


def _audit() -> int:
    sources = _sources()
    classes = bench_catalogue.load(sources)
    by_op = _selected(classes)
    found = report.new_report()
    for op in by_op:
        found.unreached.extend(audit_pb2.UnreachedBranch(op=op, branch=text) for text in choose.unreached(classes[op]))
    table = _exception_table(classes, by_op, found)
    if _FROM_CSV.value:
        files = [paths.user_path(name) for name in _FROM_CSV.value]
        output.refuse_input(_OUT.value, files)
        chosen = saved_rows.Chosen(classes=classes, cases=by_op, implementation=_IMPLEMENTATION.value)
        unjudged = saved_rows.judge(files, chosen, table, found)
        status = _finish(found, is_measurement=False)
        for line in unjudged:
            command.say(line)
        return status or (command.EXIT_UNUSABLE if unjudged else command.EXIT_OK)
    chosen = _chosen(classes, by_op)
    if _LIST.value:
        return _list(chosen)
    return _measure(chosen, table, sources, found)


def _sources() -> bench_catalogue.Sources:
    generated = None if _GENERATED_DIR.value is None else str(paths.user_path(_GENERATED_DIR.value))
    plugins = tuple(paths.plugin_path(name) for name in _PLUGIN.value)
    return bench_catalogue.Sources(generated_dir=generated, plugins=plugins)


def _exception_table(classes, by_op, found: audit_pb2.AuditReport) -> tuple[exceptions.ReadException, ...]:
    """The table, checked; what review should know of it goes into the report."""
    table = exceptions.EXCEPTIONS
    rows = {
        op: [one.call for case in classes[op].CASES if (one := calls.declared(classes[op], case)).call is not None]
        for op in dict.fromkeys(one.op for one in table)
        if op in classes
    }
    exceptions.check(table, rows, classes)
    found.notes.extend(exceptions.notes(table, {op: calls for op, calls in rows.items() if op in by_op}))
    return table


def _measure(chosen, table, sources: bench_catalogue.Sources, found: audit_pb2.AuditReport) -> int:
    try:
        program = ncu.find(str(paths.user_path(_NCU.value)) if os.sep in _NCU.value else _NCU.value)
    except ncu.NcuError as error:
        program = error
    device = _DEVICE.value if ":" in _DEVICE.value else f"{_DEVICE.value}:0"
    save_csv = _writer(len(chosen))
    settings = measure.Settings(
        program=program,
        sources=sources,
        device=device,
        implementation=_IMPLEMENTATION.value,
        timeout_s=_ROW_TIMEOUT_S.value,
        save_csv=save_csv,
    )
    found.project_revision = bench_environment.describe_prices(reproducible=False).project_revision
    rows = [calls.declared(op_class, case) for op_class, case in chosen]
    interrupted = False
    try:
        with bench_progress.bar(len(rows)) as progress:
            for row in measure.measure(rows, table, settings, found):
                found.rows.append(row)
                progress.begin(f"measured {row.op} {row.case_id}")
                progress.end()
                if report.is_measured(found):  # after every row: what is measured outlives this process
                    _write_binpb(found)
    except KeyboardInterrupt:
        interrupted = True
        command.say(f"interrupted after {len(found.rows)} of {len(rows)} rows")
        found.rows.extend(report.row(one, skip="interrupted before its turn") for one in rows[len(found.rows) :])
    if save_csv is not None:
        save_csv.close()
    status = _finish(found, is_measurement=True)
    return command.EXIT_INTERRUPTED if interrupted else status


def _writer(rows: int) -> saved.Writer | None:
    if _SAVE_CSV.value is None:
        return None
    path = paths.user_path(_SAVE_CSV.value)
    try:
        return saved.Writer(path, rows)
    except OSError as error:
        raise app.UsageError(f"cannot write {path}: {error.strerror}") from error


def _write_binpb(found: audit_pb2.AuditReport) -> None:
    out = _OUT.value or _DEFAULT_OUT
    if out.endswith(_BINPB):
        output.write(out, lambda file: file.write(found.SerializeToString()), binary=True)


def _finish(found: audit_pb2.AuditReport, *, is_measurement: bool) -> int:
    """Write the report; the exit status that its rows ask for. Of a measurement, a file is kept too."""
    write = render.write_table if _FORMAT.value == "table" else render.write_json
    if _OUT.value and not _OUT.value.endswith(_BINPB):
        output.write(_OUT.value, lambda file: write(found, file))
        return _status(report.counts(found.rows), len(found.rows))
    if _OUT.value or (is_measurement and (report.is_measured(found) or not paths.user_path(_DEFAULT_OUT).exists())):
        _write_binpb(found)
    elif is_measurement:
        command.say(f"nothing was measured: {_DEFAULT_OUT} stays as it was (--out writes this report to a file)")
    write(found, sys.stdout)
    return _status(report.counts(found.rows), len(found.rows))


def _status(counts: dict[str, int], rows: int) -> int:
    if counts["FAIL"]:
        command.say(f"{counts['FAIL']} of {rows} rows fail: their formulas claim reads that were not made")
    if counts["NO-VERDICT"]:
        command.say(
            f"{counts['NO-VERDICT']} of {rows} rows have NO-VERDICT, which is not a pass: their ops declare no read"
            " half"
        )
    if counts["ERROR"]:
        command.say(f"{counts['ERROR']} of {rows} rows gave no usable measurement; the report says why")
    if counts["FAIL"]:
        return command.EXIT_FOUND
    return command.EXIT_UNUSABLE if counts["ERROR"] or counts["NO-VERDICT"] else command.EXIT_OK


if __name__ == "__main__":
    command.run(main)
