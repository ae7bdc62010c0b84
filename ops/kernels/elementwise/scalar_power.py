"""x ** y of float32 values for Triton kernels, and a cheaper one for results of 16 bits."""

from __future__ import annotations

import triton
import triton.language as tl

from tileops.ops.kernels.elementwise import scalar_math as sm


@triton.jit
def _log2_in_two_parts(x):
    """log2 as a sum whose second part is below 2**-7; of 0, infinity, NaN and negative numbers the first part alone is
    it.

    With m about [sqrt(1/2), sqrt(2)] and x = 2**e m it is e + 2/ln 2 atanh(s), s = (m - 1) / (m + 1).
    """
    is_subnormal = tl.abs(x) < 1.1754943508222875e-38
    normal = tl.where(is_subnormal, x * 16777216.0, x)
    shifted = sm.log2_flushed(normal) + sm.SHIFT
    e = shifted - tl.where(is_subnormal, sm.SHIFT + 24.0, sm.SHIFT)
    # The shift leaves e in the last bits; the mask, which changes no m, makes a finite number of an infinite one.
    bits = (normal.to(tl.int32, bitcast=True) - (shifted.to(tl.int32, bitcast=True) << 23)) & 0x3FFFFFFF
    m = bits.to(tl.float32, bitcast=True)
    f = m - 1.0
    inverse = sm.reciprocal_flushed(m + 1.0)
    s = f * inverse
    square = s * s
    left = tl.fma(-s, f, tl.fma(s, -2.0, f)) * inverse  # of the quotient; the inner sum is exact
    s_rest = tl.fma(left, square, left)  # times 1 + s**2, about the slope of atanh at s
    # What 2 / ln 2 as float32 leaves out, and the rest of the series as a fit (least squares, weighted again until the
    # largest error is least): log2 within 2**-36 of itself.
    series = 3.851926e-8 + square * (0.9617967 + square * (0.5770788 + square * (0.4119273 + square * 0.33648837)))
    whole = tl.fma(s, 2.885390043258667, e)
    rest = tl.fma(s, 2.885390043258667, e - whole)
    return whole, tl.fma(s, series, tl.fma(s_rest, 2.885390043258667, rest))


@triton.jit
def _power_of_size(x, y):
    """x ** y of x of 0 or above; NaN of x below 0 unless y is 0."""
    log, log_rest = _log2_in_two_parts(x)
    product = y * log
    shifted = tl.fma(y, log + log_rest, sm.SHIFT)
    r = tl.fma(y, log_rest, tl.fma(y, log, sm.SHIFT - shifted))
    # 2**r is 1 + r slope within 2**-28 of itself, r in [-0.5, 0.5]; a fit like the one above.
    slope = 0.6931472 + r * (0.24022648 + r * (0.0555036 + r * (0.009618506 + r * (0.0013390807 + r * 0.00015326469))))
    # In two steps, as the power of 2 may be beyond float32 where the result is not, or is subnormal.
    last = tl.where(
        product < 0.0, 8.271806125530277e-25, 1.2089258196146292e24
    )  # 2**-80, 2**80: their squares are 0, infinite
    step = (shifted.to(tl.int32, bitcast=True) << 23) + 0x7F000000 - last.to(tl.int32, bitcast=True)
    near = tl.fma(r, slope, 1.0) * step.to(tl.float32, bitcast=True)
    power = tl.where(tl.abs(product) >= 160.0, last, near) * last
    # 1 to NaN or infinity, and NaN, 0 or infinity to the 0: the lesser is the one that is not NaN.
    return tl.where(tl.minimum(tl.abs(y), tl.abs(log)) == 0.0, 1.0, power)


@triton.jit
def power(x, y):
    """x ** y with C's special cases.

    In an emulation of its operations it is within 3 ulp, within 1.2 where the result is in 2**-20..2**20, and exact for
    the whole numbers of -1000..1000 to 0..10 of which float32 holds the power.
    """
    is_odd = tl.abs(y - 2.0 * sm.nearest(y * 0.5)) == 1.0
    # A finite negative number has no power that is not whole, and is left to have no logarithm.
    size = tl.where(sm.nearest(y) != y, x, tl.abs(x))
    size = tl.where(x == float("-inf"), float("inf"), size)
    if sm.COMPILED:
        magnitude = _power_of_size(size, y)
    else:
        magnitude = tl.exp2(y.to(tl.float64) * tl.log2(size.to(tl.float64))).to(tl.float32)
        magnitude = tl.where((y == 0.0) | (size == 1.0), 1.0, magnitude)
    signed = tl.where(is_odd, x, magnitude).to(tl.int32, bitcast=True) & -2147483648
    return ((magnitude.to(tl.int32, bitcast=True) & 0x7FFFFFFF) | signed).to(tl.float32, bitcast=True)


@triton.jit
def power_half(x, y):
    """x ** y of numbers of at most 11 significant bits, with C's special cases; 0 where float32 holds it as subnormal.

    It is off by at most |y| 2**-22 of itself or 2e-5: below half a last place unless |y| is in the hundreds, where x is
    so near 1 that its own last place moves the power further.
    """
    # From 2**12 on such numbers are whole and even.
    reach = tl.minimum(tl.abs(y), 4096.0)
    shifted = reach + sm.SHIFT
    is_whole = shifted - sm.SHIFT == reach
    # Of a finite negative number the logarithm is NaN, as is a power that is not whole.
    size = tl.where(is_whole | (x == float("-inf")), tl.abs(x), x)
    # A finite exponent, since 0 times infinity is not what 1 to the infinity is.
    magnitude = sm.exp2_flushed(sm.clip(y, -3e38, 3e38) * sm.log2_half(size))
    sign = tl.where(is_whole, shifted.to(tl.int32, bitcast=True) << 31, 0) & x.to(tl.int32, bitcast=True)
    signed = (magnitude.to(tl.int32, bitcast=True) ^ sign).to(tl.float32, bitcast=True)
    return tl.where((y == 0.0) | (x == 1.0), 1.0, signed)
