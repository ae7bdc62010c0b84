"""Tensors that positions alone determine, and gated ops, against their definitions in float64; dropout against its
generator.
"""

import functools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tileops.ops.families import position_ops
from tileops.ops.families.elementwise import AlibiFwdOp, DropoutFwdOp, GELUAndMulFwdOp, SiLUAndMulFwdOp, SinusoidalFwdOp
from tileops.ops.kernels.elementwise import philox
from tileops.tests.ops.comparing import DTYPES, assert_near

TARGETS = ["torch", "triton"]


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


# ---- positions


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length, heads", [(5, 4), (33, 3), (1, 1), (0, 3), (4, 0)])
def test_alibi(length, heads, dtype, target):
    exact = torch.empty(heads, length, length, dtype=torch.float64)
    for head in range(heads):
        for i in range(length):
            for j in range(length):
                exact[head, i, j] = -position_ops.alibi_slopes(heads)[head] * abs(i - j)
    assert_near(AlibiFwdOp(length, heads, dtype, target=target)(), exact)


def test_slopes_of_heads_that_are_no_power_of_two_interleave_the_longer_sequence():
    assert position_ops.alibi_slopes(8) == [2.0**-k for k in range(1, 9)]
    assert position_ops.alibi_slopes(12) == position_ops.alibi_slopes(8) + position_ops.alibi_slopes(16)[0:8:2]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length, width", [(40, 6), (3, 257), (1, 1), (0, 3), (4, 0)])
def test_sinusoidal(length, width, dtype, target):
    exact = torch.empty(length, width, dtype=torch.float64)
    for position in range(length):
        for column in range(width):
            angle = position / 10000.0 ** (2 * (column // 2) / width)
            exact[position, column] = (math.cos if column % 2 else math.sin)(angle)
    assert_near(SinusoidalFwdOp(length, width, dtype, target=target)(), exact)


def test_sinusoidal_far_out_keeps_float32_accuracy():
    found = SinusoidalFwdOp(2050, 2, torch.float32, target="triton")()[-16:]
    exact = SinusoidalFwdOp(2050, 2, torch.float32, target="torch")()[-16:]
    torch.testing.assert_close(found, exact, rtol=0, atol=1e-6)


# ---- gated


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 2), (3, 258), (2, 3, 254), (300, 2), (0, 4), (2, 0)])
@pytest.mark.parametrize(
    "op, activation",
    [
        (SiLUAndMulFwdOp, F.silu),
        (GELUAndMulFwdOp, F.gelu),
        (functools.partial(GELUAndMulFwdOp, approximate="tanh"), functools.partial(F.gelu, approximate="tanh")),
    ],
)
def test_gated(op, activation, shape, dtype, target):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    gate, up = x.double().chunk(2, dim=-1)
    assert_near(op(target=target)(x), activation(gate) * up)


def test_gated_of_a_view():
    x = torch.randn(129, 6)[:, ::2].repeat(1, 2).T.contiguous().T
    assert not x.is_contiguous()
    gate, up = x.double().chunk(2, dim=-1)
    assert_near(SiLUAndMulFwdOp(target="triton")(x), F.silu(gate) * up)


def test_float64_is_gated_in_float64_by_the_reference():
    x = torch.randn(3, 8, dtype=torch.float64)
    gate, up = x.chunk(2, dim=-1)
    assert torch.equal(GELUAndMulFwdOp()(x), F.gelu(gate) * up)
    assert "triton" not in GELUAndMulFwdOp().serving(GELUAndMulFwdOp().check(x))


# ---- dropout


def test_the_generator_gives_the_published_words():
    """Known answers of the authors' Random123 for Philox 4x32-10."""
    assert philox.words(0, 4, "cpu").tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox.words(7, 6, "cpu")[:4].tolist() == philox.words(7, 4, "cpu").tolist()
    assert not torch.equal(philox.words(7, 8, "cpu"), philox.words(2**32 + 7, 8, "cpu"))


def _philox(counter, key):
    """The cipher as its authors state it, in Python's integers: words of a counter, of a key, the least significant
    first.
    """
    for _ in range(10):
        left, right = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
        counter = [right >> 32 ^ counter[1] ^ key[0], right % 2**32, left >> 32 ^ counter[3] ^ key[1], left % 2**32]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return counter


def test_counters_and_keys_beyond_32_bits_take_their_second_words():
    assert _philox([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2) == [
        0x408F276D,
        0x41C83B0E,
        0xA20BC7C6,
        0x6D5451FD,
    ]  # published too
    counters = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40 + 5, 2**62]
    for seed in (0, 2**31, 2**32 + 7, 2**63 - 1):
        wanted = [_philox([one % 2**32, one >> 32, 0, 0], [seed % 2**32, seed >> 32]) for one in counters]
        assert philox.blocks(seed, torch.tensor(counters)).tolist() == wanted


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (127,), (129,), (4097,), (3, 5, 7)])
@pytest.mark.parametrize("p, seed", [(0.5, 0), (0.1, 2**40 + 1), (1.0, 3)])
def test_the_dropout_kernel_drops_what_the_reference_drops(shape, dtype, p, seed):
    x = torch.randn(shape).add(3.0).to(dtype)
    expected = DropoutFwdOp(p, seed=seed, target="torch")(x)
    found = DropoutFwdOp(p, seed=seed, target="triton")(x)
    assert torch.equal(found == 0, expected == 0)
    assert_near(found, torch.where(expected == 0, 0.0, x.double() / (1 - p if p < 1 else 1)))


@pytest.mark.parametrize("target", TARGETS)
def test_dropout_keeps_the_share_and_the_expected_value(target):
    x = torch.ones(8192)
    for p in (0.1, 0.5):
        found = DropoutFwdOp(p, seed=1, target=target)(x)
        assert (found == 0).float().mean().sub(p).abs() < 0.02
        assert found.mean().sub(1).abs() < 0.05


def test_dropout_of_a_view_drops_by_place_and_seeds_differ():
    x = torch.randn(64, 33)
    assert torch.equal(DropoutFwdOp(target="triton")(x.T), DropoutFwdOp(target="triton")(x.T.contiguous()))
    assert not torch.equal(DropoutFwdOp(seed=1)(x) == 0, DropoutFwdOp(seed=2)(x) == 0)


@pytest.mark.parametrize("params", [{"training": False}, {"p": 0.0}])
def test_dropout_that_drops_nothing_is_a_copy(params):
    x = torch.randn(5, 7)
    found = DropoutFwdOp(**params)(x)
    assert torch.equal(found, x) and found.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("params", [{}, {"p": 1.0}, {"p": 0.0}, {"training": False}])
def test_dropout_in_place_returns_its_input(params, target):
    if target == "triton" and (params.get("p") == 0.0 or not params.get("training", True)):
        pytest.skip("left to the reference")
    for x in (torch.randn(64, 33), torch.randn(33, 64).T):
        expected = DropoutFwdOp(**params, target="torch")(x)
        assert DropoutFwdOp(**params, inplace=True, target=target)(x) is x
        assert torch.equal(x, expected)


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_dropped_was_multiplied_by_zero(target):
    """As PyTorch does: NaN and infinities that are dropped become NaN."""
    found = DropoutFwdOp(1.0, target=target)(torch.tensor([1.0, torch.inf, torch.nan]))
    assert found[0] == 0 and found[1:].isnan().all()
