"""Calls of elementwise ops and dropout that are easily given another meaning than PyTorch's: types, numbers, layouts,
roofs.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tileops.ops import catalogue
from tileops.ops.errors import OpCallError, OpConstructionError
from tileops.ops.kernels.elementwise.table import TABLE, meeting
from tileops.tests.ops.elementwise_calls import CLASSES, Settings, dtypes, exact, inputs, settings

OPS = catalogue.load()
TARGETS = ["torch", "triton"]
_TWO = [op for op in TABLE if len(CLASSES[op].INPUT_NAMES) == 2 and len(dtypes(op)) > 10]


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def _torch_function(op):
    return functools.reduce(getattr, CLASSES[op].REF_API.split(".")[1:], torch)


# ---- the dtype in which operands meet


def test_operands_meet_where_pytorchs_do():
    kinds = (
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
    )
    for first, second in itertools.product(kinds, kinds):
        for shape, other in itertools.product([(), (3,)], repeat=2):
            scalars = [name for name, one in (("x", shape), ("y", other)) if not one]
            wanted = torch.result_type(torch.zeros(shape, dtype=first), torch.zeros(other, dtype=second))
            assert meeting({"x": first, "y": second}, scalars) == wanted


@pytest.mark.parametrize("op", _TWO)
@pytest.mark.parametrize("shapes", [((), (5,)), ((5,), ()), ((), ())], ids=str)
def test_an_operand_without_axes_gives_way_as_in_pytorch(op, shapes):
    (some, *_), function = settings(op), _torch_function(op)
    for chosen in dtypes(op):
        given = inputs(op, shapes, chosen, some)
        if op == "PowFwdOp":  # integers to negative powers, and powers beyond the range, are nobody's to define
            given = [one if one.dtype == torch.bool else one.abs().clamp(max=3) for one in given]
        try:
            expected = function(*given, **some.params)
        except (RuntimeError, NotImplementedError):  # PyTorch lacks it for bools
            with pytest.raises(OpCallError, match=r"the rule .* does not hold"):
                CLASSES[op](**some.params)(*given)
            continue
        call = CLASSES[op](**some.params).check(*given)
        assert call.outputs["output"].dtype == str(expected.dtype).removeprefix("torch.")
        found = CLASSES[op](**some.params, target="torch")(*given)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        if torch.bfloat16 not in chosen.values() and "triton" in CLASSES[op](**some.params).serving(call):
            found = CLASSES[op](**some.params, target="triton")(*given)
            assert found.dtype == expected.dtype
            tolerance = {torch.float16: 1e-3, torch.float32: 2e-5}.get(expected.dtype, 0)
            wanted = exact(op, some.params, given)
            torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)


def test_a_choice_between_operands_of_which_one_has_no_axes_keeps_the_others_dtype():
    mask, x = torch.tensor([True, False, True]), torch.randn(3).half()
    for target in TARGETS:
        found = CLASSES["WhereFwdOp"](target=target)(mask, x, torch.tensor(1.0))
        assert found.dtype == torch.float16 and torch.equal(found, torch.where(mask, x, torch.tensor(1.0)))


@pytest.mark.parametrize(
    ("low", "high", "shape"),
    [((3,), None, (2, 3)), (None, (4, 1, 1), (4, 2, 1)), ((3,), (4, 1, 1), (4, 2, 3)), ((), (0, 1, 1), (0, 2, 1))],
)
def test_each_bound_of_a_clamp_broadcasts_and_is_passed_or_not(low, high, shape):
    generator = torch.Generator().manual_seed(3)
    x, *bounds = (
        None if size is None else torch.randn(size, generator=generator, dtype=torch.float32)
        for size in ((2, 1), low, high)
    )
    wanted = torch.clamp(x.double(), *(None if one is None else one.double() for one in bounds)).float()
    for target in TARGETS:
        instance = CLASSES["ClampTensorFwdOp"](target=target)
        found = instance(x, *bounds)
        assert found.shape == shape and torch.equal(found, wanted)
        assert instance.eval_roofline()[0] == found.numel()
    with pytest.raises(OpCallError, match="broadcast"):
        CLASSES["ClampTensorFwdOp"]()(x, torch.randn(5, 3))


# ---- numbers


@pytest.mark.parametrize("op", ["AddFwdOp", "SubFwdOp"])
def test_a_float_alpha_makes_no_integer_result(op):
    x, y = torch.tensor([1]), torch.tensor([2])
    for target in TARGETS:
        with pytest.raises(OpCallError, match=r"the rule .is_int\(alpha\) or category\(M\) == 'float'. does not hold"):
            CLASSES[op](alpha=2.0, target=target)(x, y)
        found = CLASSES[op](alpha=2, target=target)(x, y)
        assert torch.equal(found, _torch_function(op)(x, y, alpha=2))
        found = CLASSES[op](alpha=2.0, target=target)(x.float(), y)
        assert torch.equal(found, _torch_function(op)(x.float(), y, alpha=2.0))


# What PyTorch converts to the type of an integer or bool, and what it refuses.
_CONVERTED = [
    (torch.uint8, -1),
    (torch.uint8, -255),
    (torch.uint8, True),
    (torch.int32, 2.5),
    (torch.int8, -127.5),
    (torch.bool, 0.5),
    (torch.bool, -3),
    (torch.bool, float("nan")),
    (torch.float16, True),
]
_REFUSED = [(torch.uint8, -256), (torch.uint8, -1.0), (torch.int8, 128), (torch.int32, float("inf"))]


@pytest.mark.parametrize(("dtype", "value"), _CONVERTED)
def test_a_number_is_filled_in_as_pytorch_converts_it(dtype, value):
    x, mask = torch.tensor([0, 1, 1]).to(dtype), torch.tensor([True, False, True])
    for target in TARGETS:
        found = CLASSES["MaskedFillScalarFwdOp"](value=value, target=target)(x, mask)
        assert torch.equal(found, x.masked_fill(mask, value)), (target, found)


@pytest.mark.parametrize(("dtype", "value"), _REFUSED)
def test_a_number_that_pytorch_does_not_convert_is_refused(dtype, value):
    x, mask = torch.zeros(2, dtype=dtype), torch.tensor([True, False])
    with pytest.raises(RuntimeError, match="without overflow"):
        x.masked_fill(mask, value)
    with pytest.raises(OpCallError, match=r"the rule .representable\(value, T\). does not hold"):
        CLASSES["MaskedFillScalarFwdOp"](value=value).check(x, mask)


@pytest.mark.parametrize(
    ("op", "dtype", "alpha"),
    [
        ("AddFwdOp", torch.uint8, -3),
        ("SubFwdOp", torch.uint8, -255),
        ("AddFwdOp", torch.bool, True),
        ("AddFwdOp", torch.bool, -2),
        ("AddFwdOp", torch.bool, False),
    ],
)
def test_an_alpha_is_converted_as_pytorch_converts_it(op, dtype, alpha):
    x, y = torch.tensor([1, 0, 0, 1]).to(dtype), torch.tensor([1, 1, 0, 0]).to(dtype)
    for target in TARGETS:
        found = CLASSES[op](alpha=alpha, target=target)(x, y)
        assert torch.equal(found, _torch_function(op)(x, y, alpha=alpha)), (target, found)


@pytest.mark.parametrize("x", [torch.tensor([1, 2]), torch.tensor([1.0, 2.0])], ids=str)
def test_a_bool_alpha_makes_no_result_but_bool(x):
    with pytest.raises(RuntimeError, match="Boolean alpha"):
        torch.add(x, x, alpha=True)
    with pytest.raises(OpCallError, match=r"category\(alpha\) != 'bool'"):
        CLASSES["AddFwdOp"](alpha=True).check(x, x)
    with pytest.raises(OpConstructionError, match=r"category\(alpha\) != 'bool'"):
        CLASSES["SubFwdOp"](alpha=False)


@pytest.mark.parametrize(
    ("op", "dtype", "bounds"),
    [
        ("ClampScalarFwdOp", torch.uint8, {"min": -250}),
        ("ClampScalarFwdOp", torch.uint8, {"max": -250}),
        ("ClampScalarFwdOp", torch.int32, {"min": True, "max": 3}),
        ("ClampScalarFwdOp", torch.float32, {"max": True}),
        ("HardtanhFwdOp", torch.int32, {"min_val": -1.5, "max_val": 2.5}),
    ],
)
def test_a_bound_is_converted_as_pytorch_converts_it(op, dtype, bounds):
    x = torch.tensor([0, 3, 5, 7]).to(dtype)
    for target in TARGETS:
        found = CLASSES[op](**bounds, target=target)(x)
        assert torch.equal(found, _torch_function(op)(x, **bounds)), (target, found)


@pytest.mark.parametrize("bounds", [{"min": 2.0}, {"max": 2.5}, {"min": 0, "max": 2.0}])
def test_a_float_bound_of_integers_is_refused_since_it_makes_a_float_of_them(bounds):
    x = torch.tensor([1, 5, -3], dtype=torch.int32)
    assert torch.clamp(x, **bounds).dtype == torch.float32
    with pytest.raises(OpCallError, match=r"the rule .category\(T\) == 'float' or not present\(m.{2}\) or is_int"):
        CLASSES["ClampScalarFwdOp"](**bounds).check(x)
    for target in TARGETS:
        assert torch.equal(CLASSES["ClampScalarFwdOp"](**bounds, target=target)(x.float()), torch.clamp(x, **bounds))
        assert torch.equal(CLASSES["ClampScalarFwdOp"](min=-2, max=2, target=target)(x), torch.clamp(x, -2, 2))


@pytest.mark.parametrize("decimals", [38, 39, 308, 309, 400, -38, -39, -400])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_rounding_to_more_decimals_than_there_are_is_pytorchs(decimals, dtype):
    x = torch.tensor([0.0, torch.inf, torch.nan], dtype=dtype)
    for target in TARGETS:
        found = CLASSES["RoundFwdOp"](decimals=decimals, target=target)(x)
        torch.testing.assert_close(found, torch.round(x, decimals=decimals), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "op, params",
    [
        ("FloorDivideFwdOp", {}),
        ("RemainderFwdOp", {}),
        ("DivFwdOp", {"rounding_mode": "trunc"}),
        ("DivFwdOp", {"rounding_mode": "floor"}),
    ],
)
def test_the_reference_says_that_an_integer_is_divided_by_zero(op, params):
    with pytest.raises(OpCallError, match=f"{op}: an integer is divided by 0, for which the op has no value"):
        CLASSES[op](**params, target="torch")(torch.tensor([1, 2]), torch.tensor([1, 0]))


_NUMBERS = [
    ("LeakyReLUFwdOp", "negative_slope"),
    ("ELUFwdOp", "alpha"),
    ("SoftplusFwdOp", "beta"),
    ("SoftplusFwdOp", "threshold"),
    ("LerpScalarFwdOp", "weight"),
]


@pytest.mark.parametrize("op, name", _NUMBERS)
def test_a_number_beyond_the_type_computed_in_is_refused_and_infinity_is_pytorchs(op, name):
    given = [torch.tensor([-1.0, -0.0, 0.0, 2.0]), torch.tensor([1.0, 2.0, -3.0, 0.5])][: len(CLASSES[op].INPUT_NAMES)]
    greatest = torch.finfo(torch.float32).max
    for beyond, dtype in itertools.product(
        (1e39, -1e39, greatest * (1 + 1e-15)), (torch.float16, torch.bfloat16, torch.float32)
    ):
        small = [one.to(dtype) for one in given]
        with pytest.raises(RuntimeError, match="without overflow"):
            _torch_function(op)(*small, **{name: beyond})
        with pytest.raises(OpCallError, match="the rule .* does not hold for this call"):
            CLASSES[op](**{name: beyond}).check(*small)
    CLASSES[op](**{name: 1e39}).check(*(one.double() for one in given))
    for number in (greatest, torch.inf, -torch.inf, torch.nan):
        if op == "SoftplusFwdOp" and name == "beta":
            continue  # 0 times infinity, which torch's own kernels for vectors and for the rest answer differently
        expected = _torch_function(op)(*(one.double() for one in given), **{name: number}).float()
        found = CLASSES[op](**{name: number}, target="triton")(*given)
        torch.testing.assert_close(found, expected, rtol=2e-5, atol=1e-7, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("number", [1e6, 1e39, -1e39, torch.inf])
def test_what_stands_for_nan_is_infinite_beyond_the_range_as_pytorchs_is(number, dtype):
    x = torch.tensor([1.0, torch.nan, torch.inf, -torch.inf], dtype=dtype)
    for target in TARGETS:
        found = CLASSES["NanToNumFwdOp"](number, number, number, target=target)(x)
        assert torch.equal(found, torch.nan_to_num(x, number, number, number))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("beta", [1.0, 0.5, -2.0])
def test_softplus_with_a_large_threshold_overflows_nowhere(dtype, beta):
    x = torch.tensor([-1000.0, -80.0, -1.0, 0.0, 1.0, 90.0, 100.0, 1000.0, torch.inf, -torch.inf]).to(dtype)
    exact = torch.logaddexp(x.double() * beta, torch.zeros((), dtype=torch.float64)) / beta
    for target in TARGETS if dtype != torch.float64 else TARGETS[:1]:
        found = CLASSES["SoftplusFwdOp"](beta, 1e6, target=target)(x)
        torch.testing.assert_close(
            found, exact.to(dtype), rtol={torch.float16: 1e-3, torch.bfloat16: 8e-3}.get(dtype, 2e-6), atol=0
        )


@pytest.mark.parametrize("weight", [torch.tensor(0.25), torch.tensor([0.25]), torch.tensor([0.25, -1.0, 2.0])], ids=str)
@pytest.mark.parametrize("shape", [(2, 3), (4, 3, 5), (7,), ()], ids=str)
def test_a_slope_is_one_a_channel_or_one_alone_with_an_axis_or_without(weight, shape):
    x = torch.randn(shape)
    if weight.numel() == 3 and len(shape) < 2:
        with pytest.raises(OpCallError, match="the rule .* does not hold"):
            CLASSES["PReLUFwdOp"]().check(x, weight)
        return
    for target in TARGETS:
        assert torch.equal(CLASSES["PReLUFwdOp"](target=target)(x, weight), F.prelu(x, weight))
    with pytest.raises(OpCallError, match=r"the rule .len\(W\) <= 1. does not hold"):
        CLASSES["PReLUFwdOp"]().check(x, weight.view(1, -1))


# ---- layout


_LAYOUTS = {
    "channels_last": lambda: torch.rand(2, 3, 4, 5).add(0.5).contiguous(memory_format=torch.channels_last),
    "transposed": lambda: torch.rand(4, 6).add(0.5).t(),
    "expanded": lambda: torch.rand(4, 1).add(0.5).expand(4, 6),
    "with gaps": lambda: torch.rand(4, 12).add(0.5)[:, ::2],
}


@pytest.mark.parametrize("layout", _LAYOUTS)
@pytest.mark.parametrize("op", [*TABLE, "SiLUAndMulFwdOp", "GELUAndMulFwdOp", "DropoutFwdOp"])
def test_a_result_is_contiguous_whoever_computes_it_and_on_meta(op, layout):
    if "AndMul" in op and layout == "channels_last":
        pytest.skip("a gated op halves the last axis, here of 5")
    x = _LAYOUTS[layout]()
    (some, *_) = settings(op) if op in TABLE else [Settings({}, OPS[op].INPUT_NAMES)]
    given = _laid_out(op, x, some)
    for target in TARGETS:
        assert OPS[op](**some.params, target=target)(*given).is_contiguous(), target
    on_meta = [one if one is None else one.to("meta") for one in given]
    assert OPS[op](**some.params)(*on_meta).is_contiguous()


def _laid_out(op, x, some):
    """Inputs of a call that lie as x does, bools and integers where the entry has no floats."""
    chosen = dict.fromkeys(OPS[op].INPUT_NAMES, torch.float32)
    if op in TABLE:
        chosen = next((one for one in dtypes(op) if torch.float32 in one.values()), dtypes(op)[0])
    given = []
    for name in OPS[op].INPUT_NAMES:
        values = x.as_strided(
            (1 + sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True)),), (1,)
        )
        one = values.to(chosen[name]).as_strided(x.shape, x.stride())
        one = torch.tensor(0.5) if (op, name) == ("MaskedFillTensorFwdOp", "value") else one
        one = torch.rand(x.shape[1]) if (op, name) == ("PReLUFwdOp", "weight") else one
        given.append(one if name in some.present else None)
    return given


# ---- roofs


_I, _B, _H, _F, _D = torch.int32, torch.bool, torch.float16, torch.float32, torch.float64


@pytest.mark.requirement("1.4.8")
@pytest.mark.parametrize(
    "op, params, given, roof",
    [
        ("AddFwdOp", {}, (_I, _I), "int32"),
        ("AddFwdOp", {}, (_I, _H), "fp32"),
        ("AddFwdOp", {}, (_H, _H), "fp32"),
        ("AddFwdOp", {}, (_D, _I), "fp64"),
        ("AddFwdOp", {}, (_B, _B), "int32"),
        ("AddFwdOp", {}, (torch.int64, _I), "int32"),
        ("DivFwdOp", {}, (_I, _I), "fp32"),
        ("DivFwdOp", {}, (torch.uint8, torch.uint8), "fp32"),
        ("DivFwdOp", {}, (_B, _B), "fp32"),
        ("DivFwdOp", {"rounding_mode": "floor"}, (_I, _I), "int32"),
        ("DivFwdOp", {"rounding_mode": "trunc"}, (_I, _I), "int32"),
        ("FloorDivideFwdOp", {}, (_I, _I), "int32"),
        ("PowFwdOp", {}, (_I, _I), "int32"),
        ("PowFwdOp", {}, (_I, _F), "fp32"),
        ("SqrtFwdOp", {}, (_I,), "fp32"),
        ("SqrtFwdOp", {}, (_D,), "fp64"),
        ("AbsFwdOp", {}, (_I,), "int32"),
        ("SigmoidFwdOp", {}, (_B,), "fp32"),
        ("BitwiseNotFwdOp", {}, (_B,), "int32"),
        ("EqFwdOp", {}, (_I, _I), "int32"),
        ("EqFwdOp", {}, (_D, _D), "fp64"),
        ("LogicalAndFwdOp", {}, (_F, _F), "fp32"),
        ("LogicalAndFwdOp", {}, (_I, _I), "int32"),
        ("WhereFwdOp", {}, (_B, _I, _I), "int32"),
        ("WhereFwdOp", {}, (_B, _H, _H), "fp32"),
        ("FloorFwdOp", {}, (_I,), "int32"),
        ("MaskedFillTensorFwdOp", {}, (_I, _B, _I), "int32"),
        ("ClampTensorFwdOp", {}, (torch.uint8,) * 3, "int32"),
    ],
)
def test_the_roof_is_the_core_that_computes_in_the_type_of_the_result_before_it_is_rounded(op, params, given, roof):
    shapes = [() if (op, name) == ("MaskedFillTensorFwdOp", "value") else (4,) for name in CLASSES[op].INPUT_NAMES]
    instance = CLASSES[op](**params)
    instance(*(torch.ones(shape, dtype=dtype) for shape, dtype in zip(shapes, given, strict=True)))
    assert instance.roof_key() == f"cuda_core.{roof}"


def test_an_operand_without_axes_makes_no_wider_roof():
    instance = CLASSES["AddFwdOp"]()
    instance(torch.ones(3), torch.ones((), dtype=torch.float64))
    assert instance.roof_key() == "cuda_core.fp32"


# ---- dropout


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_what_dropout_keeps_is_scaled_before_it_is_rounded(dtype, p):
    x = torch.randn(3000).to(dtype)
    kept = OPS["DropoutFwdOp"](p, seed=5, target="torch")(x)
    exact = (x.double() / (1 - p)).to(dtype).where(kept != 0, 0)
    torch.testing.assert_close(
        kept, exact, rtol=torch.finfo(dtype).eps * (0.01 if dtype != torch.float32 else 1), atol=0
    )
    if dtype != torch.bfloat16:  # which the interpreter rounds towards zero
        assert torch.equal(OPS["DropoutFwdOp"](p, seed=5, target="triton")(x), kept)


def test_dropout_of_float64_is_scaled_in_float64():
    x = torch.randn(3000, dtype=torch.float64)
    kept = OPS["DropoutFwdOp"](0.1, seed=5)(x)
    torch.testing.assert_close(kept, (x / 0.9).where(kept != 0, 0), rtol=1e-15, atol=0)
