"""FLOP oracle, kind (a): the op's algorithm in PyTorch operations, which a dispatch mode counts one by one.

Seed, section 1.3: the least arithmetic of the algorithm that the op runs. A test holds that each function computes what
the op computes, so that what is counted is the op and no relative of it. Functions get the op after a completed call
(of which they use the parameters) and the tensors of that call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tileops.tests.oracle import flop_elementwise, flop_quantization

Reference = Callable[..., Any]


def _wide(x: torch.Tensor) -> torch.Tensor:
    """x in float32, as the ops compute in; what is as wide already stays."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def gemm(params: dict[str, Any], a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.mm(a.T if params["trans_a"] else a, b.T if params["trans_b"] else b)


def rms_norm(params: dict[str, Any], x: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
    wide = _wide(x)
    axes = tuple(range(-len(params["normalized_shape"]), 0))
    scale = torch.rsqrt(wide.square().mean(dim=axes, keepdim=True) + params["eps"])
    result = wide * scale
    return (result if weight is None else result * weight).to(x.dtype)


def batch_norm(
    params: dict[str, Any],
    x: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
) -> tuple[torch.Tensor | None, ...]:
    """Inference folds a channel's statistics into one scale and one shift; training writes the running statistics."""
    wide = _wide(x)
    each = (1, -1, *[1] * (x.dim() - 2))  # a value a channel, against x
    if not params["training"]:
        if x.numel() == 0:  # no sample needs a channel's scale and shift
            return torch.empty(x.shape, dtype=x.dtype), None, None
        scale = torch.rsqrt(running_var + params["eps"])
        scale = scale if weight is None else scale * weight
        shift = running_mean * scale
        shift = -shift if bias is None else bias - shift
        return (wide * scale.view(each) + shift.view(each)).to(x.dtype), None, None
    axes = [axis for axis in range(x.dim()) if axis != 1]
    count = x.numel() // x.shape[1]
    mean = wide.sum(axes) / count
    centred = wide - mean.view(each)
    variance = centred.square().sum(axes) / count
    invstd = torch.rsqrt(variance + params["eps"])
    scale = invstd if weight is None else invstd * weight
    result = centred * scale.view(each)
    if running_mean is not None and running_var is not None:
        momentum = params["momentum"]
        running_mean.copy_(running_mean * (1 - momentum) + mean * momentum)
        running_var.copy_(running_var * (1 - momentum) + variance * (count / (count - 1)) * momentum)
    return (result if bias is None else result + bias.view(each)).to(x.dtype), mean, invstd


def fold(function: Callable[..., torch.Tensor]) -> Reference:
    """The algorithm of an op that folds axes of one tensor: (x, axes, keepdim=) -> the result, all axes if none are named.

    Where the op converts to a dtype, it does so first, and where the result is narrower than float32, last.
    """

    def folded(params: dict[str, Any], x: torch.Tensor) -> torch.Tensor:
        dim, dtype = params["dim"], params.get("dtype")
        if dim is None or dim == ():
            dim = tuple(range(x.dim()))
        given = x if dtype is None else x.to(getattr(torch, dtype))
        return function(_wide(given), dim, keepdim=params["keepdim"]).to(given.dtype)

    return folded


def vector_norm(params: dict[str, Any], x: torch.Tensor) -> torch.Tensor:
    if params["ord"] == 2:
        return fold(lambda wide, dim, keepdim: wide.square().sum(dim, keepdim=keepdim).sqrt())(params, x)
    function = torch.sum if params["ord"] == 1 else torch.amax
    return fold(lambda wide, dim, keepdim: function(wide.abs(), dim, keepdim=keepdim))(params, x)


def fourier(params: dict[str, Any], x: torch.Tensor) -> torch.Tensor:
    return torch.fft.fft(x) if x.numel() else x.clone()


REFERENCES: dict[str, Reference] = {
    **flop_elementwise.REFERENCES,
    **flop_quantization.REFERENCES,
    "GEMMFwdOp": gemm,
    "RMSNormFwdOp": rms_norm,
    "BatchNormFwdOp": batch_norm,
    "FFTC2CFwdOp": fourier,
    "SumFwdOp": fold(torch.sum),
    "MeanFwdOp": fold(torch.mean),
    "AmaxFwdOp": fold(torch.amax),
    "AminFwdOp": fold(torch.amin),
    "ProdFwdOp": fold(torch.prod),
    "VectorNormFwdOp": vector_norm,
}
