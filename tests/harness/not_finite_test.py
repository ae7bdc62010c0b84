"""Infinities and NaN of a result are right only where the reference has the same, by position, sign and kind."""

import math

import pytest
import torch

from tileops.perf.clock.measurement import Budget
from tileops.perf.harness import correctness, timing
from tileops.perf.harness import noise as bench_noise
from tileops.perf.harness.expected import Wanted, WrongResultError
from tileops.proto import benchmark_pb2
from tileops.tests.harness import toys

BUDGET = Budget(warmup_s=0.0, measure_s=0.0)


def _check(found, reference, **known):
    return correctness._check_tensor("output", found, Wanted(tensor=reference, **known))


def _normal(count=1000):
    return torch.randn(count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_same_kinds_at_the_same_places_are_right_and_others_are_not(dtype):
    reference = _normal()
    reference[3], reference[500], reference[999] = math.inf, -math.inf, math.nan
    right = reference.to(dtype)
    assert _check(right, reference) <= correctness.TOLERANCE[str(dtype).removeprefix("torch.")]
    for place, value, said in (
        (3, -math.inf, r"it is -inf at \[3\], where the reference \(inf\) is inf"),
        (3, math.nan, r"it is NaN at \[3\], where the reference \(inf\) is inf"),
        (500, 1.0, r"it is finite at \[500\], where the reference \(-inf\) is -inf"),
        (999, math.inf, r"it is inf at \[999\], where the reference \(nan\) is NaN"),
        (7, math.nan, r"it is NaN at \[7\], where the reference \(.*\) is finite"),
        (7, math.inf, r"it is inf at \[7\], where the reference \(.*\) is finite"),
    ):
        wrong = right.clone()
        wrong[place] = value
        with pytest.raises(WrongResultError, match=f"output has a relative error of inf: {said}"):
            _check(wrong, reference)


def test_what_is_finite_beside_infinities_is_compared_as_ever():
    reference = _normal(100_000)
    reference[::10] = -math.inf
    right = reference.to(torch.bfloat16)
    coarse = right.clone()
    noise = bench_noise.measured(reference, coarse, coarse)
    assert bool(noise.errors.isfinite().all()) and float(noise.errors.max()) < 0.05
    _check(right, reference, noise=noise)
    with pytest.raises(WrongResultError, match="relative error of 0.0"):
        _check((reference * 1.05).to(torch.bfloat16), reference, noise=noise)
    with pytest.raises(WrongResultError, match="too large by 0.0"):
        _check((reference * 1.01).to(torch.bfloat16), reference, noise=noise)


def test_chunks_are_settled_each(monkeypatch):
    monkeypatch.setattr(bench_noise, "CHUNK", 256)
    reference = _normal().view(10, 100)
    reference[9, 99] = math.nan
    _check(reference.float(), reference)
    wrong = reference.float()
    wrong[9, 98] = math.nan
    with pytest.raises(WrongResultError, match=r"it is NaN at \[9, 98\]"):
        _check(wrong, reference)


def test_results_beyond_the_dtype_are_infinite_and_either_near_its_border():
    largest = 65504.0
    reference = torch.tensor([1.0, 65510.0, -65515.0, 70000.0, -1e6], dtype=torch.float32)
    _check(torch.tensor([1.0, largest, -largest, math.inf, -math.inf]).half(), reference)
    _check(torch.tensor([1.0, math.inf, -math.inf, math.inf, -math.inf]).half(), reference)
    with pytest.raises(
        WrongResultError, match=r"it is finite at \[3\], where the reference \(70000\) is inf in float16"
    ):
        _check(torch.tensor([1.0, largest, -largest, largest, -math.inf]).half(), reference)
    with pytest.raises(
        WrongResultError, match=r"it is inf at \[0\], where the reference \(60000\) is finite in float16"
    ):
        _check(torch.tensor([math.inf]).half(), torch.tensor([60000.0]))


# ---- rows


def _record(reference, implementation, label="small"):
    """Of an implementation of a toy op whose reference is given, as functions of x."""
    base = toys.load("implementations")["ScaleFwdOp"]
    own = type("ScaleFwdOp", (base,), {})
    own.register("torch", lambda op, call, x: reference(x))
    own.register("mine", lambda op, call, x: implementation(x))
    row = timing.Row(own, toys.case(own, label), torch.device("cpu"))
    records = [row.run(name, BUDGET) for name in ("torch", "mine")]
    assert records[0].status == benchmark_pb2.STATUS_OK, records[0].message
    return records[1]


def _masked(x):
    return torch.where(x > 1, -math.inf, x)


def _log_of_sums_some_empty(x):
    return torch.where(x[:, :1] > 0, torch.logsumexp(x, dim=1, keepdim=True), -math.inf).expand(x.shape).contiguous()


def _overflows(x):
    return x * 60000.0


@pytest.mark.parametrize(
    ("reference", "label"),
    [(_masked, "small"), (_masked, "middle"), (_log_of_sums_some_empty, "small"), (_overflows, "middle")],
)
def test_an_op_whose_right_result_is_not_all_finite_is_measured(reference, label):
    honest = _record(reference, lambda x: reference(x).clone(), label)
    assert honest.status == benchmark_pb2.STATUS_OK, honest.message
    assert honest.correctness.checked and honest.HasField("timing")
    for wrong in (lambda x: reference(x).nan_to_num(), lambda x: reference(x).nan_to_num(neginf=math.inf)):
        record = _record(reference, wrong, label)
        assert record.status == benchmark_pb2.STATUS_ERROR and "where the reference" in record.message, record.message


def test_the_largest_number_for_infinity_is_wrong():
    record = _record(_masked, lambda x: torch.where(x > 1, -torch.finfo(x.dtype).max, x))
    assert record.status == benchmark_pb2.STATUS_ERROR and "it is finite at" in record.message
