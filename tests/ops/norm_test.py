"""Normalizations: references and interpreted Triton kernels against float64, running statistics included."""

import pytest
import torch
import torch.nn.functional as F

from tileops.ops.errors import OpCallError
from tileops.ops.families.norm import BatchNormFwdOp, RMSNormFwdOp
from tileops.ops.kernels.norm import batch_norm_training
from tileops.tests.ops.comparing import DTYPES, assert_near

TARGETS = ["torch", "triton"]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


# ---- rms norm


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape, normalized",
    [((3, 127), 1), ((129, 1), 1), ((5, 3, 65), 2), ((300, 33), 1), ((2, 4096), 1), ((7,), 1), ((0, 7), 1)],
)
def test_rms_norm(shape, normalized, dtype, target):
    x = torch.randn(shape).to(dtype)
    axes = tuple(range(-normalized, 0))
    exact = x.double() / torch.sqrt(x.double().square().mean(axes, keepdim=True) + 1e-6)
    op = RMSNormFwdOp(list(shape[-normalized:]), target=target)
    assert_near(op(x), exact, scale=4)
    weight = torch.randn(shape[-normalized:]).to(dtype)
    assert_near(op(x, weight), exact * weight.double(), scale=4)


def test_rms_norm_of_a_view_and_with_a_large_eps():
    x = torch.randn(64, 80).T[::2]
    exact = x.double() / torch.sqrt(x.double().square().mean(-1, keepdim=True) + 0.5)
    assert_near(RMSNormFwdOp([64], eps=0.5, target="triton")(x), exact)


def test_a_row_too_long_for_registers_is_left_to_others():
    op = RMSNormFwdOp([32769])
    assert "triton" not in op.serving(op.check(torch.ones(1, 32769)))


# ---- batch norm

SHAPES = [(32, 64), (2, 3), (129, 5), (2, 3, 127), (4, 3, 1, 129), (1, 2, 2), (3, 5, 12, 13)]


def _statistics(channels):
    return torch.randn(channels), torch.rand(channels) + 0.5


def _affine(channels, present):
    return (torch.randn(channels), torch.randn(channels)) if present else (None, None)


def _double(*tensors):
    return [None if tensor is None else tensor.double() for tensor in tensors]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (2, 1, 0), (0, 3, 4)])
def test_batch_norm_inference_leaves_the_statistics_alone(shape, dtype, target):
    x = (torch.randn(shape) * 2 + 3).to(dtype)
    mean, var = _statistics(shape[1])
    weight, bias = _affine(shape[1], shape[0] % 2)
    kept = mean.clone(), var.clone()
    exact = F.batch_norm(*_double(x, mean, var, weight, bias), False, 0.1, 1e-5)
    found, *saved = BatchNormFwdOp(target=target)(x, mean, var, weight, bias)
    assert_near(found, exact, scale=16)
    assert saved == [None, None]
    assert torch.equal(mean, kept[0]) and torch.equal(var, kept[1])


def _check_training(x, target, affine, momentum=0.1, has_running=True):
    mean, var = _statistics(x.shape[1]) if has_running else (None, None)
    weight, bias = _affine(x.shape[1], affine)
    wide = _double(x, mean, var, weight, bias)
    exact = F.batch_norm(*wide, True, momentum, 1e-5)
    op = BatchNormFwdOp(training=True, momentum=momentum, target=target)
    found, save_mean, save_invstd = op(x, mean, var, weight, bias)
    assert_near(found, exact, scale=16)
    axes = (0, *range(2, x.dim()))
    invstd = (wide[0].var(axes, unbiased=False) + 1e-5).rsqrt()
    torch.testing.assert_close(save_mean.double(), wide[0].mean(axes), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(save_invstd.double(), invstd, atol=1e-4, rtol=1e-4)
    if has_running:
        torch.testing.assert_close(mean.double(), wide[1], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(var.double(), wide[2], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm_training_of_channels_held_in_registers(shape, dtype, target):
    _check_training((torch.randn(shape) * 2 + 30).to(dtype), target, affine=shape[0] % 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 2, 130, 129), (40, 3, 500), (5, 4, 60, 61)])
def test_batch_norm_training_streamed(shape, dtype, monkeypatch):
    # Fewer programs at a time, so that the interpreter sees channels measured ahead of those normalized.
    monkeypatch.setattr(batch_norm_training, "MULTIPROCESSORS", 2)
    monkeypatch.setattr(batch_norm_training, "_RESIDENT", 1024)
    _check_training((torch.randn(shape) * 2 + 30).to(dtype), "triton", affine=True, momentum=0.3)


@pytest.mark.parametrize("shape", [(1200, 3), (700, 70)])
def test_batch_norm_training_of_long_columns(shape, monkeypatch):
    monkeypatch.setattr(batch_norm_training, "_RESIDENT", 1024)
    monkeypatch.setattr(batch_norm_training, "MULTIPROCESSORS", 1)
    _check_training(torch.randn(shape) * 2 + 30, "triton", affine=True)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(32, 64), (4, 3, 129), (700, 70), (5, 4, 60, 61)])
def test_batch_norm_training_without_running_statistics(shape, target, monkeypatch):
    monkeypatch.setattr(batch_norm_training, "MULTIPROCESSORS", 2)
    monkeypatch.setattr(batch_norm_training, "_RESIDENT", 2048)
    _check_training(torch.randn(shape) * 2 + 3, target, affine=False, has_running=False)


def test_inference_needs_running_statistics_and_takes_both_or_none():
    x, running = torch.randn(4, 3), torch.ones(3)
    with pytest.raises(OpCallError, match="training or present"):
        BatchNormFwdOp()(x)
    with pytest.raises(OpCallError, match="running_var"):
        BatchNormFwdOp(training=True)(x, running)


def test_variance_survives_a_mean_a_thousand_times_larger():
    _check_training(torch.randn(4, 3, 33) + 1000, "triton", affine=False)


def test_strided_statistics_are_written_where_they_are():
    x = torch.randn(8, 3)
    held = torch.zeros(2, 6)
    mean, var = held[0, ::2], held[1, ::2]
    BatchNormFwdOp(training=True, target="triton")(x, mean, var)
    torch.testing.assert_close(mean, 0.1 * x.mean(0))
    torch.testing.assert_close(held[1, ::2], 0.1 * x.var(0))
    assert not held[:, 1::2].any()


def test_a_channel_of_one_element_has_no_variance():
    with pytest.raises(ValueError, match="variance"):
        batch_norm_training.batch_norm_training(torch.ones(1, 3), torch.zeros(3), torch.ones(3), None, None, 0.1, 1e-5)
