"""Public ops of the family fft and their implementations."""

from __future__ import annotations

import torch

from tileops.ops.checked_call import CheckedCall
from tileops.ops.generated import fft as generated
from tileops.ops.implementations import implementation


class FFTC2CFwdOp(generated.FFTC2CFwdOp):
    """Complex Fourier transform of the last axis, unscaled."""

    def roof_key(self) -> str:
        """The CUDA cores' unit of the parts' type."""
        return "cuda_core.fp32" if self.last_call.dtypes["input"] == "complex64" else "cuda_core.fp64"

    @implementation("torch")
    def _torch(self, call: CheckedCall, input: torch.Tensor) -> torch.Tensor:
        if not input.numel():  # the CPU's library refuses it
            return torch.empty_like(input, memory_format=torch.contiguous_format)
        return torch.fft.fft(input)
