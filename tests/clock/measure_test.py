"""The clock's loop: what runs when, how many samples are taken, and where it gives up."""

import math

import pytest
import torch

from tileops.perf.clock import measure as clock
from tileops.perf.clock import timeline
from tileops.perf.clock.activities import Activity, ClockError, Kind
from tileops.perf.clock.measurement import Budget, DeviceReading, Flush, TimingSource

SHORT = Budget(warmup_s=0.0, measure_s=0.0)


@pytest.mark.parametrize(("seconds", "samples"), [(1.0, 10), (0.01, 30), (1e-6, 200), (0.0, 200)])
def test_the_budget_is_time_within_two_counts(seconds, samples):
    assert Budget(measure_s=0.3).samples(seconds) == samples


def test_on_a_cpu_each_call_is_prepared_before_and_inspected_after_its_window():
    log = []
    found = clock.measure(
        lambda: log.append("call") or len(log),
        device="cpu",
        prepare=lambda: log.append("prepare"),
        inspect=lambda result: log.append(("inspect", result)),
        budget=SHORT,
    )
    assert found.source is TimingSource.HOST_CLOCK
    assert found.samples == len(found.sample_ns) == 10
    timed = log[2 * found.warmup_calls :]
    assert len(timed) == 30
    for at in range(0, 30, 3):
        assert timed[at : at + 2] == ["prepare", "call"] and timed[at + 2][0] == "inspect"
    assert math.isfinite(found.device_busy_ns) and found.flush is Flush.NONE


def test_what_prepare_takes_is_not_in_the_time():
    slow = torch.randn(400, 400)
    found = clock.measure(lambda: None, device="cpu", prepare=lambda: slow @ slow, budget=SHORT)
    assert found.device_busy_ns < 20_000


def test_what_the_call_raises_comes_out():
    def fail():
        raise KeyError("no")

    with pytest.raises(KeyError):
        clock.measure(fail, device="cpu", budget=SHORT)


# ---- the GPU's path, over sessions that a GPU could have given


class Cache:
    flush, buffer_bytes, written_share = Flush.MATCHED, 1 << 28, 0.25

    def empty(self):
        pass


def work(*names, length=1_000):
    return tuple(
        Activity(kind=Kind.KERNEL, name=name, start_ns=at * 2_000, end_ns=at * 2_000 + length, stream=7, correlation=at)
        for at, name in enumerate(names)
    )


BLIND = "a session that reports no device work"


def span(unexplained=0.0):
    return timeline.Span(
        total_ns=30_000.0 + unexplained, busy_ns=29_000.0, host_ns=0.0, device_ns=1_000.0, activities=1
    )


@pytest.fixture
def gpu(monkeypatch):
    """`gpu(session, ...)` measures over these sessions, in order: each a list of one call's work, or BLIND.

    Returns the measurement and the calls asked for in each session, the gated ones behind a comma.
    """

    def measured(*sessions, spans=lambda session, gate: span(), gated_work=None):
        left = list(sessions)
        asked = []

        def batch(steps, cache, gates):
            asked.append((len(gates), sum(map(bool, gates))))
            calls, gated = left.pop(0), sum(map(bool, gates))
            is_seen = calls is not BLIND
            if is_seen and gated:
                free = iter(calls)
                calls = [(gated_work or calls[0]) if gate else next(free) for gate in gates]
            return clock._Batch(
                calls=list(calls) if is_seen else [()] * len(gates),
                spans=[spans(len(asked), gate) for gate in gates] if is_seen and gated else [],
                wall_ns=[90_000.0 if gate else 9_000.0 for gate in gates],
                host_ns=[40_000.0] * len(gates),
                seconds_per_call=1.0,
                device_is_seen=is_seen,
            )

        monkeypatch.setattr(clock, "_batch", batch)
        monkeypatch.setattr(clock, "_warm_up", lambda steps, budget, cache: 5)
        monkeypatch.setattr(clock, "_with_events", lambda steps, cache, count: ([67_000.0] * count, [70_000.0] * count))
        monkeypatch.setattr(clock.device_state, "read", lambda device: DeviceReading(sm_clock_mhz=1980))
        steps = clock._Steps(lambda: None, lambda: None, lambda result: None)
        return clock._on_gpu(steps, Budget(), Cache(), torch.device("cuda:0")), asked

    return measured


def test_device_busy_time_is_the_union_and_says_how_it_was_made(gpu):
    found, asked = gpu([work("a", "b")] * 3, [work("a", "b")] * 10)
    assert asked == [(3, 0), (17, 7)]
    assert found.source is TimingSource.CUPTI
    assert found.device_busy_ns == 2_000 and found.wall_ns == 9_000
    assert (found.samples, found.activities, found.activity_names) == (10, 2, ("a", "b"))
    assert found.warmup_calls == 8
    assert (found.flush, found.flush_bytes, found.written_share) == (Flush.MATCHED, 1 << 28, 0.25)
    assert found.start.sm_clock_mhz == 1980


def test_discovery_goes_on_until_two_consecutive_calls_agree(gpu):
    settled = work("chosen")
    found, asked = gpu([work("try 1"), work("try 2"), settled], [settled] * 3, [settled] * 10)
    assert asked == [(3, 0), (3, 0), (17, 7)] and found.warmup_calls == 11


def test_a_call_that_never_settles_is_an_error_naming_both_sequences(gpu):
    restless = [work("a"), work("a"), work("b")]
    with pytest.raises(ClockError, match=r"expected \[kernel a\]; found \[kernel b\]"):
        gpu(*[restless] * 6)


def test_a_sample_that_runs_other_work_is_an_error_and_no_sample(gpu):
    with pytest.raises(ClockError, match=r"timed call \d+ of 17 ran other device work"):
        gpu([work("a")] * 3, [work("a")] * 9 + [work("a", "b")])


def test_a_call_without_device_work_is_an_error_and_no_zero(gpu):
    with pytest.raises(ClockError, match="no device work"):
        gpu([()] * 3)


def test_a_blind_session_is_repeated_once_in_a_fresh_session(gpu):
    found, asked = gpu(BLIND, [work("a")] * 3, BLIND, [work("a")] * 10)
    assert asked == [(3, 0), (3, 0), (17, 7), (17, 7)]
    assert found.source is TimingSource.CUPTI and found.samples == 10 and found.warmup_calls == 11


@pytest.mark.parametrize("sessions", [(BLIND, BLIND), ([work("a")] * 3, BLIND, BLIND)])
def test_events_time_a_call_only_if_no_device_work_is_reported_twice_and_say_so(gpu, sessions):
    found, asked = gpu(*sessions)
    assert len(asked) == len(sessions)
    assert found.source is TimingSource.CUDA_EVENTS
    assert found.device_busy_ns == 67_000 and found.activities == 0


def test_a_call_behind_a_gate_is_no_sample_and_does_the_same_work(gpu):
    found, _ = gpu([work("a")] * 3, [work("a")] * 10, gated_work=work("a", length=1_900))
    assert set(found.sample_ns) == {1_000.0} and found.wall_ns == 9_000
    with pytest.raises(ClockError, match="ran other device work"):
        gpu([work("a")] * 3, [work("a")] * 10, gated_work=work("b"))


def test_nobody_can_foresee_which_calls_are_gated():
    orders = {tuple(map(bool, clock._gates(50, [10_000.0]))) for _ in range(20)}
    assert len(orders) > 15 and all(sum(order) == 7 for order in orders)
    assert set(clock._gates(50, [10_000.0, 40_000.0])) == {0, 320_000}
    assert max(clock._gates(50, [1e9])) == 5_000_000


@pytest.mark.parametrize("is_gated", [False, True])
def test_unexplained_time_is_an_error_if_a_second_session_has_it_too(gpu, is_gated):
    def unexplained(*numbers):
        return lambda session, gate: span(27_000.0 if session in numbers and bool(gate) is is_gated else 0.0)

    sessions = [work("a")] * 3, [work("a")] * 10, [work("a")] * 10
    found, asked = gpu(*sessions, spans=unexplained(2))
    assert found.samples == 10 and len(asked) == 3
    with pytest.raises(ClockError, match="longer than the profiler reports"):
        gpu(*sessions, spans=unexplained(2, 3))
