"""Headers of runs against each other: in what two runs differ, and which parts of a whole runs hold."""

import itertools
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

from tileops.proto import benchmark_pb2

# What the parts of one run, and two measurements of one thing, may differ in.
MACHINE_FIELDS = frozenset(("hostname_hash", "device_count"))


def differing_fields(
    ours: benchmark_pb2.Environment, theirs: benchmark_pb2.Environment, free: Iterable[str] = ()
) -> Iterator[tuple[str, Any, Any]]:
    """Yields each field of two environments that differs, with both values; `free` fields may differ."""
    for field in ours.DESCRIPTOR.fields:
        values = getattr(ours, field.name), getattr(theirs, field.name)
        if values[0] != values[1] and field.name not in free:
            yield field.name, *values


def plugin_difference(ours: benchmark_pb2.RunHeader, theirs: benchmark_pb2.RunHeader) -> str | None:
    """Returns how the plug-ins and libraries of two runs differ, as a clause; None for the same code in the same order.

    The folders of the plug-ins do not count: they differ by machine. Nor do libraries that were skipped.
    """
    names = [[_short(plugin) for plugin in header.plugins] for header in (ours, theirs)]
    if names[0] != names[1]:
        one, other = (", ".join(each) or "nothing" for each in names)
        return f"--plugin, --baselines, --spec_dir and --generated_dir name {one} in one run and {other} in the other"
    for one, other in zip(ours.plugins, theirs.plugins, strict=True):
        if one.sources != other.sources:
            files = {
                file for file in {*one.sources, *other.sources} if one.sources.get(file) != other.sources.get(file)
            }
            return f"{_short(one)} is not the same (its {', '.join(sorted(files))})"
    versions = [{each.package: each.version for each in header.baselines} for header in (ours, theirs)]
    for each in ours.baselines:
        one, other = (known.get(each.package, "") for known in versions)
        if not each.skipped and one != other:
            return f"--baselines={each.library} is not the same ({each.package} {one} and {other})"
    return None


def united(every: Iterable[benchmark_pb2.RunParts]) -> benchmark_pb2.RunParts:
    """Returns all parts that runs of one whole hold together."""
    every = list(every)
    indices = sorted({index for parts in every for index in parts.indices})
    return benchmark_pb2.RunParts(count=every[0].count, indices=indices)


def parts_in_words(parts: benchmark_pb2.RunParts) -> str:
    """Returns which parts these are: "part 2 of 4", "parts 1, 3-4 of 4"; "no part of a whole" if none are named."""
    if not parts.count:
        return "no part of a whole"
    spans: list[list[int]] = []
    for index in parts.indices:
        if spans and spans[-1][1] == index - 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    return _spans_in_words(spans, parts.count)


def missing_in_words(parts: benchmark_pb2.RunParts) -> str:
    """Returns which parts are not here: "part 4 of 4", "parts 2-3 of 4"; "" if all are."""
    ends = [0, *parts.indices, parts.count + 1]
    gaps = [[before + 1, behind - 1] for before, behind in itertools.pairwise(ends) if before + 1 < behind]
    return _spans_in_words(gaps, parts.count) if gaps else ""


def doubt(parts: benchmark_pb2.RunParts, others: Iterable[benchmark_pb2.RunParts] = ()) -> str:
    """Returns what a run lacks, given the parts of all runs that are read with it; "" for nothing."""
    lack = missing_in_words(united([parts, *(other for other in others if other.count == parts.count)]))
    return f"holds {parts_in_words(parts)}; missing: {lack}" if lack else ""


def _short(plugin: benchmark_pb2.Plugin) -> str:
    return pathlib.PurePath(plugin.name).name


def _spans_in_words(spans: list[list[int]], count: int) -> str:
    is_one = len(spans) == 1 and spans[0][0] == spans[0][1]
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
    return f"part{'' if is_one else 's'} {shown} of {count}"
