"""Convolutions and Fourier transforms: references against sums written out in float64."""

import itertools
import math

import pytest
import torch

from tileops.ops import catalogue
from tileops.ops.errors import OpError
from tileops.tests.ops.comparing import DTYPES, assert_near

OPS = catalogue.load()


def summed(x, weight, bias, *, stride=1, padding=0, dilation=1, groups=1):
    """Every output as a sum over the taps inside the input, in float64."""
    rank, lengths, kernel = x.dim() - 2, x.shape[2:], weight.shape[2:]
    stride, dilation = ([one] * rank if isinstance(one, int) else one for one in (stride, dilation))
    if padding == "same":
        before = [d * (k - 1) // 2 for d, k in zip(dilation, kernel, strict=True)]
        outputs = list(lengths)
    else:
        before = [0] * rank if padding == "valid" else [padding] * rank if isinstance(padding, int) else padding
        outputs = [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, p, d, k, s in zip(lengths, before, dilation, kernel, stride, strict=True)
        ]
    depth, per_group = weight.shape[1], weight.shape[0] // groups
    out = torch.zeros((x.shape[0], weight.shape[0], *outputs), dtype=torch.float64)
    for at in itertools.product(*map(range, outputs)):
        for tap in itertools.product(*map(range, kernel)):
            place = [o * s - p + t * d for o, s, p, t, d in zip(at, stride, before, tap, dilation, strict=True)]
            if all(0 <= one < n for one, n in zip(place, lengths, strict=True)):
                for group in range(groups):
                    filters = slice(group * per_group, (group + 1) * per_group)
                    channels = slice(group * depth, (group + 1) * depth)
                    values = x[(slice(None), channels, *place)].double()
                    out[(slice(None), filters, *at)] += values @ weight[(filters, slice(None), *tap)].double().T
    return out if bias is None else out + bias.double().view(-1, *[1] * rank)


SETTINGS = [
    ((2, 4, 9), (6, 2, 3), {"padding": 1, "groups": 2, "stride": 2}),
    ((1, 3, 12), (3, 1, 4), {"padding": "same", "groups": 3, "dilation": (2,)}),
    ((1, 2, 6, 7), (4, 2, 3, 2), {"padding": (2, 0), "dilation": (2, 1), "stride": (1, 2)}),
    ((2, 2, 5, 6), (2, 2, 2, 3), {"padding": "same"}),
    ((1, 2, 4, 4, 5), (3, 2, 2, 1, 3), {"padding": "valid", "stride": (1, 2, 1)}),
    ((0, 2, 4), (3, 2, 2), {}),
]


@pytest.mark.parametrize("shape, kernel, params", SETTINGS)
def test_convolution(shape, kernel, params):
    stream = torch.Generator().manual_seed(0)
    for dtype, has_bias in itertools.product(DTYPES[: 2 if len(shape) == 3 else 3], (False, True)):
        x, weight, bias = (torch.randn(one, generator=stream).to(dtype) for one in (shape, kernel, kernel[:1]))
        inputs = (x, weight, bias if has_bias else None)
        found = OPS[f"Conv{len(shape) - 2}dFwdOp"](**params)(*inputs)
        assert found.dtype == dtype
        assert_near(found, summed(*inputs, **params), scale=8)


@pytest.mark.parametrize(
    "params, reason",
    [
        ({"groups": 3}, "groups"),
        ({"groups": 0}, "groups"),
        ({"padding": "same", "stride": 2}, "padding != 'same'"),
        ({"padding": -1}, "must not be negative"),
        ({"stride": 0}, "must be positive"),
        ({"padding": "full"}, "padding"),
    ],
)
def test_settings_that_torch_refuses_are_refused(params, reason):
    with pytest.raises(OpError, match=reason):
        OPS["Conv2dFwdOp"](**params)(torch.ones(1, 4, 5, 5).half(), torch.ones(4, 4, 3, 3).half())


@pytest.mark.parametrize("dtype, tolerance", [(torch.complex64, 1e-6), (torch.complex128, 1e-14)])
def test_fourier_transform(dtype, tolerance):
    for shape in ((1,), (3, 2), (2, 3, 16), (0, 8)):
        x = torch.randn(shape, dtype=torch.complex128, generator=torch.Generator().manual_seed(1)).to(dtype)
        for given in (x, x.conj()):
            n = shape[-1]
            turns = (
                torch.arange(n, dtype=torch.float64)[:, None]
                * torch.arange(n, dtype=torch.float64)
                * (-2 * math.pi / n)
            )
            exact = given.to(torch.complex128) @ torch.polar(torch.ones_like(turns), turns)
            found = OPS["FFTC2CFwdOp"]()(given)
            assert found.dtype == dtype
            torch.testing.assert_close(found.to(torch.complex128), exact, rtol=tolerance, atol=tolerance * n)


def test_a_length_that_is_no_power_of_two_is_refused():
    with pytest.raises(OpError, match="log2_floor"):
        OPS["FFTC2CFwdOp"]()(torch.ones(6, dtype=torch.complex64))
