"""What counts as the same result."""

import math

import pytest
import torch

from tileops.ops import workloads
from tileops.perf import bench_correctness
from tileops.perf.bench_correctness import WrongResultError, relative_error
from tileops.perf.bench_inputs import RowInputs
from tileops.tests.bench import toys


def test_equal_tensors_have_no_error():
    tensor = torch.randn(100)
    assert relative_error(tensor, tensor.double()) == (0.0, 0.0)
    assert relative_error(torch.zeros(3), torch.zeros(3)) == (0.0, 0.0)


def test_the_error_is_relative_to_the_reference_s_norm():
    norm, worst = relative_error(torch.tensor([3.0, 4.4]), torch.tensor([3.0, 4.0]))
    assert norm == pytest.approx(0.4 / 5.0, rel=1e-6)
    assert worst == pytest.approx(0.4 / (4.0 + math.sqrt(12.5)), rel=1e-6)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_never_passes(value):
    found = torch.randn(1000)
    found[500] = value
    assert relative_error(found, torch.randn(1000))[0] == math.inf


def test_something_where_nothing_should_be_is_wrong():
    assert relative_error(torch.tensor([1e-30]), torch.zeros(1)) == (math.inf, math.inf)


def test_every_element_of_a_tensor_of_several_chunks_counts(monkeypatch):
    monkeypatch.setattr(bench_correctness, "_CHUNK", 7)
    reference = torch.ones(100)
    found = reference.clone()
    found[99] = 0.0
    norm, worst = relative_error(found, reference)
    assert norm == pytest.approx(0.1) and worst == pytest.approx(0.5)


def test_rounding_to_the_output_s_dtype_passes():
    exact = torch.randn(100_000, dtype=torch.float64)
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        bench_correctness._check_tensor("output", exact.to(dtype), exact)


def test_integers_must_be_equal():
    bench_correctness._check_tensor("output", torch.tensor([1, 2]), torch.tensor([1, 2]))
    with pytest.raises(WrongResultError, match="1 of 2 elements"):
        bench_correctness._check_tensor("output", torch.tensor([1, 3]), torch.tensor([1, 2]))


def test_an_absent_output_equals_an_absent_one_alone():
    there = torch.ones(2)
    assert bench_correctness._check_tensor("output 'l'", None, None) == 0.0
    for found, reference, said in ((None, there, "is absent, and the reference's there"), (there, None, "is there, and the")):
        with pytest.raises(WrongResultError, match=f"output 'l' {said}"):
            bench_correctness._check_tensor("output 'l'", found, reference)


def test_the_reference_runs_in_more_precision_than_its_op_declares():
    op_class = toys.load("implementations")["ScaleFwdOp"]
    for label, dtype in (("middle", torch.float32), ("small", torch.float64)):  # of float16 and float32 inputs
        case = toys.case(op_class, label)
        inputs = workloads.build_inputs(op_class, case, "cpu")
        expected = bench_correctness.expect(op_class, case, inputs)
        assert expected.outputs["output"].dtype == dtype
        assert torch.equal(expected.outputs["output"], 2 * inputs["x"].to(dtype))


def test_the_reference_leaves_the_row_s_inputs_alone():
    op_class = toys.load("implementations")["ScatterCountFwdOp"]
    case = toys.case(op_class, "few")
    inputs = workloads.build_inputs(op_class, case, "cpu")
    before = inputs["total"].clone()
    expected = bench_correctness.expect(op_class, case, inputs)
    assert torch.equal(inputs["total"], before)
    assert not torch.equal(expected.mutated["total"].float(), before)


def test_inputs_get_new_values_in_the_same_storage_and_metadata_keeps_its_own():
    op_class = toys.load("implementations")["ScatterCountFwdOp"]
    inputs = RowInputs(op_class, toys.case(op_class, "few"), torch.device("cpu"))
    first, addresses = inputs.clone(), {name: tensor.data_ptr() for name, tensor in inputs.tensors.items()}
    version = inputs.tensors["ids"]._version
    inputs.fill(5)
    assert {name: tensor.data_ptr() for name, tensor in inputs.tensors.items()} == addresses
    assert not torch.equal(inputs.tensors["x"], first["x"])
    assert torch.equal(inputs.tensors["ids"], first["ids"]) and inputs.tensors["ids"]._version == version
    inputs.tensors["total"].zero_()
    inputs.fill(0)
    assert all(torch.equal(inputs.tensors[name], first[name]) for name in first)
