"""The dtype primitives against PyTorch, for every dtype and every pair of the manifest's."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from tileops.manifest.language import primitives
from tileops.manifest.language.dtypes import BITS, category


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@pytest.mark.parametrize(("first", "second"), list(itertools.product(BITS, BITS)))
def test_promote_types_is_pytorchs(first, second):
    try:
        wanted = _name(torch.promote_types(getattr(torch, first), getattr(torch, second)))
    except RuntimeError:
        with pytest.raises(ValueError, match=f"{first} and {second}"):
            primitives.promote_types(first, second)
        return
    assert primitives.promote_types(first, second) == wanted


@pytest.mark.parametrize("dtype", BITS)
def test_promote_int_to_float_is_what_sqrt_gives(dtype):
    root = torch.sqrt(torch.empty(1, dtype=getattr(torch, dtype), device="meta"))
    assert primitives.promote_int_to_float(dtype) == _name(root.dtype)


@pytest.mark.parametrize("dtype", [name for name in BITS if category(name) == "int"])
def test_an_integer_dtype_represents_its_range_and_an_unsigned_one_its_negatives(dtype):
    limits = torch.iinfo(getattr(torch, dtype))
    assert primitives.representable(limits.min, dtype) and primitives.representable(limits.max, dtype)
    least = limits.min or -limits.max
    assert primitives.representable(least, dtype) and not primitives.representable(least - 1, dtype)
    assert not primitives.representable(limits.max + 1, dtype)


_SCALARS = [True, False, 0, 1, -1, 2, 127, 128, -128, -129, 255, 256, -255, -256, 2**31 - 1, 2**31, -(2**31), 2**40]
_SCALARS += [0.5, -0.5, 127.5, -128.5, 255.0, 256.0, -255.0, 449.0, 65504.0, 65536.0, 1e38, 1e39, math.inf, -math.inf]


@pytest.mark.parametrize("value", [*_SCALARS, math.nan])
@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_representable_is_what_pytorch_fills_a_tensor_with(value, dtype):
    tensor = torch.zeros(1, dtype=getattr(torch, dtype))
    try:
        tensor.masked_fill_(torch.ones(1, dtype=torch.bool), value)
        converts = True
    except RuntimeError as error:
        assert "without overflow" in str(error)
        converts = False
    assert primitives.representable(value, dtype) is converts


@pytest.mark.parametrize("dtype", [name for name in BITS if category(name) == "float"])
def test_a_float_dtype_represents_its_finite_range_and_the_infinity_that_it_has(dtype):
    torch_dtype = getattr(torch, dtype)
    limits = torch.finfo(torch_dtype)
    assert primitives.representable(limits.min, dtype) and primitives.representable(limits.max, dtype)
    beyond = int(limits.max) + 1
    assert not primitives.representable(beyond, dtype) and not primitives.representable(-beyond, dtype)
    kept = torch.tensor(float("inf")).to(torch_dtype).to(torch.float64).item()  # elsewhere it saturates or turns to NaN
    assert primitives.representable(float("inf"), dtype) is (kept == float("inf"))
