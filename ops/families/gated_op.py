"""Ops that multiply one half of each row, activated, with the other half."""

from __future__ import annotations

import math
from typing import Any

import torch

from tileops.ops.checked_call import CheckedCall
from tileops.ops.families.compiled import Compiled
from tileops.ops.implementations import implementation, on_cuda
from tileops.ops.kernels.elementwise.table import GATED, HALF, chosen
from tileops.ops.kernels.support import triton_serves
from tileops.ops.op import Op


def _gated(input: torch.Tensor, op: str, params: tuple[tuple[str, Any], ...]) -> torch.Tensor:
    """The activation of the first half times the second, in float32 at least, rounded once; contiguous."""
    wide = torch.promote_types(input.dtype, torch.float32)
    gate, up = input.to(wide).chunk(2, dim=-1)
    return (GATED[op].reference(gate, **dict(params)) * up).to(input.dtype).contiguous()


_compiled = Compiled(_gated)


def _kernel_serves(call: CheckedCall) -> bool:
    """The kernel computes in float32, and counts rows and columns in 32 bits."""
    output = call.outputs["output"]
    return triton_serves(call) and output.dtype != "float64" and math.prod(output.shape) < 2**31


class GatedOp(Op):
    """Base of an op whose activation is in the table, beside the generated class of its entry."""

    ARITHMETIC = "elementwise"

    @implementation("torch")
    def _torch(self, call: CheckedCall, input: torch.Tensor) -> torch.Tensor:
        return _gated(input, self.ENTRY, tuple(call.params.items()))

    @implementation("torch_compile", when=on_cuda)
    def _torch_compile(self, call: CheckedCall, input: torch.Tensor) -> torch.Tensor:
        return _compiled(input, self.ENTRY, tuple(call.params.items()))

    @implementation("triton", when=_kernel_serves)
    def _triton(self, call: CheckedCall, input: torch.Tensor) -> torch.Tensor:
        from tileops.ops.kernels.elementwise import pointwise as kernels  # Triton is imported when first used

        function = chosen(GATED[self.ENTRY].scalar, call.params, call.inputs)
        assert function is not None  # every gate has a scalar function
        return kernels.gated(function + "_half" if input.dtype.itemsize == 2 and function in HALF else function, input)

    def roof_key(self) -> str:
        """The cores that compute in float32, or in float64 if the input is float64."""
        return "cuda_core.fp64" if self.last_call.inputs["input"].dtype == "float64" else "cuda_core.fp32"
