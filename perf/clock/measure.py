"""Times one call: `measure(call, ...) -> Measurement`. Bench and calibration both use this clock.

    from tileops.perf.clock.measure import measure
    from tileops.perf.clock.measurement import Budget, Flush

    found = measure(lambda: torch.add(a, b, out=c), device="cuda:0")
    found.source            # TimingSource.CUPTI, or CUDA_EVENTS / HOST_CLOCK, which must not be priced
    found.device_busy_ns    # median device-busy time of a call: the union of its kernels, copies and fills
    found.sample_ns         # every sample

Per call: `prepare()`; the flush; a device-wide wait; **the window opens**; `call()`; a device-wide wait; **the window
closes**; `inspect(result)`. Preparation, flush and inspection may launch device work: it is theirs by launch, never the
call's. The first calls use the warm-up budget (compilation and autotuning happen there). Then calls are recorded in
short discovery sessions until two consecutive calls run the same device work. At last one session takes the samples,
each of which must run exactly that work.

A mark, a kernel of the clock's own, follows each call on its stream: device time between call and mark that nothing
explains is an error (timeline.py). Some more calls, at random places, wait behind a gate and give no sample.
"""

from __future__ import annotations

import dataclasses
import math
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tileops.perf.clock import device_state, profiler, timeline
from tileops.perf.clock.activities import Activity, ClockError, attribute, busy_ns, check_signature, signature
from tileops.perf.clock.cold_cache import ColdCache
from tileops.perf.clock.measurement import MIN_WARMUP, Budget, DeviceReading, Flush, Measurement, TimingSource
from tileops.perf.clock.samples import summarize

# Bound here, before any op's code runs: an op that patches `time` or `torch.cuda` changes nothing for this clock.
_now_ns = time.perf_counter_ns
_synchronize = torch.cuda.synchronize
_spin = torch.cuda._sleep

_DISCOVERY_CALLS = 3
_DISCOVERY_SESSIONS = 6
# Calls behind a gate beside the samples. A count.
_GATED_CALLS = 7
# A gate lasts for so many times what the host takes for a call, and this longer; no host waits for more. Nanoseconds.
_GATE_CALLS = 3
_GATE_LEAST_NS, _GATE_MOST_NS = 200_000, 5_000_000
# Clock cycles of a nanosecond on the fastest device: on others a gate lasts longer.
_CYCLES_PER_NS = 2.0
# A session that saw nothing, or a span that nothing explains, has as many tries in all. A count.
_SESSION_TRIES = 2


def measure(
    call: Callable[[], Any],
    *,
    device: torch.device | str,
    prepare: Callable[[], None] | None = None,
    inspect: Callable[[Any], None] | None = None,
    budget: Budget | None = None,
    flush: Flush = Flush.DIRTY,
    written_share: float | None = None,
) -> Measurement:
    """Times `call` on `device`.

    Args:
      call: the timed call; its result goes to `inspect` and is dropped.
      device: "cuda", "cuda:N" or "cpu". Must be the device that the call works on.
      prepare: runs before each call, outside the window: new inputs, restoring what an in-place call wrote.
      inspect: runs after each sampled call, outside the window, with what the call returned.
      budget: how long to warm up and measure; the default is for one row of a long list.
      flush: how the last-level cache is emptied before each call. A CPU run flushes nothing.
      written_share: for Flush.MATCHED, the share of the lines that the call touches which it writes; from 0 to 1.

    Returns:
      The measurement. Its `source` says which clock: CUPTI on a GPU whose profiler reports device work, CUDA_EVENTS
      if it reports none at all, HOST_CLOCK on a CPU.

    Raises:
      ClockError: the call ran no device work, its device work differs from call to call, or some of it cannot be
        attributed to a call.
      Exception: whatever `call`, `prepare` or `inspect` raises.
    """
    device = torch.device(device)
    budget = budget or Budget()
    steps = _Steps(call, prepare or _nothing, inspect or _nothing_of)
    if device.type == "cpu":
        return _on_host(steps, budget)
    with torch.cuda.device(device):
        return _on_gpu(steps, budget, ColdCache(device, flush, written_share), device)


@dataclasses.dataclass(frozen=True, slots=True)
class _Steps:
    call: Callable[[], Any]
    prepare: Callable[[], None]
    inspect: Callable[[Any], None]


def _nothing() -> None:
    pass


def _nothing_of(result: Any) -> None:
    pass


# ---- GPU


def _on_gpu(steps: _Steps, budget: Budget, cache: ColdCache, device: torch.device) -> Measurement:
    start = device_state.read(device)
    calls = _warm_up(steps, budget, cache)
    for _ in range(_DISCOVERY_SESSIONS):
        found, sessions = _seen_batch(dataclasses.replace(steps, inspect=_nothing_of), cache, [0] * _DISCOVERY_CALLS)
        calls += sessions * _DISCOVERY_CALLS
        count = budget.samples(found.seconds_per_call)
        if not found.device_is_seen:
            return _by_events(steps, cache, count, calls, start, device)
        before, settled = (signature(call) for call in found.calls[-2:])
        if before == settled:
            break
    else:
        check_signature(before, settled, f"after {calls} calls, the last")
    if not settled:
        raise ClockError("the call ran no device work: no kernel, copy or fill was launched inside its window")
    gates = _gates(count, found.host_ns)
    for tries_left in reversed(range(_SESSION_TRIES)):
        found, _ = _seen_batch(steps, cache, gates)
        if not found.device_is_seen:
            return _by_events(steps, cache, count, calls, start, device)
        for index, call in enumerate(found.calls):
            check_signature(settled, signature(call), f"timed call {index + 1} of {len(gates)}")
        try:
            for kind, is_gated in (("timed calls", False), ("calls that were launched ahead", True)):
                timeline.check(
                    [one for one, gate in zip(found.spans, gates, strict=True) if bool(gate) is is_gated], kind
                )
            break
        except ClockError:
            if not tries_left:
                raise
    free = [index for index, gate in enumerate(gates) if not gate]
    return _measurement(
        TimingSource.CUPTI,
        [float(busy_ns(found.calls[index])) for index in free],
        [found.wall_ns[index] for index in free],
        calls,
        activity_names=tuple(name for _, name in settled),
        start=start,
        end=device_state.read(device),
        **_flushed(cache),
    )


def _by_events(
    steps: _Steps, cache: ColdCache, count: int, calls: int, start: DeviceReading, device: torch.device
) -> Measurement:
    busy, wall = _with_events(steps, cache, count)
    return _measurement(
        TimingSource.CUDA_EVENTS, busy, wall, calls, start=start, end=device_state.read(device), **_flushed(cache)
    )


def _gates(count: int, host_ns: Sequence[float]) -> list[int]:
    """Returns the gate before each call, 0 for the `count` samples: an op cannot foresee which. Nanoseconds."""
    gate = int(min(_GATE_CALLS * max(host_ns) + _GATE_LEAST_NS, _GATE_MOST_NS))
    gates = [0] * count + [gate] * _GATED_CALLS
    random.SystemRandom().shuffle(gates)
    return gates


def _flushed(cache: ColdCache) -> dict[str, Any]:
    return {"flush": cache.flush, "flush_bytes": cache.buffer_bytes, "written_share": cache.written_share}


def _warm_up(steps: _Steps, budget: Budget, cache: ColdCache) -> int:
    """Makes calls outside any profiler session until the budget is used up; returns their count."""
    deadline = _now_ns() + int(budget.warmup_s * 1e9)
    calls = 0
    while calls < MIN_WARMUP or _now_ns() < deadline:
        steps.prepare()
        cache.empty()
        steps.call()
        _synchronize()
        calls += 1
    return calls


@dataclasses.dataclass(frozen=True, slots=True)
class _Batch:
    """What one profiler session recorded.

    Attributes:
      calls: device work of each call, in launch order.
      spans: what the device did between the marks of each call; empty if no call is gated, or no device work is seen.
      wall_ns: host time of each call, its device work included. Nanoseconds.
      host_ns: host time until each call returned. Nanoseconds.
      seconds_per_call: the shortest from one call's preparation to its end.
      device_is_seen: whether the session reported any device work, the harness's own included.
    """

    calls: list[tuple[Activity, ...]]
    spans: list[timeline.Span]
    wall_ns: list[float]
    host_ns: list[float]
    seconds_per_call: float
    device_is_seen: bool


def _seen_batch(steps: _Steps, cache: ColdCache, gates: Sequence[int]) -> tuple[_Batch, int]:
    """Returns a batch and how many sessions it took: one that reports no device work is repeated in a fresh session."""
    for sessions in range(1, _SESSION_TRIES):
        found = _batch(steps, cache, gates)
        if found.device_is_seen:
            return found, sessions
    return _batch(steps, cache, gates), _SESSION_TRIES


def _batch(steps: _Steps, cache: ColdCache, gates: Sequence[int]) -> _Batch:
    """Makes a call behind each gate, which may last 0 ns, in one profiler session."""
    wall, host, whole = [], [], []

    def step(session: profiler.Session, index: int) -> None:
        began = _now_ns()
        with session.range(f"before{index}"):
            steps.prepare()
            cache.empty()
        _synchronize()
        if gates[index]:
            with session.range(f"gate{index}"):
                _spin(int(gates[index] * _CYCLES_PER_NS))
        with session.range(f"call{index}", any_thread=True):
            called = _now_ns()
            result = steps.call()
            returned = _now_ns()
        with session.range(f"close{index}"):
            _spin(1)  # the mark; not dispatched, so no code in place of an operator runs here
            _synchronize()
            ended = _now_ns()
        wall.append(float(ended - called))
        host.append(float(returned - called))
        whole.append((ended - began) / 1e9)
        with session.range(f"after{index}"):
            steps.inspect(result)

    trace = profiler.record(len(gates), step)
    owned = attribute(trace)
    is_seen = any(owned.values())
    return _Batch(
        calls=[owned[f"call{index}"] for index in range(len(gates))],
        spans=timeline.spans(trace, owned, list(map(str, range(len(gates))))) if is_seen and any(gates) else [],
        wall_ns=wall,
        host_ns=host,
        seconds_per_call=min(whole),
        device_is_seen=is_seen,
    )


def _with_events(steps: _Steps, cache: ColdCache, count: int) -> tuple[list[float], list[float]]:
    """Returns times between events and wall times of `count` calls, if no device work is reported. Nanoseconds.

    These times include launch overhead, as their source says.
    """
    between, wall = [], []
    before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(count):
        steps.prepare()
        cache.empty()
        _synchronize()
        called = _now_ns()
        before.record()
        result = steps.call()
        after.record()
        _synchronize()
        wall.append(float(_now_ns() - called))
        between.append(before.elapsed_time(after) * 1e6)
        steps.inspect(result)
    return between, wall


# ---- CPU


def _on_host(steps: _Steps, budget: Budget) -> Measurement:
    deadline = _now_ns() + int(budget.warmup_s * 1e9)
    calls, fastest = 0, math.inf
    while calls < MIN_WARMUP or _now_ns() < deadline:
        begin = _now_ns()
        steps.prepare()
        steps.call()
        elapsed = (_now_ns() - begin) / 1e9
        fastest = min(fastest, elapsed)
        calls += 1
    wall = []
    for _ in range(budget.samples(fastest)):
        steps.prepare()
        begin = _now_ns()
        result = steps.call()
        wall.append(float(_now_ns() - begin))
        steps.inspect(result)
    return _measurement(TimingSource.HOST_CLOCK, wall, wall, calls)


def _measurement(
    source: TimingSource,
    busy: list[float],
    wall: list[float],
    calls: int,
    activity_names: tuple[str, ...] = (),
    **rest: Any,
) -> Measurement:
    found = summarize(busy)
    return Measurement(
        source=source,
        device_busy_ns=found.median,
        device_busy_p10_ns=found.p10,
        device_busy_p90_ns=found.p90,
        wall_ns=summarize(wall).median,
        samples=found.count,
        activities=len(activity_names),
        sample_ns=tuple(busy),
        warmup_calls=calls,
        activity_names=activity_names,
        # A shared CPU's times wander for reasons of its own, and they are never priced.
        doubts=found.doubts if source is not TimingSource.HOST_CLOCK else (),
        **rest,
    )
