"""What a run says at its end: what became of its rows, what to do next, and the status of the command."""

from __future__ import annotations

import collections
import os
import pathlib
import shlex
from collections.abc import Mapping, Sequence

from tileops.perf.harness import run as bench_run
from tileops.perf.harness import shards
from tileops.proto import benchmark_pb2
from tileops.tools.cli import command

Record = benchmark_pb2.BenchmarkRecord


def finish(
    path: pathlib.Path,
    records: Sequence[Record],
    outcomes: Mapping[bench_run.Key, int],
    shard: shards.Shard,
    report_flags: str = "",
) -> int:
    """Say what became of the rows and what to do next; returns the exit status.

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
        f" {counts[benchmark_pb2.STATUS_ERROR]} errors, {counts[benchmark_pb2.STATUS_TIMEOUT]} timeouts; written to {path}"
    )
    is_failed = any(counts[status] for status in bench_run.FAILED)
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
    """Say how the run is reported: here, or from a zip where the repository is."""
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
    """What a person wants to know of a run at its end: why rows were skipped, by reason, and what failed."""
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
        if record.status in bench_run.FAILED:
            what = benchmark_pb2.Status.Name(record.status).removeprefix("STATUS_").lower()
            who = f" {record.implementation}" if record.implementation else ""
            lines.append(f"{what}: {record.op} {record.case_id}{who}: {record.message}")
    return lines
