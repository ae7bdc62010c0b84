"""The bench's run file: opens, continues or moves it aside, and says at the end what the run found."""

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
from tileops.perf.runs import lock as run_lock
from tileops.perf.runs import reader as runfile
from tileops.perf.runs import renames
from tileops.perf.runs import writer as run_writer
from tileops.proto import benchmark_pb2
from tileops.tools.cli import command, words


def writer(path: pathlib.Path, header: benchmark_pb2.RunHeader, resume: bool) -> run_writer.RunWriter:
    """Opens a run file. Earlier measurements in it are continued (`resume`) or moved aside.

    Raises:
      runfile.RunFileError: the file cannot be written, another process writes it, or it was measured with another
        machine or other sources.
    """
    lock = run_lock.Lock(path)
    try:
        if not resume and path.is_file() and path.stat().st_size and _make_way(path):
            lock.release()  # this lock belongs to the moved file
            lock = run_lock.Lock(path)
    except BaseException:
        lock.release()
        raise
    opened = run_writer.RunWriter(path, header, append=resume, lock=lock)
    if opened.damage is not None:
        _say_damage(path, opened.damage)
    return opened


def _say_damage(path: pathlib.Path, damage: run_writer.Damage) -> None:
    """Says what a continued run has lost. Lost rows are measured again, as all missing rows are."""
    for place in damage.places:
        command.say(f"{path}: {place}")
    if damage.records is None:
        command.say(f"{path} is damaged: lost rows are measured again if this run has them")
    else:
        lost = words.counted(damage.records, "record")
        command.say(f"{path} has lost {lost}; these rows are measured again if this run has them")


def _make_way(path: pathlib.Path) -> bool:
    """Moves measurements that a new run would overwrite to a numbered name; returns whether it moved the file.

    A file of prices is overwritten: prices are made again in seconds.
    """
    reader = runfile.read_run(path)
    if reader.header.environment.device_kind == "meta" or next(reader.records(), None) is None:
        return False
    names = (path.with_name(f"{path.stem}.{number}{path.suffix}") for number in itertools.count(1))
    aside = next(name for name in names if not name.exists())
    try:
        path.rename(aside)
    except OSError as error:
        raise runfile.RunFileError(f"cannot move the run in {path} aside to {aside}: {error.strerror}") from error
    command.say(f"moved the earlier run from {path} to {aside}")
    return True


def recorded(opened: run_writer.RunWriter) -> dict[Key, int]:
    """Returns the status of each record in the file; of several with one key the newest counts, as for readers."""
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
    """Returns (op, implementation) of everything that serves one of these rows (op, case), by a file's records."""
    return {
        (found.op, found.implementation)
        for found in runfile.read_run(path).records()
        if (found.op, found.case_id) in rows
        and not (found.status == benchmark_pb2.STATUS_SKIPPED and found.message == bench_records.DOES_NOT_SERVE)
    }


def to_do(wanted: Iterable[Key], outcomes: Mapping[Key, int]) -> set[Key]:
    """Returns the keys that have no record yet, and those that failed: the cause may be gone."""
    wanted = list(wanted)
    failed = {key for key in wanted if outcomes.get(key) in bench_records.FAILED}
    if failed:
        command.say(f"retrying {len(failed)} that failed or timed out before")
    return failed | {key for key in wanted if key not in outcomes}


def say_resumed(outcomes: Mapping[Key, int], left: int) -> None:
    """Says how many records of a resumed run are kept, and how many the run still has to make."""
    kept = sum(status not in bench_records.FAILED for status in outcomes.values())
    if outcomes:
        command.say(f"resumed: {words.counted(kept, 'record')} kept, {left} to measure")


# ---- the end of a run


Record = benchmark_pb2.BenchmarkRecord


def finish(
    path: pathlib.Path, records: Sequence[Record], outcomes: Mapping[Key, int], shard: Shard, report_flags: str = ""
) -> int:
    """Says how the rows ended and what to do next; returns the exit status.

    Args:
      path: the run file.
      records: what this command measured or priced.
      outcomes: the last status of each record in the file.
      shard: which part of the rows this is.
      report_flags: flags that the report of this run needs.
    """
    for line in summary(records):
        command.say(line)
    counts = collections.Counter(outcomes.values())
    ok = counts[benchmark_pb2.STATUS_OK]
    command.say(
        f"{words.counted(len(outcomes), 'record')}: {ok} ok, {counts[benchmark_pb2.STATUS_SKIPPED]} skipped,"
        f" {words.counted(counts[benchmark_pb2.STATUS_ERROR], 'error')},"
        f" {words.counted(counts[benchmark_pb2.STATUS_TIMEOUT], 'timeout')}; written to {path}"
    )
    is_failed = any(counts[status] for status in bench_records.FAILED)
    # A shard may consist of skipped rows: expensive rows are in shards of their own.
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
    """Says how to report the run: here, or from a zip on a machine with the repository."""
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
    """Returns the lines that end a run: skipped rows by reason, and failures."""
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
