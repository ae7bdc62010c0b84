"""Public ops of the family elementwise and their implementations."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from tileops.ops.checked_call import CheckedCall
from tileops.ops.compiled import Compiled
from tileops.ops.generated import elementwise as generated
from tileops.ops.implementations import implementation, on_cuda
from tileops.ops.kernels.support import triton_serves


def _silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """silu of the first half times the second, in float32 at least, rounded once."""
    wide = torch.promote_types(x.dtype, torch.float32)
    gate, up = x.to(wide).chunk(2, dim=-1)
    return (F.silu(gate) * up).to(x.dtype)


_compiled_silu_and_mul = Compiled(_silu_and_mul)


class SiluAndMulFwdOp(generated.SiluAndMulFwdOp):
    """silu(x[..., :N]) * x[..., N:]."""

    @implementation("torch")
    def _torch(self, call: CheckedCall, x: torch.Tensor) -> torch.Tensor:
        return _silu_and_mul(x)

    @implementation("torch_compile", when=on_cuda)
    def _torch_compile(self, call: CheckedCall, x: torch.Tensor) -> torch.Tensor:
        return _compiled_silu_and_mul(x)

    @implementation("triton", when=triton_serves)
    def _triton(self, call: CheckedCall, x: torch.Tensor) -> torch.Tensor:
        from tileops.ops.kernels import elementwise as kernels  # Triton is imported when first used

        return kernels.silu_and_mul(x)


def _add_kernel_serves(call: CheckedCall) -> bool:
    """The kernel counts the elements of its result in 32 bits."""
    return triton_serves(call) and math.prod(call.outputs["output"].shape) < 2**31


class AddFwdOp(generated.AddFwdOp):
    """input + alpha * other, each broadcast to the other."""

    @implementation("torch")
    def _torch(self, call: CheckedCall, input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return torch.add(input, other, alpha=call.params["alpha"])

    @implementation("triton", when=_add_kernel_serves)
    def _triton(self, call: CheckedCall, input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        from tileops.ops.kernels import elementwise as kernels

        return kernels.add(input, other, call.params["alpha"])
