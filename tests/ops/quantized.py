"""Codes and scales of quantizers in float64, rounded to float32 where their definition rounds."""

from __future__ import annotations

import torch

GROUP = 128
# Shapes of the scales of [rows, cols] codes.
SCALES = {
    "INT8DequantPerTensorFwdOp": lambda rows, cols: (1,),
    "INT8DequantPerChannelFwdOp": lambda rows, cols: (rows,),
    "INT8DequantPerBlockFwdOp": lambda rows, cols: (rows, -(-cols // GROUP)),
}

Quantized = tuple[torch.Tensor, torch.Tensor]


def _rounded(x: torch.Tensor) -> torch.Tensor:
    """x rounded to float32. Of a sum, product or quotient of float32 numbers it is float32's own: float64 has more than
    twice its bits, whose rounding before changes nothing.
    """
    return x.float().double()


def _scale(group: torch.Tensor, largest: float) -> torch.Tensor:
    sizes = group.double().abs()
    if sizes.isnan().any() or not sizes.any():
        return torch.ones((), dtype=torch.float64)
    return _rounded(sizes.max() * _rounded(torch.tensor(1 / largest, dtype=torch.float64)))


def _int8(group: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return _rounded(group.double() / scale).round().clamp(-127, 127).nan_to_num(nan=0.0).to(torch.int8)


def nearest_fp8(x: torch.Tensor) -> torch.Tensor:
    """The nearest multiple of the step of x's octave: three bits of significand, 2**-9 at least."""
    held = x.clamp(-448, 448)
    step = torch.exp2(torch.frexp(held.abs().clamp_min(2.0**-6)).exponent.double() - 4)
    # The cast is exact; an octave's end is a multiple of the next one's step. NaN and the sign of 0 stay.
    return torch.copysign((held / step).round() * step, x).to(torch.float8_e4m3fn)


def _fp8(group: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return nearest_fp8(_rounded(group.double() / scale))


def int8_of_all(x: torch.Tensor) -> Quantized:
    scale = _scale(x, 127.0)
    return _int8(x, scale), scale.float().view(1)


def int8_of_rows(x: torch.Tensor) -> Quantized:
    scale = torch.stack([_scale(row, 127.0) for row in x])
    return _int8(x, scale[:, None]), scale.float()


def int8_of_groups(x: torch.Tensor) -> Quantized:
    scale = torch.stack([torch.stack([_scale(group, 127.0) for group in row.split(GROUP)]) for row in x])
    return _int8(x, scale.repeat_interleave(GROUP, 1)[:, : x.shape[1]]), scale.float()


def fp8_of_tiles(x: torch.Tensor) -> Quantized:
    scale = torch.stack(
        [torch.stack([_scale(tile, 448.0) for tile in rows.split(GROUP, 1)]) for rows in x.split(GROUP)]
    )
    each = scale.repeat_interleave(GROUP, 0)[: len(x)].repeat_interleave(GROUP, 1)[:, : x.shape[1]]
    return _fp8(x, each), scale.float()


def fp8_of_vectors(x: torch.Tensor) -> Quantized:
    floor = torch.tensor(1e-4).double()
    scale = _rounded(torch.maximum(x.double().abs().amax(-1), floor) / 448)
    return _fp8(x, scale[..., None]), scale.float()


def int4_of_groups(w: torch.Tensor, length: int) -> Quantized:
    groups = w.double().reshape(-1, length)
    low, high = groups.amin(1), groups.amax(1)
    span = _rounded(high - low)
    factor = torch.where(span == 0, 1.0, _rounded(16 / span))
    offset = _rounded(_rounded(high + low) / 2)
    codes = _rounded(_rounded(groups - offset[:, None]) * factor[:, None]).round().clamp(-8, 7)
    pairs = (codes.long() & 15).view(w.shape[0], -1, 2)
    packed = (16 * pairs[..., 0] + pairs[..., 1]).to(torch.uint8).view(torch.int8)
    return packed, torch.stack([1 / factor, offset], 1).float()


def product(q: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Codes times their scales, in float32."""
    if scale.dim() == 2:
        return (q.double() * scale.double().repeat_interleave(GROUP, 1)[:, : q.shape[1]]).float()
    return (q.double() * scale.double()[:, None]).float()
