"""What counts as the same result."""

import dataclasses
import math

import pytest
import torch

from tileops.ops import catalogue, workloads
from tileops.perf.clock.measurement import Budget
from tileops.perf.harness import correctness, timing
from tileops.perf.harness import expected as bench_expected
from tileops.perf.harness import noise as bench_noise
from tileops.perf.harness.correctness import relative_error
from tileops.perf.harness.expected import Wanted, WrongResultError
from tileops.perf.harness.inputs import RowInputs
from tileops.proto import benchmark_pb2
from tileops.tests.harness import toys


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
    monkeypatch.setattr(bench_noise, "CHUNK", 7)
    reference = torch.ones(100)
    found = reference.clone()
    found[99] = 0.0
    norm, worst = relative_error(found, reference)
    assert norm == pytest.approx(0.1) and worst == pytest.approx(0.5)


def test_rounding_to_the_output_s_dtype_passes():
    exact = torch.randn(100_000, dtype=torch.float64)
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        correctness._check_tensor("output", exact.to(dtype), Wanted(tensor=exact))


def test_integers_must_be_equal():
    correctness._check_tensor("output", torch.tensor([1, 2]), Wanted(tensor=torch.tensor([1, 2])))
    with pytest.raises(WrongResultError, match="1 of 2 elements"):
        correctness._check_tensor("output", torch.tensor([1, 3]), Wanted(tensor=torch.tensor([1, 2])))


def test_an_absent_output_equals_an_absent_one_alone():
    there = torch.ones(2)
    assert correctness._check_tensor("output 'l'", None, None) == 0.0
    for found, reference, said in (
        (None, there, "is absent, and the reference's is present"),
        (there, None, "is present, and the"),
    ):
        with pytest.raises(WrongResultError, match=f"output 'l' {said}"):
            wanted = None if reference is None else Wanted(tensor=reference)
            correctness._check_tensor("output 'l'", found, wanted)


def test_the_reference_runs_in_more_precision_than_its_op_declares():
    op_class = toys.load("implementations")["ScaleFwdOp"]
    for label, dtype in (("middle", torch.float32), ("small", torch.float64)):  # of float16 and float32 inputs
        case = toys.case(op_class, label)
        inputs = workloads.build_inputs(op_class, case, "cpu")
        expected = bench_expected.expect(op_class, case, inputs)
        assert expected.outputs["output"].tensor.dtype == dtype
        assert torch.equal(expected.outputs["output"].tensor, 2 * inputs["x"].to(dtype))


def test_the_reference_leaves_the_row_s_inputs_alone():
    op_class = toys.load("implementations")["ScatterCountFwdOp"]
    case = toys.case(op_class, "few")
    inputs = workloads.build_inputs(op_class, case, "cpu")
    before = inputs["total"].clone()
    expected = bench_expected.expect(op_class, case, inputs)
    assert torch.equal(inputs["total"], before)
    assert not torch.equal(expected.mutated["total"].tensor.float(), before)


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


# ---- elements that are small


def _shrunk(op, dtype, shapes):
    """An op of the catalogue and a case of it with small tensors, as `shapes` says by name or for all."""
    op_class = catalogue.load()[op]
    found = next(case for case in op_class.CASES if {dtype} == set(case.dtypes.values()))
    tensors = (dataclasses.replace(tensor, shape=shapes.get(tensor.name, tensor.shape)) for tensor in found.tensors)
    return op_class, dataclasses.replace(found, tensors=tuple(tensors))


def _record(op, dtype, shapes, implementation):
    """Of an implementation that makes what it likes of the reference's result, in the inputs' own precision."""
    base, case = _shrunk(op, dtype, shapes)
    own = type(op, (base,), {})
    reference = base.implementations()[0].function
    own.register("mine", lambda op, call, *inputs: implementation(reference(op, call, *inputs)))
    row = timing.Row(own, case, torch.device("cpu"))
    return row.run("mine", Budget(warmup_s=0.0, measure_s=0.0))


def _without_some_small_ones(output):
    """One percent of the elements zeroed, all among the smallest 6.5%."""
    wrong, count = output.clone(), output.numel()
    smallest = wrong.reshape(-1).float().abs().argsort()[: int(0.065 * count)]
    wrong.view(-1)[smallest[torch.randperm(smallest.numel())[: count // 100]]] = 0
    return wrong


SMALL_OPS = [
    ("ExpFwdOp", {"input": (64, 1024)}),
    ("SigmoidFwdOp", {"input": (64, 1024)}),
    ("GELUFwdOp", {"input": (64, 1024)}),
    ("AddFwdOp", {"input": (64, 1024), "other": (64, 1024)}),
    ("RMSNormFwdOp", {"x": (16, 4096)}),
]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize(("op", "shapes"), SMALL_OPS)
def test_one_percent_that_is_wrong_is_caught_where_the_right_values_are_small(op, shapes, dtype):
    if dtype not in {name for case in catalogue.load()[op].CASES for name in case.dtypes.values()}:
        pytest.skip("no row of that dtype")
    record = _record(op, dtype, shapes, _without_some_small_ones)
    assert record.status == benchmark_pb2.STATUS_ERROR and "wrong result: output" in record.message, record.message
    honest = _record(op, dtype, shapes, torch.Tensor.clone)
    assert honest.status == benchmark_pb2.STATUS_OK, honest.message


@pytest.mark.parametrize(("dtype", "tolerance"), correctness.TOLERANCE.items())
def test_sums_that_cancel_have_honest_errors_of_their_summands(dtype, tolerance):
    """A matrix product whose middle hundred columns are a hundred times as large as the others, in the same blocks."""
    if dtype.startswith("float8"):
        pytest.skip("no product of 8 bits on a CPU")
    kind = getattr(torch, dtype)
    a, b = torch.randn(300, 2048).to(kind), torch.randn(2048, 300)
    b[:, 100:200] *= 100
    b = b.to(kind)
    fine = a.double() @ b.double()
    if dtype in ("float64", "float32"):
        coarse = (bench_noise.as_tf32(a.float()) @ bench_noise.as_tf32(b.float())).to(torch.float32)
    else:
        coarse = a @ b
    moved = coarse
    if dtype in ("float16", "bfloat16"):
        moved = bench_noise.moved(a, seed=0).double() @ bench_noise.moved(b, seed=1).double()
    noise = bench_noise.measured(fine, coarse, moved)
    found = coarse if dtype != "float64" else a @ b
    wanted = Wanted(tensor=fine, noise=noise)
    assert correctness.wrong_elements(found, wanted, tolerance) <= found.numel() / 1000


def test_noise_is_the_size_of_errors_in_a_block(monkeypatch):
    monkeypatch.setattr(bench_noise, "CHUNK", 512)
    fine = torch.zeros(1100)
    coarse = torch.zeros(1100)
    coarse[:256:3] = 2.0
    coarse[7] = 1e6
    coarse[300] = math.inf
    coarse[301] = 5.0
    coarse[512:1024] = torch.linspace(0.0, 1.0, 512)
    coarse[1024::3] = -7.0
    noise = bench_noise.between(coarse.to(torch.float64), fine)
    assert noise.dtype == torch.float32 and noise.tolist() == pytest.approx([2.0, 0.0, 0.47, 0.97, 7.0], abs=0.03)
    spread = torch.cat([bench_noise.spread(noise, part, len(fine[part])) for part in bench_noise.chunks(1100)])
    assert spread.tolist() == [noise[at // 256].item() for at in range(1100)]


def test_float32_is_rounded_to_what_tensor_cores_read():
    values = torch.tensor([1.0, 1 + 2**-10, 1 + 2**-11, 1 + 2**-12, -(1 + 2**-11 + 2**-20), 0.0, 3e-40])
    assert bench_noise.as_tf32(values)[:6].tolist() == [1.0, 1 + 2**-10, 1 + 2**-10, 1.0, -(1 + 2**-10), 0.0]
    found = torch.randn(10_000)
    assert float(((bench_noise.as_tf32(found) - found).abs() / found.abs()).max()) <= 2**-11


# ---- what an op does decides what passes


def test_the_tolerance_follows_from_the_arithmetic_of_an_op():
    found = {}
    for name in ("ExpFwdOp", "SiLUAndMulFwdOp", "DropoutFwdOp", "SumFwdOp", "RMSNormFwdOp", "GEMMFwdOp"):
        op_class = catalogue.load()[name]
        op = workloads.construct(op_class, op_class.CASES[0])
        found[name] = bench_expected._arithmetic(
            op, op.check(**workloads.build_inputs(op_class, op_class.CASES[0], "meta"))
        )
    assert list(found.values()) == ["elementwise"] * 3 + ["reduction"] * 2 + ["product"]
    passes = {
        kind: [
            correctness.tolerance_of(dtype, Wanted(tensor=torch.ones(1), arithmetic=kind))
            for dtype in (torch.bfloat16, torch.float32, torch.float64)
        ]
        for kind in ("elementwise", "reduction", "product")
    }
    assert passes["product"] == [1.6e-2, 1e-3, 1e-9]
    assert passes["elementwise"] == [1.6e-2, 2.0**-19, 2.0**-48] and passes["reduction"] == [1.6e-2, 2.0**-16, 2.0**-45]


def test_what_an_op_s_definition_allows_passes_where_it_is_more():
    exact = torch.randn(1000, dtype=torch.float64)
    near = (exact * (1 + 0.01 * torch.randn(1000, dtype=torch.float64).clamp(-2, 2))).float()
    known = {"tensor": exact, "arithmetic": "elementwise"}
    correctness._check_tensor("output", near, Wanted(allowed=0.05, **known))
    with pytest.raises(WrongResultError, match="at most 1.91e-06 passes"):
        correctness._check_tensor("output", near, Wanted(**known))
    codes = torch.arange(-100, 100, dtype=torch.int8)
    correctness._check_tensor("q", codes + 1, Wanted(tensor=codes, allowed=1.0))
    with pytest.raises(WrongResultError, match="differs from the reference by more than 1 in 200 of 200 elements"):
        correctness._check_tensor("q", codes + 2, Wanted(tensor=codes, allowed=1.0))


def test_a_whole_number_that_rounding_carries_over_an_edge_may_be_either():
    fine = torch.arange(1, 40_001, dtype=torch.float64) % 17
    coarse = fine.float()
    coarse[[5, 700]] += 1
    jumps = bench_expected._jumps(fine, coarse)
    assert jumps.positions.tolist() == [5, 700]
    wanted = Wanted(tensor=fine, arithmetic="elementwise", jumps=jumps)
    correctness._check_tensor("output", fine.float(), wanted)
    correctness._check_tensor("output", coarse, wanted)
    for place in (5, 6):
        wrong = fine.float()
        wrong[place] += 2
        with pytest.raises(WrongResultError, match="relative error"):
            correctness._check_tensor("output", wrong, wanted)
    assert bench_expected._jumps(fine, coarse + 1) is None  # far off throughout
