"""Whether the device did more for a call than the profiler reports: the call's span and what explains it. No torch.

Two marks enclose a call on the device: the moment from which it was idle or a kernel of the clock's own ended, and the
start of a kernel that the clock launches behind the call on the same stream. Between them lie the call's activities and
gaps. The host explains a gap up to the moment at which it had launched what comes next; the device takes a microsecond or
two to start that. Anything beyond is work without a record.

Worked example on an H200: a kernel of 8.9 us launches another kernel on the device, and CUPTI reports the first alone. The
closing mark starts 55.8 us after the reported end, though the host had launched the mark long before. The device may take
2 us to start the mark, so 53.8 us have no record. After a multiplication of 33.2 us the mark starts 1.5 us later.

Host time is the limit of this: while the host prepares the next launch, a device that works unseen looks idle. So the
clock holds the stream with a kernel that waits ("the gate") before some calls, chosen at random. The host has then launched
the whole call before its first kernel starts, and no gap is the host's.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from tileops.perf.clock.activities import Activity, ClockError, Kind, Launch, Trace, launches_by_id

# What the device may take to start an activity once it is free, and once the host has left the launching call. On an H200
# (docs/measuring.md) a kernel starts 1.1 to 1.8 us after a kernel of its stream, up to 3.5 us after one of another stream
# and after a copy or fill in a graph, up to 8.9 us beside a copy that the host takes part in, and up to 4.1 us after the
# host has left the call. Nanoseconds.
_AFTER_KERNEL_NS = 2_000
_AFTER_OTHER_NS = 4_000
_HOST_COPY_NS = 10_000
_LAUNCH_NS = 4_000
# Unexplained time of one call that is no evidence yet. Nanoseconds.
BOUND_NS = 2_000
# A virtual machine or a device pauses now and then: so many calls, or this share of them, may be beyond the bound.
_ACCIDENTS = 2
_ACCIDENTS_SHARE = 0.1

_HOST_COPY = re.compile(r"Memcpy (HtoD|DtoH|HtoH)")
_KERNEL_LAUNCH = re.compile(r"(cuda|cu|hip)(Module|Ext)?Launch(Cooperative)?Kernel(Ex|ExC)?(_\w+)?")
_CAPTURE = re.compile(r"(cuda|cu|hip)StreamBeginCapture\w*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
    """Device time between the two marks of one call, and what explains it. Nanoseconds.

    Attributes:
      total_ns: from mark to mark.
      busy_ns: the union of the activities in it.
      host_ns: gaps in which the host had not launched what comes next.
      device_ns: gaps that the device needs to start what has been launched.
    """

    total_ns: float
    busy_ns: float
    host_ns: float
    device_ns: float

    @property
    def unexplained_ns(self) -> float:
        """Returns what nothing explains; 0 or more."""
        return self.total_ns - self.busy_ns - self.host_ns - self.device_ns


def span(begin_ns: int, work: Sequence[Activity], mark: Activity, launches: Mapping[int, Launch]) -> Span:
    """Returns the span of one call.

    Args:
      begin_ns: when the device is known to be idle: the end of the gate, or of the wait before the call.
      work: the call's activities.
      mark: the kernel that was launched behind the call, on its stream.
      launches: by correlation id.
    """
    busy = host = device = 0
    at, before = begin_ns, None
    for found in sorted((*work, mark), key=lambda one: one.start_ns):
        if found.start_ns > at:
            launched_ns = launches[found.correlation].end_ns
            ready_ns = min(max(at, launched_ns), found.start_ns)
            host += ready_ns - at
            allowed_ns = max(_usual_ns(before, found), min(_LAUNCH_NS, launched_ns + _LAUNCH_NS - at))
            device += min(found.start_ns - ready_ns, allowed_ns)
        if found is mark:
            break
        if found.end_ns > at:
            busy += min(found.end_ns, mark.start_ns) - max(found.start_ns, at)
            at, before = found.end_ns, found
    return Span(
        total_ns=float(mark.start_ns - begin_ns), busy_ns=float(busy), host_ns=float(host), device_ns=float(device)
    )


def spans(trace: Trace, owned: Mapping[str, Sequence[Activity]], calls: Sequence[str]) -> list[Span]:
    """Returns the span of each call.

    Args:
      trace: the session's. Each call has the ranges `call<name>` and `close<name>`, and `gate<name>` if it was gated.
      owned: activities by range.
      calls: the names.

    Raises:
      ClockError: a closing mark has no record, a kernel was launched without one, or the profiler's records were handed
        over in the middle of a call: something switches the profiler off.
    """
    launches, ranges = launches_by_id(trace), {found.name: found for found in trace.ranges}
    recorded = {found.correlation for found in trace.activities}
    found = []
    for name in calls:
        window = ranges[f"call{name}"]
        if not owned[f"close{name}"]:
            raise ClockError(
                f"call {name}: the profiler reports none of what runs after the call: it was switched off in it"
            )
        if any(window.start_ns <= at <= window.end_ns for at in trace.flushes_ns):
            raise ClockError(
                f"call {name}: the profiler was told to hand over its records within the call, as when it is switched"
                " off and on again: what runs meanwhile is not seen"
            )
        inside = [one for one in launches.values() if window.start_ns <= one.start_ns <= window.end_ns]
        if not any(_CAPTURE.fullmatch(one.name) for one in inside):
            for one in inside:
                if _KERNEL_LAUNCH.fullmatch(one.name) and one.correlation not in recorded:
                    raise ClockError(
                        f"call {name}: {one.name} was called and the profiler reports no kernel of it: the launch failed,"
                        " or the profiler was switched off"
                    )
        gate = owned.get(f"gate{name}")
        begin_ns = gate[0].end_ns if gate else window.start_ns
        found.append(span(begin_ns, owned[f"call{name}"], owned[f"close{name}"][0], launches))
    return found


def check(found: Sequence[Span], which: str) -> None:
    """Compare what the device did with what explains it, over calls of one kind.

    Args:
      found: spans of the calls.
      which: the kind of call, for the message.

    Raises:
      ClockError: in at least three calls, and in more than a tenth of them, more than `BOUND_NS` is unexplained.
    """
    beyond = sorted((one for one in found if one.unexplained_ns > BOUND_NS), key=lambda one: one.unexplained_ns)
    if len(beyond) <= max(_ACCIDENTS, _ACCIDENTS_SHARE * len(found)):
        return
    typical = beyond[len(beyond) // 2]
    explained = typical.total_ns - typical.unexplained_ns
    raise ClockError(
        f"the device worked on the call for longer than the profiler reports: in {len(beyond)} of {len(found)}"
        f" {which} a span of {typical.total_ns / 1e3:.1f} us is explained for {explained / 1e3:.1f} us"
        f" ({typical.busy_ns / 1e3:.1f} us of reported work, {(explained - typical.busy_ns) / 1e3:.1f} us of gaps), and"
        f" {BOUND_NS / 1e3:g} us may be left. Kernels that launch kernels (CUDA dynamic parallelism) are honest, but CUPTI"
        " reports the parent alone, so they have no time here: launch from the host. Other causes: the profiler was"
        " switched off in the call, or the stream waits for a host function"
    )


def _usual_ns(before: Activity | None, found: Activity) -> int:
    """What the device may take between two activities; `before` is None after a gate or a wait."""
    pair = [one for one in (before, found) if one is not None]
    if any(one.kind is Kind.MEMCPY and _HOST_COPY.match(one.name) for one in pair):
        return _HOST_COPY_NS
    is_plain = all(one.kind is Kind.KERNEL and one.stream == found.stream for one in pair)
    return _AFTER_KERNEL_NS if is_plain else _AFTER_OTHER_NS
