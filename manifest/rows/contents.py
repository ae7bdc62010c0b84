"""Checks that a metadata tensor's dtype can store the integers that its generator makes."""

from __future__ import annotations

import numpy as np

from tileops.manifest.language import dtypes, primitives

# Bits of the significand with the leading one: every integer up to 2**bits is a value of the dtype.
_SIGNIFICANT = {
    "float8_e4m3fn": 4,
    "float8_e5m2": 3,
    "float8_e8m0fnu": 1,
    "float16": 11,
    "bfloat16": 8,
    "float32": 24,
    "float64": 53,
    "complex64": 24,
    "complex128": 53,
}
_NO_SIGN = "float8_e8m0fnu"


def all_held(within: tuple[int, int] | None, dtype: str) -> bool:
    """Returns whether the dtype surely stores every integer between the two of `within`."""
    if within is None or dtype == _NO_SIGN:
        return False
    if dtypes.category(dtype) in ("bool", "int"):
        lowest, greatest = dtypes.integer_range(dtype)
        return all(lowest <= value <= greatest for value in within)
    return all(abs(value) <= 2 ** _SIGNIFICANT[dtype] and primitives.representable(value, dtype) for value in within)


def first_lost(values: np.ndarray, dtype: str) -> int | None:
    """Returns the first of the integers that the dtype cannot hold; None if it holds all."""
    flat = values.reshape(-1)
    if dtypes.category(dtype) in ("bool", "int"):
        lowest, greatest = dtypes.integer_range(dtype)
        lost = ~np.isin(flat, [value for value in np.unique(flat).tolist() if lowest <= value <= greatest])
        return int(flat[lost][0]) if lost.any() else None
    magnitude = np.abs(flat)
    lowest = np.where(magnitude == 0, 1, magnitude & -magnitude)
    exact = magnitude // lowest < 2 ** _SIGNIFICANT[dtype]
    if dtype == _NO_SIGN:
        exact &= flat > 0
    for position in np.flatnonzero(~exact | (magnitude > 2 ** _SIGNIFICANT[dtype])).tolist():
        if not exact[position] or not primitives.representable(int(flat[position]), dtype):
            return int(flat[position])
    return None
