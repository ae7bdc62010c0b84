"""Whether two runs tell how repeatable the bench is: of the same things, measured twice, by the clock that counts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from tileops.perf.comparison import rows
from tileops.perf.runs import plugins as run_plugins
from tileops.perf.runs import reader as runfile
from tileops.proto import benchmark_pb2
from tileops.tools.cli import errors

# What two runs of one thing may differ in.
_FREE_FIELDS = frozenset(("hostname_hash", "device_count"))


class OneRunError(errors.UserError):
    """One run, named twice; the message says how it shows."""


def refuse_one_run(base: runfile.RunReader, new: runfile.RunReader) -> None:
    """Raises OneRunError where both are one run: one file, one run id, or records that are the same in every digit."""
    how = None
    if base.path.is_file() and base.path.samefile(new.path):
        how = "one file"
    elif base.header.run_id and base.header.run_id == new.header.run_id:
        how = f"of one run, {base.header.run_id}"
    elif _digest(base) == _digest(new):
        how = "the same in every digit"
    if how is not None:
        raise OneRunError(f"{base.path} and {new.path} are {how}: it takes two runs to tell how far they are apart")


def unlike(
    base: runfile.RunReader,
    new: runfile.RunReader,
    base_known: Mapping[rows.Key, rows.Measured],
    new_known: Mapping[rows.Key, rows.Measured],
) -> list[str]:
    """In what the runs differ, or fall short, so that their times say nothing of the bench; in words.

    Args:
      base, new: the runs.
      base_known, new_known: what they measured.
    """
    ours, theirs = base.header.environment, new.header.environment
    found = []
    for field in ours.DESCRIPTOR.fields:
        one, other = getattr(ours, field.name), getattr(theirs, field.name)
        if one != other and field.name not in _FREE_FIELDS:
            found.append(f"{field.name} is {one!r} in {base.path.name} and {other!r} in {new.path.name}")
    plugins = run_plugins.difference(base.header.plugins, new.header.plugins)
    if plugins is not None:
        found.append(plugins)
    for reader, known in ((base, base_known), (new, new_known)):
        clocks = {row.time.source for row in known.values() if row.time is not None}
        names = sorted(_clock(clock) for clock in clocks - {benchmark_pb2.TIMING_SOURCE_CUPTI})
        if names:
            told = f"{reader.path.name} has times of the clock {', '.join(names)}"
            found.append(f"{told}, which are no device-busy times")
    return found


def unknown(base: runfile.RunReader, new: runfile.RunReader) -> list[str]:
    """What the runs do not tell of their sources, so that these may have differed; in words."""
    found = []
    for reader in (base, new):
        environment = reader.header.environment
        if environment.project_dirty or not environment.project_revision:
            what = "differed from the revision" if environment.project_dirty else "have no known revision"
            found.append(f"the sources of {reader.path.name} {what}: they may be others than the other run's")
    return found


def _digest(reader: runfile.RunReader) -> bytes:
    found = hashlib.sha256()
    for record in reader.records():
        found.update(record.SerializeToString(deterministic=True))
    return found.digest()


def _clock(source: int) -> str:
    known = source in benchmark_pb2.TimingSource.values()
    return benchmark_pb2.TimingSource.Name(source).removeprefix("TIMING_SOURCE_").lower() if known else str(source)
