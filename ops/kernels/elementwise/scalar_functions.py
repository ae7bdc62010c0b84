"""The scalar functions of the elementwise ops: what each computes of one element of each operand.

Operands come in the type to compute in, float32 for every float and int32 or int64 for integers; numbers that are
parameters of the op come last. Names are those of the table (elementwise/table.py).
"""

from __future__ import annotations

import triton
import triton.language as tl

from tileops.ops.kernels.elementwise import scalar_math as sm
from tileops.ops.kernels.elementwise import scalar_power

# Those of scalar_math that are ops themselves, under the table's names.
tanh = sm.tanh
expm1 = sm.expm1
log1p = sm.log1p
logarithm_half = sm.log_half
log1p_half = sm.log1p_half
error_function_half = sm.erf_half
sine_half = sm.sin_half
cosine_half = sm.cos_half
truncate = sm.truncated
floor = sm.floor
ceil = sm.ceil
square_root = sm.square_root
reciprocal_root = sm.reciprocal_root
round_even = sm.nearest
clip = sm.clip
power = scalar_power.power
power_half = scalar_power.power_half
floor_divide = sm.floor_divide
remainder = sm.remainder


@triton.jit
def identity(x):
    return x


# ---- of one operand


@triton.jit
def absolute(x):
    return tl.abs(x)


@triton.jit
def negative(x):
    return x * -1  # -x is 0 - x in Triton, which is +0 of +0


@triton.jit
def sign(x):
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@triton.jit
def reciprocal(x):
    return 1.0 / x


@triton.jit
def exponential(x):
    return tl.exp(x)


@triton.jit
def logarithm(x):
    return tl.log(x)


@triton.jit
def sine(x):
    return tl.sin(x)


@triton.jit
def cosine(x):
    return tl.cos(x)


@triton.jit
def error_function(x):
    return tl.erf(x)


@triton.jit
def round_scaled(x, scale):
    return sm.nearest(x * scale) / scale


@triton.jit
def round_coarse(x, scale):
    return sm.nearest(x / scale) * scale


@triton.jit
def is_zero(x):
    return x == 0


@triton.jit
def bitwise_not(x):
    return ~x


@triton.jit
def is_nan(x):
    return x != x


@triton.jit
def is_infinite(x):
    return tl.abs(x) == float("inf")


@triton.jit
def is_finite(x):
    return tl.abs(x) < float("inf")


@triton.jit
def nan_to_num(x, nan, above, below):
    kept = tl.where(x == float("inf"), above, tl.where(x == float("-inf"), below, x))
    return tl.where(x != x, nan, kept)


# ---- activations


@triton.jit
def relu(x):
    return tl.where(x < 0, 0, x)


@triton.jit
def leaky_relu(x, slope):
    return tl.where(x > 0.0, x, x * slope)


@triton.jit
def elu(x, alpha):
    return tl.where(x >= 0.0, x, alpha * sm.expm1(x))


@triton.jit
def selu(x):
    return 1.0507009873554805 * tl.where(x > 0.0, x, 1.6732632423543772 * sm.expm1(x))


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def silu(x):
    return x / (1.0 + tl.exp(-x))


@triton.jit
def hardsigmoid(x):
    return sm.clip(x + 3.0, 0.0, 6.0) * 0.16666667


@triton.jit
def hardswish(x):
    return x * sm.clip(x + 3.0, 0.0, 6.0) * 0.16666667


@triton.jit
def mish(x):
    """x tanh(log(1 + e**x)), whose tanh is n / (n + 2) with n = e**x (e**x + 2)."""
    grown = tl.exp(tl.minimum(x, 20.0, propagate_nan=tl.PropagateNan.ALL))
    n = grown * (grown + 2.0)
    return x * (n / (n + 2.0))


@triton.jit
def gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def gelu_half(x):
    return x * sm.normal_cdf_half(x)


@triton.jit
def gelu_tanh(x):
    """0.5 x (1 + tanh(u)) is x sigmoid(2 u)."""
    doubled = 1.5957691216057308 * x * (1.0 + 0.044715 * x * x)
    return x / (1.0 + tl.exp(-doubled))


@triton.jit
def softplus(x, beta, threshold):
    scaled = x * beta
    soft = tl.maximum(scaled, 0.0) + sm.log1p(tl.exp(-tl.abs(scaled)))
    return tl.where(scaled > threshold, x, soft / beta)


@triton.jit
def softplus_half(x, beta, threshold):
    scaled = x * beta
    soft = tl.maximum(scaled, 0.0) + sm.log1p_half(sm.exp_flushed(-tl.abs(scaled)))
    return tl.where(scaled > threshold, x, soft * (1.0 / beta))


# ---- of two operands


@triton.jit
def add(x, y):
    return x + y


@triton.jit
def add_scaled(x, y, alpha):
    return x + alpha * y


@triton.jit
def subtract(x, y):
    return x - y


@triton.jit
def subtract_scaled(x, y, alpha):
    return x - alpha * y


@triton.jit
def multiply(x, y):
    return x * y


@triton.jit
def divide(x, y):
    return x / y


@triton.jit
def divide_truncated(x, y):
    return sm.truncated(tl.div_rn(x, y))


@triton.jit
def divide_integers(x, y):
    return x // y  # Triton's own, which truncates


@triton.jit
def floor_divide_integers(x, y):
    rest = x % y
    return x // y - ((rest != 0) & ((rest < 0) != (y < 0))).to(x.dtype)


@triton.jit
def remainder_integers(x, y):
    """What is left of x, with the sign of y; % is C's."""
    rest = x % y
    return tl.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


@triton.jit
def maximum(x, y):
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def minimum(x, y):
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def equal(x, y):
    return x == y


@triton.jit
def not_equal(x, y):
    return x != y


@triton.jit
def greater(x, y):
    return x > y


@triton.jit
def greater_equal(x, y):
    return x >= y


@triton.jit
def less(x, y):
    return x < y


@triton.jit
def less_equal(x, y):
    return x <= y


@triton.jit
def bit_and(x, y):
    return x & y


@triton.jit
def bit_or(x, y):
    return x | y


@triton.jit
def bit_xor(x, y):
    return x ^ y


@triton.jit
def prelu(x, weight):
    return tl.where(x > 0.0, x, x * weight)


# ---- of two or three


@triton.jit
def lerp(start, end, weight):
    """From the nearer end, so that weight 0 and 1 give the ends themselves."""
    way = end - start
    return tl.where(tl.abs(weight) < 0.5, start + weight * way, end - way * (1.0 - weight))


@triton.jit
def select(condition, x, y):
    return tl.where(condition, x, y)


@triton.jit
def fill(x, mask, value):
    return tl.where(mask, value, x)
