"""The clock's loop: what runs when, how many samples are taken, and where it gives up."""

import math

import pytest
import torch

from tileops.perf.clock import measure as clock
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


@pytest.fixture
def gpu(monkeypatch):
    """`gpu(session, ...)` measures over these sessions, each a list of one call's work, in order."""

    def measured(*sessions, is_seen=True):
        left = list(sessions)
        asked = []

        def batch(steps, cache, count):
            asked.append(count)
            calls = left.pop(0)
            return clock._Batch(
                calls=calls, wall_ns=[9_000.0] * len(calls), seconds_per_call=1.0, device_is_seen=is_seen
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
    assert asked == [3, 10]
    assert found.source is TimingSource.CUPTI
    assert found.device_busy_ns == 2_000 and found.wall_ns == 9_000
    assert (found.samples, found.activities, found.activity_names) == (10, 2, ("a", "b"))
    assert found.warmup_calls == 8
    assert (found.flush, found.flush_bytes, found.written_share) == (Flush.MATCHED, 1 << 28, 0.25)
    assert found.start.sm_clock_mhz == 1980


def test_discovery_goes_on_until_two_consecutive_calls_agree(gpu):
    settled = work("chosen")
    found, asked = gpu([work("try 1"), work("try 2"), settled], [settled] * 3, [settled] * 10)
    assert asked == [3, 3, 10] and found.warmup_calls == 11


def test_a_call_that_never_settles_is_an_error_naming_both_sequences(gpu):
    restless = [work("a"), work("a"), work("b")]
    with pytest.raises(ClockError, match=r"expected \[kernel a\]; found \[kernel b\]"):
        gpu(*[restless] * 6)


def test_a_sample_that_runs_other_work_is_an_error_and_no_sample(gpu):
    with pytest.raises(ClockError, match="timed call 10 of 10"):
        gpu([work("a")] * 3, [work("a")] * 9 + [work("a", "b")])


def test_a_call_without_device_work_is_an_error_and_no_zero(gpu):
    with pytest.raises(ClockError, match="no device work"):
        gpu([()] * 3)


def test_events_time_a_call_only_where_no_device_work_is_reported_at_all_and_say_so(gpu):
    found, _ = gpu([()] * 3, is_seen=False)
    assert found.source is TimingSource.CUDA_EVENTS
    assert found.device_busy_ns == 67_000 and found.activities == 0
