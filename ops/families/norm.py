"""Public ops of the family norm and their implementations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tileops.ops.checked_call import CheckedCall
from tileops.ops.families.compiled import Compiled
from tileops.ops.generated import norm as generated
from tileops.ops.implementations import implementation, on_cuda
from tileops.ops.kernels.support import triton_serves
from tileops.ops.samples import Groups, Spread, Variances, Weights

# output, save_mean, save_invstd
_BatchNormOutputs = tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]
# Longest row that the Triton kernel holds in registers: 32 values for each of 1024 threads.
_LONGEST_TRITON_ROW = 32768


def _rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None, normalized_shape: tuple[int, ...], eps: float
) -> torch.Tensor:
    """x / sqrt(mean(x**2) + eps) * weight over the trailing axes, in float32 at least, rounded once."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    axes = tuple(range(-len(normalized_shape), 0))
    normalized = wide * torch.rsqrt(wide.square().mean(dim=axes, keepdim=True) + eps)
    if weight is not None:
        normalized = normalized * weight
    return normalized.to(x.dtype)


_compiled_rms_norm = Compiled(_rms_norm)


def _rms_norm_kernel_serves(call: CheckedCall) -> bool:
    return triton_serves(call) and math.prod(call.params["normalized_shape"]) <= _LONGEST_TRITON_ROW


class RMSNormFwdOp(generated.RMSNormFwdOp):
    """x divided by the root mean square of its trailing axes, times an optional weight."""

    SAMPLES = {
        "x": Groups(axes=lambda params, rank: tuple(range(rank - len(params["normalized_shape"]), rank)), eps="eps"),
        "weight": Weights(),
    }

    @implementation("torch")
    def _torch(self, call: CheckedCall, x: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        return _rms_norm(x, weight, call.params["normalized_shape"], call.params["eps"])

    @implementation("torch_compile", when=on_cuda)
    def _torch_compile(self, call: CheckedCall, x: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        return _compiled_rms_norm(x, weight, call.params["normalized_shape"], call.params["eps"])

    @implementation("triton", when=_rms_norm_kernel_serves)
    def _triton(self, call: CheckedCall, x: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        from tileops.ops.kernels.norm import rms_norm as kernels  # Triton is imported when first used

        return kernels.rms_norm(x, weight, math.prod(call.params["normalized_shape"]), call.params["eps"])


def _batch_norm(
    input: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> _BatchNormOutputs:
    """Batch normalization in float32 at least, rounded once; blends the running statistics in place when training."""
    wide = input.to(torch.promote_types(input.dtype, torch.float32))
    if not training:
        normalized = F.batch_norm(wide, running_mean, running_var, weight, bias, False, momentum, eps)
        return normalized.to(input.dtype), None, None
    normalized, mean, invstd = torch.native_batch_norm(
        wide, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return normalized.to(input.dtype), mean, invstd


_compiled_batch_norm = Compiled(_batch_norm)


def _triton_batch_norm(*arguments: Any) -> _BatchNormOutputs:
    """Returns what `_batch_norm` returns of these arguments, computed by Triton kernels."""
    from tileops.ops.kernels.norm import batch_norm, batch_norm_training

    input, running_mean, running_var, weight, bias, training, momentum, eps = arguments
    if training:
        return batch_norm_training.batch_norm_training(input, running_mean, running_var, weight, bias, momentum, eps)
    return batch_norm.batch_norm_inference(input, running_mean, running_var, weight, bias, eps), None, None


def _batch_norm_by(function: Callable[..., _BatchNormOutputs]) -> Callable[..., _BatchNormOutputs]:
    """Returns an implementation that passes the call's tensors and settings to a function in place of `_batch_norm`."""

    def implement(
        self: BatchNormFwdOp,
        call: CheckedCall,
        input: torch.Tensor,
        running_mean: torch.Tensor | None,
        running_var: torch.Tensor | None,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
    ) -> _BatchNormOutputs:
        settings = call.params["training"], call.params["momentum"], call.params["eps"]
        return function(input, running_mean, running_var, weight, bias, *settings)

    return implement


class BatchNormFwdOp(generated.BatchNormFwdOp):
    """Batch normalization by running statistics or, in training, by the batch's own, which the running ones follow.

    Training also returns the batch's statistics: the mean and the reciprocal root of the biased variance and eps.
    """

    SAMPLES = {
        "input": Groups(axes=lambda params, rank: (0, *range(2, rank)), eps="eps", when="training"),
        "running_mean": Spread(-4.0, 2.0),
        "running_var": Variances(eps="eps"),
        "weight": Weights(),
        "bias": Spread(-4.0, 2.0),
    }

    _torch = implementation("torch")(_batch_norm_by(_batch_norm))
    _torch_compile = implementation("torch_compile", when=on_cuda)(_batch_norm_by(_compiled_batch_norm))
    _triton = implementation("triton", when=triton_serves)(_batch_norm_by(_triton_batch_norm))
