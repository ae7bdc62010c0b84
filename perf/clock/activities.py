"""What a device did, and for which call: attribution, device-busy time and the sequence check. No torch, no GPU.

Work is attributed by who launched it, never by its name: a host range owns the launches that began inside it, and a
launch owns the activities with its correlation id. A fill that an op runs and the fill that flushes the cache launch
the same kernel; only their ranges differ.
"""

from __future__ import annotations

import bisect
import dataclasses
import enum
from collections.abc import Iterable, Sequence


class ClockError(RuntimeError):
    """A call could not be timed; the message says why."""


class Kind(enum.Enum):
    """The kind of device work of an activity."""

    KERNEL = "kernel"
    MEMCPY = "memcpy"
    MEMSET = "memset"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Activity:
    """One piece of device work.

    Attributes:
      kind: kernel, copy or fill.
      name: as the driver reports it; for messages and the sequence check alone.
      start_ns, end_ns: on the device, in the trace's clock. Nanoseconds.
      stream: the stream it ran on.
      correlation: id of the launch that started it. Many activities share one where a graph was launched.
    """

    kind: Kind
    name: str
    start_ns: int
    end_ns: int
    stream: int
    correlation: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Launch:
    """A host call that starts device work: a kernel, copy, fill or graph launch through runtime or driver.

    Attributes:
      name: the function's; for messages, and to tell launches of kernels from other calls.
      correlation: the id that its activities carry.
      start_ns, end_ns: when the host entered and left it. Nanoseconds.
      thread: the host thread that made it.
    """

    name: str
    correlation: int
    start_ns: int
    end_ns: int
    thread: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Range:
    """A stretch of host time with an owner. Ranges of one trace never overlap.

    Attributes:
      name: unique within the trace.
      start_ns, end_ns: on the host, in the trace's clock. Nanoseconds.
      thread: the host thread that opened it.
      any_thread: whether launches of other threads in this stretch belong to it. True for a timed call (the op may work
        in threads), false for the harness's own ranges: a launch of another thread there has no owner, which is an error.
    """

    name: str
    start_ns: int
    end_ns: int
    thread: int
    any_thread: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trace:
    """Everything that one profiler session recorded.

    Attributes:
      ranges, launches, activities: in no order.
      flushes_ns: when the profiler was made to hand over its records. Nanoseconds.
    """

    ranges: tuple[Range, ...]
    launches: tuple[Launch, ...]
    activities: tuple[Activity, ...]
    flushes_ns: tuple[int, ...] = ()


Signature = tuple[tuple[str, str], ...]
"""(kind, name) of each activity of a call, in launch order."""


def launches_by_id(trace: Trace) -> dict[int, Launch]:
    """Returns the launch of each correlation id: the outer one if a driver call inside a runtime call has it too."""
    launches: dict[int, Launch] = {}
    for launch in trace.launches:
        known = launches.get(launch.correlation)
        if known is None or launch.start_ns < known.start_ns:
            launches[launch.correlation] = launch
    return launches


def attribute(trace: Trace) -> dict[str, tuple[Activity, ...]]:
    """Returns the activities of each range by name, in launch order; an empty tuple for a range without launches.

    Within one launch (a graph's nodes) the order is by name, then start: the graph is one thing that the host launched,
    and how its branches interleave is no difference between two calls.

    Raises:
      ClockError: an activity has no launch record, or was launched outside every range that may own it: work in a
        thread, or after the window closed, is not silently left out of a time.
    """
    ranges = sorted(trace.ranges, key=lambda found: found.start_ns)
    starts = [found.start_ns for found in ranges]
    launches = launches_by_id(trace)
    owned: dict[str, list[tuple[int, Activity]]] = {found.name: [] for found in ranges}
    for activity in trace.activities:
        launch = launches.get(activity.correlation)
        if launch is None:
            raise ClockError(
                f"{activity.kind.value} {activity.name!r} has no launch record (correlation {activity.correlation}), so"
                " the call it belongs to is not known"
            )
        at = bisect.bisect_right(starts, launch.start_ns) - 1
        owner = ranges[at] if at >= 0 else None
        if owner is None or launch.start_ns > owner.end_ns:
            raise ClockError(
                f"{activity.kind.value} {activity.name!r} was launched outside every timed call: work that starts after"
                " a call has returned is not measured by its window"
            )
        if not owner.any_thread and launch.thread != owner.thread:
            raise ClockError(
                f"{activity.kind.value} {activity.name!r} was launched by another thread outside every timed call: work"
                " that goes on after a call has returned is not measured by its window"
            )
        owned[owner.name].append((launch.start_ns, activity))
    return {
        name: tuple(found for _, found in sorted(pairs, key=lambda pair: (pair[0], pair[1].name, pair[1].start_ns)))
        for name, pairs in owned.items()
    }


def busy_ns(activities: Iterable[Activity]) -> int:
    """Returns the device-busy time: the length of the union of the activities' intervals. Nanoseconds.

    An example: kernels from 0 to 5 us and from 3 to 7 us on two streams, then one from 9 to 10 us, make 8 us. Overlap
    counts once; gaps, which are host time, do not count.
    """
    total, open_start, open_end = 0, 0, None
    for start, end in sorted((found.start_ns, found.end_ns) for found in activities):
        if open_end is None or start > open_end:
            total += 0 if open_end is None else open_end - open_start
            open_start, open_end = start, end
        else:
            open_end = max(open_end, end)
    return total + (0 if open_end is None else open_end - open_start)


def signature(activities: Sequence[Activity]) -> Signature:
    """Returns what `check_signature` compares between calls."""
    return tuple((found.kind.value, found.name) for found in activities)


def check_signature(expected: Signature, found: Signature, which: str) -> None:
    """Compares a measured call with what discovery saw.

    Args:
      expected: the sequence that discovery settled on.
      found: the measured call's.
      which: the call, for the error.

    Raises:
      ClockError: an activity is missing, extra or out of order; the message holds both sequences.
    """
    if expected == found:
        return
    if len(found) < len(expected):
        what = f"{len(expected) - len(found)} missing"
    elif len(found) > len(expected):
        what = f"{len(found) - len(expected)} extra"
    else:
        what = "another order" if sorted(expected) == sorted(found) else "other activities"
    raise ClockError(
        f"{which} ran other device work than discovery saw ({what}); expected {_written(expected)}; found"
        f" {_written(found)}"
    )


def _written(sequence: Signature) -> str:
    return "[" + ", ".join(f"{kind} {name}" for kind, name in sequence) + "]"
