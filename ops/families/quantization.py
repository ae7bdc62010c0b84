"""Public ops of the family quantization and their implementations.

A quantizer works in float32, whatever higher precision it is given: its codes are defined by float32's own rounding. An
int8 code of what is no number is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F

from tileops.ops.checked_call import CheckedCall
from tileops.ops.generated import quantization as generated
from tileops.ops.implementations import implementation
from tileops.ops.kernels.support import ceil_div, triton_serves
from tileops.ops.op import Op
from tileops.ops.samples import Groups, Sample, Spread

# Elements of a group along a row, and sides of a tile.
_GROUP = 128
# Longest group that a program of the Triton kernels holds in registers: 32 values for each of 1024 threads.
_LONGEST_TRITON_GROUP = 32768
# Compute capability from which a GPU converts numbers to float8_e4m3fn.
_CONVERTS_FP8 = (8, 9)
# The largest codes, and the least that the largest magnitude of a vector counts as.
_LARGEST_INT8, _LARGEST_FP8, _FLOOR = 127.0, 448.0, 1e-4
# Each row has a scale of its own. Its largest element may be anywhere in it, and is twice or so what the next ones are.
_ROWS = Groups(axes=lambda params, rank: (rank - 1,), is_centred=True, largest=16.0)
# The same of a whole tensor.
_WHOLE = Groups(axes=lambda params, rank: tuple(range(rank)), is_centred=True, largest=16.0)
# Groups within a row: their largest elements differ, and may be anywhere.
_WITHIN_ROWS = Spread(-6.0, 4.0)


def _scale(largest: torch.Tensor, largest_code: float) -> torch.Tensor:
    """The scale of groups by their largest magnitudes: 1 of a group of zeros, and where a number is missing."""
    return torch.where(largest > 0, largest * (1 / largest_code), 1.0)


def _int8(ratio: torch.Tensor, least: float = -_LARGEST_INT8, largest: float = _LARGEST_INT8) -> torch.Tensor:
    """The nearest code, ties to even."""
    return ratio.round().clamp(least, largest).nan_to_num(nan=0.0).to(torch.int8)


def _fp8(ratio: torch.Tensor) -> torch.Tensor:
    """The nearest float8_e4m3fn between the least and the largest; NaN of NaN."""
    return ratio.clamp(-_LARGEST_FP8, _LARGEST_FP8).to(torch.float8_e4m3fn)


def _in_groups(x: torch.Tensor) -> torch.Tensor:
    """x [rows, cols] as [rows, groups, 128], filled up with zeros, which change no group's largest magnitude."""
    rows, cols = x.shape
    groups = ceil_div(cols, _GROUP)
    return F.pad(x, (0, groups * _GROUP - cols)).view(rows, groups, _GROUP)


def _groups_serve(call: CheckedCall) -> bool:
    """Rows that a program holds."""
    return triton_serves(call) and next(iter(call.tensors.values())).shape[-1] <= _LONGEST_TRITON_GROUP


def _converts_fp8(call: CheckedCall) -> bool:
    """Whether the call's GPU converts to float8_e4m3fn. Triton's interpreter does."""
    is_gpu = call.device.startswith("cuda") and torch.cuda.is_available()
    return not is_gpu or torch.cuda.get_device_capability(call.device) >= _CONVERTS_FP8


def _fp8_groups_serve(call: CheckedCall) -> bool:
    return _groups_serve(call) and _converts_fp8(call)


def _fp8_tiles_serve(call: CheckedCall) -> bool:
    return triton_serves(call) and _converts_fp8(call)


class _Elementwise(Op):
    """What all quantizers and their inverses have in common: each number is rounded a fixed number of times."""

    ARITHMETIC = "elementwise"


class INT8QuantPerTensorFwdOp(generated.INT8QuantPerTensorFwdOp, _Elementwise):
    """int8 codes of a tensor, and the one scale of all of them."""

    SAMPLES = {"x": _WHOLE}

    @implementation("torch")
    def _torch(self, call: CheckedCall, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        wide = x.float()
        scale = _scale(wide.abs().amax(), _LARGEST_INT8)
        return _int8(wide / scale), scale.view(1)

    @implementation("triton", when=triton_serves)
    def _triton(self, call: CheckedCall, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from tileops.ops.kernels.quantization import quantize as kernels  # Triton is imported when first used

        return kernels.quantize_whole(x)


class INT8QuantPerChannelFwdOp(generated.INT8QuantPerChannelFwdOp, _Elementwise):
    """int8 codes of a weight, and the scale of each row."""

    SAMPLES = {"w": _ROWS}

    @implementation("torch")
    def _torch(self, call: CheckedCall, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        wide = w.float()
        scale = _scale(wide.abs().amax(1), _LARGEST_INT8)
        return _int8(wide / scale[:, None]), scale

    @implementation("triton", when=_groups_serve)
    def _triton(self, call: CheckedCall, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from tileops.ops.kernels.quantization import quantize as kernels

        q, scale = kernels.quantize_groups(w, w.shape[1], "int8")
        return q, scale.view(-1)


class INT8QuantPerTokenGroupFwdOp(generated.INT8QuantPerTokenGroupFwdOp, _Elementwise):
    """int8 codes, and the scale of each 128 elements of a row; the last group of a row may have fewer."""

    SAMPLES = {"x": _WITHIN_ROWS}

    @implementation("torch")
    def _torch(self, call: CheckedCall, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        grouped = _in_groups(x.float())
        scale = _scale(grouped.abs().amax(2), _LARGEST_INT8)
        codes = _int8(grouped / scale[:, :, None])
        return codes.flatten(1)[:, : x.shape[1]].contiguous(), scale

    @implementation("triton", when=triton_serves)
    def _triton(self, call: CheckedCall, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from tileops.ops.kernels.quantization import quantize as kernels

        return kernels.quantize_groups(x, _GROUP, "int8")


class SmoothQuantFwdOp(generated.SmoothQuantFwdOp, _Elementwise):
    """int8 codes of x with each column divided by its factor, and the scale of each row."""

    SAMPLES: ClassVar[Mapping[str, Sample]] = {"x": _ROWS, "smooth": Spread(-4.0, 2.0)}

    @implementation("torch")
    def _torch(self, call: CheckedCall, x: torch.Tensor, smooth: torch.Tensor) -> tuple[torch.Tensor, ...]:
        smoothed = x.float() / smooth.float()
        scale = _scale(smoothed.abs().amax(1), _LARGEST_INT8)
        return _int8(smoothed / scale[:, None]), scale

    @implementation("triton", when=_groups_serve)
    def _triton(self, call: CheckedCall, x: torch.Tensor, smooth: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from tileops.ops.kernels.quantization import quantize as kernels

        q, scale = kernels.quantize_groups(x, x.shape[1], "int8", smooth)
        return q, scale.view(-1)


class _Dequantizer(_Elementwise):
    """int8 codes times their scales: one product in float32, then one rounding."""

    SAMPLES = {"q": range(-128, 128)}
    _LENGTH = 0  # codes that share a scale, if a row has several scales

    def _each(self, scale: torch.Tensor, cols: int) -> torch.Tensor:
        """The scales as they multiply the codes."""
        return scale[:, None]

    @implementation("torch")
    def _torch(self, call: CheckedCall, q: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        product = q.float() * self._each(scale.float(), q.shape[1])
        return product.to(getattr(torch, call.tensors["x"].dtype))

    @implementation("triton", when=triton_serves)
    def _triton(self, call: CheckedCall, q: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        from tileops.ops.kernels.quantization import dequantize as kernels

        return kernels.dequantize(q, scale, self._LENGTH, getattr(torch, call.tensors["x"].dtype))


class INT8DequantPerTensorFwdOp(generated.INT8DequantPerTensorFwdOp, _Dequantizer):
    """Codes times the one scale."""


class INT8DequantPerChannelFwdOp(generated.INT8DequantPerChannelFwdOp, _Dequantizer):
    """Codes times the scale of their row."""


class INT8DequantPerBlockFwdOp(generated.INT8DequantPerBlockFwdOp, _Dequantizer):
    """Codes times the scale of their 128 codes of a row."""

    _LENGTH = _GROUP

    def _each(self, scale: torch.Tensor, cols: int) -> torch.Tensor:
        return scale.repeat_interleave(_GROUP, dim=1)[:, :cols]


class FP8QuantPerTokenGroupFwdOp(generated.FP8QuantPerTokenGroupFwdOp, _Elementwise):
    """float8_e4m3fn codes, and the scale of each vector of the last axis, by a magnitude of 1e-4 at least."""

    SAMPLES = {"x": _ROWS}

    @implementation("torch")
    def _torch(self, call: CheckedCall, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        wide = x.float()
        largest = wide.abs().amax(3).clamp_min(_FLOOR)
        scale = largest / torch.full_like(largest, _LARGEST_FP8)  # by a number, a GPU would multiply by its reciprocal
        return _fp8(wide / scale[..., None]), scale

    @implementation("triton", when=_fp8_groups_serve)
    def _triton(self, call: CheckedCall, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from tileops.ops.kernels.quantization import quantize as kernels

        width = x.shape[3]
        q, scale = kernels.quantize_groups(x.reshape(-1, width), width, "fp8")
        return q.view(x.shape), scale.view(x.shape[:3])


class FP8QuantPerBlockFwdOp(generated.FP8QuantPerBlockFwdOp, _Elementwise):
    """float8_e4m3fn codes of a weight, and the scale of each tile of 128 rows and columns, clipped at the edges."""

    SAMPLES = {"w": _WITHIN_ROWS}

    @implementation("torch")
    def _torch(self, call: CheckedCall, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows, cols = w.shape
        down, across = ceil_div(rows, _GROUP), ceil_div(cols, _GROUP)
        filled = F.pad(w.float(), (0, across * _GROUP - cols, 0, down * _GROUP - rows))
        tiles = filled.view(down, _GROUP, across, _GROUP)
        scale = _scale(tiles.abs().amax((1, 3)), _LARGEST_FP8)
        codes = _fp8(tiles / scale[:, None, :, None]).view(down * _GROUP, across * _GROUP)
        return codes[:rows, :cols].contiguous(), scale

    @implementation("triton", when=_fp8_tiles_serve)
    def _triton(self, call: CheckedCall, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from tileops.ops.kernels.quantization import quantize as kernels

        return kernels.quantize_tiles(w)


def _int4_serves(call: CheckedCall) -> bool:
    """Groups of whole bytes that a program holds."""
    length = call.params["group_size"]
    return triton_serves(call) and length % 2 == 0 and length <= _LONGEST_TRITON_GROUP


class INT4QuantPerGroupFwdOp(generated.INT4QuantPerGroupFwdOp, _Elementwise):
    """Signed 4-bit codes of runs of `group_size` elements, two per byte, the even column's in the high bits.

    A code c stands for c * step + offset; each group has a row (step, offset) of `params`.
    """

    SAMPLES = {"w": _WITHIN_ROWS}

    @implementation("torch")
    def _torch(self, call: CheckedCall, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        length = call.params["group_size"]
        grouped = w.float().reshape(w.numel() // length, length)
        low, high = grouped.amin(1), grouped.amax(1)
        factor = torch.where(high == low, 1.0, 16 * torch.ones_like(low) / (high - low))
        offset = (high + low) / 2
        codes = _int8((grouped - offset[:, None]) * factor[:, None], -8.0, 7.0).view(w.shape[0], w.shape[1] // 2, 2)
        packed = (codes[..., 0] << 4) | (codes[..., 1] & 15)
        return packed, torch.stack([torch.ones_like(factor) / factor, offset], dim=1)

    @implementation("triton", when=_int4_serves)
    def _triton(self, call: CheckedCall, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from tileops.ops.kernels.quantization import quantize as kernels

        return kernels.quantize_int4(w, call.params["group_size"])
