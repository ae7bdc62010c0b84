"""Codes of quantized numbers in Triton kernels: scales of groups, and the rounding to int8, int4 and float8_e4m3fn."""

from __future__ import annotations

import triton
import triton.language as tl

from tileops.ops.kernels.elementwise import scalar_math as sm

# What a quantizer's codes are, and how a scale follows from the largest magnitude of its group.
INT8 = tl.constexpr(0)
FP8 = tl.constexpr(1)
FP8_FLOORED = tl.constexpr(2)  # the largest magnitude counts as 1e-4 at least

_LARGEST_INT8 = tl.constexpr(127.0)
_LARGEST_FP8 = tl.constexpr(448.0)
_OVER_LARGEST_INT8 = tl.constexpr(1 / 127)
_OVER_LARGEST_FP8 = tl.constexpr(1 / 448)
_FLOOR = tl.constexpr(1e-4)


@triton.jit
def size_bits(x):
    """Bits of |x| as int32. They are ordered as magnitudes are, with NaN above infinity, which a maximum keeps."""
    return x.to(tl.int32, bitcast=True) & 0x7FFFFFFF


@triton.jit
def scale_of(largest, CODES: tl.constexpr):
    """The scale of a group by its largest magnitude."""
    if CODES == FP8_FLOORED:
        scale = tl.div_rn(tl.maximum(largest, _FLOOR), tl.zeros_like(largest) + _LARGEST_FP8)
    else:
        product = largest * (_OVER_LARGEST_INT8 if CODES == INT8 else _OVER_LARGEST_FP8)
        scale = tl.where(largest > 0.0, product, 1.0)  # also of NaN
    return scale


@triton.jit
def _bounded(x, least, largest):
    """x between two numbers; 0 for NaN, whose conversion to an integer is not defined."""
    return tl.where(x == x, tl.minimum(tl.maximum(x, least), largest), 0.0)


@triton.jit
def code(x, scale, CODES: tl.constexpr):
    """The code of x: x / scale, correctly rounded, then rounded to a code. `scale` has the shape of x."""
    ratio = tl.div_rn(x, scale)
    if CODES == INT8:
        found = sm.nearest(_bounded(ratio, -_LARGEST_INT8, _LARGEST_INT8)).to(tl.int8)
    else:
        found = to_fp8(ratio)
    return found


@triton.jit
def int4(x):
    """The signed 4-bit code of x, as int32."""
    return sm.nearest(_bounded(x, -8.0, 7.0)).to(tl.int32)


@triton.jit
def to_fp8(x):
    """The nearest float8_e4m3fn of x between -448 and 448, ties to even; NaN of NaN."""
    held = sm.clip(x, -_LARGEST_FP8, _LARGEST_FP8)
    if sm.COMPILED:
        return held.to(tl.float8e4nv)
    else:  # the interpreter cuts bits off
        bits = size_bits(held)
        # From 2**-6 on: three bits of the significand stay; 120 is the distance of the biases, 127 - 7.
        normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - (120 << 3)
        # Below, a code counts steps of 2**-9, which is the last bit of numbers between 2**14 and 2**15.
        shifted = bits.to(tl.float32, bitcast=True) + 16384.0
        subnormal = shifted.to(tl.int32, bitcast=True) - 0x46800000
        found = tl.where(bits < 0x3C800000, subnormal, normal)
        found = tl.where(bits > 0x7F800000, 0x7F, found)
        sign = (held.to(tl.int32, bitcast=True) >> 24) & 0x80
        return (found | sign).to(tl.uint8).to(tl.float8e4nv, bitcast=True)
