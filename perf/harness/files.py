"""The run file that the bench writes: begun, continued or moved aside; and what the bench says of it at the end."""

from __future__ import annotations

import collections
import itertools
import os
import pathlib
import shlex
from collections.abc import Container, Iterable, Mapping, Sequence

from tileops.perf.harness import records as bench_records
from tileops.perf.harness.records import Key
from tileops.perf.harness.rows import Shard
from tileops.perf.runs import json as run_json
from tileops.perf.runs import lock as run_lock
from tileops.perf.runs import reader as runfile
from tileops.perf.runs import renames
from tileops.perf.runs import writer as run_writer
from tileops.proto import benchmark_pb2
from tileops.tools.cli import command


def writer(path: pathlib.Path, header: benchmark_pb2.RunHeader, resume: bool) -> run_writer.RunWriter:
    """Opens a run file. Measurements that are in it are continued, or moved aside.

    Raises:
      runfile.RunFileError: its ending is no run file's, it cannot be written, another process writes it, it is none of
        this command's, or it was measured elsewhere.
    """
    wrong = run_json.wrong_ending(path)
    if wrong and not (resume and path.exists()):
        raise runfile.RunFileError(f"--out={path}: {wrong}")
    lock = run_lock.Lock(path)
    try:
        if not resume and path.is_file() and path.stat().st_size and _make_way(path):
            lock.release()  # it is of the file that was moved
            lock = run_lock.Lock(path)
    except BaseException:
        lock.release()
        raise
    opened = run_writer.RunWriter(path, header, append=resume, lock=lock)
    if opened.damage is not None:
        _tell(path, opened.damage)
    return opened


def _tell(path: pathlib.Path, damage: run_writer.Damage) -> None:
    """Says what a run that is continued has lost: its rows are missing, and so measured like all that are."""
    for place in damage.places:
        command.say(f"{path}: {place}")
    if damage.records is None:
        command.say(f"{path} is damaged: rows whose records are lost are measured again where this run has them")
    else:
        lost = runfile.records_counted(damage.records)
        command.say(f"{path} has lost {lost}; the rows are measured again where this run has them")


def _make_way(path: pathlib.Path) -> bool:
    """Keeps measurements that a new run would overwrite, under a numbered name; prices are made again in seconds.

    Returns:
      Whether the file was moved.
    """
    try:
        reader = runfile.read_run(path)
    except runfile.RunFileError:
        reader = None
    if reader is None or not reader.header.schema_version:  # which every writer sets
        raise runfile.RunFileError(f"--out={path}: is there, and is no run file; it is not overwritten")
    if reader.header.environment.device_kind == "meta" or next(reader.records(), None) is None:
        return False
    names = (path.with_name(f"{path.stem}.{number}{path.suffix}") for number in itertools.count(1))
    aside = next(name for name in names if not name.exists())
    try:
        path.rename(aside)
    except OSError as error:
        raise runfile.RunFileError(f"cannot move the run in {path} aside to {aside}: {error.strerror}") from error
    command.say(f"the run that was in {path} is now {aside}")
    return True


def recorded(opened: run_writer.RunWriter) -> dict[Key, int]:
    """Status of each record that the file already holds; of several with one key the newest counts, as for readers."""
    if not opened.counts.records:
        return {}
    reader = runfile.read_run(opened.path)
    outcomes: dict[Key, int] = {
        (found.op, found.case_id, found.implementation): found.status for found in reader.records()
    }
    if reader.renamed:
        command.say(f"{opened.path}: {renames.counted(reader.renamed)}")
    return outcomes


def served(path: pathlib.Path, rows: Container[tuple[str, str]]) -> set[tuple[str, str]]:
    """Returns op and implementation of what serves one of these rows (op and case), by the records of a run file."""
    return {
        (found.op, found.implementation)
        for found in runfile.read_run(path).records()
        if (found.op, found.case_id) in rows
        and not (found.status == benchmark_pb2.STATUS_SKIPPED and found.message == bench_records.DOES_NOT_SERVE)
    }


def to_do(wanted: Iterable[Key], outcomes: Mapping[Key, int]) -> set[Key]:
    """Returns what has no record yet, or has failed: what was in its way may be gone."""
    wanted = list(wanted)
    failed = {key for key in wanted if outcomes.get(key) in bench_records.FAILED}
    if failed:
        command.say(f"retrying {len(failed)} that failed or timed out before")
    return failed | {key for key in wanted if key not in outcomes}


# ---- the end of a run


Record = benchmark_pb2.BenchmarkRecord


def finish(
    path: pathlib.Path, records: Sequence[Record], outcomes: Mapping[Key, int], shard: Shard, report_flags: str = ""
) -> int:
    """Says what became of the rows and what to do next; returns the exit status.

    Args:
      path: the run file.
      records: what this command measured or priced.
      outcomes: the last status of everything in the file.
      shard: which part of the rows these are.
      report_flags: what the report of such a run needs.
    """
    for line in summary(records):
        command.say(line)
    counts = collections.Counter(outcomes.values())
    ok = counts[benchmark_pb2.STATUS_OK]
    command.say(
        f"{len(outcomes)} records: {ok} ok, {counts[benchmark_pb2.STATUS_SKIPPED]} skipped,"
        f" {counts[benchmark_pb2.STATUS_ERROR]} errors, {counts[benchmark_pb2.STATUS_TIMEOUT]} timeouts; written to"
        f" {path}"
    )
    is_failed = any(counts[status] for status in bench_records.FAILED)
    # The dearest rows of a run lie in parts of their own: where those are skipped, the others have been measured.
    is_empty = not ok and not is_failed and shard.count == 1
    if is_empty:
        command.say(
            f"nothing was measured: {'every row was skipped' if outcomes else 'no implementation serves a row'}"
        )
    if outcomes:
        _say_next(path, report_flags)
    elif shard.count > 1:
        part = f"part {shard.index} of {shard.count}"
        command.say(f"{part} holds no row: there are fewer rows than parts; merge it with the others")
    return command.EXIT_FOUND if is_failed or is_empty else command.EXIT_OK


def _say_next(path: pathlib.Path, flags: str) -> None:
    """Says how the run is reported: here, or from a zip where the repository is."""
    is_here = (
        "BUILD_WORKING_DIRECTORY" in os.environ
        or pathlib.Path(__file__).absolute().parents[2].joinpath("bazelw").exists()
    )
    command.say(
        "report it with" if is_here else f"copy {path} to a machine with the repository, and report it there with"
    )
    run = shlex.quote(str(path if is_here else path.name))
    command.say(f"  ./bazelw run //perf:roofline -- --run={run}{flags}")


def summary(records: Sequence[Record]) -> list[str]:
    """Returns what a person wants to know of a run at its end: why rows were skipped, by reason, and what failed."""
    lines = []
    skipped: dict[tuple[str, str], list[tuple[Record, str]]] = {}
    for record in records:
        if record.status == benchmark_pb2.STATUS_SKIPPED:
            reason, _, detail = record.message.partition(": ")
            amount, _, rule = detail.rpartition("; ")
            skipped.setdefault((reason, rule), []).append((record, f" ({amount})" if amount else ""))
    for (reason, rule), found in skipped.items():
        lines.append(f"skipped {len(found)}, {reason}" + (f": {rule}" if rule else ""))
        ops: dict[str, dict[str, None]] = {}
        for record, amount in found:
            ops.setdefault(record.op, {})[record.case_id + amount] = None
        lines.extend(f"  {op}: {', '.join(cases)}" for op, cases in ops.items())
    for record in records:
        if record.status in bench_records.FAILED:
            what = benchmark_pb2.Status.Name(record.status).removeprefix("STATUS_").lower()
            who = f" {record.implementation}" if record.implementation else ""
            lines.append(f"{what}: {record.op} {record.case_id}{who}: {record.message}")
    return lines
