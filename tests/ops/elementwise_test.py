"""Elementwise and reduction ops: references and interpreted Triton kernels against float64."""

import itertools

import pytest
import torch

from tileops.ops.families.elementwise import AddFwdOp
from tileops.ops.families.reduction import SumFwdOp
from tileops.ops.kernels import support
from tileops.ops.kernels.reduction import folds
from tileops.tests.ops.comparing import DTYPES, assert_near

TARGETS = ["torch", "triton"]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


# ---- add


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "first, second",
    [
        ((), ()),
        ((127,), (127,)),
        ((), (5,)),
        ((3, 1), (1, 4)),
        ((2, 3, 129), (3, 1)),
        ((2, 5, 4, 4), (5, 1, 1)),
        ((2, 3, 4, 5, 6), (2, 1, 4, 1, 6)),
        ((2, 1, 2, 1, 2, 1), (1, 3, 1, 3, 1, 3)),  # more axes than the kernel decodes
        ((4, 0), (1,)),
    ],
)
def test_add_broadcasts_both_sides(first, second, dtype, target):
    a, b = torch.randn(first).to(dtype), torch.randn(second).to(dtype)
    assert_near(AddFwdOp(target=target)(a, b), a.double() + b.double())
    assert_near(AddFwdOp(alpha=-0.5, target=target)(a, b), a.double() - 0.5 * b.double())


def test_add_walks_strides():
    a, b = torch.randn(65, 33).T, torch.randn(33, 130)[:, ::2]
    assert_near(AddFwdOp(target="triton")(a, b), a.double() + b.double())
    a, b = torch.randn(7).expand(5, 7), torch.randn(9, 5, 1)
    assert_near(AddFwdOp(target="triton")(a, b), a.double() + b.double())


@pytest.mark.parametrize("rows, cols", [(1, 1), (1, 14336), (4096, 3136), (1 << 20, 3), (1024, 784), (5, 257)])
def test_a_tile_covers_its_grid_with_few_idle_lanes(rows, cols):
    tile_rows, tile_cols, warps = support.elementwise_tile(rows, cols)
    for side in (tile_rows, tile_cols, warps):
        assert side == support.power_of_two(side)
    assert tile_rows * tile_cols <= 2048
    padded = support.ceil_div(cols, tile_cols) * tile_cols
    assert padded < 2 * cols and (cols < 2048 or padded <= cols * 1.125)


# ---- sum


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(3,), (129, 127), (2, 3, 4), (1, 5, 1), (2, 3, 2, 3, 2), (0, 3)])
def test_sum_over_every_combination_of_axes(shape, target):
    for count in range(len(shape) + 1):
        for dims in itertools.combinations(range(len(shape)), count):
            x = torch.randn(shape)
            for keepdim in (False, True):
                exact = torch.sum(x.double(), dims, keepdim=keepdim)
                assert_near(SumFwdOp(list(dims), keepdim, target=target)(x), exact, scale=8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape, dims",
    [
        ((2, 1100), (1,)),  # a long row
        ((2, 3, 1100), (0, 2)),  # two reduced groups in one stage
        ((3, 2, 70), (0, 2)),  # and in two
        ((40000,), (0,)),  # split, then added
        ((3, 40000), (1,)),
        ((1200, 129), (0,)),  # columns, split
        ((2, 300, 3), (1,)),
        ((130, 5), (1,)),  # short rows that share a program
    ],
)
def test_sum_stages(shape, dims, dtype):
    x = torch.randn(shape).to(dtype)
    exact = x.double().sum(dims)
    assert_near(SumFwdOp(list(dims), target="triton")(x), exact, scale=max(1.0, x.double().norm().item() / 4))


def test_sum_defaults_to_all_axes_and_takes_negative_ones():
    x = torch.randn(3, 4, 5)
    for target in TARGETS:
        assert_near(SumFwdOp(target=target)(x), x.double().sum(), scale=8)
        assert_near(SumFwdOp(-1, True, target=target)(x), x.double().sum(-1, keepdim=True), scale=8)
        assert_near(SumFwdOp(target=target)(torch.tensor(2.5)), torch.tensor(2.5, dtype=torch.float64))


def test_sum_of_half_precision_is_added_and_returned_in_float32():
    x = torch.full((5000,), 1.001, dtype=torch.bfloat16)
    for target in TARGETS:
        found = SumFwdOp(dtype=torch.float32, target=target)(x)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, x.double().sum().float())


def test_sum_to_a_narrower_type_is_left_to_torch():
    op = SumFwdOp(0, dtype=torch.float16)
    assert "triton" not in op.serving(op.check(torch.ones(3)))
    assert "triton" in op.serving(op.check(torch.ones(3, dtype=torch.float16)))


def test_sum_of_a_view_and_of_nothing():
    x = torch.randn(30, 40).T[::2]
    assert_near(SumFwdOp(0, target="triton")(x), x.double().sum(0), scale=8)
    assert torch.equal(SumFwdOp(1, target="triton")(torch.ones(3, 0)), torch.zeros(3))


def test_a_result_never_aliases_its_input():
    x = torch.ones(1, 4)
    SumFwdOp(0, target="triton")(x).zero_()
    assert x.sum() == 4


def test_sum_parts_adds_in_float32():
    parts = torch.randn(5, 7, 130)
    out = torch.empty(7, 130, dtype=torch.bfloat16)
    folds.sum_parts(parts, out)
    assert_near(out, parts.double().sum(0), scale=4)
