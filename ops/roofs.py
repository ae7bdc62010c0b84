"""Roof keys that op classes share."""

from __future__ import annotations

# Every unit that a GPU profile can rate: a roof is one of these.
ROOF_KEYS = (
    "cuda_core.fp32",
    "cuda_core.fp64",
    "cuda_core.fp16",
    "cuda_core.bf16",
    "cuda_core.int32",
    "tensor_core.bf16",
    "tensor_core.fp16",
    "tensor_core.tf32",
    "tensor_core.fp8",
    "tensor_core.int8",
    "tensor_core.fp64",
    "tensor_core.fp4",
    "tensor_core.int4",
)

_TENSOR_CORE = {
    "float16": "tensor_core.fp16",
    "bfloat16": "tensor_core.bf16",
    "float32": "tensor_core.tf32",
    "float64": "tensor_core.fp64",
    "float8_e4m3fn": "tensor_core.fp8",
    "float8_e5m2": "tensor_core.fp8",
    "int8": "tensor_core.int8",
}


def tensor_core_roof(dtype: str) -> str:
    """The tensor-core unit that multiplies operands of `dtype` (seed, section 1.4).

    Raises:
      KeyError: no tensor core takes that dtype, so the op must name another unit.
    """
    if dtype not in _TENSOR_CORE:
        raise KeyError(f"no tensor core takes {dtype}, only {', '.join(_TENSOR_CORE)}")
    return _TENSOR_CORE[dtype]
