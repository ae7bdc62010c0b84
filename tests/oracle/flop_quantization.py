"""FLOP oracle, kind (a), of quantizers and their inverses. A partial group or tile is a piece of its own, so that only
existing elements are counted. No group is all zeros or of equal values, so that none needs the scale or factor 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Params = dict[str, Any]
_GROUP = 128
_BYTES = 16  # values of half a byte


def _int8(x: torch.Tensor, axes: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes, and the scales of groups along `axes`, which stay with one element each."""
    scale = x.abs().amax(axes, keepdim=True) * (1 / 127)
    return torch.clamp(torch.round(x / scale), -127, 127).to(torch.int8), scale


def _fp8(x: torch.Tensor, axes: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    scale = x.abs().amax(axes, keepdim=True) * (1 / 448)
    return torch.clamp(x / scale, -448, 448).to(torch.float8_e4m3fn), scale


def per_tensor(params: Params, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    q, scale = _int8(x.float(), (0, 1))
    return q, scale.view(1)


def per_channel(params: Params, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    q, scale = _int8(w.float(), (1,))
    return q, scale.view(-1)


def smooth_quant(params: Params, x: torch.Tensor, smooth: torch.Tensor) -> tuple[torch.Tensor, ...]:
    q, scale = _int8(x.float() / smooth, (1,))
    return q, scale.view(-1)


def per_token_group(params: Params, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Whole groups, and the last one of each row if it is shorter."""
    rows, cols = x.shape
    whole = cols // _GROUP
    pieces = []
    if whole:
        q, scale = _int8(x[:, : whole * _GROUP].float().reshape(rows, whole, _GROUP), (2,))
        pieces.append((q.view(rows, whole * _GROUP), scale.view(rows, whole)))
    if cols % _GROUP or not whole:
        q, scale = _int8(x[:, whole * _GROUP :].float(), (1,)) if cols else (x.to(torch.int8), x.float())
        pieces.append((q, scale))
    return torch.cat([q for q, _ in pieces], 1), torch.cat([scale for _, scale in pieces], 1)


def _spans(size: int) -> list[tuple[int, int, int]]:
    """Start, number and length of the whole groups along an axis, and of the shorter last one."""
    whole = size // _GROUP
    found = [(0, whole, _GROUP), (whole * _GROUP, 1, size % _GROUP)]
    return [one for one in found if one[1] * one[2]]


def per_block(params: Params, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Whole tiles, and those at the two edges and the corner."""
    codes, scales = [], []
    for top, down, height in _spans(w.shape[0]):
        line = []
        for left, across, width in _spans(w.shape[1]):
            piece = w[top : top + down * height, left : left + across * width].float()
            q, scale = _fp8(piece.reshape(down, height, across, width), (1, 3))
            line.append((q.view(down * height, across * width), scale.view(down, across)))
        if line:
            codes.append(torch.cat([q for q, _ in line], 1))
            scales.append(torch.cat([scale for _, scale in line], 1))
    if not codes:
        tiles = [-(-size // _GROUP) for size in w.shape]
        return torch.empty(w.shape, dtype=torch.float8_e4m3fn), torch.empty(tiles)
    return torch.cat(codes), torch.cat(scales)


def per_vector(params: Params, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    wide = x.float()
    scale = wide.abs().amax(3).clamp_min(1e-4) / 448
    return torch.clamp(wide / scale.unsqueeze(3), -448, 448).to(torch.float8_e4m3fn), scale


def int4(params: Params, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Two codes are packed by a table of all pairs: packing is no arithmetic."""
    length = params["group_size"]
    groups = w.float().reshape(w.numel() // length, length)
    low, high = groups.amin(1), groups.amax(1)
    factor = 16 / (high - low)
    offset = (high + low) / 2
    codes = torch.clamp(torch.round((groups - offset.unsqueeze(1)) * factor.unsqueeze(1)), -8, 7).long()
    pairs = codes.view(w.shape[0], w.shape[1] // 2, 2)
    table = torch.arange(_BYTES * _BYTES, device=w.device).to(torch.int8).view(_BYTES, _BYTES)
    params_of_groups = torch.cat([(1 / factor).unsqueeze(1), offset.unsqueeze(1)], 1)
    return table[pairs[..., 0], pairs[..., 1]], params_of_groups


def dequantize(params: Params, q: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    each = scale.unsqueeze(1)
    if scale.dim() == 2:
        rows, groups = scale.shape
        each = scale.unsqueeze(2).expand(rows, groups, _GROUP).reshape(rows, groups * _GROUP)[:, : q.shape[1]]
    return (q.float() * each).to(getattr(torch, params["out_dtype"]))


REFERENCES: dict[str, Callable[..., Any]] = {
    "INT8QuantPerTensorFwdOp": per_tensor,
    "INT8QuantPerChannelFwdOp": per_channel,
    "INT8QuantPerTokenGroupFwdOp": per_token_group,
    "SmoothQuantFwdOp": smooth_quant,
    "INT8DequantPerTensorFwdOp": dequantize,
    "INT8DequantPerChannelFwdOp": dequantize,
    "INT8DequantPerBlockFwdOp": dequantize,
    "FP8QuantPerTokenGroupFwdOp": per_vector,
    "FP8QuantPerBlockFwdOp": per_block,
    "INT4QuantPerGroupFwdOp": int4,
}
