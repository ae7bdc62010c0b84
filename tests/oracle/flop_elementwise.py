"""The elementwise ops in PyTorch operations that count one by one, for the FLOP oracle.

Written afresh, in the primitives of the seed's section 1.3: a recount shares nothing with the table that ops run by.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

Params = dict[str, Any]
Reference = Callable[..., torch.Tensor]
_SQRT_HALF, _TANH_SCALE, _TANH_CUBE = 0.7071067811865476, 0.7978845608028654, 0.044715
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def _asked(comparison: Callable[..., torch.Tensor], *args: Any) -> torch.Tensor:
    """The comparison of a compare-and-select, which counts 1 as a whole: the select's."""
    with _disable_current_modes():
        return comparison(*args)


def _is_float(x: torch.Tensor) -> bool:
    return x.dtype.is_floating_point


def _times(x: torch.Tensor, number: float) -> torch.Tensor:
    """x times a number, which is nothing to do where the number is 1."""
    return x if number == 1 else x * number


def _is_empty(*inputs: torch.Tensor) -> bool:
    """Whether what the inputs broadcast to has no elements, so that nothing is to be computed."""
    return 0 in torch.broadcast_shapes(*(one.shape for one in inputs))


def absolute(params: Params, input: torch.Tensor) -> torch.Tensor:
    return input.clone() if input.dtype == torch.uint8 else torch.abs(input)


def sign(params: Params, input: torch.Tensor) -> torch.Tensor:
    return input.clone() if input.dtype == torch.bool else torch.sign(input)


def _rounding(function: Callable[..., torch.Tensor], params: Params, input: torch.Tensor) -> torch.Tensor:
    return function(input) if _is_float(input) else input.clone()


def round_decimals(params: Params, input: torch.Tensor) -> torch.Tensor:
    decimals = params["decimals"]
    if not _is_float(input):
        return input.clone()
    return torch.round(input) if decimals == 0 else torch.round(input * 10.0**decimals) / 10.0**decimals


def nan_to_num(params: Params, input: torch.Tensor) -> torch.Tensor:
    if not _is_float(input):
        return input.clone()
    limits = torch.finfo(input.dtype)
    above, below = params["posinf"], params["neginf"]
    x = torch.masked_fill(input, _asked(torch.isnan, input), params["nan"] or 0.0)
    x = torch.masked_fill(x, _asked(torch.eq, input, torch.inf), limits.max if above is None else above)
    return torch.masked_fill(x, _asked(torch.eq, input, -torch.inf), limits.min if below is None else below)


def isinf(params: Params, input: torch.Tensor) -> torch.Tensor:
    return torch.eq(_asked(torch.abs, input), torch.inf)


def isfinite(params: Params, input: torch.Tensor) -> torch.Tensor:
    return torch.lt(_asked(torch.abs, input), torch.inf)


def isnan(params: Params, input: torch.Tensor) -> torch.Tensor:
    return torch.ne(input, input)


def relu(params: Params, input: torch.Tensor) -> torch.Tensor:
    return input.clone() if input.dtype == torch.uint8 else torch.relu(input)


def leaky_relu(params: Params, input: torch.Tensor) -> torch.Tensor:
    return torch.where(_asked(torch.gt, input, 0), input, _times(input, params["negative_slope"]))


def elu(params: Params, input: torch.Tensor) -> torch.Tensor:
    return torch.where(_asked(torch.gt, input, 0), input, _times(torch.expm1(input), params["alpha"]))


def selu(params: Params, input: torch.Tensor) -> torch.Tensor:
    return torch.where(_asked(torch.gt, input, 0), input, torch.expm1(input) * _SELU_ALPHA) * _SELU_SCALE


def mish(params: Params, input: torch.Tensor) -> torch.Tensor:
    return torch.tanh(torch.log1p(torch.exp(input))) * input


def gelu(params: Params, input: torch.Tensor) -> torch.Tensor:
    if params["approximate"] == "none":
        return (torch.erf(input * _SQRT_HALF) + 1) * 0.5 * input
    cube = torch.square(input) * input
    return (torch.tanh((cube * _TANH_CUBE + input) * _TANH_SCALE) + 1) * 0.5 * input


def softplus(params: Params, input: torch.Tensor) -> torch.Tensor:
    beta = params["beta"]
    scaled = _times(input, beta)
    soft = torch.log1p(torch.exp(scaled))
    return torch.where(_asked(torch.gt, scaled, params["threshold"]), input, soft if beta == 1 else soft / beta)


def hardsigmoid(params: Params, input: torch.Tensor) -> torch.Tensor:
    return torch.clamp(input + 3, 0, 6) / 6


def hardswish(params: Params, input: torch.Tensor) -> torch.Tensor:
    return torch.clamp(input + 3, 0, 6) * input / 6


def hardtanh(params: Params, input: torch.Tensor) -> torch.Tensor:
    low, high = params["min_val"], params["max_val"]
    return torch.clamp(input, low, high) if _is_float(input) else torch.clamp(input, int(low), int(high))


def _sum(
    function: Callable[..., torch.Tensor], params: Params, input: torch.Tensor, other: torch.Tensor
) -> torch.Tensor:
    """The sum or difference of input and the multiple of other, which is made before it is broadcast."""
    if _is_empty(input, other):
        return function(input, other)
    common = torch.result_type(input, other)
    return function(input.to(common), _times(other.to(common), params["alpha"]))


def divide(params: Params, input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.div(input, other, rounding_mode=params["rounding_mode"])


def lerp(params: Params, input: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
    return input + _times(end - input, params["weight"])


def prelu(params: Params, input: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    slope = weight.view(-1, *[1] * (input.dim() - 2)) if input.dim() > 1 else weight.view(())
    return torch.where(_asked(torch.gt, input, 0), input, input * slope)


def lerp_tensor(params: Params, input: torch.Tensor, end: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    if _is_empty(input, end, weight):
        return torch.empty(torch.broadcast_shapes(input.shape, end.shape, weight.shape), dtype=input.dtype)
    return input + (end - input) * weight


def clamp(params: Params, input: torch.Tensor, min: torch.Tensor | None, max: torch.Tensor | None) -> torch.Tensor:
    return torch.clamp(input, min, max)


def clamp_scalar(params: Params, input: torch.Tensor) -> torch.Tensor:
    return torch.clamp(input, params["min"], params["max"])


def fill_scalar(params: Params, input: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.masked_fill(input, mask, params["value"])


def _gated(activation: Callable[..., torch.Tensor], params: Params, x: torch.Tensor) -> torch.Tensor:
    gate, up = (x.float() if x.dtype.itemsize == 2 else x).split(x.shape[-1] // 2, dim=-1)
    return (activation(params, gate) * up).to(x.dtype)


def silu(params: Params, input: torch.Tensor) -> torch.Tensor:
    return torch.reciprocal(torch.exp(torch.neg(input)) + 1) * input


def alibi(params: Params) -> torch.Tensor:
    heads = params["num_heads"]
    if heads == 0 or params["seq_len"] == 0:
        return torch.empty((heads, params["seq_len"], params["seq_len"]), dtype=getattr(torch, params["out_dtype"]))
    leading = 2 ** (heads.bit_length() - 1)
    exponents = [-8.0 * (head + 1) / leading for head in range(leading)]
    exponents += [-8.0 * (2 * head + 1) / (2 * leading) for head in range(heads - leading)]
    slopes = torch.neg(torch.pow(2.0, _listed(exponents)))
    positions = torch.arange(params["seq_len"], dtype=torch.float32)
    distance = torch.abs(positions.view(-1, 1) - positions.view(1, -1))
    return (slopes.view(-1, 1, 1) * distance).to(getattr(torch, params["out_dtype"]))


def sinusoidal(params: Params) -> torch.Tensor:
    length, width = params["seq_len"], params["d_model"]
    if length == 0:
        return torch.empty((length, width), dtype=getattr(torch, params["out_dtype"]))
    frequencies = torch.pow(10000.0, _listed([-2.0 * place / width for place in range((width + 1) // 2)]))
    angles = torch.arange(length, dtype=torch.float64).view(-1, 1) * frequencies
    sines, cosines = torch.sin(angles), torch.cos(angles[:, : width // 2])
    # Column c of the result is column c // 2 of the sines, or of the cosines that stand behind them.
    order = [place // 2 + (width + 1) // 2 * (place % 2) for place in range(width)]
    return torch.cat([sines, cosines], dim=1)[:, _listed(order)].to(getattr(torch, params["out_dtype"]))


def _listed(numbers: list[float] | list[int]) -> torch.Tensor:
    """Constants, as many as are listed; whole ones are places."""
    with _disable_current_modes():
        return torch.tensor(
            numbers, dtype=torch.float64 if any(isinstance(one, float) for one in numbers) else torch.int64
        )


def dropout(params: Params, input: torch.Tensor) -> torch.Tensor:
    p = params["p"]
    if not params["training"] or p == 0:
        return input.clone()
    with _disable_current_modes():  # the generator counts nothing
        words = [] if input.is_meta else _words(params["seed"], input.numel())
        drawn = torch.tensor(words, dtype=torch.int64).view(input.shape) if words else torch.empty_like(input)
    kept = torch.ge(drawn, round(p * 2**32))
    return input * (kept.to(input.dtype) if p == 1 else _asked(torch.mul, kept, 1 / (1 - p)).to(input.dtype))


def _words(seed: int, count: int) -> list[int]:
    """Philox 4x32-10 in whole numbers; word w of counter c is number 4 c + w."""
    found: list[int] = []
    while len(found) < count:
        a, b, c, d = len(found) // 4, 0, 0, 0
        low, high = seed % 2**32, seed >> 32
        for _ in range(10):
            first, second = a * 0xD2511F53, c * 0xCD9E8D57
            a, b, c, d = (second >> 32) ^ b ^ low, second % 2**32, (first >> 32) ^ d ^ high, first % 2**32
            low, high = (low + 0x9E3779B9) % 2**32, (high + 0xBB67AE85) % 2**32
        found += [a, b, c, d]
    return found[:count]


# Ops that are one operation of the primitive table, whatever the dtype.
_ONE_OPERATION = {
    "NegFwdOp": torch.neg,
    "ReciprocalFwdOp": torch.reciprocal,
    "SqrtFwdOp": torch.sqrt,
    "RsqrtFwdOp": torch.rsqrt,
    "ExpFwdOp": torch.exp,
    "Expm1FwdOp": torch.expm1,
    "LogFwdOp": torch.log,
    "Log1pFwdOp": torch.log1p,
    "ErfFwdOp": torch.erf,
    "SinFwdOp": torch.sin,
    "CosFwdOp": torch.cos,
    "TanhFwdOp": torch.tanh,
    "SigmoidFwdOp": torch.sigmoid,
    "SiLUFwdOp": torch.nn.functional.silu,
    "LogicalNotFwdOp": torch.logical_not,
    "BitwiseNotFwdOp": torch.bitwise_not,
    "MulFwdOp": torch.mul,
    "FloorDivideFwdOp": torch.floor_divide,
    "RemainderFwdOp": torch.remainder,
    "PowFwdOp": torch.pow,
    "MaximumFwdOp": torch.maximum,
    "MinimumFwdOp": torch.minimum,
    "EqFwdOp": torch.eq,
    "NeFwdOp": torch.ne,
    "GtFwdOp": torch.gt,
    "GeFwdOp": torch.ge,
    "LtFwdOp": torch.lt,
    "LeFwdOp": torch.le,
    "LogicalAndFwdOp": torch.logical_and,
    "LogicalOrFwdOp": torch.logical_or,
    "BitwiseAndFwdOp": torch.bitwise_and,
    "BitwiseOrFwdOp": torch.bitwise_or,
    "BitwiseXorFwdOp": torch.bitwise_xor,
    "WhereFwdOp": torch.where,
    "MaskedFillTensorFwdOp": torch.masked_fill,
}


_WRITTEN_OUT: dict[str, Reference] = {
    "AbsFwdOp": absolute,
    "SignFwdOp": sign,
    "FloorFwdOp": functools.partial(_rounding, torch.floor),
    "CeilFwdOp": functools.partial(_rounding, torch.ceil),
    "TruncFwdOp": functools.partial(_rounding, torch.trunc),
    "RoundFwdOp": round_decimals,
    "NanToNumFwdOp": nan_to_num,
    "IsnanFwdOp": isnan,
    "IsinfFwdOp": isinf,
    "IsfiniteFwdOp": isfinite,
    "ReLUFwdOp": relu,
    "LeakyReLUFwdOp": leaky_relu,
    "ELUFwdOp": elu,
    "SELUFwdOp": selu,
    "MishFwdOp": mish,
    "GELUFwdOp": gelu,
    "SoftplusFwdOp": softplus,
    "HardsigmoidFwdOp": hardsigmoid,
    "HardswishFwdOp": hardswish,
    "HardtanhFwdOp": hardtanh,
    "AddFwdOp": functools.partial(_sum, torch.add),
    "SubFwdOp": functools.partial(_sum, torch.sub),
    "DivFwdOp": divide,
    "LerpScalarFwdOp": lerp,
    "MaskedFillScalarFwdOp": fill_scalar,
    "LerpTensorFwdOp": lerp_tensor,
    "PReLUFwdOp": prelu,
    "ClampTensorFwdOp": clamp,
    "ClampScalarFwdOp": clamp_scalar,
    "SiLUAndMulFwdOp": functools.partial(_gated, silu),
    "GELUAndMulFwdOp": functools.partial(_gated, gelu),
    "AlibiFwdOp": alibi,
    "SinusoidalFwdOp": sinusoidal,
    "DropoutFwdOp": dropout,
}


def _plain(function: Callable[..., torch.Tensor], params: Params, *inputs: torch.Tensor) -> torch.Tensor:
    return function(*inputs)


REFERENCES: dict[str, Reference] = {
    **{op: functools.partial(_plain, function) for op, function in _ONE_OPERATION.items()},
    **_WRITTEN_OUT,
}
