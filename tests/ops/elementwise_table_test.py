"""Every op of the elementwise table: its reference against PyTorch's function, its kernel against its reference."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch

from tileops.ops.errors import OpCallError
from tileops.ops.kernels.elementwise import scalar_functions
from tileops.ops.kernels.elementwise.table import ACTIVATIONS, HALF, TABLE, UNARY, launch
from tileops.tests.ops.comparing import TOLERANCE, assert_rounded, assert_zeros_have_the_same_sign
from tileops.tests.ops.elementwise_calls import CLASSES, dtypes, exact, inputs, scattered, settings, signatures, values

_IN_PLACE = [op for op in TABLE if CLASSES[op].MUTATED_NAMES]
_BROADCAST = [(5, 1, 7), (3, 1), (1, 7)]
_SIZES = [(), (0,), (1,), (127,), (129,), (4097,), (3, 0, 5)]


def _torch_function(op):
    """The function of PyTorch that the entry names."""
    return functools.reduce(getattr, CLASSES[op].REF_API.split(".")[1:], torch)


def _assert_same(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    assert_zeros_have_the_same_sign(found, expected)


# Those of which kernel or reference may lose more than a rounding of the result: they add what may cancel.
CANCELLING = ("AddFwdOp", "SubFwdOp", "LerpScalarFwdOp", "LerpTensorFwdOp", "GELUFwdOp")


def assert_close(op, found, expected):
    """Equal but for the rounding of the result's type, small values and signs of zero included."""
    least = TOLERANCE.get(found.dtype, 0.0) if op in CANCELLING else 0.0
    # The interpreter takes subnormals of bfloat16 for other numbers; a sigmoid divides by what overflows before it is
    # 0.
    if found.dtype == torch.bfloat16 or op == "SigmoidFwdOp":
        least = max(least, torch.finfo(found.dtype).tiny)
    assert_rounded(found, expected, least)
    # Of two zeros either is the greater.
    if op not in (*CANCELLING, "MaximumFwdOp", "MinimumFwdOp", "ClampTensorFwdOp"):
        assert_zeros_have_the_same_sign(found, expected)


def _named(some):
    """The settings as a function of PyTorch takes them: torch.round takes integers only where no decimals are named."""
    return {name: value for name, value in some.params.items() if name != "decimals" or value}


def _assert_reference_is_the_function(op, some, given):
    try:
        found = CLASSES[op](**some.params, target="torch")(*given)
    except OpCallError:
        return  # a rule of the entry: decimals of integers, say
    if op == "GELUFwdOp":  # of float32 and of 16 bits torch's own differs by processor
        _assert_same(found, _torch_function(op)(*(one.double() for one in given), **_named(some)).to(found.dtype))
    else:
        _assert_same(found, _torch_function(op)(*given, **_named(some)))


@pytest.mark.parametrize("op", TABLE)
def test_the_reference_is_the_function_that_the_entry_names(op):
    names = CLASSES[op].INPUT_NAMES
    for some in settings(op):
        for chosen in dtypes(op):
            if len(set(chosen.values())) == 1:
                for size in _SIZES:
                    _assert_reference_is_the_function(op, some, inputs(op, (size,) * len(names), chosen, some))
            if len(names) > 1:
                _assert_reference_is_the_function(op, some, inputs(op, _BROADCAST[: len(names)], chosen, some))


@pytest.mark.parametrize("op", TABLE)
def test_the_kernel_computes_what_the_reference_computes(op):
    names = CLASSES[op].INPUT_NAMES
    for some in settings(op):
        for chosen in dtypes(op):
            if len(set(chosen.values())) == 1:
                assert_kernel_agrees(op, some.params, *inputs(op, ((3, 127),) * len(names), chosen, some))
        floats = dict.fromkeys(names, torch.float32)
        if floats in dtypes(op):
            given = inputs(op, ((3, 127),) * len(names), floats, some)
            assert_kernel_agrees(op, some.params, *(one if one is None else scattered(one) for one in given))
            for size in ((), (0, 3)):
                assert_kernel_agrees(op, some.params, *inputs(op, (size,) * len(names), floats, some))


_MIXED = (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32)
_TWO = [op for op in TABLE if len(CLASSES[op].INPUT_NAMES) > 1]


@pytest.mark.parametrize("op", _TWO)
def test_the_kernel_broadcasts_and_promotes_as_the_reference_does(op):
    (some, *_), names = settings(op), CLASSES[op].INPUT_NAMES
    mixed = [chosen for chosen in dtypes(op) if set(chosen.values()) <= set(_MIXED)]
    for chosen in mixed[:: max(1, len(mixed) // 12)]:
        met = {dtype for name, dtype in chosen.items() if name not in TABLE[op].masks}
        if torch.bfloat16 in met and met & {torch.int32, torch.int64}:
            continue  # the interpreter rounds integers to bfloat16 towards zero
        assert_kernel_agrees(op, some.params, *inputs(op, _BROADCAST[: len(names)], chosen, some))


def assert_kernel_agrees(op, params, *given):
    """The kernel gives what the reference gives, within the rounding of its own type; integers and bools exactly."""
    op_class = CLASSES[op]
    given = [_readable(x) for x in given]
    try:
        call = op_class(**params).check(*given)
    except OpCallError:
        return
    if "triton" not in op_class(**params).serving(call):
        assert _is_left_to_the_reference(op, params, call)
        return
    expected = exact(op, params, given)
    with np.errstate(all="ignore"):
        found = op_class(**params, target="triton")(*given)
    assert_close(op, found, expected)


def _readable(x):
    """Without subnormals of bfloat16, which the interpreter (not the compiler) takes for other numbers."""
    return x.where(x.abs() >= torch.finfo(x.dtype).tiny, 0) if x is not None and x.dtype == torch.bfloat16 else x


def _is_left_to_the_reference(op, params, call):
    """Float64 is, and what the table says of integers."""
    met = [record.dtype for record in call.inputs.values()]
    return "float64" in met or TABLE[op].integer is None


@pytest.mark.parametrize("target", ["torch", "triton"])
@pytest.mark.parametrize("op", _IN_PLACE)
def test_in_place_the_result_is_the_input_itself(op, target):
    for x in (_readable(values((3, 127), torch.bfloat16, seed=3)), scattered(values((3, 127), torch.float32, seed=3))):
        expected = exact(op, {"inplace": False}, [x.clone()])
        with np.errstate(all="ignore"):
            found = CLASSES[op](inplace=True, target=target)(x)
        assert found is x
        assert_close(op, x, expected)


@pytest.mark.parametrize("target", ["torch", "triton"])
@pytest.mark.parametrize("op", _IN_PLACE)
def test_in_place_a_tensor_whose_elements_share_memory_is_refused(op, target):
    for shared in (torch.full((1,), -1.0).expand(5000), torch.arange(-4.0, 4.0).as_strided((6, 3), (1, 1))):
        with pytest.raises(OpCallError, match=f"{op}: the call writes 'input', and its elements may share memory"):
            CLASSES[op](inplace=True, target=target)(shared)
        CLASSES[op](target=target)(shared)  # which is only read


@pytest.mark.parametrize("name", ["torch", "triton"])
@pytest.mark.parametrize("op", _IN_PLACE)
def test_an_implementation_writes_what_it_is_given_and_not_what_the_call_once_bound(op, name):
    instance = CLASSES[op](inplace=True, target=name)
    call = instance.check(torch.randn(8))
    x = torch.randn(8)
    assert instance.select(call).function(instance, call, x) is x  # the bench calls a reference so


def test_in_place_over_more_axes_than_a_kernel_walks():
    x = scattered(torch.randn(2, 3, 2, 3, 2, 3, 2))
    expected = torch.relu(x)
    CLASSES["ReLUFwdOp"](inplace=True, target="triton")(x)
    assert torch.equal(x, expected)


def test_every_function_that_the_table_can_choose_is_there():
    for op, formula in TABLE.items():
        found = list(signatures(op))
        assert found
        for some, operands, result in found:
            assert hasattr(scalar_functions, launch(formula, some.params, operands, result).function), op
    for name in HALF:
        assert hasattr(scalar_functions, name) and hasattr(scalar_functions, name + "_half")


@pytest.mark.parametrize("name", ["sine_half", "cosine_half"])
def test_sine_and_cosine_of_16_bits_are_exact_on_every_branch(name):
    """Near 0, over many turns, and beyond where the reduction is exact."""
    x = torch.cat(
        [torch.linspace(-20, 20, 3000), torch.linspace(-65000, 65000, 3000), torch.tensor([1e-5, 3e38, -1e20])]
    )
    op = {"sine_half": "SinFwdOp", "cosine_half": "CosFwdOp"}[name]
    for part in (x[:3000], x[3000:6000], x[6000:]):
        part = part.bfloat16()
        found = CLASSES[op](target="triton")(part)
        exact = _torch_function(op)(part.double())
        torch.testing.assert_close(found.double(), exact, rtol=8e-3, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("op", [*UNARY, *ACTIVATIONS])
def test_zero_keeps_its_sign_also_among_small_values_alone(op, dtype):
    """Kernels choose another branch where a block holds large values."""
    x = torch.tensor([-0.0, 0.0, -0.25, 0.25, -0.5, 0.5, -0.75, 1.0]).to(dtype)
    for some in settings(op):
        if dict(input=dtype) in dtypes(op):
            found = CLASSES[op](**some.params, target="triton")(x)
            exact = CLASSES[op](**some.params, target="torch")(x.double())  # of float32 its GELU loses the sign
            assert_zeros_have_the_same_sign(found, exact.to(found.dtype))


@pytest.mark.parametrize(
    "op", ["ErfFwdOp", "TanhFwdOp", "Expm1FwdOp", "Log1pFwdOp", "LogFwdOp", "GELUFwdOp", "SoftplusFwdOp", "MishFwdOp"]
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_functions_of_16_bits_keep_their_relative_accuracy_near_zero(op, dtype):
    sizes = torch.logspace(-4, 0.6, 2000, dtype=torch.float64)
    x = (sizes if op == "LogFwdOp" else torch.cat([-sizes.clamp(max=0.9), sizes])).to(dtype)
    found = CLASSES[op](target="triton")(x).double()
    exact = _torch_function(op)(x.double())
    # The interpreter rounds to bfloat16 towards zero, which costs up to a whole unit of the last place.
    allowed = torch.finfo(dtype).eps * (1.02 if dtype == torch.bfloat16 else 0.6)
    error = ((found - exact).abs() / exact.abs().clamp(min=torch.finfo(dtype).smallest_normal)).max()
    assert error <= allowed
