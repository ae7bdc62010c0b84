"""What Triton's interpreter cannot tell of elementwise kernels, on a GPU: bfloat16, exact remainders and powers."""

from __future__ import annotations

import os

import pytest
import torch

from tileops.ops.kernels.elementwise.table import ACTIVATIONS, UNARY
from tileops.tests.ops.comparing import TOLERANCE, assert_rounded, assert_zeros_have_the_same_sign
from tileops.tests.ops.elementwise_calls import CLASSES, OVERFLOWING, dtypes, exact, settings

if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("kernels are interpreted in this process; run this file alone", allow_module_level=True)
pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU, for the interpreter rounds bfloat16 otherwise"
)

_EXACT = (
    "AbsFwdOp",
    "NegFwdOp",
    "SignFwdOp",
    "FloorFwdOp",
    "CeilFwdOp",
    "TruncFwdOp",
    "LogicalNotFwdOp",
    "IsnanFwdOp",
    "IsinfFwdOp",
    "IsfiniteFwdOp",
    "NanToNumFwdOp",
    "ReLUFwdOp",
    "HardtanhFwdOp",
)
# Good to so much absolutely: they add what cancels, reduce an angle, or divide by an exponential that overflows.
_ABSOLUTE = {"GELUFwdOp": 1e-6, "SinFwdOp": 1e-6, "CosFwdOp": 1e-6, "SiLUFwdOp": 1e-36}
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _on_gpu(op, params, *given):
    return CLASSES[op](**params, target="triton")(*(one.cuda() for one in given)).cpu()


def _every_bfloat16():
    return torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)


@pytest.mark.parametrize("op", [op for op in (*UNARY, *ACTIVATIONS) if {"input": torch.bfloat16} in dtypes(op)])
def test_every_value_of_bfloat16(op):
    x = _every_bfloat16()
    for some in settings(op):
        params = some.params
        exact = CLASSES[op](**params, target="torch")(x.float() if op in OVERFLOWING else x.double())
        if op == "NanToNumFwdOp":  # whose defaults are the limits of the dtype
            exact = CLASSES[op](**params, target="torch")(x)
        exact = exact.to(torch.bfloat16) if exact.dtype.is_floating_point else exact
        found = _on_gpu(op, params, x)
        if op in _EXACT:
            torch.testing.assert_close(found, exact, rtol=0, atol=0, equal_nan=True)
        else:  # the hardware's exp2 and log2 take subnormals of float32, which those of bfloat16 are, for 0
            assert_rounded(found, exact, _ABSOLUTE.get(op, torch.finfo(torch.bfloat16).tiny))
        if exact.dtype.is_floating_point:
            normal = (x.abs() >= torch.finfo(torch.bfloat16).tiny) | (x == 0)
            assert_zeros_have_the_same_sign(found[normal], exact[normal])


@pytest.mark.parametrize(
    "op", ["AddFwdOp", "SubFwdOp", "MulFwdOp", "MaximumFwdOp", "MinimumFwdOp", "EqFwdOp", "LtFwdOp"]
)
@pytest.mark.parametrize("whole", _INTEGERS, ids=str)
def test_integers_meet_bfloat16_rounded_to_the_nearest(op, whole):
    limits = torch.iinfo(whole)
    steps = torch.linspace(max(limits.min, -(2**30)), min(limits.max, 2**30), 4001, dtype=torch.float64).to(whole)
    numbers = torch.cat([steps, torch.arange(max(limits.min, -600), min(limits.max, 600)).to(whole)])
    others = torch.linspace(-3, 3, numbers.numel()).bfloat16()
    for given in ((numbers, others), (others, numbers)):
        torch.testing.assert_close(_on_gpu(op, {}, *given), exact(op, {}, given), rtol=0, atol=0)


@pytest.mark.parametrize(
    "op", ["SqrtFwdOp", "RsqrtFwdOp", "FloorFwdOp", "CeilFwdOp", "NegFwdOp", "AbsFwdOp", "SignFwdOp"]
)
def test_subnormals_of_float32_are_numbers_like_others(op):
    x = torch.tensor([0.0, 1e-45, 1e-40, 1.1e-38]).repeat(2)
    x[:4] *= -1
    exact = CLASSES[op](target="torch")(x.double()).float()
    found = _on_gpu(op, {}, x)
    torch.testing.assert_close(found, exact, rtol=1e-6, atol=0, equal_nan=True)
    assert_zeros_have_the_same_sign(found, exact)


@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
def test_a_subnormal_divisor_divides(mode):
    x, y = torch.tensor([0.0, 3e-40, -3e-40, 1.0]), torch.tensor([1e-40, -1e-40, 2e-40, 1e-38])
    exact = torch.div(x.double(), y.double(), rounding_mode=mode).float()
    torch.testing.assert_close(_on_gpu("DivFwdOp", {"rounding_mode": mode}, x, y), exact, rtol=1e-6, atol=0)
    if mode == "floor":
        torch.testing.assert_close(_on_gpu("FloorDivideFwdOp", {}, x, y), exact, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_remainder_of_subnormals_and_by_them_is_a_number(dtype):
    limits = torch.finfo(dtype)
    least, tiny = limits.smallest_normal * limits.eps, limits.tiny
    sizes = torch.tensor(
        [0.0, least, 3 * least, 0.4 * tiny, tiny - least, tiny, 1.5 * tiny, 2e-4, 0.7, 3.0, 1e4, limits.max, torch.inf]
    )
    every = torch.cat([sizes.to(dtype), -sizes.to(dtype)])
    x, y = torch.meshgrid(every, every, indexing="ij")
    exact = torch.remainder(x.double(), y.double()).to(dtype)
    found = _on_gpu("RemainderFwdOp", {}, x, y)
    torch.testing.assert_close(found, exact, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(
        found, torch.remainder(x.cuda(), y.cuda()).cpu(), rtol=limits.eps, atol=0, equal_nan=True
    )
    assert not found[:, 1:12].isnan()[:12].any()


def test_subnormals_of_bfloat16_are_added_and_multiplied():
    x = _every_bfloat16()
    small = x[(x.abs() < 8 * torch.finfo(x.dtype).tiny) & (x != 0)]
    for op, other in (
        ("AddFwdOp", small.flip(0)),
        ("SubFwdOp", small.flip(0)),
        ("MulFwdOp", torch.full_like(small, 0.75)),
    ):
        exact = CLASSES[op](target="torch")(small.double(), other.double()).to(torch.bfloat16)
        torch.testing.assert_close(_on_gpu(op, {}, small, other), exact, rtol=0, atol=0)


def _large_quotients():
    stream = torch.Generator().manual_seed(0)
    x = torch.randn(20000, generator=stream) * 10.0 ** torch.randint(0, 38, (20000,), generator=stream)
    y = torch.randn(20000, generator=stream) * 10.0 ** torch.randint(-10, 3, (20000,), generator=stream)
    return x.clamp(-3e38, 3e38), y


def test_the_remainder_of_a_large_quotient_is_exact():
    x, y = _large_quotients()
    exact = torch.remainder(x.double(), y.double())  # fmod loses nothing
    torch.testing.assert_close(_on_gpu("RemainderFwdOp", {}, x, y).double(), exact, rtol=1e-6, atol=0)


@pytest.mark.parametrize("op, params", [("FloorDivideFwdOp", {}), ("DivFwdOp", {"rounding_mode": "floor"})])
def test_a_large_quotient_is_rounded_down_as_pytorch_rounds_it(op, params):
    x, y = _large_quotients()
    expected = torch.floor(
        x.double() / y.double()
    ).float()  # exact below 2**22, where float32 leaves 2**-45 to a whole number
    found = _on_gpu(op, params, x, y)
    is_exact = expected.abs() < 2**22  # beyond, PyTorch rounds what it divides
    assert torch.equal(found[is_exact], expected[is_exact])
    torch.testing.assert_close(found, expected, rtol=TOLERANCE[torch.float32] / 10, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_powers_of_whole_numbers_are_exact_in_float32_and_within_a_rounding_of_16_bits(dtype):
    base = torch.arange(-49, 50).to(dtype)
    for exponent in (-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0):
        exact = torch.pow(base.double(), exponent).to(dtype)
        found = _on_gpu("PowFwdOp", {}, base, torch.full_like(base, exponent))
        assert_rounded(found, exact)
        if dtype == torch.float32 and exponent >= 0:
            assert torch.equal(found, exact)


def test_a_power_near_one_to_a_large_exponent_keeps_its_digits():
    base = torch.tensor([1.001, 0.999, 1.01, 0.99, 1.0009765625]).half()
    exponent = torch.tensor([10000.0, 5000.0, 1000.0, 500.0, 8000.0]).half()
    exact = torch.pow(base.double(), exponent.double()).half()
    assert_rounded(_on_gpu("PowFwdOp", {}, base, exponent), exact)
