"""Parts of a run that was dealt out to several machines: which there are, and which are missing."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from tileops.proto import benchmark_pb2


def united(every: Iterable[benchmark_pb2.RunParts]) -> benchmark_pb2.RunParts:
    """All that parts of one whole hold together."""
    every = list(every)
    indices = sorted({index for parts in every for index in parts.indices})
    return benchmark_pb2.RunParts(count=every[0].count, indices=indices)


def in_words(parts: benchmark_pb2.RunParts) -> str:
    """Which parts these are: "part 2 of 4", "parts 1, 3-4 of 4"; where none are named, "no part of a whole"."""
    if not parts.count:
        return "no part of a whole"
    runs: list[list[int]] = []
    for index in parts.indices:
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return _named(runs, parts.count)


def missing_in_words(parts: benchmark_pb2.RunParts) -> str:
    """Which parts are not here: "part 4 of 4", "parts 2-3 of 4"; "" where all are."""
    ends = [0, *parts.indices, parts.count + 1]
    gaps = [[before + 1, behind - 1] for before, behind in itertools.pairwise(ends) if before + 1 < behind]
    return _named(gaps, parts.count) if gaps else ""


def doubt(parts: benchmark_pb2.RunParts, others: Iterable[benchmark_pb2.RunParts] = ()) -> str:
    """What readers of a run must hear, given the parts of all runs that they read with it; "" for nothing."""
    lack = missing_in_words(united([parts, *(other for other in others if other.count == parts.count)]))
    return f"holds {in_words(parts)}; missing: {lack}" if lack else ""


def _named(runs: list[list[int]], count: int) -> str:
    is_one = len(runs) == 1 and runs[0][0] == runs[0][1]
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"part{'' if is_one else 's'} {shown} of {count}"
