"""Public ops of the family gemm and their implementations."""

from __future__ import annotations

import torch

from tileops.ops.checked_call import CheckedCall
from tileops.ops.generated import gemm as generated
from tileops.ops.implementations import implementation
from tileops.ops.kernels.support import triton_serves
from tileops.ops.roofs import tensor_core_roof

# Rows of a up to which one tile holds them all, so that the kernel reads b once.
_SKINNY_ROWS = 128


def _skinny_kernel_serves(call: CheckedCall) -> bool:
    """Few rows of a, b stored K-contiguous, and enough of b that streaming it is what the call costs."""
    m, n, k = (call.indices[name] for name in "MNK")
    stored = not call.params["trans_a"] and call.params["trans_b"]
    return triton_serves(call) and stored and 0 < m <= _SKINNY_ROWS and n >= 1024 and k >= 1024


class GEMMFwdOp(generated.GEMMFwdOp):
    """a @ b of matrices that are each stored as they are or transposed."""

    def roof_key(self) -> str:
        """The tensor-core unit of the operands' dtype."""
        return tensor_core_roof(self.last_call.dtypes["a"])

    @implementation("torch")
    def _torch(self, call: CheckedCall, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a.T if call.params["trans_a"] else a, b.T if call.params["trans_b"] else b)

    @implementation("triton", when=_skinny_kernel_serves)
    def _triton(self, call: CheckedCall, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        from tileops.ops.kernels.gemm import skinny as kernels  # Triton is imported when first used

        return kernels.matmul_skinny(a, b)
