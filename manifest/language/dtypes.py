"""Facts about dtypes, by PyTorch's names. The module imports no tensor library."""

from __future__ import annotations

import difflib

# Bits of one element as stored. Sub-byte values travel in carriers (uint8), so every entry is a whole number of bytes.
BITS: dict[str, int] = {
    "bool": 8,
    "uint8": 8,
    "uint16": 16,
    "uint32": 32,
    "uint64": 64,
    "int8": 8,
    "int16": 16,
    "int32": 32,
    "int64": 64,
    "float8_e4m3fn": 8,
    "float8_e5m2": 8,
    "float8_e8m0fnu": 8,
    "float16": 16,
    "bfloat16": 16,
    "float32": 32,
    "float64": 64,
    "complex64": 64,
    "complex128": 128,
}


def category(dtype: str) -> str:
    """Returns "bool", "int", "float" or "complex". Raises ValueError on an unknown name."""
    if dtype not in BITS:
        raise ValueError(f"unknown dtype {dtype!r}")
    if dtype == "bool":
        return "bool"
    for prefix, name in (("uint", "int"), ("int", "int"), ("complex", "complex")):
        if dtype.startswith(prefix):
            return name
    return "float"


def integer_range(dtype: str) -> tuple[int, int]:
    """Returns the least and the greatest value of an integer dtype or bool."""
    if dtype == "bool":
        return 0, 1
    if dtype.startswith("uint"):
        return 0, 2 ** BITS[dtype] - 1
    return -(2 ** (BITS[dtype] - 1)), 2 ** (BITS[dtype] - 1) - 1


# Names of dtypes in other libraries, and other names in PyTorch.
_OTHER_NAMES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "fp64": "float64",
    "fp8": "float8_e4m3fn",
    "byte": "uint8",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "boolean": "bool",
    "cfloat": "complex64",
    "cdouble": "complex128",
}


def nearest(name: str) -> str:
    """Returns the dtype that `name` is or probably means, or ""."""
    if name in BITS or name in _OTHER_NAMES:
        return _OTHER_NAMES.get(name, name)
    close = difflib.get_close_matches(name[:80], BITS, 1, cutoff=0.75) if len(name) > 3 else []
    return close[0] if close else ""
