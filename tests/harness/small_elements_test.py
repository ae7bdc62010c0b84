"""Elements that are small beside others count as much, in every op and dtype, and honest rounding of them passes."""

import dataclasses
import functools
import math
import os

import pytest
import torch

from tileops.ops import catalogue, workloads
from tileops.perf.harness import correctness, timing
from tileops.perf.harness import expected as bench_expected
from tileops.perf.harness import noise as bench_noise
from tileops.perf.harness.expected import Wanted, WrongResultError
from tileops.perf.harness.inputs import RowInputs

# Ops whose results are sums of many products or terms: where those cancel, an honest result is off by as much as 1% of
# the elements are large.
CONVOLUTIONS = {f"Conv{rank}dFwdOp" for rank in (1, 2, 3)}
SUMS = {"GEMMFwdOp", "GQADenseFwdOp", "SumFwdOp", "AvgPool3dFwdOp", "MeanPoolingFwdOp"} | CONVOLUTIONS
# Ops with one result per row, of which there have to be enough for the noise of results of one size to be known.
FOLDS = {"MeanFwdOp", "AmaxFwdOp", "AminFwdOp", "ProdFwdOp", "VectorNormFwdOp"}
# bfloat16 has the widest tolerances; the nightly run tries every dtype.
_IS_ALL = os.environ.get("TILEOPS_TEST_ALL") == "1"
DTYPES = ("float64", "float32", "float16", "bfloat16", "int32") if _IS_ALL else ("bfloat16",)


def _smaller(name, shape):
    """A shape of the same kind with fewer elements: 16 rows, 1024 short ones of folds, and images of 8 times 8."""
    if name in FOLDS:
        return 1024, 64
    if len(shape) < 2:
        return shape
    return tuple(min(size, 16 if at == 0 else 8 if at > 1 else size) for at, size in enumerate(shape))


def _cases():
    for name, op_class in catalogue.load().items():
        if name in SUMS or not op_class.implementation_names():
            continue
        dtypes = [dtype for case in op_class.CASES for dtype in case.dtypes.values()]
        for dtype in DTYPES:
            found = next((case for case in op_class.CASES if set(case.dtypes.values()) == {dtype}), None)
            if dtype in dtypes and found is not None:
                yield pytest.param(name, dtype, id=f"{name}-{dtype}")


@functools.cache
def _expected(name, dtype):
    """What the op's reference gives on few elements, and what is wanted; None where that is not floating-point."""
    op_class = catalogue.load()[name]
    case = next(case for case in op_class.CASES if set(case.dtypes.values()) == {dtype})
    if all(tensor.values is None for tensor in case.tensors):
        tensors = (dataclasses.replace(tensor, shape=_smaller(name, tensor.shape)) for tensor in case.tensors)
        case = dataclasses.replace(case, tensors=tuple(tensors))
    row = timing.Row(op_class, case, torch.device("cpu"))
    expected, inputs = row.expected(), row.inputs
    op = workloads.construct(op_class, case, target=op_class.implementation_names()[0])
    returned = op(**inputs.clone())
    output = returned[0] if isinstance(returned, tuple) else returned
    wanted = next(iter(expected.outputs.values()))
    return (output, wanted) if output.is_floating_point() and output.shape == wanted.tensor.shape else None


def _without_the_smallest(output, share):
    """That share of the elements that are not 0 is zeroed, the smallest ones."""
    wrong = output.clone()
    sizes = wrong.reshape(-1).abs().to(torch.float64)
    order = torch.where(sizes == 0, math.inf, sizes).argsort()
    wrong.view(-1)[order[: math.ceil(share * int((sizes > 0).sum()))]] = 0
    return wrong


@pytest.mark.parametrize(("name", "dtype"), list(_cases()))
def test_the_smallest_elements_may_not_be_dropped(name, dtype):
    found = _expected(name, dtype)
    if found is None:
        pytest.skip("the result holds no floating-point numbers")
    output, wanted = found
    correctness._check_tensor("output", output, wanted)
    correctness._check_tensor("output", wanted.tensor.to(output.dtype), wanted)
    with pytest.raises(WrongResultError, match="output"):
        correctness._check_tensor("output", _without_the_smallest(output, 0.01), wanted)


# ---- roundings that an honest implementation may choose


def _own(name, dtype, compute):
    """The result of a computation on an op's own inputs, held against what is wanted of it."""
    op_class = catalogue.load()[name]
    case = next(case for case in op_class.CASES if set(case.dtypes.values()) == {dtype})
    if name != "GEMMFwdOp":
        tensors = (dataclasses.replace(tensor, shape=_smaller(name, tensor.shape)) for tensor in case.tensors)
        case = dataclasses.replace(case, tensors=tuple(tensors))
    inputs = RowInputs(op_class, case, torch.device("cpu"))
    wanted = next(iter(bench_expected.expect(op_class, case, inputs.tensors).outputs.values()))
    correctness._check_tensor("output", compute(*inputs.tensors.values()), wanted)


def _gemm_in_parts(a, b):
    """Split in four along the summed dimension, each part rounded."""
    first, *others = (x @ y for x, y in zip(a.chunk(4, dim=1), b.chunk(4, dim=0), strict=True))
    return sum(others, first)


def _silu_and_mul_step_by_step(x):
    gate, up = x.chunk(2, dim=-1)
    return gate * torch.sigmoid(gate) * up


def _lerp_step_by_step(start, end):
    return start + (end - start) * 0.5


def _rms_norm_step_by_step(x, weight):
    scale = torch.rsqrt(x.float().square().mean(dim=-1, keepdim=True) + 1e-6).to(x.dtype)
    return x * scale * weight


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("name", "compute"),
    [
        ("GEMMFwdOp", _gemm_in_parts),
        ("SiLUAndMulFwdOp", _silu_and_mul_step_by_step),
        ("LerpScalarFwdOp", _lerp_step_by_step),
        ("RMSNormFwdOp", _rms_norm_step_by_step),
    ],
)
def test_intermediate_results_may_be_rounded(name, compute, dtype):
    _own(name, dtype, compute)


@pytest.mark.parametrize("name", ["ExpFwdOp", "SinFwdOp", "TanhFwdOp", "SiLUFwdOp", "LogFwdOp", "GELUFwdOp"])
def test_float32_may_be_computed_with_approximate_instructions(name):
    """Off by up to 4 steps of its size, as exp, and by 2^-22 whatever its size, as sine and the logarithm."""
    output, wanted = _expected(name, "float32")
    near = wanted.tensor * (1 + 2**-21 * (2 * torch.rand(output.shape) - 1)) + 2**-22 * torch.randn(output.shape).sign()
    correctness._check_tensor("output", near.to(torch.float32), wanted)


def _float32_case(op_class):
    """The first row in float32 whose shapes may be made smaller: no metadata says what they are. None if there is none."""
    for case in op_class.CASES:
        if set(case.dtypes.values()) == {"float32"} and all(tensor.values is None for tensor in case.tensors):
            return case
    return None


def _float32_ops():
    products = {"GEMMFwdOp", "GQADenseFwdOp"} | CONVOLUTIONS
    return [name for name, made in catalogue.load().items() if name not in products and _float32_case(made)]


@pytest.mark.parametrize("name", _float32_ops())
def test_float32_work_in_half_precision_is_wrong(name):
    op_class = catalogue.load()[name]
    case = _float32_case(op_class)
    tensors = (dataclasses.replace(tensor, shape=_smaller(name, tensor.shape)) for tensor in case.tensors)
    case = dataclasses.replace(case, tensors=tuple(tensors))
    inputs = RowInputs(op_class, case, torch.device("cpu"))
    wanted = next(iter(bench_expected.expect(op_class, case, inputs.tensors).outputs.values()))
    if not wanted.tensor.is_floating_point():
        pytest.skip("the result holds no floating-point numbers")
    op = workloads.construct(op_class, case, target=op_class.implementation_names()[0])
    call = op.check(**inputs.lend())
    function = op.select(call).function
    # A reduction's operands are rounded, its sums are not: that is the least that work in half precision costs.
    in_half = torch.Tensor.half if op.ARITHMETIC == "elementwise" else lambda one: one.half().float()
    halves = [
        in_half(one) if one is not None and one.dtype == torch.float32 else one for one in inputs.clone().values()
    ]
    found, exact = (
        (returned[0] if isinstance(returned, tuple) else returned).float()
        for returned in (function(op, call, *halves), function(op, call, *inputs.clone().values()))
    )
    if torch.equal(found, exact):
        pytest.skip("half precision gives the same numbers")
    with pytest.raises(WrongResultError, match="output"):
        correctness._check_tensor("output", found, wanted)


def test_what_a_device_flushes_to_zero_is_not_wrong():
    fine = torch.cat([torch.full((500,), 1e-39), torch.randn(500).abs().add(1)]).to(torch.float64)
    noise = bench_noise.measured(fine, fine.to(torch.float32), fine)
    flushed = torch.where(fine < 2**-126, 0.0, fine)
    for dtype, tolerance in ((torch.float32, 1e-3), (torch.bfloat16, 1.6e-2)):
        assert correctness.wrong_elements(flushed.to(dtype), Wanted(tensor=fine, noise=noise), tolerance) == 0
    assert bench_noise.smallest(torch.float16) == 2**-24  # not flushed anywhere
    larger = torch.where(fine < 1, 1e-37, fine)
    wrong = correctness.wrong_elements(flushed.to(torch.float32), Wanted(tensor=larger, noise=noise), 1e-3)
    assert wrong == 500


def test_an_element_is_allowed_the_errors_of_its_neighbours_and_of_its_size_whichever_is_less():
    fine = torch.tensor([1.0, 2.0, 4.0, 8.0])[torch.arange(1024) * 5 // 3 % 4]  # no power of two apart
    moved = fine * (1 + 2**-8)
    noise = bench_noise.measured(fine, fine + 0.01, moved)
    assert noise.blocks.tolist() == pytest.approx([0.01] * 4, rel=1e-3)
    assert noise.of(slice(0, 1024), fine).tolist() == pytest.approx([0.01] * 1024, rel=1e-3)  # 0.01 to 0.03 by size
    exact = bench_noise.measured(fine, moved, moved)
    assert exact.of(slice(0, 1024), fine).tolist() == pytest.approx((fine / 256).tolist(), rel=1e-3)


def test_where_moved_inputs_leave_the_domain_the_neighbours_count_alone():
    fine = torch.linspace(0.001, 1, 1024)
    moved = torch.where(fine < 0.01, math.nan, fine)
    noise = bench_noise.measured(fine, fine + 0.01, moved)
    assert noise.errors[0] == math.inf
    assert noise.of(slice(0, 1024), fine)[:8].tolist() == pytest.approx([0.01] * 8, rel=1e-3)


def test_without_memory_for_moved_inputs_the_neighbours_count_alone(monkeypatch):
    """Only they tell that parts of a product may be rounded."""
    monkeypatch.setattr(bench_noise, "moved", lambda *args, **kwargs: _no_memory())
    _own("GEMMFwdOp", "bfloat16", _gemm_in_parts)


def _no_memory():
    raise MemoryError


def test_moved_values_are_off_by_half_a_step_at_most_and_leave_the_random_state_alone():
    values = torch.randn(10_000)
    for dtype in (torch.bfloat16, torch.float16):
        given = values.to(dtype)
        before = torch.get_rng_state()
        change = ((bench_noise.moved(given, seed=7) - given.float()) / given.float()).abs()
        assert torch.equal(torch.get_rng_state(), before)
        assert 0.9 * torch.finfo(dtype).eps / 2 < float(change.max()) <= 1.001 * torch.finfo(dtype).eps / 2
        assert torch.equal(bench_noise.moved(given, seed=7), bench_noise.moved(given, seed=7))
