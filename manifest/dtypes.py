"""Facts about element types, by PyTorch's names; no tensor library is needed to state them."""

from __future__ import annotations

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
    """One of "bool", "int", "float", "complex". Raises ValueError on an unknown name."""
    if dtype not in BITS:
        raise ValueError(f"unknown dtype {dtype!r}")
    if dtype == "bool":
        return "bool"
    for prefix, name in (("uint", "int"), ("int", "int"), ("complex", "complex")):
        if dtype.startswith(prefix):
            return name
    return "float"
