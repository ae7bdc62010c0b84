"""Transcendental functions of float32 values for Triton kernels, and cheaper ones for results of 16 bits.

A streaming kernel over 16-bit elements has about 30 instructions an element on an H200 before arithmetic, not memory,
sets its pace; the library's log, erf, sin, cos, fmod and pow take more. Those with `_half` in their name are good to
some 2e-6 of the result (or as stated), which rounding to 11 or 8 significant bits hides.
"""

from __future__ import annotations

import os

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

# The interpreter has neither inline assembly nor the device's library, and PTX is NVIDIA's.
COMPILED = tl.constexpr(os.environ.get("TRITON_INTERPRET") != "1")
_PTX = tl.constexpr(os.environ.get("TRITON_INTERPRET") != "1" and torch.version.hip is None)

# 1.5 * 2**23: added to a number below 2**22, it leaves the nearest whole number in the last bits.
SHIFT = tl.constexpr(12582912.0)
_LN2 = tl.constexpr(0.6931471805599453)
_LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def clip(x, low, high):
    """min(max(x, low), high); NaN where any of them is."""
    raised = tl.maximum(x, low, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(raised, high, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def nearest(x):
    """The nearest whole number, a tie to the even one; its zero has the sign of x."""
    if COMPILED:
        return libdevice.rint(x)
    else:
        size = tl.abs(x)
        shifted = (size + SHIFT) - SHIFT
        wide = tl.where(size < 8388608.0, _nearest_wide(size), size)
        return _with_sign_of(x, tl.where(size < 4194304.0, shifted, wide))


@triton.jit
def _nearest_wide(x):
    """Of values of 22 and 23 bits, whose halves the shift would drop."""
    down = tl.floor(x)
    rest = x - down
    is_odd = tl.floor(down * 0.5) * 2.0 != down
    return tl.where((rest > 0.5) | ((rest == 0.5) & is_odd), down + 1.0, down)


@triton.jit
def _with_sign_of(x, size):
    """`size`, which is not negative, with the sign of x, which may be that of a zero."""
    sign = x.to(tl.int32, bitcast=True) & -2147483648
    return (size.to(tl.int32, bitcast=True) | sign).to(tl.float32, bitcast=True)


@triton.jit
def _negated_where_odd(shifted, x):
    """-x where a number to which SHIFT was added is odd."""
    return (x.to(tl.int32, bitcast=True) ^ (shifted.to(tl.int32, bitcast=True) << 31)).to(tl.float32, bitcast=True)


@triton.jit
def truncated(x):
    return tl.where(x < 0, tl.ceil(x), tl.floor(x))


@triton.jit
def floor(x):
    down = tl.floor(x)
    return tl.where(down > x, down - 1.0, down)  # compiled, tl.floor takes a subnormal number for 0


@triton.jit
def ceil(x):
    up = tl.ceil(x)
    return tl.where(up < x, up + 1.0, up)


# ---- exponentials and logarithms


@triton.jit
def _instruction(x, PTX: tl.constexpr):
    """What one instruction of PTX makes of a float32."""
    return tl.inline_asm_elementwise(PTX, "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def exp2_flushed(x):
    """2**x within 2**-22 of itself; 0 where it would be subnormal (PTX ISA, ex2.approx.ftz)."""
    if _PTX:
        return _instruction(x, "ex2.approx.ftz.f32 $0, $1;")
    else:
        return tl.exp2(x)


@triton.jit
def exp_flushed(x):
    return exp2_flushed(x * _LOG2E)


@triton.jit
def reciprocal_flushed(x):
    """1 / x within 2**-23 of itself, of x from 2**-126 to 2**126; 0 beyond (PTX ISA, rcp.approx.ftz)."""
    if _PTX:
        return _instruction(x, "rcp.approx.ftz.f32 $0, $1;")
    else:
        return 1.0 / x


@triton.jit
def square_root(x):
    """Within 2**-23 of itself, of subnormal numbers too, which tl.sqrt takes for 0 (PTX ISA, sqrt.approx)."""
    if _PTX:
        return _instruction(x, "sqrt.approx.f32 $0, $1;")
    else:
        return tl.sqrt(x)


@triton.jit
def reciprocal_root(x):
    """1 / sqrt(x) within 2**-22.9 of itself, of subnormal numbers too (PTX ISA, rsqrt.approx)."""
    if _PTX:
        return _instruction(x, "rsqrt.approx.f32 $0, $1;")
    else:
        return tl.rsqrt(x)


@triton.jit
def expm1(x):
    """exp(x) - 1: a series where the difference would cancel."""
    near = x * (1.0 + x * (0.5 + x * (0.16666667 + x * (0.041666668 + x * (0.008333334 + x * 0.0013888889)))))
    return tl.where(tl.abs(x) < 0.25, near, exp_flushed(x) - 1.0)


@triton.jit
def log2_flushed(x):
    """log2 as log2_half has it; of subnormals as of 0 (PTX ISA, lg2.approx.ftz)."""
    if _PTX:
        return _instruction(x, "lg2.approx.ftz.f32 $0, $1;")
    else:
        return tl.log2(x)


@triton.jit
def log2_half(x):
    """log2 within 2**-22, absolutely where x is in (0.5, 2) and relatively elsewhere (PTX ISA, lg2.approx)."""
    if _PTX:
        return _instruction(x, "lg2.approx.f32 $0, $1;")
    else:
        return tl.log2(x)


@triton.jit
def log_half(x):
    return log2_half(x) * _LN2


@triton.jit
def log1p(x):
    """log(1 + x), corrected by what the addition rounds away."""
    total = 1.0 + x
    corrected = tl.log(total) * (x / (total - 1.0))
    return tl.where(total == 1.0, x, tl.where(total == float("inf"), total, corrected))


@triton.jit
def log1p_half(x):
    near = x * (1.0 - x * (0.5 - x * (0.33333334 - x * (0.25 - x * 0.2))))
    return tl.where(tl.abs(x) < 0.1, near, log_half(1.0 + x))


# ---- division


@triton.jit
def _have_other_signs(x, y):
    return (x.to(tl.int32, bitcast=True) ^ y.to(tl.int32, bitcast=True)) < 0


@triton.jit
def floor_divide(x, y):
    """floor(x / y) of the exact quotient below 2**24, and from there x / y rounded to the nearest, which is whole.

    What the nearest whole number leaves of x tells whether it lies above: it has no more bits than x and y, and the
    product is not rounded before it is taken off.
    """
    quotient = tl.div_rn(x, y)
    whole = nearest(quotient)
    if COMPILED:
        rest = tl.fma(-whole, y, x)
    else:
        rest = (x.to(tl.float64) - whole.to(tl.float64) * y.to(tl.float64)).to(tl.float32)
    rest = tl.where(whole == 0.0, x, rest)  # 0 times an infinite y is not a number
    down = tl.where((rest != 0.0) & _have_other_signs(rest, y), whole - 1.0, whole)
    floored = tl.where(tl.abs(quotient) < 16777216.0, down, quotient)
    return tl.where((tl.abs(x) == float("inf")) & (y != 0.0), float("nan"), floored)


@triton.jit
def _fmod(x, y):
    """C's: exact. Triton's % takes off the product of the rounded quotient, which is wrong of a large one.

    A kernel that uses it is launched with enable_reflect_ftz=False: else the library takes a subnormal y for 0, of
    which there is no remainder.
    """
    if COMPILED:
        return libdevice.fmod(x, y)
    else:
        return x % y


@triton.jit
def remainder(x, y):
    """What is left of x when floor(x / y) times y is taken off, exactly; it has the sign of y."""
    rest = _fmod(x, y)
    return tl.where((rest != 0.0) & _have_other_signs(rest, y), rest + y, rest)


# ---- hyperbolic and error functions


@triton.jit
def tanh(x):
    """By exp(-2 |x|), and by its series near 0, where the difference from 1 would cancel."""
    size = tl.abs(x)
    square = x * x
    near = x * (1.0 - square * (0.33333334 - square * (0.13333334 - square * 0.053968254)))
    decay = exp_flushed(size * -2.0)
    far = (1.0 - decay) * reciprocal_flushed(1.0 + decay)
    return tl.where(size < 0.2, near, _with_sign_of(x, far))


@triton.jit
def _erfc_of_size(size, square):
    """1 - erf(size) of size >= 0, within 2e-7 (Abramowitz and Stegun, 7.1.26)."""
    t = reciprocal_flushed(1.0 + 0.3275911 * size)
    series = t * (0.2548296 + t * (-0.28449674 + t * (1.4214138 + t * (-1.453152 + t * 1.0614054))))
    return series * exp_flushed(-square)


@triton.jit
def erf_half(x):
    size = tl.abs(x)
    square = x * x
    near = x * (1.1283792 - square * (0.37612638 - square * (0.11283792 - square * 0.026866172)))
    far = 1.0 - _erfc_of_size(size, square)
    return tl.where(size < 0.25, near, _with_sign_of(x, far))


@triton.jit
def normal_cdf_half(x):
    """The share of a normal distribution below x, 0.5 (1 + erf(x / sqrt 2)), without cancelling on the left."""
    tail = 0.5 * _erfc_of_size(tl.abs(x) * 0.70710677, x * x * 0.5)
    return tl.where(x < 0.0, tail, 1.0 - tail)


# ---- sine and cosine


@triton.jit
def _sine_from_half_turns(x, half_turns):
    """sin(x - half_turns pi) of a result within [-pi/2, pi/2], up to |x| = 2**16, within 1.2e-6 of itself."""
    # pi in three parts, the first two so short that their products with up to 16 bits are exact.
    r = x - half_turns * 3.140625
    r = r - half_turns * 9.67502593994140625e-4
    r = r - half_turns * 1.509957990978376432e-7
    square = r * r
    # The odd polynomial of degree 7 whose largest relative error is least (Remez).
    return r * (1.0 - square * (0.16665853 - square * (0.00831427 - square * 0.00018542)))


@triton.jit
def _sin_near(x):
    shifted = x * 0.31830987 + SHIFT
    return _negated_where_odd(shifted, _sine_from_half_turns(x, shifted - SHIFT))


@triton.jit
def _cos_near(x):
    """cos(x) is -sin(x - pi / 2 - k pi) of an even k, and its opposite of an odd one."""
    shifted = (x * 0.31830987 - 0.5) + SHIFT
    return _negated_where_odd(shifted, -_sine_from_half_turns(x, (shifted - SHIFT) + 0.5))


@triton.jit
def sin_half(x):
    if tl.max((tl.abs(x) > 65536.0).to(tl.int32)) > 0:  # bfloat16 alone reaches so far
        result = tl.sin(x)
    else:
        result = _sin_near(x)
    return result


@triton.jit
def cos_half(x):
    if tl.max((tl.abs(x) > 65536.0).to(tl.int32)) > 0:
        result = tl.cos(x)
    else:
        result = _cos_near(x)
    return result
