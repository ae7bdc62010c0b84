"""Public ops of the family reduction and their implementations."""

from __future__ import annotations

import torch

from tileops.ops.checked_call import CheckedCall
from tileops.ops.dtypes import BY_NAME
from tileops.ops.families.compiled import Compiled
from tileops.ops.generated import reduction as generated
from tileops.ops.implementations import implementation, on_cuda
from tileops.ops.kernels.support import triton_serves
from tileops.ops.samples import Groups


def _axes(call: CheckedCall) -> tuple[int, ...]:
    """The axes of input that the call reduces, non-negative: all of them for `dim` None or empty, as torch.sum has it."""
    return _summed(call.params["dim"], len(call.tensors["input"].shape))


def _summed(dim: int | tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    if dim is None or dim == ():
        return tuple(range(rank))
    return tuple(axis % rank for axis in (dim if isinstance(dim, tuple) else (dim,))) if rank else ()


def _sum(x: torch.Tensor, axes: tuple[int, ...], keepdim: bool, dtype: torch.dtype | None) -> torch.Tensor:
    return torch.sum(x, axes, keepdim=keepdim, dtype=dtype)


_compiled_sum = Compiled(_sum)


def _kernel_serves(call: CheckedCall) -> bool:
    """The kernel adds its input as it is, so it leaves alone a call that rounds it to a narrower type first."""
    narrower = call.outputs["output"].dtype not in (call.tensors["input"].dtype, "float32")
    return triton_serves(call) and not narrower


class SumFwdOp(generated.SumFwdOp):
    """Sum over some or all axes."""

    SAMPLES = {"input": Groups(axes=lambda params, rank: _summed(params["dim"], rank), is_added=True)}

    @implementation("torch")
    def _torch(self, call: CheckedCall, input: torch.Tensor) -> torch.Tensor:
        return _sum(input, _axes(call), call.params["keepdim"], _dtype(call))

    @implementation("torch_compile", when=on_cuda)
    def _torch_compile(self, call: CheckedCall, input: torch.Tensor) -> torch.Tensor:
        return _compiled_sum(input, _axes(call), call.params["keepdim"], _dtype(call))

    @implementation("triton", when=_kernel_serves)
    def _triton(self, call: CheckedCall, input: torch.Tensor) -> torch.Tensor:
        from tileops.ops.kernels.reduction import sums as kernels  # Triton is imported when first used

        promised = call.outputs["output"]
        return kernels.sum_over(input, _axes(call), promised.shape, BY_NAME[promised.dtype])


def _dtype(call: CheckedCall) -> torch.dtype | None:
    """The parameter `dtype` as torch has it."""
    return None if call.params["dtype"] is None else BY_NAME[call.params["dtype"]]
