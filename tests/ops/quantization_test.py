"""Quantizers and their inverses: references and interpreted Triton kernels against float64, bit by bit."""

import math

import pytest
import torch

from tileops.ops import catalogue
from tileops.ops.errors import OpError
from tileops.ops.kernels import support
from tileops.ops.kernels.quantization import quantize
from tileops.tests.ops import quantized

OPS = catalogue.load()
TARGETS = ["torch", "triton"]
FLOATS = (torch.float16, torch.bfloat16, torch.float32)
NAN, INF = math.nan, math.inf
# Rows and columns: one of each, odd ones, more than a group, more groups than a program shares.
SHAPES = [(1, 1), (3, 127), (129, 130), (2, 1025), (70, 3), (5, 4099)]
# Numbers whose groups are special: zeros of both signs, subnormals whose scale is 0, the largest numbers, one number.
SPECIAL = {
    "zeros": [0.0, -0.0, 0.0],
    "subnormals": [1e-45, -3e-45, 0.0],
    "the largest": [3e38, -3.4e38, 1.0],
    "the smallest scale": [1.2e-38, -1e-39, 2e-44],
    "equal": [0.5, 0.5, 0.5],
    "ties": [127.0, 0.5, 1.5, 2.5, -0.5, -1.5, 126.5, -126.5],
}
NOT_NUMBERS = {"NaN": [NAN, 3.0, -4.0, -0.0], "an infinity": [INF, 1.0, -INF, 0.0], "both": [NAN, INF, -INF, 1.0]}
QUANTIZERS = {
    "INT8QuantPerTensorFwdOp": quantized.int8_of_all,
    "INT8QuantPerChannelFwdOp": quantized.int8_of_rows,
    "INT8QuantPerTokenGroupFwdOp": quantized.int8_of_groups,
    "FP8QuantPerBlockFwdOp": quantized.fp8_of_tiles,
}


@pytest.fixture(autouse=True)
def _one_multiprocessor(monkeypatch):
    """So that programs share groups and rows of small tensors, too."""
    monkeypatch.setattr(quantize, "MULTIPROCESSORS", 1)
    monkeypatch.setattr(support, "MULTIPROCESSORS", 1)


def _values(shape, dtype, seed=0):
    """Rows and columns of different sizes."""
    stream = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=stream)
    return (x * torch.exp2(torch.randint(-6, 7, (*shape[:-1], 1), generator=stream))).to(dtype)


def _equal(found, wanted):
    for one, exact in zip(found, wanted, strict=True):
        assert one.shape == exact.shape and one.dtype == exact.dtype
        if one.dtype.is_floating_point:
            assert torch.equal(one.float().isnan(), exact.float().isnan())
            kept = ~exact.float().isnan()
            bits = torch.uint8 if one.itemsize == 1 else torch.int32
            assert torch.equal(one.view(bits)[kept], exact.view(bits)[kept])
        else:
            assert torch.equal(one, exact)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", QUANTIZERS)
def test_codes_and_scales_are_exact(name, target):
    for shape in SHAPES:
        for dtype in FLOATS:
            x = _values(shape, dtype)
            _equal(OPS[name](target=target)(x), QUANTIZERS[name](x))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", QUANTIZERS)
@pytest.mark.parametrize("kind", SPECIAL)
def test_special_groups_are_exact(name, kind, target):
    for dtype in FLOATS:
        if dtype == torch.bfloat16 and target == "triton" and kind == "the smallest scale":
            continue  # the interpreter widens its subnormals wrongly
        x = torch.tensor([SPECIAL[kind]]).to(dtype)
        _equal(OPS[name](target=target)(x), QUANTIZERS[name](x))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", QUANTIZERS)
@pytest.mark.parametrize("kind", NOT_NUMBERS)
def test_a_group_with_nan_has_the_scale_one_and_one_with_an_infinity_an_infinite_one(name, kind, target):
    x = torch.tensor([NOT_NUMBERS[kind]])
    codes, scale = OPS[name](target=target)(x)
    assert scale.flatten().tolist() == [INF if kind == "an infinity" else 1.0]
    _equal((codes, scale), QUANTIZERS[name](x))


@pytest.mark.parametrize("target", TARGETS)
def test_float8_codes_are_the_nearest_with_ties_to_even_and_keep_the_sign_of_zero(target):
    """448 makes the scale 1, so that the codes are those of the numbers themselves: all, and all between two."""
    codes = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
    numbers = torch.cat([codes, (codes[1:] + codes[:-1]) / 2, codes[:-1] * (1 + 2**-20), codes * (1 - 2**-20)])
    w = torch.cat([numbers, -numbers])[None, :]
    w = torch.nn.functional.pad(w, (0, -w.shape[1] % 127)).view(-1, 127)
    w = torch.cat([w, torch.full((len(w), 1), 448.0)], dim=1)
    found, scale = OPS["FP8QuantPerBlockFwdOp"](target=target)(w)
    assert set(scale.flatten().tolist()) == {1.0}
    _equal((found, scale), quantized.fp8_of_tiles(w))
    assert torch.equal(found.float().signbit(), w.signbit())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1), (2, 3, 1, 128), (1, 70, 2, 64), (3, 5, 2, 33), (1, 2, 1, 2050), (0, 3, 1, 4)]
)
def test_float8_of_vectors_has_a_floor(shape, target):
    for dtype in FLOATS:
        x = _values(shape, dtype)
        for given in (x, x * 1e-6, torch.zeros_like(x)):
            _equal(OPS["FP8QuantPerTokenGroupFwdOp"](target=target)(given), quantized.fp8_of_vectors(given))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", SHAPES)
def test_smoothing_divides_before_the_scale_is_found(shape, target):
    smooth = _values(shape[1:], torch.float32, 1)
    smooth = torch.where(smooth == 0, 1.0, smooth)
    for dtype in (torch.float16, torch.bfloat16):
        x = _values(shape, dtype)
        exact = quantized.int8_of_rows((x.double() / smooth.double()).float())
        _equal(OPS["SmoothQuantFwdOp"](target=target)(x, smooth), exact)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "shape, group_size",
    [((1, 2), 2), ((3, 254), 254), ((5, 384), 128), ((70, 64), 32), ((2, 2048), 2048), ((4, 6), 3), ((6, 2), 1)],
)
def test_int4_codes_and_their_steps(shape, group_size, target):
    if target == "triton" and group_size % 2:
        with pytest.raises(OpError, match="does not serve"):
            OPS["INT4QuantPerGroupFwdOp"](group_size, target=target)(torch.ones(shape, dtype=torch.float16))
        return
    tiny = torch.tensor([0.0, 6e-8]).repeat(math.prod(shape) // 2).view(shape)
    for given in (_values(shape, torch.float16), torch.full(shape, -3.25), torch.full(shape, 65504.0), tiny):
        w = given.to(torch.float16)
        found = OPS["INT4QuantPerGroupFwdOp"](group_size, target=target)(w)
        _equal(found, quantized.int4_of_groups(w, group_size))


@pytest.mark.parametrize("target", TARGETS)
def test_int4_keeps_the_even_column_in_the_high_bits(target):
    w = torch.tensor([[-8.0, 8.0, -7.0, 6.0]], dtype=torch.float16)
    packed, params = OPS["INT4QuantPerGroupFwdOp"](4, target=target)(w)
    assert packed.view(torch.uint8).tolist() == [[0x87, 0x96]]  # -8 and 7, the largest code; -7 and 6
    assert params.tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("out_dtype", FLOATS)
@pytest.mark.parametrize("name", quantized.SCALES)
def test_a_code_is_multiplied_by_its_scale(name, out_dtype, target):
    for shape in SHAPES:
        q = torch.randint(-128, 128, shape, generator=torch.Generator().manual_seed(1), dtype=torch.int8)
        scale = _values(quantized.SCALES[name](*shape), torch.float32)
        scale.view(-1)[::5] = torch.tensor([NAN, INF, -INF, -0.0, 3e38]).repeat(scale.numel())[
            : scale.view(-1)[::5].numel()
        ]
        found = OPS[name](out_dtype, target=target)(q, scale)
        wanted = quantized.product(q, scale).to(out_dtype)
        if target == "triton" and out_dtype == torch.bfloat16:  # which the interpreter cuts off instead of rounding
            torch.testing.assert_close(found, wanted, rtol=8e-3, atol=0, equal_nan=True)
        else:
            torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("target", TARGETS)
def test_tensors_without_elements(target):
    for name in ("INT8QuantPerTokenGroupFwdOp", "FP8QuantPerBlockFwdOp"):
        for shape in ((0, 5), (5, 0)):
            q, scale = OPS[name](target=target)(torch.ones(shape))
            assert q.shape == shape and scale.numel() == 0
    assert OPS["INT8QuantPerChannelFwdOp"](target=target)(torch.ones(0, 5))[1].shape == (0,)
    assert (
        OPS["INT8DequantPerBlockFwdOp"]("float32", target=target)(torch.ones(0, 5).char(), torch.ones(0, 1)).numel()
        == 0
    )
    packed, params = OPS["INT4QuantPerGroupFwdOp"](2, target=target)(torch.ones(0, 4).half())
    assert packed.shape == (0, 2) and params.shape == (0, 2)


def test_the_scale_of_a_tensor_of_many_blocks(monkeypatch):
    """Programs take several blocks each, and the last block is not full."""
    monkeypatch.setattr(quantize, "_PARTS", 3)
    x = _values((50, 700), torch.float32)
    _equal(OPS["INT8QuantPerTensorFwdOp"](target="triton")(x), quantized.int8_of_all(x))


@pytest.mark.parametrize(
    "name, params, shape",
    [
        ("INT8QuantPerTensorFwdOp", {}, (0, 3)),
        ("SmoothQuantFwdOp", {}, (3, 0)),
        ("INT4QuantPerGroupFwdOp", {"group_size": 3}, (3, 4)),
    ],
)
def test_calls_without_a_group_are_refused(name, params, shape):
    x = torch.ones(shape, dtype=torch.float16)
    with pytest.raises(OpError):
        OPS[name](**params)(*((x, torch.ones(shape[1])) if name == "SmoothQuantFwdOp" else (x,)))
