"""The table of elementwise ops: of each its PyTorch reference and the scalar functions that its kernel applies.

Implementations, tests and the FLOP oracle read the same table. It names scalar functions (scalar_functions.py), so that
it can be read on a machine without Triton.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

Params = Mapping[str, Any]
# The name of a scalar function, or what chooses it by the parameters and the inputs that are there.
Chosen = str | Callable[[Params, Sequence[str]], str]

_INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
COMPUTED = (*_INTEGERS, *_FLOATS)  # the dtypes of operands that kernels serve
# Scalar functions that have a cheaper form for results of 16 bits, by the name with _half.
HALF = frozenset({"cosine", "error_function", "gelu", "log1p", "logarithm", "power", "sine", "softplus"})


@dataclasses.dataclass(frozen=True)
class Formula:
    """What an op computes of each element.

    Attributes:
      reference: called with the inputs, and with the parameters by name.
      scalar: the function of float32 values.
      integer: the function of integers; "" has them computed in float32, None leaves them to the reference.
      boolean: the function of bools, which are held as 0 and 1; "" is `integer`.
      numbers: (params, dtype of the result) -> the numbers that the function takes after its operands.
      masks: inputs that are only asked whether they are 0.
      views: (the inputs that are there) -> the operands, views of them that broadcast to the result.
      samples: by input, what a row's random values are drawn from (`Op.SAMPLES`) where a normal distribution leaves the
        domain of the op, leaves nearly all of its work undone, or gives one result for all of its values.
    """

    reference: Callable[..., torch.Tensor]
    scalar: Chosen
    integer: Chosen | None = ""
    boolean: str = ""
    numbers: Callable[[Params, torch.dtype], Sequence[float]] = lambda params, dtype: ()
    masks: tuple[str, ...] = ()
    views: Callable[[list[torch.Tensor]], list[torch.Tensor]] = lambda inputs: inputs
    samples: Mapping[str, tuple[float, float] | range | list[float]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Launch:
    """How a kernel computes a call: the scalar function, the dtype that each operand is rounded to, the one computed
    in.
    """

    function: str
    meeting: tuple[torch.dtype, ...]
    compute: torch.dtype


def meeting(operands: Mapping[str, torch.dtype], scalars: Collection[str] = ()) -> torch.dtype:
    """The dtype in which operands meet, as torch.result_type gives it; bool without operands.

    Args:
      operands: their dtypes, by name.
      scalars: names of those without axes, which decide only where they are of a higher category than all with axes.
    """
    whole, lone = (
        functools.reduce(
            torch.promote_types, [dtype for name, dtype in operands.items() if (name in scalars) is is_lone], torch.bool
        )
        for is_lone in (False, True)
    )
    has_both = 0 < sum(name in scalars for name in operands) < len(operands)
    return whole if has_both and _category(lone) <= _category(whole) else torch.promote_types(whole, lone)


def _category(dtype: torch.dtype) -> int:
    return 2 if dtype.is_floating_point else int(dtype != torch.bool)


def launch(
    formula: Formula,
    params: Params,
    operands: Mapping[str, torch.dtype],
    result: torch.dtype,
    scalars: Collection[str] = (),
) -> Launch | None:
    """How the kernel computes a call; None where the reference alone serves it.

    Args:
      formula: of the op.
      params: of the call.
      operands: dtypes of the inputs that are there, by name in signature order.
      result: dtype of the output.
      scalars: names of the inputs without axes.
    """
    function: str | None
    common = meeting({name: dtype for name, dtype in operands.items() if name not in formula.masks}, scalars)
    integer = chosen(formula.integer, params, operands)
    if common in _FLOATS or (common in _INTEGERS and integer == ""):
        compute, shared = torch.float32, common if common in _FLOATS else torch.float32
        function = chosen(formula.scalar, params, operands)
        if result.itemsize == 2 and function is not None and function in HALF:
            function += "_half"
    elif common in _INTEGERS and integer is not None:
        compute = torch.int64 if common == torch.int64 else torch.int32
        shared = torch.int32 if common == torch.bool else common
        function = formula.boolean if formula.boolean and common == torch.bool else integer
    else:  # float64 among others, for which the numbers of a call would have to reach the kernel as such
        return None
    if function is None:
        return None
    return Launch(function, tuple(torch.bool if name in formula.masks else shared for name in operands), compute)


def chosen(name: Chosen | None, params: Params, inputs: Iterable[str]) -> str | None:
    """The scalar function that a line of the table names for a call with these inputs, by name."""
    return name(params, tuple(inputs)) if callable(name) else name


def _named(*names: str) -> Callable[[Params, torch.dtype], Sequence[float]]:
    """The parameters of these names as numbers."""
    return lambda params, dtype: [_converted(params[name], dtype) for name in names]


def _converted(value: float, dtype: torch.dtype) -> float:
    """A number as PyTorch converts it to an integer or bool: 2.5 as 2, -1 of uint8 as 255, 0.5 of bool as True."""
    if dtype.is_floating_point:
        return value
    if dtype == torch.bool:
        return bool(value)
    limits = torch.iinfo(dtype)
    return int(value) % (limits.max + 1) if limits.min == 0 else int(value)


def _alike(reference: Callable[..., torch.Tensor], name: str) -> Formula:
    """One function for floats and for integers."""
    return Formula(reference, name, integer=name)


# ---- unary math


def _round_numbers(params: Params, dtype: torch.dtype) -> Sequence[float]:
    """The power of ten that is scaled by; beyond float32, in which kernels compute, it is infinite as PyTorch's is."""
    decimals = abs(params["decimals"])
    return [] if decimals == 0 else [10.0**decimals if decimals <= 38 else math.inf]


def _rounded(input: torch.Tensor, decimals: int) -> torch.Tensor:
    """torch.round, which takes integers only where no decimals are named."""
    return torch.round(input, decimals=decimals) if decimals else torch.round(input)


def _round(params: Params, inputs: Sequence[str]) -> str:
    decimals = params["decimals"]
    return "round_even" if decimals == 0 else "round_scaled" if decimals > 0 else "round_coarse"


def _replacements(params: Params, dtype: torch.dtype) -> Sequence[float]:
    """What NaN and the infinities become: by default the dtype's greatest and least."""
    if not dtype.is_floating_point:
        return []
    limits = torch.finfo(dtype)
    above, below = params["posinf"], params["neginf"]
    nan = 0.0 if params["nan"] is None else params["nan"]
    return [nan, limits.max if above is None else above, limits.min if below is None else below]


_POSITIVE = {"input": (0.01, 4.0)}
# Of normal values none is 0, no two are equal and all are finite: a result that was never computed would be right.
_NEAR_ZERO = range(-1, 2)
_OFTEN_EQUAL = {"input": range(-8, 9), "other": range(-8, 9)}
_NOT_ALL_FINITE = {"input": [math.nan, math.inf, -math.inf, -1.5, 0.0, 1.0, 300.0]}

UNARY = {
    "AbsFwdOp": _alike(torch.abs, "absolute"),
    "NegFwdOp": _alike(torch.neg, "negative"),
    "SignFwdOp": _alike(torch.sign, "sign"),
    "ReciprocalFwdOp": Formula(torch.reciprocal, "reciprocal", samples=_POSITIVE),
    "SqrtFwdOp": Formula(torch.sqrt, "square_root", samples=_POSITIVE),
    "RsqrtFwdOp": Formula(torch.rsqrt, "reciprocal_root", samples=_POSITIVE),
    "ExpFwdOp": Formula(torch.exp, "exponential"),
    "Expm1FwdOp": Formula(torch.expm1, "expm1"),
    "LogFwdOp": Formula(torch.log, "logarithm", samples=_POSITIVE),
    "Log1pFwdOp": Formula(torch.log1p, "log1p", samples={"input": (-0.9, 4.0)}),
    "ErfFwdOp": Formula(torch.erf, "error_function"),
    "SinFwdOp": Formula(torch.sin, "sine"),
    "CosFwdOp": Formula(torch.cos, "cosine"),
    "TanhFwdOp": Formula(torch.tanh, "tanh"),
    "SigmoidFwdOp": Formula(torch.sigmoid, "sigmoid"),
    "FloorFwdOp": Formula(torch.floor, "floor", integer="identity", samples={"input": (-8.0, 8.0)}),
    "CeilFwdOp": Formula(torch.ceil, "ceil", integer="identity", samples={"input": (-8.0, 8.0)}),
    "TruncFwdOp": Formula(torch.trunc, "truncate", integer="identity", samples={"input": (-8.0, 8.0)}),
    "RoundFwdOp": Formula(_rounded, _round, integer="identity", numbers=_round_numbers, samples={"input": (-8.0, 8.0)}),
    "LogicalNotFwdOp": Formula(torch.logical_not, "is_zero", integer="is_zero", samples={"input": _NEAR_ZERO}),
    "BitwiseNotFwdOp": Formula(torch.bitwise_not, "bitwise_not", integer="bitwise_not", boolean="is_zero"),
    "IsnanFwdOp": Formula(torch.isnan, "is_nan", samples=_NOT_ALL_FINITE),
    "IsinfFwdOp": Formula(torch.isinf, "is_infinite", samples=_NOT_ALL_FINITE),
    "IsfiniteFwdOp": Formula(torch.isfinite, "is_finite", samples=_NOT_ALL_FINITE),
    "NanToNumFwdOp": Formula(torch.nan_to_num, "nan_to_num", integer="identity", numbers=_replacements),
}

# ---- activations


def _gelu(input: torch.Tensor, approximate: str) -> torch.Tensor:
    """F.gelu; on the CPU in float64, as what oneDNN makes of infinity in float32 and bfloat16 depends on the processor."""
    if input.device.type != "cpu":
        return F.gelu(input, approximate=approximate)
    return F.gelu(input.double(), approximate=approximate).to(input.dtype)


# Beyond it, e ** x is infinite in float32.
_LARGEST_EXPONENT = 88.0


def _softplus(input: torch.Tensor, beta: float, threshold: float) -> torch.Tensor:
    """F.softplus, which is infinite where e ** (beta input) overflows below the threshold; not so here."""
    if threshold <= _LARGEST_EXPONENT:
        return F.softplus(input, beta, threshold)
    wide = input.to(torch.promote_types(input.dtype, torch.float32))
    scaled = wide * beta
    soft = torch.logaddexp(scaled, scaled.new_zeros(())) / beta
    return torch.where(scaled > threshold, wide, soft).to(input.dtype)


ACTIVATIONS = {
    "ReLUFwdOp": _alike(F.relu, "relu"),
    "LeakyReLUFwdOp": Formula(F.leaky_relu, "leaky_relu", numbers=_named("negative_slope")),
    "ELUFwdOp": Formula(F.elu, "elu", numbers=_named("alpha")),
    "SELUFwdOp": Formula(F.selu, "selu"),
    "SiLUFwdOp": Formula(F.silu, "silu"),
    "MishFwdOp": Formula(F.mish, "mish"),
    "GELUFwdOp": Formula(_gelu, lambda params, inputs: "gelu_tanh" if params["approximate"] == "tanh" else "gelu"),
    "SoftplusFwdOp": Formula(_softplus, "softplus", numbers=_named("beta", "threshold")),
    "HardsigmoidFwdOp": Formula(F.hardsigmoid, "hardsigmoid"),
    "HardswishFwdOp": Formula(F.hardswish, "hardswish"),
    "HardtanhFwdOp": Formula(F.hardtanh, "clip", integer="clip", numbers=_named("min_val", "max_val")),
}

# ---- two operands


def _unless_one(plain: str, scaled: str) -> Chosen:
    """By alpha, which is no number of the function where it is the identity."""
    return lambda params, inputs: plain if params["alpha"] == 1 else scaled


def _alpha(params: Params, dtype: torch.dtype) -> Sequence[float]:
    return [] if params["alpha"] == 1 else [_converted(params["alpha"], dtype)]


def _by_rounding(plain: str, trunc: str, floor: str) -> Chosen:
    return lambda params, inputs: {None: plain, "trunc": trunc, "floor": floor}[params["rounding_mode"]]


def _logical(reference: Callable[..., torch.Tensor], name: str) -> Formula:
    near_zero = {"input": _NEAR_ZERO, "other": _NEAR_ZERO}
    return Formula(reference, name, integer=name, masks=("input", "other"), samples=near_zero)


def _compared(reference: Callable[..., torch.Tensor], name: str) -> Formula:
    return Formula(reference, name, integer=name, samples=_OFTEN_EQUAL)


_add, _subtract = _unless_one("add", "add_scaled"), _unless_one("subtract", "subtract_scaled")
_DIVISOR = {"other": (0.5, 4.0)}

BINARY = {
    "AddFwdOp": Formula(torch.add, _add, integer=_add, numbers=_alpha),
    "SubFwdOp": Formula(torch.sub, _subtract, integer=_subtract, numbers=_alpha),
    "MulFwdOp": _alike(torch.mul, "multiply"),
    "DivFwdOp": Formula(
        torch.div,
        _by_rounding("divide", "divide_truncated", "floor_divide"),
        integer=_by_rounding("", "divide_integers", "floor_divide_integers"),
        samples=_DIVISOR,
    ),
    "FloorDivideFwdOp": Formula(torch.floor_divide, "floor_divide", integer="floor_divide_integers", samples=_DIVISOR),
    "RemainderFwdOp": Formula(torch.remainder, "remainder", integer="remainder_integers", samples=_DIVISOR),
    "PowFwdOp": Formula(torch.pow, "power", integer=None, samples={"input": (0.01, 4.0), "exponent": (0.0, 4.0)}),
    "MaximumFwdOp": _alike(torch.maximum, "maximum"),
    "MinimumFwdOp": _alike(torch.minimum, "minimum"),
    "LerpScalarFwdOp": Formula(torch.lerp, "lerp", numbers=_named("weight")),
    "EqFwdOp": _compared(torch.eq, "equal"),
    "NeFwdOp": _compared(torch.ne, "not_equal"),
    "GtFwdOp": _compared(torch.gt, "greater"),
    "GeFwdOp": _compared(torch.ge, "greater_equal"),
    "LtFwdOp": _compared(torch.lt, "less"),
    "LeFwdOp": _compared(torch.le, "less_equal"),
    "LogicalAndFwdOp": _logical(torch.logical_and, "bit_and"),
    "LogicalOrFwdOp": _logical(torch.logical_or, "bit_or"),
    "BitwiseAndFwdOp": _alike(torch.bitwise_and, "bit_and"),
    "BitwiseOrFwdOp": _alike(torch.bitwise_or, "bit_or"),
    "BitwiseXorFwdOp": _alike(torch.bitwise_xor, "bit_xor"),
}

# ---- three operands, masks and bounds


def _bounds(params: Params, dtype: torch.dtype) -> Sequence[float]:
    """Both bounds; one that is not given is past every value."""
    limits = torch.iinfo(dtype) if not dtype.is_floating_point else None
    least, greatest = (-torch.inf, torch.inf) if limits is None else (limits.min, limits.max)
    low, high = params["min"], params["max"]
    return [least if low is None else _converted(low, dtype), greatest if high is None else _converted(high, dtype)]


def _clamp(params: Params, inputs: Sequence[str]) -> str:
    return {"min": "maximum", "max": "minimum"}.get("".join(inputs[1:]), "clip")


def _slope_by_channel(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    input, weight = inputs
    return [input, weight.view(-1, *[1] * (input.dim() - 2)) if input.dim() > 1 else weight.view(())]


def _fill_scalar(input: torch.Tensor, mask: torch.Tensor, value: float) -> torch.Tensor:
    return input.masked_fill(mask, value)


TERNARY = {
    "WhereFwdOp": Formula(torch.where, "select", integer="select", masks=("condition",)),
    "MaskedFillTensorFwdOp": Formula(torch.Tensor.masked_fill, "fill", integer="fill", masks=("mask",)),
    "MaskedFillScalarFwdOp": Formula(_fill_scalar, "fill", integer="fill", numbers=_named("value"), masks=("mask",)),
    "LerpTensorFwdOp": Formula(torch.lerp, "lerp", samples={"weight": (0.0, 1.0)}),
    "PReLUFwdOp": Formula(F.prelu, "prelu", views=_slope_by_channel),
    "ClampTensorFwdOp": Formula(torch.clamp, _clamp, integer=_clamp),
    "ClampScalarFwdOp": Formula(torch.clamp, "clip", integer="clip", numbers=_bounds),
}

TABLE: dict[str, Formula] = {**UNARY, **ACTIVATIONS, **BINARY, **TERNARY}


# ---- gated


# The activation of one half of a row, which the other half is multiplied by.
GATED: dict[str, Formula] = {"SiLUAndMulFwdOp": ACTIVATIONS["SiLUFwdOp"], "GELUAndMulFwdOp": ACTIVATIONS["GELUFwdOp"]}
