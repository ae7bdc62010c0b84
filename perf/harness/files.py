"""The run file that the bench writes: begun, continued, or made way for; and what it holds already."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Container, Iterable, Mapping

from tileops.perf.harness import run
from tileops.perf.runs import json as run_json
from tileops.perf.runs import lock as run_lock
from tileops.perf.runs import reader as runfile
from tileops.perf.runs import writer as run_writer
from tileops.proto import benchmark_pb2
from tileops.tools.cli import command


def writer(path: pathlib.Path, header: benchmark_pb2.RunHeader, resume: bool) -> run_writer.RunWriter:
    """Open a run file. Measurements that are in it are continued, or moved aside.

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
    """Say what a run that is continued has lost: its rows are missing, and so measured like all that are."""
    for place in damage.places:
        command.say(f"{path}: {place}")
    if damage.records is None:
        command.say(f"{path} is damaged: rows whose records are lost are measured again where this run has them")
    else:
        lost = runfile.records_counted(damage.records)
        command.say(f"{path} has lost {lost}; the rows are measured again where this run has them")


def _make_way(path: pathlib.Path) -> bool:
    """Keep measurements that a new run would overwrite, under a numbered name; prices are made again in seconds.

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


def recorded(opened: run_writer.RunWriter) -> dict[run.Key, int]:
    """Status of each record that the file already holds; of several with one key the newest counts, as for readers."""
    if not opened.counts.records:
        return {}
    return {
        (found.op, found.case_id, found.implementation): found.status
        for found in runfile.read_run(opened.path).records()
    }


def served(path: pathlib.Path, rows: Container[tuple[str, str]]) -> set[tuple[str, str]]:
    """Op and implementation of what serves one of these rows (op and case), by the records of a run file."""
    return {
        (found.op, found.implementation)
        for found in runfile.read_run(path).records()
        if (found.op, found.case_id) in rows
        and not (found.status == benchmark_pb2.STATUS_SKIPPED and found.message == run.DOES_NOT_SERVE)
    }


def to_do(wanted: Iterable[run.Key], outcomes: Mapping[run.Key, int]) -> set[run.Key]:
    """What has no record yet, or has failed: what was in its way may be gone."""
    wanted = list(wanted)
    failed = {key for key in wanted if outcomes.get(key) in run.FAILED}
    if failed:
        command.say(f"retrying {len(failed)} that failed or timed out before")
    return failed | {key for key in wanted if key not in outcomes}
