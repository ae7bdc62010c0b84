"""Bases of ops whose result depends on positions alone, beside the generated classes of their entries."""

from __future__ import annotations

import math

import torch

from tileops.ops.checked_call import CheckedCall
from tileops.ops.dtypes import BY_NAME
from tileops.ops.implementations import implementation
from tileops.ops.kernels.support import triton_serves
from tileops.ops.op import Op


def _kernel_serves(call: CheckedCall) -> bool:
    """The kernels count rows and columns in 32 bits."""
    return triton_serves(call) and math.prod(call.outputs["output"].shape[:-1]) < 2**31


def _empty(call: CheckedCall) -> torch.Tensor:
    record = call.outputs["output"]
    return torch.empty(record.shape, dtype=BY_NAME[record.dtype], device=call.device)


def alibi_slopes(num_heads: int) -> list[float]:
    """The slope of each head: a geometric sequence from 2 ** (-8 / n) down, for n heads, n a power of two.

    For other numbers that of the last power of two, then every other one of the sequence twice as long. (Press, Smith
    and Lewis, Train short, test long, 2021.)
    """
    if num_heads == 0:
        return []
    leading = 1 << (num_heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (head + 1) / leading) for head in range(leading)]
    return slopes + [2.0 ** (-4.0 * (2 * head + 1) / leading) for head in range(num_heads - leading)]


class AlibiOp(Op):
    """-slope[h] * |i - j|."""

    ARITHMETIC = "elementwise"

    @implementation("torch")
    def _torch(self, call: CheckedCall) -> torch.Tensor:
        params, record = call.params, call.outputs["output"]
        positions = torch.arange(params["seq_len"], dtype=torch.float32, device=call.device)
        distance = (positions[:, None] - positions[None, :]).abs()
        slopes = torch.tensor(alibi_slopes(params["num_heads"]), dtype=torch.float32, device=call.device)
        return (-slopes[:, None, None] * distance).to(BY_NAME[record.dtype])

    @implementation("triton", when=_kernel_serves)
    def _triton(self, call: CheckedCall) -> torch.Tensor:
        from tileops.ops.kernels.elementwise import positions as kernels  # Triton is imported when first used

        return kernels.alibi(call.params["seq_len"], call.params["num_heads"], _empty(call))


class SinusoidalOp(Op):
    """sin and cos of position / 10000 ** (2 i / d_model), in columns 2 i and 2 i + 1."""

    ARITHMETIC = "elementwise"

    @implementation("torch")
    def _torch(self, call: CheckedCall) -> torch.Tensor:
        """In float64: an angle of 4096 has an error of 2e-4 in float32."""
        length, width = call.params["seq_len"], call.params["d_model"]
        exponents = torch.arange(0, width, 2, dtype=torch.float64, device=call.device) / width
        angles = torch.arange(length, dtype=torch.float64, device=call.device)[:, None] * 10000.0**-exponents
        pairs = torch.stack((angles.sin(), angles.cos()), dim=-1)
        return pairs.reshape(length, 2 * exponents.numel())[:, :width].to(BY_NAME[call.params["out_dtype"]], copy=True)

    @implementation("triton", when=_kernel_serves)
    def _triton(self, call: CheckedCall) -> torch.Tensor:
        from tileops.ops.kernels.elementwise import positions as kernels

        return kernels.sinusoidal(call.params["seq_len"], call.params["d_model"], _empty(call))
