"""Finds device work that the profiler does not report, by the span of a call and what explains it. No torch.

Two marks enclose a call on the device. The first is the moment from which the device was idle, or the end of a kernel
of the clock's own. The second is the start of a kernel that the clock launches behind the call on the same stream.
Between them lie the call's activities and gaps. The host explains a gap up to the moment at which it had launched what
comes next; the device takes a microsecond or two to start that. Anything beyond is work without a record.

Worked example on an H200: a kernel of 8.9 us launches another kernel on the device, and CUPTI reports the first alone.
The closing mark starts 55.8 us after the reported end, though the host had launched the mark long before. The device
may take 2 us to start the mark, so 53.8 us have no record. After a multiplication of 33.2 us the mark starts 1.5 us
later.

While the host prepares the next launch, a device that works unseen looks idle. If the host only waits for the device in
a gap, in a call that synchronizes, in a copy to the host or, behind a gate, in a loop of queries, the wait is no host
time beyond what its return takes. And the clock holds the stream with a kernel that waits ("the gate") before some
calls, chosen at random. The host has then launched the whole call before its first kernel starts, and no gap is the
host's.
"""

from __future__ import annotations

import bisect
import dataclasses
import re
from collections.abc import Container, Mapping, Sequence

from tileops.perf.clock.activities import Activity, ClockError, Kind, Launch, Trace, launches_by_id

# What the device may take to start an activity once it is free, and once the host has left the launching call. On an
# H200 (docs/measuring.md) a kernel starts 1.1 to 1.8 us after a kernel of its stream, up to 4.5 us after one of another
# stream, another node of its graph, a copy or a fill, up to 8.9 us beside a copy that the host takes part in, and up to
# 4.1 us after the host has left the call. Nanoseconds.
_AFTER_KERNEL_NS = 2_000
_AFTER_OTHER_NS = 5_000
_HOST_COPY_NS = 10_000
_LAUNCH_NS = 4_000
# A stream that waits for others takes 1.1 us for each of them: 17 us to join 16 streams. Nanoseconds.
_JOIN_NS = 1_200
# From the end of the work that a host call waits for to its return. The device was busy for the rest of a longer wait.
# Nanoseconds.
_WAIT_NS = 20_000
# Unexplained time of one call that is no evidence yet: of any call, and for each of its activities. Nanoseconds.
_BOUND_NS = 2_000
_BOUND_EACH_NS = 100
# A virtual machine or a device pauses now and then: so many calls, or this share of them, may be beyond the bound.
_ACCIDENTS = 2
_ACCIDENTS_SHARE = 0.1
# The profiler hands over its records when a buffer is full, which takes more launches, or activities, than these. A
# count.
_RECORDS_PER_FLUSH = 2_000

_HOST_COPY = re.compile(r"Memcpy (HtoD|DtoH|HtoH)")
_KERNEL_LAUNCH = re.compile(r"(cuda|cu|hip)(Module|Ext)?Launch(Cooperative)?Kernel(Ex|ExC)?(_\w+)?")
_TO_HOST = re.compile(r"Memcpy DtoH")
_WAIT = re.compile(r"(cuda|cu|hip)(Device|Ctx|Stream|Event)Synchronize(_\w+)?")
_QUERY = re.compile(r"(cuda|cu|hip)(Stream|Event)Query(_\w+)?")
_JOIN = re.compile(r"(cuda|cu|hip)StreamWaitEvent(_\w+)?")
_CAPTURE = re.compile(r"(cuda|cu|hip)StreamBeginCapture\w*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
    """Device time between the two marks of one call, and what explains it. Nanoseconds.

    Attributes:
      total_ns: from mark to mark.
      busy_ns: the union of the activities in it.
      host_ns: gaps in which the host had not launched what comes next.
      device_ns: gaps that the device needs to start what has been launched.
      activities: in the span. A count.
      late_ns: how long the call's work went on once the mark had started.
    """

    total_ns: float
    busy_ns: float
    host_ns: float
    device_ns: float
    activities: int
    late_ns: float = 0.0

    @property
    def unexplained_ns(self) -> float:
        """Returns the device time that nothing explains; 0 or more."""
        return self.total_ns - self.busy_ns - self.host_ns - self.device_ns

    @property
    def bound_ns(self) -> float:
        """Returns how much unexplained time passes."""
        return _BOUND_NS + _BOUND_EACH_NS * self.activities


def span(
    begin_ns: int,
    work: Sequence[Activity],
    mark: Activity,
    launches: Mapping[int, Launch],
    waits: Sequence[Launch] = (),
    joins: Mapping[int, int] | None = None,
) -> Span:
    """Returns the span of one call.

    Args:
      begin_ns: when the device is known to be idle: the end of the gate, or of the wait before the call.
      work: the call's activities.
      mark: the kernel that was launched behind the call, on its stream.
      launches: by correlation id.
      waits: host calls that wait for the device.
      joins: by correlation id, how many waits for another stream precede an activity on its own.
    """
    joins, streams = joins or {}, {one.stream for one in work}
    busy = host = device = 0
    at, before = begin_ns, None
    for found in sorted((*work, mark), key=lambda one: one.start_ns):
        if found.start_ns > at:
            launched_ns = _launched_ns(found, launches[found.correlation])
            ready_ns = min(max(at, launched_ns), found.start_ns)
            host += ready_ns - at - _waited_ns(at, ready_ns, waits)
            # Streams without a record count nothing, or waits for nothing would explain hidden work.
            joined_ns = _JOIN_NS * min(joins.get(found.correlation, 0), len(streams - {found.stream}))
            allowed_ns = joined_ns + max(_usual_ns(before, found), min(_LAUNCH_NS, launched_ns + _LAUNCH_NS - at))
            device += min(found.start_ns - ready_ns, allowed_ns)
        if found is mark:
            break
        if found.end_ns > at:
            busy += min(found.end_ns, mark.start_ns) - max(found.start_ns, at)
            at, before = found.end_ns, found
    return Span(
        total_ns=float(mark.start_ns - begin_ns),
        busy_ns=float(busy),
        host_ns=float(host),
        device_ns=float(device),
        activities=len(work),
        late_ns=float(max((one.end_ns - mark.start_ns for one in work if one.end_ns > mark.start_ns), default=0)),
    )


def spans(trace: Trace, owned: Mapping[str, Sequence[Activity]], calls: Sequence[str]) -> list[Span]:
    """Returns the span of each call.

    Args:
      trace: the session's. Each call has the ranges `call<name>` and `close<name>`, and `gate<name>` if it was gated.
      owned: activities by range.
      calls: the names.

    Raises:
      ClockError: a closing mark has no record or other work beside it, a kernel was launched without a record, or the
        profiler's records are handed over call by call: something switches the profiler off.
    """
    launches, ranges = launches_by_id(trace), {found.name: found for found in trace.ranges}
    recorded = {found.correlation for found in trace.activities}
    by_start = sorted(launches.values(), key=lambda one: one.start_ns)
    starts = [one.start_ns for one in by_start]
    windows = [ranges[f"call{name}"] for name in calls]
    flushes = sum(window.start_ns <= at <= window.end_ns for window in windows for at in trace.flushes_ns)
    if flushes > _ACCIDENTS + max(len(launches), len(trace.activities)) / _RECORDS_PER_FLUSH:
        raise ClockError(
            f"the profiler handed over its records {flushes} times within {len(windows)} calls, as it does when it is"
            " switched off and on: what runs meanwhile is not seen, so the calls have no time"
        )
    found = []
    for name, window in zip(calls, windows, strict=True):
        if not owned[f"close{name}"]:
            raise ClockError(
                f"call {name}: the profiler reports nothing of what runs after the call, so something in the call"
                " switched it off"
            )
        if len(owned[f"close{name}"]) > 1:
            raise ClockError(
                f"call {name}: work that is not the bench's ran after the call:"
                f" {', '.join(one.name for one in owned[f'close{name}'])}"
            )
        inside = by_start[bisect.bisect_left(starts, window.start_ns) : bisect.bisect_right(starts, window.end_ns)]
        if not any(_CAPTURE.fullmatch(one.name) for one in inside):
            for one in inside:
                if _KERNEL_LAUNCH.fullmatch(one.name) and one.correlation not in recorded:
                    raise ClockError(
                        f"call {name}: {one.name} was called and the profiler reports no kernel of it: the launch"
                        " failed, or the profiler was switched off"
                    )
        gate = owned.get(f"gate{name}")
        begin_ns = gate[0].end_ns if gate else window.start_ns
        waits = [one for one in inside if _WAIT.fullmatch(one.name)]
        if gate:
            polls = _polls(inside, recorded)
            waits = [one for one in waits if not any(_holds(poll, one) for poll in polls)] + polls
        (mark,) = owned[f"close{name}"]
        joins = _joins([*inside, launches[mark.correlation]], recorded)
        found.append(span(begin_ns, owned[f"call{name}"], mark, launches, waits, joins))
    return found


def check(found: Sequence[Span], which: str) -> None:
    """Compares what the device did with what explains it, over calls of one kind.

    Args:
      found: spans of the calls.
      which: the kind of call, for the message.

    Raises:
      ClockError: in at least three calls, and in more than a tenth of them, work goes on after the mark, or more than
        `bound_ns` is unexplained.
    """
    accidents = max(_ACCIDENTS, _ACCIDENTS_SHARE * len(found))
    late = [one.late_ns for one in found if one.late_ns]
    if len(late) > accidents:
        raise ClockError(
            f"work of the call goes on when its stream is done: in {len(late)} of {len(found)} {which}, by"
            f" {max(late) / 1e3:.1f} us or less. What uses another stream makes the current stream wait for it before"
            " it returns (torch.cuda.Stream.wait_stream)"
        )
    beyond = sorted((one for one in found if one.unexplained_ns > one.bound_ns), key=lambda one: one.unexplained_ns)
    if len(beyond) <= accidents:
        return
    typical = beyond[len(beyond) // 2]
    explained = typical.total_ns - typical.unexplained_ns
    raise ClockError(
        f"the device worked longer than the profiler reports: in {len(beyond)} of {len(found)} {which}, such as one of"
        f" {typical.total_ns / 1e3:.1f} us of which {explained / 1e3:.1f} us are explained ({typical.busy_ns / 1e3:.1f}"
        f" us of reported work, the rest gaps) and {typical.bound_ns / 1e3:.1f} us may be left. Kernels that launch"
        " kernels (CUDA dynamic parallelism) are honest, and so are conditional nodes of a graph, but CUPTI does not"
        " report all of them: launch from the host to get a time. Other causes: the profiler was switched off within"
        " the call, or its stream waits for a host function"
    )


def _launched_ns(found: Activity, launch: Launch) -> int:
    """Returns when the device had an activity to start: a copy to the host may be waited for within its launch."""
    if found.kind is Kind.MEMCPY and _TO_HOST.match(found.name):
        return min(launch.end_ns, launch.start_ns + _HOST_COPY_NS)
    return launch.end_ns


def _waited_ns(begin_ns: int, end_ns: int, waits: Sequence[Launch]) -> int:
    """Returns how long the host waited between two times for a device that looks idle, beyond what returns take."""
    overlaps = (min(one.end_ns, end_ns) - max(one.start_ns, begin_ns) for one in waits)
    return min(sum(max(overlap - _WAIT_NS, 0) for overlap in overlaps), end_ns - begin_ns)


def _polls(calls: Sequence[Launch], recorded: Container[int]) -> list[Launch]:
    """Returns the waits by polling: from the first to the last of queries between which no work is launched.

    In a gated call alone. Without a gate, code that asks now and then and works on meanwhile would look the same.
    """
    polls: list[Launch] = []
    goes_on = False
    for one in calls:
        if _QUERY.fullmatch(one.name):
            if goes_on:
                polls[-1] = dataclasses.replace(polls[-1], end_ns=one.end_ns)
            else:
                polls.append(one)
            goes_on = True
        elif one.correlation in recorded:
            goes_on = False
    return polls


def _holds(whole: Launch, part: Launch) -> bool:
    return whole.start_ns <= part.start_ns and part.end_ns <= whole.end_ns


def _joins(calls: Sequence[Launch], recorded: Container[int]) -> dict[int, int]:
    """Returns how often a stream was made to wait for another just before each launch, by correlation id."""
    joins, count = {}, 0
    for one in calls:
        if _JOIN.fullmatch(one.name):
            count += 1
        elif one.correlation in recorded:
            joins[one.correlation], count = count, 0
    return joins


def _usual_ns(before: Activity | None, found: Activity) -> int:
    """Returns what the device may take between two activities; `before` is None after a gate or a wait."""
    pair = [one for one in (before, found) if one is not None]
    if any(one.kind is Kind.MEMCPY and _HOST_COPY.match(one.name) for one in pair):
        return _HOST_COPY_NS
    is_plain = all(one.kind is Kind.KERNEL and one.stream == found.stream for one in pair)
    is_plain = is_plain and (before is None or before.correlation != found.correlation)  # nodes of a graph share it
    return _AFTER_KERNEL_NS if is_plain else _AFTER_OTHER_NS
