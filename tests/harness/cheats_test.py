"""Implementations that look faster or righter than they are get no time; honest ones beside them do."""

import time

import pytest
import torch

from tileops.ops import catalogue
from tileops.ops.errors import OpCallError
from tileops.perf.clock.measurement import Budget
from tileops.perf.harness import timing
from tileops.proto import benchmark_pb2
from tileops.tests.harness import toys

BUDGET = Budget(warmup_s=0.0, measure_s=0.0)


def run(plugin, op, label, implementation):
    op_class = toys.load(plugin)[op]
    row = timing.Row(op_class, toys.case(op_class, label), torch.device("cpu"))
    return row.run(implementation, BUDGET)


def test_a_wrong_result_is_an_error_without_a_time_that_says_what_was_checked():
    record = run("cheats", "ScaleFwdOp", "small", "one_percent")
    assert record.status == benchmark_pb2.STATUS_ERROR and "wrong result" in record.message
    assert record.correctness.checked and record.correctness.reason
    assert not record.HasField("timing")
    assert (record.flops, record.bytes) == (2048, 16384)


def test_an_output_in_the_storage_of_an_input_is_refused_by_the_op():
    with pytest.raises(OpCallError, match="in the storage of an input"):
        run("cheats", "ScaleFwdOp", "small", "aliases")


def test_a_cache_of_all_values_is_never_hit():
    record = run("controls", "ScaleFwdOp", "small", "honest_cache_of_all_values")
    op_class = toys.load("controls")["ScaleFwdOp"]
    row = timing.Row(op_class, toys.case(op_class, "small"), torch.device("cpu"))
    seen = []
    for variant in range(5):
        row.inputs.fill(variant)
        seen.append(row.inputs.tensors["x"].numpy().tobytes())
    assert record.status == benchmark_pb2.STATUS_OK and len(set(seen)) == 5


def test_a_cheat_in_an_input_that_the_op_writes_is_an_error():
    record = run("cheats", "ScatterCountFwdOp", "few", "forgets_total")
    assert record.status == benchmark_pb2.STATUS_ERROR
    assert "mutated input 'total'" in record.message


def test_a_patched_timer_is_told_and_no_time_is_recorded(monkeypatch):
    for name in ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns"):
        monkeypatch.setattr(time, name, getattr(time, name))  # what the cheat patches is put back after the test
    record = run("cheats", "ScaleFwdOp", "small", "stops_the_clock")
    assert record.status == benchmark_pb2.STATUS_ERROR and not record.HasField("timing")
    assert "time.perf_counter, time.perf_counter_ns was replaced" in record.message


@pytest.mark.parametrize(
    ("op", "label", "implementation"),
    [("ScaleFwdOp", "small", "honest"), ("ScaleFwdOp", "middle", "honest"), ("ScatterCountFwdOp", "few", "loop")],
)
def test_an_honest_one_is_timed(op, label, implementation):
    record = run("implementations", op, label, implementation)
    assert record.status == benchmark_pb2.STATUS_OK, record.message
    assert record.correctness.checked and record.correctness.max_relative_error < 1e-3
    assert record.timing.source == benchmark_pb2.TIMING_SOURCE_HOST_CLOCK
    assert record.timing.samples == len(record.timing.sample_ns) == 10
    assert record.timing.device_busy_p10_ns <= record.timing.device_busy_ns <= record.timing.device_busy_p90_ns


def test_the_reference_is_timed_and_says_that_it_is_one():
    record = run("implementations", "ScaleFwdOp", "small", "torch")
    assert record.status == benchmark_pb2.STATUS_OK
    assert not record.correctness.checked and record.correctness.reason == "this is the reference"


def test_an_implementation_that_does_not_serve_the_row_has_no_record():
    assert run("implementations", "ScaleFwdOp", "small", "gpu") is None


def test_an_op_that_is_not_defined_for_both_signs_gets_values_of_one():
    op_class = toys.load("roots")["ScaleFwdOp"]
    row = timing.Row(op_class, toys.case(op_class, "small"), torch.device("cpu"))
    for implementation in ("torch", "honest"):
        record = row.run(implementation, BUDGET)
        assert record.status == benchmark_pb2.STATUS_OK, record.message
    assert float(row.inputs.tensors["x"].min()) >= 0 and float(row.inputs.tensors["x"].std()) > 0


def test_a_reference_that_is_finite_for_neither_is_an_error():
    record = run("roots", "ScaleFwdOp", "middle", "torch")
    assert record.status == benchmark_pb2.STATUS_ERROR and "is all NaN on the row's own inputs" in record.message


def _in_place(function):
    """A record of an implementation that works in place, of an op whose output is then the input itself."""
    op_class = type("HardsigmoidFwdOp", (catalogue.load()["HardsigmoidFwdOp"],), {})
    op_class.register("mine", lambda op, call, x: function(x))
    row = timing.Row(op_class, toys.case(op_class, "mbv3-se-gate-deep-inplace"), torch.device("cpu"))
    return row.run("mine", BUDGET)


def test_an_output_that_is_the_input_is_verified_as_the_call_left_it():
    assert _in_place(lambda x: torch.nn.functional.hardsigmoid(x, inplace=True)).status == benchmark_pb2.STATUS_OK


def test_an_implementation_in_place_that_is_wrong_on_later_values_is_an_error():
    first = []

    def forgetful(x):
        first.append(torch.nn.functional.hardsigmoid(x))
        return x.copy_(first[0])

    record = _in_place(forgetful)
    assert record.status == benchmark_pb2.STATUS_ERROR and "on other values than the first check" in record.message


def _has_no_price(record):
    assert record.status == benchmark_pb2.STATUS_ERROR and "eval_roofline was replaced" in record.message
    assert (record.flops, record.bytes, record.roof_key) == (0, 0, "")


@pytest.mark.requirement("4.2.1")
def test_a_price_that_an_implementation_sets_is_an_error():
    _has_no_price(run("cheats", "ScaleFwdOp", "small", "sets_its_price"))


def test_a_price_that_a_class_is_given_afterwards_is_an_error(monkeypatch):
    op_class = toys.load("cheats")["ScaleFwdOp"]
    monkeypatch.setattr(op_class, "eval_roofline", lambda self: (10**15, 10**15))
    row = timing.Row(op_class, toys.case(op_class, "small"), torch.device("cpu"))
    _has_no_price(row.run("torch", BUDGET))


def test_the_values_of_timed_calls_cannot_be_foreseen():
    record = run("cheats", "ScaleFwdOp", "small", "foresees")
    assert record.status == benchmark_pb2.STATUS_ERROR and "in a timed call" in record.message
