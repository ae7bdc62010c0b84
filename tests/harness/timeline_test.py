"""Device work of a call that no record reports, on times that an H200 gave (torch 2.11, driver 580)."""

import dataclasses
import itertools

import pytest

from tileops.perf.clock import timeline
from tileops.perf.clock.activities import Activity, ClockError, Kind, Launch, Range, Trace, attribute

MAIN = 417
KERNEL, MEMSET, MEMCPY = Kind.KERNEL, Kind.MEMSET, Kind.MEMCPY
NAMES = {KERNEL: "k", MEMSET: "Memset (Device)", MEMCPY: "Memcpy DtoD (Device -> Device)"}
# Between the host's entering a launch and its leaving it, and between that and the start on an idle device.
# Nanoseconds.
HOST, LATENCY = 8_000, 1_800


def work(gap, length, kind=KERNEL, stream=7, late=None, name=None, is_same_launch=False):
    """One activity. Microseconds.

    Args:
      gap: from the end of all before it to its start.
      length: of it.
      kind, stream, name: as in Activity.
      late: from the host's leaving the launch to the start; None if the host had launched it long before.
      is_same_launch: whether it belongs to the graph of the activity before it.
    """
    return dict(
        gap=gap, length=length, kind=kind, stream=stream, late=late, name=name or NAMES[kind], same=is_same_launch
    )


def session(calls, is_gated, begin=1_000_000, flushes=(), gate=600_000):
    """A trace of calls, each a list of `work` of which the last is the closing mark; their names are their indices."""
    ranges, launches, activities, numbers = [], [], [], itertools.count(1)
    at = begin
    for index, call in enumerate(calls):
        opened = at
        if is_gated:
            number = next(numbers)
            ranges.append(Range(name=f"gate{index}", start_ns=at, end_ns=at + 20_000, thread=MAIN, any_thread=False))
            launches.append(launched(number, at + 5_000))
            activities.append(activity(number, at + 15_000, at + gate, KERNEL, 7, "spin_kernel"))
            opened, at = at + 20_001, at + gate
        end, close = at, None
        for place, one in enumerate(call):
            start = int(end + one["gap"] * 1e3)
            number = number if one["same"] else next(numbers)
            is_mark = place == len(call) - 1
            entered = opened + 10 + 500 * place if one["late"] is None else int(start - one["late"] * 1e3 - HOST)
            if is_mark:
                close = entered - 5
            if not one["same"]:
                launches.append(launched(number, entered, HOST if one["late"] is not None else 300))
            activities.append(
                activity(number, start, int(start + one["length"] * 1e3), one["kind"], one["stream"], one["name"])
            )
            end = max(end, int(start + one["length"] * 1e3))
        ranges.append(Range(name=f"call{index}", start_ns=opened, end_ns=close - 1, thread=MAIN, any_thread=True))
        ranges.append(Range(name=f"close{index}", start_ns=close, end_ns=end + 5_000, thread=MAIN, any_thread=False))
        at = end + 50_000
    return Trace(
        ranges=tuple(ranges), launches=tuple(launches), activities=tuple(activities), flushes_ns=tuple(flushes)
    )


def launched(correlation, start, length=HOST, name="cudaLaunchKernel"):
    return Launch(name=name, correlation=correlation, start_ns=start, end_ns=start + length, thread=MAIN)


def activity(correlation, start, end, kind, stream, name):
    return Activity(kind=kind, name=name, start_ns=start, end_ns=end, stream=stream, correlation=correlation)


def spans(trace, count):
    return timeline.spans(trace, attribute(trace), [str(index) for index in range(count)])


def checked(call, is_gated, count=7):
    """Spans of so many such calls, which must be explained."""
    found = spans(session([call] * count, is_gated), count)
    timeline.check(found, "calls")
    return found


# Launched ahead behind a gate: medians of 60 calls each, and the worst pairs that were seen.
AHEAD = {
    "an addition": [work(1.25, 1.86), work(1.22, 0.7)],
    "a product": [work(0.93, 0.7, MEMSET), work(1.79, 177.1), work(1.54, 0.7)],
    "seven launches": [work(1.25, 1.9) for _ in range(7)] + [work(1.28, 0.7)],
    "a graph of kernels and fills": [
        work(1.41, 0.7, MEMSET),
        work(2.62, 3.0, is_same_launch=True),
        work(0.38, 1.9, is_same_launch=True),
        work(0.9, 0.7, MEMSET, is_same_launch=True),
        work(3.46, 3.0, is_same_launch=True),
        *[work(0.38, 1.9, is_same_launch=True) for _ in range(7)],
        work(1.28, 0.7),
    ],
    "two streams": [work(1.22, 1.9), work(-1.31, 2.0, stream=23), work(2.27, 1.2), work(1.22, 0.7)],
    "to and fro between streams": [work(2.9, 1.2, stream=stream) for stream in (7, 20, 7, 24, 7)] + [work(1.3, 0.7)],
    "a fill": [work(1.28, 15.1, MEMSET), work(1.63, 0.7)],
    "a copy": [work(1.25, 33.1, MEMCPY), work(1.54, 0.7)],
    "copies from and to the host": [
        work(3.78, 21.7, MEMCPY, name="Memcpy HtoD (Pinned -> Device)"),
        work(1.2, 2.0),
        work(8.7, 1.2, MEMCPY, name="Memcpy DtoH (Device -> Pageable)"),
        work(40.0, 1.9, late=2.1),
        work(45.0, 0.7, late=2.1),
    ],
}


@pytest.mark.parametrize("call", AHEAD.values(), ids=AHEAD)
def test_calls_that_were_launched_ahead_are_explained(call):
    for found in checked(call, is_gated=True):
        assert found.unexplained_ns <= found.bound_ns
        assert found.total_ns == found.busy_ns + found.host_ns + found.device_ns + found.unexplained_ns


# The host takes its time: what comes next starts within 4.1 us of its launch.
FREE = {
    "an addition": [work(36.2, 1.86, late=1.8), work(41.3, 0.7, late=2.0)],
    "a launch that returns after the start": [work(32.4, 33.4, late=-0.7), work(7.8, 0.7, late=2.1)],
    "a launch that returned while the kernel before it ran": [work(25.0, 56.0, late=1.7), work(1.31, 0.7, late=9.5)],
    "one that returned just before its end": [work(25.0, 56.0, late=1.7), work(3.4, 0.7, late=3.6)],
    "twelve launches": [work(24.0, 1.9, late=1.8) for _ in range(12)] + [work(58.9, 0.7, late=1.7)],
    "a graph": [
        work(13.6, 0.7, MEMSET, late=-12.1),
        *[work(gap, 2.0, is_same_launch=True, late=0) for gap in (5.2, 0.38, 0.38, 0.93, 3.49)],
        work(2.9, 0.7, late=2.6),
    ],
    "the host waits for a number": [
        work(27.7, 0.7, MEMSET, late=2.0),
        work(9.2, 4.0, late=2.1),
        work(9.1, 1.5, MEMCPY, late=1.5, name="Memcpy DtoH (Device -> Pageable)"),
        work(27.8, 1.9, late=2.2),
        work(34.1, 0.7, late=2.4),
    ],
    "the host waits for a millisecond": [work(20.0, 5.0, late=1.8), work(1000.0, 0.7, late=2.0)],
}


@pytest.mark.parametrize("call", FREE.values(), ids=FREE)
def test_gaps_are_the_host_s_until_it_has_launched_what_comes_next(call):
    checked(call, is_gated=False)


@pytest.mark.parametrize(
    ("call", "is_gated", "numbers"),
    [
        ([work(1.28, 8.85), work(55.84, 0.7)], True, ("66.0 us", "12.1 us", "8.8 us")),  # its kernel launches one
        ([work(39.9, 8.88, late=1.8), work(55.73, 0.7, late=24.8)], False, ("104.5 us", "83.7 us", "8.9 us")),
        ([work(1.25, 39.3), work(21.25, 0.7)], True, ("61.8 us", "42.5 us", "39.3 us")),  # 45% of the elements
        ([work(36.02, 1.86), work(1.22, 0.7)], True, ("39.1 us", "5.1 us", "1.9 us")),  # recording is off for the first
        ([work(12.83, 8.83), work(12.83, 0.7)], True, None),  # small ones
        ([work(1.3, 5.0), work(9.0, 5.0, stream=23), work(1.3, 0.7)], True, None),  # in the middle
    ],
)
def test_work_without_a_record_is_an_error_that_names_both_times(call, is_gated, numbers):
    with pytest.raises(ClockError, match="worked longer than the profiler reports: in 7 of 7 calls") as raised:
        checked(call, is_gated)
    assert "dynamic parallelism) are honest, and so are conditional nodes of a graph" in str(raised.value)
    for number in numbers or ():
        assert number in str(raised.value)


def test_the_message_fits_into_a_record():
    with pytest.raises(ClockError) as raised:
        checked([work(1.28, 8.85), work(55.84, 0.7)], is_gated=True)
    assert len(f"not timed: {raised.value}") < 600


def test_what_hides_in_the_host_s_time_is_seen_behind_a_gate():
    hidden = 27.0
    checked([work(39.9, 1.8, late=1.8), work(hidden + 10.0, 0.7, late=2.0)], is_gated=False)
    with pytest.raises(ClockError, match="longer"):
        checked([work(1.2, 1.8), work(hidden, 0.7)], is_gated=True)


@pytest.mark.parametrize(("waited", "is_error"), [(9.0, False), (60.0, True)])
def test_a_host_that_waits_for_an_idle_device_explains_nothing(waited, is_error):
    """The call synchronizes: `waited` after the only record ended the host is told so, and launches the next kernel."""
    call = [work(20.0, 8.9, late=1.8), work(waited + 12.0, 0.7, late=2.0)]
    trace = session([call] * 7, is_gated=False)
    ends = [attribute(trace)[f"call{index}"][0].end_ns for index in range(7)]
    waits = tuple(
        launched(900 + index, end - 8_000, 8_000 + int(waited * 1e3), "cudaStreamSynchronize")
        for index, end in enumerate(ends)
    )
    found = spans(dataclasses.replace(trace, launches=trace.launches + waits), 7)
    if is_error:
        with pytest.raises(ClockError, match="longer"):
            timeline.check(found, "calls")
    else:
        timeline.check(found, "calls")


def with_queries(call, name, at):
    """Spans of seven gated calls that ask, so many us after the gate, whether the device is done."""
    trace = session([call] * 7, is_gated=True)
    opened = [found[0].end_ns for name, found in attribute(trace).items() if name.startswith("gate")]
    numbers = itertools.count(900)
    queries = [launched(next(numbers), int(start + one * 1e3), 700, name) for start in opened for one in at]
    return spans(dataclasses.replace(trace, launches=(*trace.launches, *queries)), 7)


@pytest.mark.parametrize("name", ["cudaEventQuery", "cudaStreamQuery", "cuEventQuery", "hipStreamQuery"])
def test_a_host_that_polls_an_idle_device_explains_nothing(name):
    """The call asks again and again, as `while not event.query(): pass` does, and then launches what comes next."""
    hidden = with_queries([work(1.2, 8.9), work(90.0, 0.7, late=2.0)], name, range(-300, 90, 2))
    with pytest.raises(ClockError, match="in 7 of 7 calls"):
        timeline.check(hidden, "calls")
    soon = with_queries([work(1.2, 60.0), work(20.0, 0.7, late=2.0)], name, range(-300, 71, 2))
    timeline.check(soon, "calls")


def test_queries_with_a_launch_between_them_are_no_wait():
    call = [work(1.2, 8.9), work(40.0, 1.0, late=2.0), work(40.0, 0.7, late=2.0)]
    assert all(one.unexplained_ns == 0 for one in with_queries(call, "cudaEventQuery", (12, 60)))
    assert all(one.unexplained_ns > 5_000 for one in with_queries(call, "cudaEventQuery", (12, 38)))


def test_work_that_goes_on_after_the_mark_is_an_error():
    """A side stream that the current stream does not wait for: what is on it is neither timed nor ready."""
    call = [work(1.2, 5.0), work(-4.0, 9.0, stream=13), work(-6.9, 0.7)]
    for is_gated in (True, False):
        with pytest.raises(ClockError, match=r"goes on when its stream is done: in 7 of 7 calls, by 6.9 us or less"):
            checked(call, is_gated)
    checked([*call[:2], work(1.2, 0.7)], is_gated=True)


def test_a_kernel_beside_the_mark_is_an_error():
    trace = session([ADDITION] * 3, is_gated=False)
    mark = attribute(trace)["close1"][0]
    beside = dataclasses.replace(mark, start_ns=mark.start_ns - 9_000, end_ns=mark.start_ns - 1_000, name="theirs")
    with pytest.raises(ClockError, match="call 1: work that is not the bench's ran after the call: k, theirs"):
        spans(dataclasses.replace(trace, activities=(*trace.activities, beside)), 3)


def joined(streams, gap, waits):
    """Calls that fork into streams and join them: the main stream starts `gap` us after the last of them is done."""
    call = [work(1.3, 2.0), *[work(-1.0, 2.0, stream=20 + at) for at in range(streams)], work(gap, 3.0), work(1.2, 0.7)]
    trace = session([call] * 7, is_gated=True)
    main = [one for one in trace.activities if one.stream == 7 and one.end_ns - one.start_ns == 3_000]
    entered = {one.correlation: one.start_ns for one in trace.launches}
    more = [
        launched(10_000 + 100 * at + number, entered[one.correlation] - waits + number, 1, "cudaStreamWaitEvent")
        for at, one in enumerate(main)
        for number in range(waits)
    ]
    return spans(dataclasses.replace(trace, launches=(*trace.launches, *more)), 7)


def test_a_join_takes_a_while_for_each_stream_that_it_waits_for():
    timeline.check(joined(streams=16, gap=17.2, waits=16), "calls")
    for streams, waits in ((16, 0), (1, 16)):  # it waits for none; for the same stream over and over
        with pytest.raises(ClockError, match="longer"):
            timeline.check(joined(streams, 17.2, waits), "calls")


def test_a_copy_to_the_host_that_starts_long_after_its_launch_had_to_wait():
    """`.item()` is left when the copy has ended: until then the device worked, by a record or without one."""
    call = [work(20.0, 8.9, late=1.8), work(60.0, 1.5, MEMCPY, name="Memcpy DtoH (Device -> Pageable)", late=58.0)]
    call.append(work(27.8, 0.7, late=2.0))
    trace = session([call] * 7, is_gated=False)
    blocked = {one.correlation for one in trace.activities if one.kind is MEMCPY}
    ends = {one.correlation: one.end_ns for one in trace.activities}
    launches = tuple(
        dataclasses.replace(one, end_ns=ends[one.correlation] + 4_000) if one.correlation in blocked else one
        for one in trace.launches
    )
    with pytest.raises(ClockError, match="longer"):
        timeline.check(spans(dataclasses.replace(trace, launches=launches), 7), "calls")


@pytest.mark.parametrize(
    ("pauses", "calls", "is_error"), [(2, 7, False), (3, 7, True), (20, 200, False), (21, 200, True)]
)
def test_a_device_that_pauses_now_and_then_is_no_error(pauses, calls, is_error):
    honest, paused = [work(1.2, 5.0), work(1.2, 0.7)], [work(1.2, 5.0), work(330.0, 0.7)]
    found = spans(session([paused] * pauses + [honest] * (calls - pauses), is_gated=True), calls)
    if is_error:
        with pytest.raises(ClockError, match=f"in {pauses} of {calls}"):
            timeline.check(found, "calls")
    else:
        timeline.check(found, "calls")


def test_a_long_call_may_leave_a_little_for_each_of_its_activities():
    checked([work(2.09, 5.0) for _ in range(300)] + [work(1.3, 0.7)], is_gated=True)
    with pytest.raises(ClockError, match="longer"):
        checked([work(2.2, 5.0) for _ in range(300)] + [work(1.3, 0.7)], is_gated=True)


ADDITION = [work(36.2, 1.86, late=1.8), work(41.3, 0.7, late=2.0)]


def test_a_mark_without_a_record_is_an_error():
    trace = session([ADDITION] * 3, is_gated=False)
    mark = attribute(trace)["close1"][0]
    trace = dataclasses.replace(trace, activities=tuple(one for one in trace.activities if one is not mark))
    with pytest.raises(ClockError, match="call 1: .* switched it off"):
        spans(trace, 3)


@pytest.mark.parametrize(
    ("calls", "is_error"),
    [
        (("cudaLaunchKernel",), True),
        (("cuLaunchKernelEx",), True),
        (("cudaLaunchCooperativeKernel_ptsz",), True),
        (("cudaMemsetAsync", "cudaStreamSynchronize", "cudaGraphLaunch", "cudaLaunchHostFunc"), False),
        (("cudaStreamBeginCapture_v10000", "cudaLaunchKernel"), False),  # a node of a graph, and nothing that runs
    ],
)
def test_a_kernel_that_was_launched_and_has_no_record_is_an_error(calls, is_error):
    trace = session([ADDITION] * 3, is_gated=False)
    window = next(one for one in trace.ranges if one.name == "call2")
    more = tuple(launched(900 + at, window.start_ns + 50 + at, 1, name) for at, name in enumerate(calls))
    trace = dataclasses.replace(trace, launches=trace.launches + more)
    if is_error:
        with pytest.raises(ClockError, match=f"call 2: {calls[0]} was called"):
            spans(trace, 3)
    else:
        assert len(spans(trace, 3)) == 3


def test_records_that_are_handed_over_call_by_call_are_an_error():
    trace = session([ADDITION] * 10, is_gated=False)
    inside = [one.start_ns + 1_000 for one in trace.ranges if one.name.startswith("call")]
    with pytest.raises(ClockError, match="handed over its records 10 times within 10 calls"):
        spans(dataclasses.replace(trace, flushes_ns=tuple(inside)), 10)
    spans(dataclasses.replace(trace, flushes_ns=tuple(inside[:2])), 10)  # a buffer was full
    spans(dataclasses.replace(trace, flushes_ns=tuple(one.end_ns + 1 for one in trace.ranges)), 10)


def test_a_graph_of_many_kernels_fills_the_profiler_s_buffers():
    graph = [work(1.4, 1.0), *[work(0.1, 1.0, is_same_launch=True) for _ in range(1_000)], work(1.2, 0.7)]
    trace = session([graph] * 20, is_gated=False)
    inside = tuple(one.start_ns + 1 for one in trace.ranges if one.name.startswith("call"))
    spans(dataclasses.replace(trace, flushes_ns=inside[:10]), 20)
    with pytest.raises(ClockError, match="handed over its records"):
        spans(dataclasses.replace(trace, flushes_ns=inside), 20)


def test_what_runs_after_the_mark_is_not_between_the_marks():
    call = [work(1.2, 5.0), work(1.2, 0.7)]
    (found,) = spans(session([call], is_gated=True), 1)
    late = session([[*call[:1], work(30.0, 5.0, stream=23), call[1]]], is_gated=True)
    mark, side = late.activities[-1], late.activities[-2]
    moved = dataclasses.replace(mark, start_ns=side.start_ns - 28_800, end_ns=side.start_ns - 28_100)
    (other,) = spans(dataclasses.replace(late, activities=(*late.activities[:-1], moved)), 1)
    assert (other.total_ns, other.busy_ns, other.unexplained_ns) == (
        found.total_ns,
        found.busy_ns,
        found.unexplained_ns,
    )
