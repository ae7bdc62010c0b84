"""Transcendental functions of float32 values for Triton kernels, and cheaper ones for results of 16 bits.

A streaming kernel over 16-bit elements has about 30 instructions an element on an H200 before arithmetic, not memory, sets
its pace; the library's log, erf, sin, cos and pow take more. Those with `_half` in their name are good to some 2e-6 of
the result (or as stated), which rounding to 11 or 8 significant bits hides.
"""

from __future__ import annotations

import os

import torch
import triton
import triton.language as tl

# The interpreter has no inline assembly, and PTX is NVIDIA's.
_PTX = tl.constexpr(os.environ.get("TRITON_INTERPRET") != "1" and torch.version.hip is None)

_LN2 = tl.constexpr(0.6931471805599453)
_LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def clip(x, low, high):
    """min(max(x, low), high); NaN where any of them is."""
    raised = tl.maximum(x, low, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(raised, high, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def nearest(x):
    """The nearest whole number, a tie to the even one."""
    shifted = (x + 12582912.0) - 12582912.0  # 1.5 * 2**23: beyond it float32 holds no fractions
    return tl.where(tl.abs(x) < 4194304.0, shifted, tl.where(tl.abs(x) < 8388608.0, _nearest_wide(x), x))


@triton.jit
def _nearest_wide(x):
    """Of values of 22 and 23 bits, whose halves the shift of `nearest` would drop."""
    down = tl.floor(x)
    rest = x - down
    is_odd = tl.floor(down * 0.5) * 2.0 != down
    return tl.where((rest > 0.5) | ((rest == 0.5) & is_odd), down + 1.0, down)


@triton.jit
def truncated(x):
    return tl.where(x < 0, tl.ceil(x), tl.floor(x))


# ---- exponentials and logarithms


@triton.jit
def expm1(x):
    """exp(x) - 1: a series where the difference would cancel."""
    near = x * (1.0 + x * (0.5 + x * (0.16666667 + x * (0.041666668 + x * (0.008333334 + x * 0.0013888889)))))
    return tl.where(tl.abs(x) < 0.25, near, tl.exp(x) - 1.0)


@triton.jit
def log2_half(x):
    """log2 within 2**-22, absolutely where x is in (0.5, 2) and relatively elsewhere (PTX ISA, lg2.approx)."""
    if _PTX:
        return tl.inline_asm_elementwise("lg2.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
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


@triton.jit
def power(x, y):
    """x ** y within some 1e-5, with C's special cases."""
    return _with_special_powers(x, y, tl.exp2(y * tl.log2(tl.abs(x))))


@triton.jit
def power_half(x, y):
    return _with_special_powers(x, y, tl.exp2(y * log2_half(tl.abs(x))))


@triton.jit
def _with_special_powers(x, y, magnitude):
    size = tl.abs(x)
    is_one = (y == 0.0) | (x == 1.0) | ((size == 1.0) & (tl.abs(y) == float("inf")))
    is_whole = tl.floor(y) == y
    is_odd = is_whole & (tl.floor(y * 0.5) * 2.0 != y)
    is_negative = x.to(tl.int32, bitcast=True) < 0  # of -0.0 too
    signed = tl.where(is_negative & is_odd, -magnitude, magnitude)
    # A finite negative number has no power that is not whole.
    is_real = is_whole | (x >= 0.0) | (size == float("inf"))
    result = tl.where(is_one, 1.0, tl.where(is_real, signed, float("nan")))
    return tl.where(y == 1.0, x, result)  # up to the greatest number, whose logarithm rounds beyond the range


# ---- hyperbolic and error functions


@triton.jit
def tanh(x):
    """By exp(-2 |x|), and by its series near 0, where the difference from 1 would cancel."""
    size = tl.abs(x)
    square = x * x
    near = x * (1.0 - square * (0.33333334 - square * (0.13333334 - square * 0.053968254)))
    decay = tl.exp(size * -2.0)
    far = (1.0 - decay) / (1.0 + decay)
    return tl.where(size < 0.2, near, tl.where(x < 0.0, -far, far))


@triton.jit
def _erfc_of_size(size, square):
    """1 - erf(size) of size >= 0, within 2e-7 (Abramowitz and Stegun, 7.1.26)."""
    t = 1.0 / (1.0 + 0.3275911 * size)
    series = t * (0.2548296 + t * (-0.28449674 + t * (1.4214138 + t * (-1.453152 + t * 1.0614054))))
    return series * tl.exp(-square)


@triton.jit
def erf_half(x):
    size = tl.abs(x)
    square = x * x
    near = x * (1.1283792 - square * (0.37612638 - square * (0.11283792 - square * 0.026866172)))
    far = 1.0 - _erfc_of_size(size, square)
    return tl.where(size < 0.25, near, tl.where(x < 0.0, -far, far))


@triton.jit
def normal_cdf_half(x):
    """The share of a normal distribution below x, 0.5 (1 + erf(x / sqrt 2)), without cancelling on the left."""
    tail = 0.5 * _erfc_of_size(tl.abs(x) * 0.70710677, x * x * 0.5)
    return tl.where(x < 0.0, tail, 1.0 - tail)


# ---- sine and cosine


@triton.jit
def _sine_from_half_turns(x, half_turns):
    """sin(x - half_turns pi) of a result within [-pi/2, pi/2], up to |x| = 2**16."""
    # pi in three parts, the first two so short that their products with up to 16 bits are exact.
    r = x - half_turns * 3.140625
    r = r - half_turns * 9.67502593994140625e-4
    r = r - half_turns * 1.509957990978376432e-7
    square = r * r
    series = 0.008333334 - square * (0.0001984127 - square * (2.7557319e-6 - square * 2.5052108e-8))
    return r - r * square * (0.16666667 - square * series)


@triton.jit
def _is_odd(whole):
    return tl.floor(whole * 0.5) * 2.0 != whole


@triton.jit
def sin_half(x):
    if tl.max((tl.abs(x) > 65536.0).to(tl.int32)) > 0:  # bfloat16 alone reaches so far
        result = tl.sin(x)
    else:
        half_turns = tl.floor(x * 0.31830987 + 0.5)
        sine = _sine_from_half_turns(x, half_turns)
        result = tl.where(_is_odd(half_turns), -sine, sine)
    return result


@triton.jit
def cos_half(x):
    if tl.max((tl.abs(x) > 65536.0).to(tl.int32)) > 0:
        result = tl.cos(x)
    else:
        before = tl.floor(x * 0.31830987)
        sine = _sine_from_half_turns(x, before + 0.5)
        result = tl.where(_is_odd(before), sine, -sine)
    return result
