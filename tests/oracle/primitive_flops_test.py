"""The table of primitive counts: what each of its names counts on twelve elements, and what it refuses."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tileops.tests.oracle.dispatch_count import count_flops, tally
from tileops.tests.oracle.primitive_flops import TABLE, UnknownOperation, documented_table
from tileops.tools.cli import paths

ATEN = torch.ops.aten
X, Y = torch.rand(3, 4) + 0.5, torch.rand(3, 4) + 0.5
B, I, U = X > 1, torch.ones(3, 4, dtype=torch.int32), torch.ones(3, 4, dtype=torch.uint8)
PLACES, PAIRS = torch.tensor([0, 1]), torch.ones(3, 2)
Z = torch.ones(4, 8, dtype=torch.complex64)

ONE_AN_ELEMENT = (
    {
        name: (lambda function=getattr(torch, name): function(X))
        for name in (
            "abs ceil cos erf exp expm1 floor isfinite isinf isnan log log1p logical_not neg reciprocal relu round rsqrt sign sin sqrt"
            " tanh trunc"
        ).split()
    }
    | {
        name: (lambda function=getattr(torch, name): function(X, Y))
        for name in (
            "add div eq floor_divide fmod ge gt le logical_and logical_or logical_xor lt maximum minimum mul ne pow remainder rsub sub"
        ).split()
    }
    | {
        "bitwise_and": lambda: I & I,
        "bitwise_not": lambda: ~I,
        "bitwise_or": lambda: I | I,
        "bitwise_xor": lambda: I ^ I,
        "clamp": lambda: X.clamp(0, 1),
        "clamp_max": lambda: X.clamp_max(1),
        "clamp_min": lambda: X.clamp_min(1),
        "cumprod": lambda: X.cumprod(0),
        "cumsum": lambda: X.cumsum(0),
        "masked_fill": lambda: X.masked_fill(B, 0),
        "where": lambda: torch.where(B, X, Y),
    }
)
# name -> (a use of it, its FLOPs)
CASES = (
    {name: (use, 12) for name, use in ONE_AN_ELEMENT.items()}
    | {
        "sigmoid": (lambda: torch.sigmoid(X), 4 * 12),
        "silu": (lambda: F.silu(X), 5 * 12),
        "mish": (lambda: F.mish(X), 4 * 12),
        "gelu": (lambda: F.gelu(X), 5 * 12),
        "_softmax": (lambda: torch.softmax(X, -1), 5 * 12),
        "sum": (lambda: X.sum(), 12),
        "prod": (lambda: X.prod(), 12),
        "amax": (lambda: X.amax(0), 12),
        "amin": (lambda: X.amin(0), 12),
        "max": (lambda: X.max(), 12),
        "min": (lambda: X.min(), 12),
        "argmax": (lambda: X.argmax(0), 12),
        "argmin": (lambda: X.argmin(0), 12),
        "mean": (lambda: X.mean(0), 12 + 4),
        "count_nonzero": (lambda: torch.count_nonzero(X), 2 * 12),
        "topk": (lambda: X.topk(2), 12),
        "native_dropout": (lambda: torch.native_dropout(X, 0.5, True), 2 * 12),
        "mm": (lambda: torch.mm(X, Y.T), 2 * 9 * 4),
        "bmm": (lambda: torch.bmm(X[None], Y.T[None]), 2 * 9 * 4),
        "_fft_c2c": (lambda: torch.fft.fft(Z), 4 * 5 * 8 * 3),
    }
    | {
        name: (use, 0)
        for name, use in {
            "_to_copy": lambda: X.half(),
            "view": lambda: X.view(12),
            "_unsafe_view": lambda: ATEN._unsafe_view(X, [12]),
            "expand": lambda: X[:, :1].expand(3, 4),
            "permute": lambda: X.permute(1, 0),
            "transpose": lambda: X.transpose(0, 1),
            "t": lambda: X.t(),
            "unsqueeze": lambda: X.unsqueeze(0),
            "squeeze": lambda: X.squeeze(0),
            "slice": lambda: X[1:],
            "select": lambda: X[1],
            "clone": lambda: X.clone(),
            "copy_": lambda: torch.empty(3, 4).copy_(X),
            "alias": lambda: ATEN.alias(X),
            "detach": lambda: X.detach(),
            "empty": lambda: torch.empty(3),
            "zeros": lambda: torch.zeros(3),
            "full": lambda: torch.full((3,), 2),
            "arange": lambda: torch.arange(3),
            "cat": lambda: torch.cat((X, Y)),
            "index": lambda: X[PLACES],
            "split": lambda: X.split(2),
            "split_with_sizes": lambda: X.split([1, 2]),
            "unbind": lambda: X.unbind(0),
            "view_as_complex": lambda: torch.view_as_complex(PAIRS),
            "view_as_real": lambda: torch.view_as_real(Z),
        }.items()
    }
)


def test_every_name_of_the_table_has_a_case_and_stands_in_it_once():
    names = [name for count in TABLE for name in count.operations]
    assert sorted(names) == sorted(CASES)


@pytest.mark.requirement("1.2.22")
@pytest.mark.parametrize("name", CASES)
def test_an_operation_reaches_its_row_and_counts_what_the_row_says(name):
    use, flops = CASES[name]
    found = tally(use)
    assert name in found.operations
    assert found.flops == flops


@pytest.mark.requirement("1.3.20")
@pytest.mark.parametrize(
    ("use", "flops"),
    [
        (lambda: X * 1, 0),
        (lambda: 1 * X, 0),
        (lambda: X / 1, 0),
        (lambda: X + 0, 0),
        (lambda: X - 0, 0),
        (lambda: X**1, 0),
        (lambda: torch.add(X, Y, alpha=1.0), 12),
        (lambda: torch.floor(I), 0),
        (lambda: torch.round(I), 0),
        (lambda: torch.abs(U), 0),
        (lambda: torch.relu(U), 0),
        (lambda: torch.sign(B), 0),
        (lambda: X.float(), 0),
        (lambda: torch.native_dropout(X, 0.5, False), 0),
    ],
)
def test_the_identity_counts_nothing(use, flops):
    assert count_flops(use) == flops


@pytest.mark.parametrize(
    ("use", "flops"),
    [
        (lambda: X * 2, 12),
        (lambda: X / 2, 12),
        (lambda: X + 1, 12),
        (lambda: 1 - X, 12),
        (lambda: 0 - X, 12),
        (lambda: X**2, 12),
        (lambda: 1 / X, 12),
        (lambda: 2 / X, 12),
        (lambda: X.isfinite(), 12),
        (lambda: torch.abs(I), 12),
        (lambda: torch.add(X, Y, alpha=3), 24),
        (lambda: ATEN.add.Scalar(X, 2, 3), 12),
        (lambda: ATEN.rsub.Scalar(X, 2, 3), 24),
        (lambda: torch.add(X, X[:1], alpha=3), 12 + X[0].numel()),
        (lambda: torch.sub(X[:1], Y, alpha=0), 24),
        (lambda: torch.rsub(X[:1], Y, alpha=3), 12 + X[0].numel()),
        (lambda: torch.add(X[:, :0], X[:, :1], alpha=3), 0),
        (lambda: torch.rsub(X, Y, alpha=3), 24),
        (lambda: X.max(1), 12),
        (lambda: X.min(0), 12),
        (lambda: X.round(decimals=2), 36),
        (lambda: F.gelu(X, approximate="tanh"), 9 * 12),
        (lambda: torch.div(X, Y, rounding_mode="floor"), 12),
        (lambda: torch.fft.fftn(Z), 5 * 32 * (2 + 3)),
    ],
)
def test_numbers_places_of_arguments_and_several_results_are_counted(use, flops):
    assert count_flops(use) == flops


@pytest.mark.requirement("1.3.6", "1.3.7")
def test_composites_are_the_sum_of_their_primitives():
    def tanh_gelu(x):
        return (torch.tanh((torch.square(x) * x * 0.044715 + x) * 0.79788456) + 1) * 0.5 * x

    for whole, written_out in (
        (torch.sigmoid, lambda x: torch.reciprocal(torch.exp(-x) + 1)),
        (F.silu, lambda x: torch.sigmoid(x) * x),
        (F.mish, lambda x: torch.tanh(torch.log1p(torch.exp(x))) * x),
        (F.gelu, lambda x: (torch.erf(x * 0.70710678) + 1) * 0.5 * x),
        (lambda x: F.gelu(x, approximate="tanh"), tanh_gelu),
        (lambda x: x.round(decimals=1), lambda x: torch.round(x * 10) / 10),
        (torch.count_nonzero, lambda x: torch.sum(x != 0)),
    ):
        torch.testing.assert_close(
            whole(X.double()), written_out(X.double()), rtol=1e-7, atol=0
        )  # of which torch has one way
        assert count_flops(whole, X) == count_flops(written_out, X)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: torch.erfinv(X), "aten.erfinv.* has no row"),
        (lambda: X.clone().add_(1), "aten.add_.* has no row"),
        (lambda: torch.sort(X), "aten.sort.* has no row"),
        (lambda: Z * Z, "aten.mul of complex numbers"),
        (lambda: torch.mm(Z, Z.T), "aten.mm of complex numbers"),
        (lambda: Z.abs(), "aten.abs of complex numbers"),
        (lambda: torch.fft.fft(Z[:, :6]), r"aten._fft_c2c of lengths \[6\]"),
        (lambda: torch.fft.ifft(Z), "aten._fft_c2c of lengths .* with normalization 2"),
    ],
)
def test_what_the_table_does_not_count_is_an_error(use, message):
    with pytest.raises(UnknownOperation, match=message):
        count_flops(use)


def test_the_documentation_prints_the_table():
    text = paths.data_path("docs", "what-counts.md").read_text()
    assert "\n".join(documented_table()) in text
