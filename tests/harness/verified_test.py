"""How many timed calls of a row are verified, and that a wrong kernel of tiny results is found by them."""

import dataclasses

import pytest
import torch

from tileops.ops import catalogue
from tileops.ops.cases import TensorCase, WorkloadCase
from tileops.perf.clock.measurement import Budget
from tileops.perf.harness import correctness, timing
from tileops.perf.harness.expected import Expected, Wanted
from tileops.proto import benchmark_pb2

ENOUGH = Budget(warmup_s=0.0, measure_s=5.0, max_samples=100)


def _case(input_bytes):
    return WorkloadCase(
        case_id="a", label="a", params={}, indices={}, dtypes={}, tensors=(), input_bytes=input_bytes, output_bytes=1
    )


def _calls(elements, input_bytes=8, mutated=()):
    """Of a row with outputs, and written inputs, of so many elements each; None is an output that is not there."""

    def wanted(counts):
        tensors = [None if count is None else torch.zeros(count) for count in counts]
        return {str(at): None if one is None else Wanted(tensor=one) for at, one in enumerate(tensors)}

    expected = Expected(outputs=wanted(elements), mutated=wanted(mutated), alias_pairs=frozenset())
    return correctness.calls_to_verify(expected, _case(input_bytes))


@pytest.mark.parametrize(
    ("elements", "calls"),
    [((1,), 64), ((7,), 10), ((31,), 3), ((32,), 2), ((4096,), 2), ((0,), 2), ((4096, 1), 64), ((None, 0, 8), 8)],
)
def test_the_smallest_result_says_how_many(elements, calls):
    assert _calls(elements) == calls


def test_what_is_written_in_place_is_a_result():
    assert _calls((4096,), mutated=(4,)) == 16


@pytest.mark.parametrize(("size", "calls"), [(0, 64), (1 << 18, 64), (1 << 20, 16), (1 << 24, 2), (1 << 40, 2)])
def test_large_inputs_are_not_made_anew_so_often(size, calls):
    assert _calls((1,), input_bytes=size) == calls


def _record(function, shape):
    """A record of an implementation of a logical or, on two booleans of one shape."""
    op_class = type("LogicalOrFwdOp", (catalogue.load()["LogicalOrFwdOp"],), {})
    op_class.register("mine", lambda op, call, *inputs: function(*inputs))
    given = next(case for case in op_class.CASES if set(case.dtypes.values()) == {"bool"})
    tensors = tuple(TensorCase(name=tensor.name, dtype="bool", shape=shape) for tensor in given.tensors)
    case = dataclasses.replace(given, tensors=tensors, input_bytes=2, output_bytes=1)
    return timing.Row(op_class, case, torch.device("cpu")).run("mine", ENOUGH)


@pytest.mark.parametrize("shape", [(), (1,), (2,)])
@pytest.mark.parametrize(
    "wrong",
    [lambda x, y: torch.ones_like(x), lambda x, y: torch.zeros_like(x), lambda x, y: x ^ y, lambda x, y: x.clone()],
)
def test_a_wrong_truth_value_is_no_matter_of_luck(wrong, shape):
    record = _record(wrong, shape)
    assert record.status == benchmark_pb2.STATUS_ERROR and "wrong result" in record.message


def test_a_right_one_is_timed():
    record = _record(torch.logical_or, (1,))
    assert record.status == benchmark_pb2.STATUS_OK, record.message
