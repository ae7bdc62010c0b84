"""x ** y of float32 values for Triton kernels, and a cheaper one for results of 16 bits."""

from __future__ import annotations

import triton
import triton.language as tl

from tileops.ops.kernels import scalar_math as sm


@triton.jit
def _log2_in_two_parts(size):
    """log2 of a number of 0 or above as a sum whose second part is below the last place of the first; NaN of infinity.

    With m in [sqrt(1/2), sqrt(2)) and size = 2**e m it is e + 2/ln 2 atanh((m - 1) / (m + 1)), within 2**-30 of itself.
    """
    is_subnormal = size < 1.1754943508222875e-38
    bits = tl.where(is_subnormal, size * 16777216.0, size).to(tl.int32, bitcast=True)
    exponent = (bits - 0x3F3504F3) >> 23
    e = exponent.to(tl.float32) - tl.where(is_subnormal, 24.0, 0.0) + (size - size)
    f = (bits - (exponent << 23)).to(tl.float32, bitcast=True) - 1.0
    t = f + 2.0
    inverse = sm.reciprocal_flushed(t)
    s = f * inverse
    s_rest = tl.fma(-s, f - (t - 2.0), tl.fma(-s, t, f)) * inverse
    square = s * s
    series = square * (0.33333334 + square * (0.2 + square * (0.14285715 + square * 0.121)))
    fraction = s * 2.885390043258667  # 2 / ln 2 as float32; the next constant is what that leaves out
    rest = tl.fma(s, tl.full(s.shape, 2.885390043258667, tl.float32), -fraction)
    rest += s * 3.8519259e-8 + 2.885390043258667 * (s * series + s_rest)
    whole = e + fraction
    return whole, ((e - whole) + fraction) + rest


@triton.jit
def power(x, y):
    """x ** y within 5 ulp, and mostly within one, with C's special cases."""
    size = tl.abs(x)
    exponent = sm.clip(y, -1e36, 1e36)  # finite, since 0 times infinity is not what 1 to the infinity is
    if sm.COMPILED:
        log, log_rest = _log2_in_two_parts(size)
        product = exponent * log
        rest = tl.where(tl.abs(product) < 300.0, tl.fma(exponent, log, -product) + exponent * log_rest, 0.0)
        product = sm.clip(product, -300.0, 300.0)
        whole = (product + sm.SHIFT) - sm.SHIFT
        # Twice over half the scale, as 2**128 is beyond float32 and its product with a fraction need not be.
        magnitude = (2.0 * sm.exp2_flushed((product - whole) + rest)) * tl.exp2(whole - 1.0)
        at_edge = tl.where((size == 0.0) == (y > 0.0), 0.0, float("inf"))
        magnitude = tl.where((size == 0.0) | (size == float("inf")), at_edge, magnitude)
        magnitude = tl.where(y == y, magnitude, y)
    else:
        magnitude = tl.exp2(exponent.to(tl.float64) * tl.log2(size.to(tl.float64))).to(tl.float32)
    is_whole = tl.floor(y) == y
    is_odd = is_whole & (tl.floor(y * 0.5) * 2.0 != y)
    is_negative = x.to(tl.int32, bitcast=True) < 0  # of -0.0 too
    signed = tl.where(is_negative & is_odd, -magnitude, magnitude)
    # A finite negative number has no power that is not whole.
    signed = tl.where((x < 0.0) & (size < float("inf")) & (is_whole == 0), float("nan"), signed)
    return tl.where((y == 0.0) | (x == 1.0), 1.0, signed)


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
