"""Base of dropout, beside the generated class of its entry."""

from __future__ import annotations

import torch

from tileops.ops.checked_call import CheckedCall
from tileops.ops.implementations import implementation
from tileops.ops.kernels.elementwise import philox
from tileops.ops.kernels.support import triton_serves
from tileops.ops.op import Op


def _threshold(p: float) -> int:
    """Random words below this are dropped: a share p of the 2**32."""
    return round(p * 2**32)


def _scale(p: float) -> float:
    """What an element that is kept is multiplied by, so that the expected value stays."""
    return 0.0 if p == 1 else 1 / (1 - p)


def _kernel_serves(call: CheckedCall) -> bool:
    """The kernel computes in float32, and counts elements in 32 bits; a call that drops nothing is a copy."""
    output = call.outputs["output"]
    is_served = triton_serves(call) and output.dtype != "float64" and output.bytes < 2**32
    return is_served and call.params["training"] and call.params["p"] > 0


class DropoutOp(Op):
    """The scaling is computed in float32 (of float64 in float64) and rounded once, also where PyTorch's own on the CPU rounds
    the scale to the dtype first.
    """

    ARITHMETIC = "elementwise"

    @implementation("torch")
    def _torch(self, call: CheckedCall, input: torch.Tensor) -> torch.Tensor:
        p, is_in_place = call.params["p"], call.params["inplace"]
        if not call.params["training"] or p == 0:
            return input if is_in_place else input.clone(memory_format=torch.contiguous_format)
        is_kept = philox.words(call.params["seed"], input.numel(), input.device) >= _threshold(p)
        wide = torch.promote_types(input.dtype, torch.float32)
        factors = is_kept.view(input.shape).to(wide) * _scale(p)
        result = (input.to(wide) * factors).to(input.dtype)
        return input.copy_(result) if is_in_place else result.contiguous()

    @implementation("triton", when=_kernel_serves)
    def _triton(self, call: CheckedCall, input: torch.Tensor) -> torch.Tensor:
        from tileops.ops.kernels.elementwise import dropout as kernels  # Triton is imported when first used

        p = call.params["p"]
        out = input if call.params["inplace"] else torch.empty(input.shape, dtype=input.dtype, device=input.device)
        return kernels.dropout(input, call.params["seed"], _threshold(p), _scale(p), out)

    def roof_key(self) -> str:
        """The cores that compute in float32, or in float64 if the input is float64."""
        return "cuda_core.fp64" if self.last_call.inputs["input"].dtype == "float64" else "cuda_core.fp32"
