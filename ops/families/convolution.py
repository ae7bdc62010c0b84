"""Public ops of the family convolution and their implementations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tileops.ops.checked_call import CheckedCall
from tileops.ops.families.compiled import Compiled
from tileops.ops.generated import convolution as generated
from tileops.ops.implementations import implementation, on_cuda
from tileops.ops.op import Op
from tileops.ops.roofs import tensor_core_roof
from tileops.perf import formulas

_FUNCTIONS: dict[int, Callable[..., torch.Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


def _convolve(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, settings: tuple[Any, ...]
) -> torch.Tensor:
    return _FUNCTIONS[input.dim() - 2](input, weight, bias, *settings)


_compiled_convolve = Compiled(_convolve)


def _settings(call: CheckedCall) -> tuple[Any, ...]:
    """Returns stride, padding, dilation and groups, in the order of torch's functions."""
    return tuple(call.params[name] for name in ("stride", "padding", "dilation", "groups"))


def _has_channels_last(call: CheckedCall) -> bool:
    """Two or three axes on a GPU."""
    return on_cuda(call) and len(call.tensors["input"].shape) > 3


class _Convolution(Op):
    """What convolutions of every rank have in common."""

    def roof_key(self) -> str:
        """The tensor-core unit of the operands' dtype."""
        return tensor_core_roof(self.last_call.dtypes["input"])

    def eval_roofline_read_bytes(self) -> int:
        """Bytes of the input positions and weight taps that meet in some window of the last call, and of the bias."""
        return formulas.convolution_read_bytes(self.last_call)

    @implementation("torch")
    def _torch(
        self, call: CheckedCall, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        if input.is_cuda:
            return _convolve(input, weight, bias, _settings(call))
        # On the CPU 16-bit products differ by processor.
        wide = None if bias is None else bias.float()
        return _convolve(input.float(), weight.float(), wide, _settings(call)).to(input.dtype)

    @implementation("torch_compile", when=on_cuda)
    def _torch_compile(
        self, call: CheckedCall, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        return _compiled_convolve(input, weight, bias, _settings(call))

    @implementation("channels_last", when=_has_channels_last)
    def _channels_last(
        self, call: CheckedCall, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """cuDNN over copies whose channels are innermost, as its tensor-core kernels read them."""
        memory_format = _CHANNELS_LAST[input.dim() - 2]
        x, w = (one.contiguous(memory_format=memory_format) for one in (input, weight))
        return _convolve(x, w, bias, _settings(call)).contiguous()


class Conv1dFwdOp(generated.Conv1dFwdOp, _Convolution):
    """Convolution over the last axis."""


class Conv2dFwdOp(generated.Conv2dFwdOp, _Convolution):
    """Convolution over the last two axes."""


class Conv3dFwdOp(generated.Conv3dFwdOp, _Convolution):
    """Convolution over the last three axes."""
