"""Poolings: references and the interpreted Triton kernel against windows walked one tap at a time."""

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


def _each(value, rank):
    return [value] * rank if isinstance(value, int) else list(value)


def walked(x, *, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, **average):
    """The maxima, their places and the means (by `average`) of every window, in float64."""
    rank, lengths = x.dim() - 2, x.shape[2:]
    kernel, padding, dilation = (_each(one, rank) for one in (kernel_size, padding, dilation))
    stride = kernel if stride is None else _each(stride, rank)
    outputs = []
    for n, k, s, p, d in zip(lengths, kernel, stride, padding, dilation, strict=True):
        count = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
        outputs.append(count - (ceil_mode and (count - 1) * s >= n + p))
    maxima, places, means = [], [], []
    for plane in x.double().reshape(-1, *lengths):
        for window in itertools.product(*map(range, outputs)):
            starts = [at * s - p for at, s, p in zip(window, stride, padding, strict=True)]
            best, place, taken = -INF, None, []
            for tap in itertools.product(*map(range, kernel)):
                at = [start + t * d for start, t, d in zip(starts, tap, dilation, strict=True)]
                if not all(0 <= one < n for one, n in zip(at, lengths, strict=True)):
                    continue
                value, flat = plane[tuple(at)].item(), 0
                for one, n in zip(at, lengths, strict=True):
                    flat = flat * n + one
                taken.append(value)
                if place is None or math.isnan(value) or value > best:
                    best, place = value, flat
            if place is None:
                place = 0
                for start, d, n in zip(starts, dilation, lengths, strict=True):
                    place = place * n + (start if start >= 0 else start + -(start // d) * d)
            maxima.append(best)
            places.append(place)
            padded = math.prod(
                min(start + k, n + p) - start for start, k, n, p in zip(starts, kernel, lengths, padding, strict=True)
            )
            divisor = average.get("divisor_override") or (
                padded if average.get("count_include_pad", True) else len(taken)
            )
            means.append(sum(taken) / divisor if divisor else NAN)
    shape = (*x.shape[:2], *outputs)
    return (
        torch.tensor(maxima, dtype=torch.float64).view(shape),
        torch.tensor(places, dtype=torch.int64).view(shape),
        torch.tensor(means, dtype=torch.float64).view(shape),
    )


SETTINGS = [
    ((2, 3, 13), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((1, 1, 129), {"kernel_size": 40, "stride": 7, "padding": 20}),
    ((2, 2, 10), {"kernel_size": 2, "stride": 5}),
    ((3, 2, 7, 9), {"kernel_size": (3, 2), "stride": (2, 3), "padding": (1, 0), "ceil_mode": True}),
    ((1, 3, 5, 6), {"kernel_size": 2}),
    ((1, 2, 4, 5, 6), {"kernel_size": (1, 2, 3), "stride": (1, 2, 2), "padding": (0, 1, 1), "ceil_mode": True}),
    ((2, 1, 4, 4, 4), {"kernel_size": 4, "stride": 1}),
    ((0, 2, 4), {"kernel_size": 2}),
]


def _name(kind, x, suffix=""):
    return OPS[f"{kind}Pool{x.dim() - 2}d{suffix}FwdOp"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape, params", SETTINGS)
def test_max_pool(shape, params, target):
    for dtype, dilation in itertools.product(DTYPES, (1, 2)):
        span = dilation * (max(_each(params["kernel_size"], 1)) - 1)
        if span >= min(shape[2:]):
            continue
        x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
        maxima, places, _ = walked(x, **params, dilation=dilation)
        found = _name("Max", x)(**params, dilation=dilation, target=target)(x)
        assert found.dtype == dtype and torch.equal(found.double(), maxima)
        values, indices = _name("Max", x, "Indices")(**params, dilation=dilation, target=target)(x)
        assert torch.equal(values.double(), maxima) and torch.equal(indices, places)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape, params", SETTINGS)
def test_avg_pool(shape, params, target):
    choices = [{}, {"count_include_pad": False}]
    if len(shape) > 3:
        choices += [{"divisor_override": -3}, {"divisor_override": 1, "count_include_pad": False}]
    for dtype, choice in itertools.product(DTYPES, choices):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(2)).to(dtype)
        found = _name("Avg", x)(**params, **choice, target=target)(x)
        assert found.dtype == dtype
        assert_near(found, walked(x, **params, **choice)[2], scale=4)


@pytest.mark.parametrize("target", TARGETS)
def test_a_maximum_is_the_first_of_equals_and_the_last_nan(target):
    x = torch.tensor([[[1.0, 1.0, NAN, 3.0, NAN, 0.0, -INF, -INF, -INF, INF, INF, INF]]])
    values, indices = OPS["MaxPool1dIndicesFwdOp"](3, target=target)(x)
    torch.testing.assert_close(values, torch.tensor([[[NAN, NAN, -INF, INF]]]), equal_nan=True)
    assert indices.tolist() == [[[2, 4, 6, 9]]]


@pytest.mark.parametrize("target", TARGETS)
def test_a_dilated_window_without_a_tap_inside_is_minus_infinity(target):
    x = torch.randn(1, 2, 2)
    params = {"kernel_size": 2, "stride": 1, "padding": 1, "dilation": 3}
    maxima, places, _ = walked(x, **params)
    values, indices = OPS["MaxPool1dIndicesFwdOp"](**params, target=target)(x)
    assert torch.isinf(maxima).all()
    assert torch.equal(values.double(), maxima) and torch.equal(indices, places)


@pytest.mark.parametrize("target", TARGETS)
def test_layouts_that_are_not_contiguous(target):
    x = torch.randn(3, 8, 9, 4).permute(3, 0, 2, 1)[:, :, ::2]
    params = {"kernel_size": 3, "stride": 2, "padding": 1}
    maxima, places, means = walked(x, **params)
    values, indices = OPS["MaxPool2dIndicesFwdOp"](**params, target=target)(x)
    assert torch.equal(values.double(), maxima) and torch.equal(indices, places)
    assert_near(OPS["AvgPool2dFwdOp"](**params, target=target)(x), means, scale=4)


@pytest.mark.parametrize(
    "params, reason",
    [
        ({"kernel_size": 3, "padding": 2}, "at most half the kernel"),
        ({"kernel_size": 0}, "must be positive"),
        ({"kernel_size": 2, "stride": 0}, "must be positive"),
        ({"kernel_size": 9}, "no window of 9"),
        ({"kernel_size": 2, "divisor_override": 0}, "divisor_override"),
    ],
)
def test_windows_that_torch_refuses_are_refused(params, reason):
    op = OPS["AvgPool2dFwdOp"]
    with pytest.raises(OpError, match=reason):
        op(**params)(torch.ones(1, 1, 5, 5))


# ---- adaptive


def _bins(length, count):
    return [range(at * length // count, -((at + 1) * -length // count)) for at in range(count)]


@pytest.mark.parametrize(
    "shape, size",
    [((2, 3, 6, 4), (3, 2)), ((3, 7, 5), (3, 4)), ((1, 2, 3, 5), (5, 7)), ((2, 1, 4, 9), 2), ((2, 3, 4), None)],
)
def test_adaptive_pools(shape, size):
    wanted = [size, size] if size is None or isinstance(size, int) else size
    axes = [_bins(n, n if one is None else one) for n, one in zip(shape[-2:], wanted, strict=True)]
    for dtype in DTYPES[:2]:
        x = torch.randn(shape, generator=torch.Generator().manual_seed(4)).to(dtype)
        x.view(-1)[5] = NAN
        maxima, places, means = [], [], []
        for plane, rows, columns in itertools.product(x.double().reshape(-1, *shape[-2:]), *axes):
            taken = [(plane[h, w].item(), h * shape[-1] + w) for h in rows for w in columns]
            best, place = taken[0]
            for value, at in taken[1:]:
                if math.isnan(value) or value > best:
                    best, place = value, at
            maxima.append(best)
            places.append(place)
            means.append(sum(value for value, _ in taken) / len(taken))
        out = (*shape[:-2], *map(len, axes))
        exact = torch.tensor(maxima, dtype=torch.float64).view(out)
        values, indices = OPS["AdaptiveMaxPool2dIndicesFwdOp"](size)(x)
        torch.testing.assert_close(values.double(), exact, rtol=0, atol=0, equal_nan=True)
        assert indices.tolist() == torch.tensor(places).view(out).tolist()
        found = OPS["AdaptiveMaxPool2dFwdOp"](size)(x)
        torch.testing.assert_close(found.double(), exact, rtol=0, atol=0, equal_nan=True)
        mean, known = OPS["AdaptiveAvgPool2dFwdOp"](size)(x), ~exact.isnan()
        assert_near(mean[known], torch.tensor(means, dtype=torch.float64).view(out)[known])
        assert mean[~known].isnan().all()


# ---- means of chunks


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lengths", [None, [70, 0, 30, 33], [133]])
def test_mean_pooling(lengths, target):
    for dtype, accum in ((torch.float16, "float32"), (torch.float32, "float64"), (torch.bfloat16, "bfloat16")):
        x = torch.randn((2, 133, 3, 5), generator=torch.Generator().manual_seed(5)).to(dtype)
        begins, ends, metadata = list(range(0, 133, 32)), [*range(32, 133, 32), 133], ()
        if lengths is not None:
            starts = [sum(lengths[:at]) for at in range(len(lengths) + 1)]
            chunks = [(at, j) for at, n in enumerate(lengths) for j in range(-(-n // 32))]
            begins = [starts[at] + j * 32 for at, j in chunks]
            ends = [min(starts[at] + (j + 1) * 32, starts[at + 1]) for at, j in chunks]
            metadata = (torch.tensor(starts, dtype=torch.int32), torch.tensor(chunks, dtype=torch.int32))
        exact = torch.stack([x[:, one:end].double().mean(1) for one, end in zip(begins, ends, strict=True)], 1)
        op = OPS["MeanPoolingFwdOp"](32, getattr(torch, accum), validate_inputs=True, target=target)
        assert_near(op(x, *metadata), exact)


def test_mean_pooling_checks_offsets_where_the_caller_asks():
    x, chunks = torch.ones(1, 40, 1, 1), torch.tensor([[0, 0], [1, 0]], dtype=torch.int32)
    for wrong in ([0, 30, 41], [1, 30, 40], [0, 41, 40]):
        with pytest.raises(OpError, match="must begin with 0, never fall, and end with 40"):
            op = OPS["MeanPoolingFwdOp"](32, torch.float32, validate_inputs=True)
            op(x, torch.tensor(wrong, dtype=torch.int32), chunks)
