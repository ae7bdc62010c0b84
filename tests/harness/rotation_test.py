"""Calls in rotation, and which of a row's two measurements is its time."""

import dataclasses
import types

import pytest
import torch

from tileops.ops import workloads
from tileops.perf.clock.activities import ClockError
from tileops.perf.clock.measurement import Budget, Flush, Measurement, TimingSource
from tileops.perf.harness import fingerprint, records, timing
from tileops.perf.harness import rotation as bench_rotation
from tileops.perf.harness.expected import WrongResultError
from tileops.perf.harness.inputs import RowInputs
from tileops.proto import benchmark_pb2
from tileops.tests.harness import toys

OK = benchmark_pb2.STATUS_OK
SHORT = Budget(warmup_s=0.001, measure_s=0.01)
CPU = torch.device("cpu")
GPU = torch.device("cuda:0")
MB = 10**6


@pytest.fixture
def called():
    """An op that has completed a call, with its row's inputs."""
    op_class = toys.load("implementations")["ScaleFwdOp"]
    case = toys.case(op_class, "small")
    inputs = RowInputs(op_class, case, CPU)
    op = workloads.construct(op_class, case, target="torch", device=CPU)
    op(**inputs.tensors)
    return op, inputs


@pytest.fixture
def gpu(monkeypatch):
    """A GPU of 60 MB of cache and 100 GB of free memory, as far as a rotation asks."""
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: types.SimpleNamespace(L2_cache_size=60 * MB)
    )
    free = {"bytes": 100_000 * MB}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free["bytes"] - MB, 141_000 * MB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 3 * MB)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 2 * MB)
    return free


def test_each_turn_has_inputs_and_outputs_of_its_own_until_all_had_theirs(called):
    op, inputs = called
    rotation = bench_rotation.Rotation(op, inputs, 3)
    results = [rotation.call() for _ in range(6)]
    assert len({result.data_ptr() for result in results[:3]}) == 3
    assert all(torch.equal(result, results[0]) for result in results)
    assert inputs.tensors["x"].data_ptr() not in {result.data_ptr() for result in results}


@pytest.mark.parametrize(("touched", "sets"), [(1000 * MB, 2), (180 * MB, 2), (90 * MB, 3), (45 * MB, 5), (8 * MB, 24)])
def test_the_sets_together_are_three_times_the_cache_without_the_one_whose_turn_it_is(gpu, called, touched, sets):
    assert bench_rotation.of_row(*called, GPU, touched).sets == sets


@pytest.mark.parametrize(
    ("device", "touched"), [(CPU, 45 * MB), (GPU, 0), (GPU, 7 * MB)], ids=["no GPU", "nothing", "a small call"]
)
def test_no_rotation_where_it_would_tell_nothing(gpu, called, device, touched):
    assert bench_rotation.of_row(*called, device, touched) is None


def test_no_rotation_beyond_half_of_the_free_memory(gpu, called):
    op, inputs = called
    held = inputs.tensors["x"].nbytes * 2
    gpu["bytes"] = held * 5 * 2
    assert bench_rotation.of_row(op, inputs, GPU, 45 * MB).sets == 5
    gpu["bytes"] -= 1
    assert bench_rotation.of_row(op, inputs, GPU, 45 * MB) is None


# ---- the slower of the two


FLUSHED = Measurement(
    source=TimingSource.CUPTI,
    device_busy_ns=100.0,
    device_busy_p10_ns=99.0,
    device_busy_p90_ns=101.0,
    wall_ns=200.0,
    samples=10,
    activities=1,
    sample_ns=(100.0,) * 10,
    warmup_calls=2,
    activity_names=("k",),
    flush=Flush.MATCHED,
)


@pytest.fixture
def row(gpu, monkeypatch):
    """A row whose two measurements are given: `row(flushed, rotated)` is its time."""

    def timed(flushed, rotated, implementation="torch", rotation=None):
        op_class = toys.load("implementations")["ScaleFwdOp"]
        case = toys.case(op_class, "small")
        found = timing.Row(op_class, case, CPU, fingerprint.Guard([op_class]))
        op = workloads.construct(op_class, case, target="torch", device=CPU)
        op(**found.inputs.tensors)
        record = records.new_record(op_class, case, implementation)
        rotation = rotation or bench_rotation.Rotation(op, found.inputs, 5)
        monkeypatch.setattr(bench_rotation, "of_row", lambda *args: rotation)
        asked = []

        def measure(call, **settings):
            asked.append(settings["flush"])
            if isinstance(rotated, Exception):
                raise rotated
            return rotated

        monkeypatch.setattr(timing, "measure", measure)
        monkeypatch.setattr(timing.Row, "_check_surroundings", lambda self, op: None)
        time = found._slower_in_rotation(op, record, flushed, touched=45 * MB)
        assert asked == ([] if rotated is None else [Flush.NONE])
        return time

    return timed


def _rotated(nanoseconds, **change):
    return dataclasses.replace(FLUSHED, device_busy_ns=nanoseconds, flush=Flush.NONE, **change)


def test_a_call_that_profits_from_what_the_flush_leaves_has_the_time_that_it_takes_in_rotation(row):
    found = row(FLUSHED, _rotated(108.0))
    assert (found.device_busy_ns, found.flush, found.input_sets) == (108.0, Flush.NONE, 5)


def test_a_call_that_is_no_slower_in_rotation_keeps_the_time_after_a_flush_and_tells_the_other(row):
    found = row(FLUSHED, _rotated(97.0))
    assert (found.device_busy_ns, found.flush, found.input_sets, found.rotation_ns) == (100.0, Flush.MATCHED, 1, 97.0)


def test_a_call_that_does_something_else_in_rotation_is_an_error(row):
    with pytest.raises(ClockError, match="the call runs copy in rotation, but k after a flush"):
        row(FLUSHED, _rotated(90.0, activity_names=("copy",)))


def test_what_cannot_be_timed_in_rotation_is_an_error_that_says_so(row):
    with pytest.raises(ClockError, match="in rotation: it ran no device work"):
        row(FLUSHED, ClockError("it ran no device work"))


def test_memory_that_does_not_suffice_after_all_leaves_the_time_after_the_flush(row):
    assert row(FLUSHED, torch.OutOfMemoryError("no room")) is FLUSHED


def test_times_of_another_clock_are_not_held_against_a_rotation(row):
    events = dataclasses.replace(FLUSHED, source=TimingSource.CUDA_EVENTS)
    assert row(events, None) is events


def test_a_result_that_is_wrong_at_another_address_is_an_error(row):
    class Lazy(bench_rotation.Rotation):
        def __init__(self):
            op_class = toys.load("implementations")["ScaleFwdOp"]
            case = toys.case(op_class, "small")
            op = workloads.construct(op_class, case, target="torch", device=CPU)
            super().__init__(op, RowInputs(op_class, case, CPU), 3)

        def some(self, count):
            return [(inputs, torch.zeros_like(returned)) for inputs, returned in super().some(count)]

    assert row(FLUSHED, _rotated(90.0), "other").device_busy_ns == 100.0
    with pytest.raises(
        WrongResultError, match="in rotation, at another address: output 'output' has a relative error of 1"
    ):
        row(FLUSHED, _rotated(90.0), "other", rotation=Lazy())


def test_a_result_that_answers_for_its_own_contents_is_refused_in_rotation_too(row, called):
    class Answering(bench_rotation.Rotation):
        def some(self, count):
            found = super().some(count)
            for _, returned in found:
                returned.clone = lambda returned=returned: returned
            return found

    with pytest.raises(WrongResultError, match="in rotation, at another address: output 'output' carries attributes"):
        row(FLUSHED, _rotated(90.0), "other", rotation=Answering(*called, 3))


def test_each_set_has_its_turn_before_any_is_timed(called):
    op, inputs = called
    rotation = bench_rotation.Rotation(op, inputs, 4)
    rotation.go_round()
    chosen = rotation.some(10)
    assert len({id(one["x"]) for one, _ in chosen}) == 4 and len(rotation.some(2)) == 2


# ---- no price decides how a row is measured


@pytest.mark.requirement("5.2.1")
@pytest.mark.parametrize("implementation", ["torch", "honest"])
def test_a_row_whose_formula_raises_is_flushed_and_measured_as_before(monkeypatch, implementation):
    op_class = toys.load("implementations")["ScaleFwdOp"]
    case = toys.case(op_class, "small")
    asked, measure = [], timing.measure

    def measured(call, **settings):
        asked.append((settings["flush"], settings["written_share"]))
        return measure(call, **settings)

    monkeypatch.setattr(timing, "measure", measured)
    priced = timing.Row(op_class, case, CPU).run(implementation, SHORT)
    assert (priced.status, priced.bytes > 0, asked.pop()) == (OK, True, (Flush.MATCHED, 1 / 2))

    def raising(self):
        raise ZeroDivisionError("no such price")

    generated = next(base for base in op_class.__mro__ if vars(base).get("_generated"))
    monkeypatch.setattr(generated, "eval_roofline", raising)
    unpriced = timing.Row(op_class, case, CPU).run(implementation, SHORT)
    assert unpriced.status == benchmark_pb2.STATUS_ERROR and "no such price" in unpriced.message
    assert (unpriced.flops, unpriced.bytes, asked.pop()) == (0, 0, (Flush.MATCHED, 1 / 2))
    assert unpriced.timing.device_busy_ns > 0 and unpriced.timing.samples == len(unpriced.timing.sample_ns)
    assert unpriced.correctness.checked == priced.correctness.checked
