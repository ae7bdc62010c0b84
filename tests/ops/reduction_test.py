"""Reductions to one number: references and the interpreted Triton kernel against float64."""

import itertools
import math

import pytest
import torch

from tileops.ops import catalogue
from tileops.ops.errors import OpError
from tileops.tests.ops.comparing import DTYPES, assert_near

OPS = catalogue.load()
TARGETS = ["torch", "triton"]
NAN, INF = math.nan, math.inf
# (entry, parameters, the same in float64: (x, axes, keepdim) -> the result).
FOLDS = [
    ("MeanFwdOp", {}, lambda x, axes, keepdim: x.mean(axes, keepdim=keepdim)),
    ("AmaxFwdOp", {}, lambda x, axes, keepdim: x.amax(axes, keepdim=keepdim)),
    ("AminFwdOp", {}, lambda x, axes, keepdim: x.amin(axes, keepdim=keepdim)),
    ("VectorNormFwdOp", {"ord": 1}, lambda x, axes, keepdim: x.abs().sum(axes, keepdim=keepdim)),
    ("VectorNormFwdOp", {}, lambda x, axes, keepdim: x.square().sum(axes, keepdim=keepdim).sqrt()),
    ("VectorNormFwdOp", {"ord": INF}, lambda x, axes, keepdim: x.abs().amax(axes, keepdim=keepdim)),
]
MEAN, *_ = FOLDS
EXTREMES = FOLDS[1:3]
each_fold = pytest.mark.parametrize("entry, params, exact", FOLDS, ids=lambda one: one if isinstance(one, str) else "")


def _normal(shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (1, 5, 1), (2, 1, 2, 3)])
@each_fold
def test_every_set_of_axes(entry, params, exact, shape, target):
    x = _normal(shape)
    every = tuple(range(len(shape)))
    for count in range(len(shape) + 1):
        for axes in itertools.combinations(every, count):
            for keepdim in (False, True):
                found = OPS[entry](dim=list(axes), keepdim=keepdim, **params, target=target)(x)
                assert_near(found, exact(x.double(), axes or every, keepdim))  # no axes are all
    assert_near(OPS[entry](**params, target=target)(x), exact(x.double(), every, False))
    assert_near(OPS[entry](dim=-1, **params, target=target)(x), exact(x.double(), -1, False))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape, axes",
    [
        ((3, 129), (1,)),
        ((2, 4097), (1,)),  # a long row
        ((2, 3, 1100), (0, 2)),  # two reduced groups in one stage
        ((3, 2, 70), (0, 2)),  # and in two
        ((33000,), (0,)),  # split, then folded
        ((1200, 3), (0,)),  # columns, split
    ],
)
@each_fold
def test_stages(entry, params, exact, shape, axes, dtype):
    x = _normal(shape, dtype)
    for target in TARGETS:
        found = OPS[entry](dim=list(axes), **params, target=target)(x)
        assert found.dtype == dtype
        assert_near(found, exact(x.double(), axes, False))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(5, 3), (2, 1100)])
@each_fold
def test_nan_and_infinities_enter_the_results_that_they_contribute_to(entry, params, exact, shape, target):
    for values in ([NAN], [INF], [-INF], [INF, -INF], [INF, NAN], [-0.0]):
        x = _normal(shape)
        x[: len(values), -1] = torch.tensor(values)
        for axes in ((0,), (1,)):
            found = OPS[entry](dim=list(axes), **params, target=target)(x)
            torch.testing.assert_close(
                found.double(), exact(x.double(), axes, False), rtol=2e-5, atol=1e-6, equal_nan=True
            )


@pytest.mark.parametrize("target", TARGETS)
def test_a_mean_in_half_precision_does_not_overflow_and_is_rounded_once(target):
    x = torch.full((3, 1000), 60000.0, dtype=torch.float16)
    assert torch.equal(OPS["MeanFwdOp"](-1, target=target)(x), torch.full((3,), 60000.0, dtype=torch.float16))
    x = _normal((3, 1000), torch.bfloat16)
    found = OPS["MeanFwdOp"](-1, dtype=torch.float32, target=target)(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), x.double().mean(-1), rtol=1e-5, atol=1e-6)


def test_the_largest_and_the_smallest_value_are_exact_in_every_dtype():
    for (entry, _, exact), dtype, target in itertools.product(EXTREMES, DTYPES, TARGETS):
        tiny, most = torch.finfo(dtype).smallest_normal / 4, torch.finfo(dtype).max
        if (dtype, target) == (torch.bfloat16, "triton"):  # the interpreter takes subnormals of bfloat16 for 0
            tiny *= 4
        x = torch.tensor([[tiny, 0.0, -tiny], [most, -most, 1.0], [-INF, -INF, -INF], [INF, INF, INF]], dtype=dtype)
        assert torch.equal(OPS[entry](-1, target=target)(x).double(), exact(x.double(), -1, False))


@pytest.mark.parametrize("target", TARGETS)
def test_reductions_of_nothing(target):
    nothing = torch.ones(3, 0)
    for entry, params, expected in (
        ("MeanFwdOp", {"dim": 1}, torch.full((3,), NAN)),
        ("ProdFwdOp", {"dim": 1}, torch.ones(3)),
        ("VectorNormFwdOp", {"dim": 1}, torch.zeros(3)),
        ("VectorNormFwdOp", {"dim": 1, "ord": 1}, torch.zeros(3)),
        ("AmaxFwdOp", {"dim": 0}, torch.ones(0)),
        ("AminFwdOp", {"dim": 0, "keepdim": True}, torch.ones(1, 0)),
        ("VectorNormFwdOp", {"dim": 0, "ord": INF}, torch.ones(0)),
    ):
        found = OPS[entry](**params, target=target)(nothing)
        assert found.shape == expected.shape
        torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("entry, params", [("AmaxFwdOp", {}), ("AminFwdOp", {}), ("VectorNormFwdOp", {"ord": INF})])
@pytest.mark.parametrize("dim", [1, -1, None, [], [0, 1]])
def test_nothing_has_no_largest_value(entry, params, dim):
    with pytest.raises(OpError, match="rule"):
        OPS[entry](dim=dim, **params)(torch.ones(3, 0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape, dim", [((), 0), ((129,), 0), ((3, 127), -1), ((4, 5), 0), ((2, 33, 3), 1), ((1, 4), 0), ((2, 1100), 1)]
)
def test_product(shape, dim, dtype):
    x = _normal(shape).div(32).exp().mul(torch.where(_normal(shape, seed=1) < 0, -1.0, 1.0)).to(dtype)
    for target in TARGETS:
        found = OPS["ProdFwdOp"](dim, target=target)(x)
        assert found.dtype == dtype
        assert_near(found, x.double().prod(dim))
        wide = OPS["ProdFwdOp"](dim, True, dtype=torch.float32, target=target)(x)
        torch.testing.assert_close(wide.double(), x.double().prod(dim, keepdim=True), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_a_partial_product_may_leave_the_range_of_half_precision(target):
    x = torch.tensor([[6e4, 6e4, 1e-4, 1e-4], [1e-4, 1e-4, 6e4, 6e4], [NAN, 0, 1, 1], [INF, 0, 1, 1]]).half()
    found = OPS["ProdFwdOp"](1, target=target)(x)
    torch.testing.assert_close(found.double(), x.double().prod(1), rtol=1e-3, atol=0.0, equal_nan=True)


def test_what_is_rounded_to_a_narrower_type_first_is_left_to_torch():
    x = torch.full((3,), 1 + 2.0**-12)
    for entry, expected in (("MeanFwdOp", 1.0), ("ProdFwdOp", 1.0)):
        op = OPS[entry](0, dtype=torch.float16)
        assert "triton" not in op.serving(op.check(x))
        assert op(x) == expected and op(x).dtype == torch.float16


@pytest.mark.parametrize(
    "params, dtype, reason",
    [
        ({"ord": 3}, torch.float32, "ord == 1 or"),
        ({"ord": 0}, torch.float32, "ord == 1 or"),
        ({"dtype": torch.float16}, torch.float32, "coalesce_dtype"),
        ({"dtype": torch.bfloat16}, torch.float16, "coalesce_dtype"),
        ({"dim": [0, -2]}, torch.float32, "unique_axes"),
    ],
)
def test_a_vector_norm_refuses_other_orders_and_narrower_results(params, dtype, reason):
    with pytest.raises(OpError, match=reason):
        OPS["VectorNormFwdOp"](**params)(torch.ones(2, 3, dtype=dtype))
    wide = OPS["VectorNormFwdOp"](dtype=torch.float32)(torch.full((5000,), 0.01, dtype=torch.bfloat16))
    assert_near(wide, torch.tensor(0.01, dtype=torch.bfloat16).double() * math.sqrt(5000))


def test_a_result_over_axes_of_length_1_is_no_view():
    for entry in ("MeanFwdOp", "AmaxFwdOp", "ProdFwdOp"):
        x = torch.ones(1, 4)
        OPS[entry](0, target="triton")(x).zero_()
        assert x.sum() == 4
