"""Triton kernels of batch normalization over x viewed as [N, C, L], L the product of the spatial axes.

Without spatial axes (L = 1) neighbouring elements belong to different channels; with them, to one. A tile is
[samples, channels] in the first layout and [samples, positions] of one channel in the second, and the kernels'
CHANNELS_INNER says which.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tileops.ops.kernels.support import MULTIPROCESSORS, ceil_div, elementwise_tile, on_device, power_of_two

# A channel of at most this many elements is normalized by one program that holds it in registers.
_RESIDENT = 16384
# Elements of a tile of the statistics pass.
_STATISTICS_TILE = 8192


@triton.jit
def _normalize(
    x_ptr, mean_ptr, var_ptr, weight_ptr, bias_ptr, out_ptr, eps, rows, cols, col_blocks, channels,
    WEIGHTED: tl.constexpr, BIASED: tl.constexpr, CHANNELS_INNER: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    row = (pid // col_blocks) * ROWS + tl.arange(0, ROWS)
    col = (pid % col_blocks) * COLS + tl.arange(0, COLS)
    row_mask = row < rows
    col_mask = col < cols
    mask = row_mask[:, None] & col_mask[None, :]
    at = row.to(tl.int64)[:, None] * cols + col[None, :]
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    if CHANNELS_INNER:
        channel = col
        channel_mask = col_mask
    else:
        channel = row % channels
        channel_mask = row_mask
    mean = tl.load(mean_ptr + channel, mask=channel_mask, other=0.0)
    scale = tl.rsqrt(tl.load(var_ptr + channel, mask=channel_mask, other=1.0) + eps)
    shift = tl.zeros_like(mean)
    if WEIGHTED:
        scale *= tl.load(weight_ptr + channel, mask=channel_mask, other=0.0)
    if BIASED:
        shift = tl.load(bias_ptr + channel, mask=channel_mask, other=0.0)
    if CHANNELS_INNER:
        value = (x - mean[None, :]) * scale[None, :] + shift[None, :]
    else:
        value = (x - mean[:, None]) * scale[:, None] + shift[:, None]
    tl.store(out_ptr + at, value.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _channel_sum(tile, CHANNELS_INNER: tl.constexpr):
    """Sum of a tile for each of its channels: a vector over columns, or one element for a single channel."""
    if CHANNELS_INNER:
        total = tl.sum(tile, axis=0)
    else:
        total = tl.sum(tile) + tl.zeros([1], tl.float32)
    return total


@triton.jit
def _running_update(mean_ptr, var_ptr, channel, mask, mean, var, count, momentum):
    """Blend a batch's mean and unbiased variance into the running statistics."""
    old_mean = tl.load(mean_ptr + channel, mask=mask, other=0.0)
    old_var = tl.load(var_ptr + channel, mask=mask, other=0.0)
    unbiased = var * (count / (count - 1.0))
    tl.store(mean_ptr + channel, old_mean + momentum * (mean - old_mean), mask=mask)
    tl.store(var_ptr + channel, old_var + momentum * (unbiased - old_var), mask=mask)


@triton.jit
def _train_resident(
    x_ptr, running_mean_ptr, running_var_ptr, weight_ptr, bias_ptr, out_ptr, momentum, eps, count, samples, channels, length,
    WEIGHTED: tl.constexpr, BIASED: tl.constexpr, CHANNELS_INNER: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    row = tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    if CHANNELS_INNER:
        channel = pid * COLS + col
        channel_mask = channel < channels
        mask = (row < samples)[:, None] & channel_mask[None, :]
        at = row.to(tl.int64)[:, None] * channels + channel[None, :]
    else:
        channel = pid + tl.arange(0, 1)
        channel_mask = channel < channels
        mask = (row < samples)[:, None] & (col < length)[None, :]
        at = (row.to(tl.int64)[:, None] * channels + pid) * length + col[None, :]
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    mean = _channel_sum(x, CHANNELS_INNER) / count
    centered = tl.where(mask, x - mean[None, :], 0.0)
    var = _channel_sum(centered * centered, CHANNELS_INNER) / count
    _running_update(running_mean_ptr, running_var_ptr, channel, channel_mask, mean, var, count, momentum)
    value = centered * tl.rsqrt(var + eps)[None, :]
    if WEIGHTED:
        value *= tl.load(weight_ptr + channel, mask=channel_mask, other=0.0)[None, :]
    if BIASED:
        value += tl.load(bias_ptr + channel, mask=channel_mask, other=0.0)[None, :]
    tl.store(out_ptr + at, value.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _statistics(
    x_ptr, mean_ptr, m2_ptr, count_ptr, samples, channels, length, row_blocks, col_blocks,
    CHANNELS_INNER: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    # Program (c, s) goes over tiles s, s + splits, ... of channel (or channel block) c. Each tile's mean and squared
    # deviations are exact on the tile and merged by Chan's formula: nothing cancels, however large the mean.
    pid = tl.program_id(0)
    split = tl.program_id(1)
    splits = tl.num_programs(1)
    if CHANNELS_INNER:
        channel = pid * COLS + tl.arange(0, COLS)
        mean = tl.zeros([COLS], tl.float32)
        m2 = tl.zeros([COLS], tl.float32)
    else:
        channel = pid + tl.arange(0, 1)
        mean = tl.zeros([1], tl.float32)
        m2 = tl.zeros([1], tl.float32)
    channel_mask = channel < channels
    count = 0.0
    for block in range(split, row_blocks * col_blocks, splits):
        row = (block // col_blocks) * ROWS + tl.arange(0, ROWS)
        col = (block % col_blocks) * COLS + tl.arange(0, COLS)
        tile_count = tl.minimum(samples - (block // col_blocks) * ROWS, ROWS).to(tl.float32)
        if CHANNELS_INNER:
            mask = (row < samples)[:, None] & channel_mask[None, :]
            at = row.to(tl.int64)[:, None] * channels + channel[None, :]
        else:
            mask = (row < samples)[:, None] & (col < length)[None, :]
            at = (row.to(tl.int64)[:, None] * channels + pid) * length + col[None, :]
            tile_count *= tl.minimum(length - (block % col_blocks) * COLS, COLS)
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        tile_mean = _channel_sum(x, CHANNELS_INNER) / tile_count
        centered = tl.where(mask, x - tile_mean[None, :], 0.0)
        total = count + tile_count
        delta = tile_mean - mean
        mean += delta * (tile_count / total)
        m2 += _channel_sum(centered * centered, CHANNELS_INNER) + delta * delta * (count * tile_count / total)
        count = total
    at = split * channels + channel
    tl.store(mean_ptr + at, mean, mask=channel_mask)
    tl.store(m2_ptr + at, m2, mask=channel_mask)
    tl.store(count_ptr + at, tl.zeros_like(mean) + count, mask=channel_mask)


@triton.jit
def _finish_statistics(
    part_mean_ptr, part_m2_ptr, part_count_ptr, mean_ptr, var_ptr, running_mean_ptr, running_var_ptr, momentum,
    splits, channels, SPLITS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    split = tl.arange(0, SPLITS)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    channel_mask = channel < channels
    mask = (split < splits)[:, None] & channel_mask[None, :]
    at = split[:, None] * channels + channel[None, :]
    part_mean = tl.load(part_mean_ptr + at, mask=mask, other=0.0)
    part_count = tl.load(part_count_ptr + at, mask=mask, other=0.0)
    # A channel beyond the last has no samples; two keep its arithmetic finite, and nothing of it is stored.
    count = tl.where(channel_mask, tl.sum(part_count, axis=0), 2.0)
    mean = tl.sum(part_mean * part_count, axis=0) / count
    delta = part_mean - mean[None, :]
    m2 = tl.sum(tl.load(part_m2_ptr + at, mask=mask, other=0.0) + part_count * delta * delta, axis=0)
    var = m2 / count
    tl.store(mean_ptr + channel, mean, mask=channel_mask)
    tl.store(var_ptr + channel, var, mask=channel_mask)
    _running_update(running_mean_ptr, running_var_ptr, channel, channel_mask, mean, var, count, momentum)


def _view(x: torch.Tensor) -> tuple[torch.Tensor, int, int, int]:
    """x made contiguous, and the sizes (samples, channels, positions) of its [N, C, L] view."""
    x = x.contiguous()
    samples, channels = x.shape[:2]
    return x, samples, channels, x.numel() // max(samples * channels, 1)


def batch_norm_inference(
    x: torch.Tensor,
    mean: torch.Tensor,
    var: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> torch.Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias by channel, in float32, in x's shape and dtype.

    Args:
      x: [N, C, *S].
      mean, var: [C] float32.
      weight, bias: [C] float32, or None for 1 and 0.
      eps: added to the variance.
    """
    x, samples, channels, length = _view(x)
    out = torch.empty_like(x)
    if out.numel() == 0:
        return out
    inner = length == 1
    rows, cols = (samples, channels) if inner else (samples * channels, length)
    tile_rows, tile_cols, warps = elementwise_tile(rows, cols)
    col_blocks = ceil_div(cols, tile_cols)
    mean, var = mean.contiguous(), var.contiguous()
    with on_device(x):
        _normalize[(ceil_div(rows, tile_rows) * col_blocks,)](
            x, mean, var, mean if weight is None else weight.contiguous(), mean if bias is None else bias.contiguous(),
            out, eps, rows, cols, col_blocks, channels,
            WEIGHTED=weight is not None, BIASED=bias is not None, CHANNELS_INNER=inner,
            ROWS=tile_rows, COLS=tile_cols, num_warps=warps,
        )  # fmt: skip
    return out


def batch_norm_training(
    x: torch.Tensor,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    momentum: float,
    eps: float,
) -> torch.Tensor:
    """Normalize x [N, C, *S] by its own statistics and blend them into the running ones, which are written in place.

    running = (1 - momentum) * running + momentum * batch, with the unbiased variance; the output uses the biased one.
    Each channel needs at least two elements. Arguments otherwise as for `batch_norm_inference`.
    """
    x, samples, channels, length = _view(x)
    if samples * length < 2:
        raise ValueError(f"a channel of {samples * length} elements has no variance; training needs at least two")
    live_mean, live_var = running_mean.contiguous(), running_var.contiguous()
    out = torch.empty_like(x)
    if channels:
        inner = length == 1
        tile = (power_of_two(samples), power_of_two(length))
        if tile[0] * tile[1] <= _RESIDENT:
            _launch_resident(x, live_mean, live_var, weight, bias, out, momentum, eps, (samples, channels, length), tile)
        else:
            mean, var = _launch_statistics(x, live_mean, live_var, momentum, (samples, channels, length))
            out = batch_norm_inference(x, mean, var, weight, bias, eps)
    for running, live in ((running_mean, live_mean), (running_var, live_var)):
        if running is not live:
            running.copy_(live)
    return out


def _launch_resident(
    x: torch.Tensor, running_mean: torch.Tensor, running_var: torch.Tensor, weight: torch.Tensor | None,
    bias: torch.Tensor | None, out: torch.Tensor, momentum: float, eps: float, sizes: tuple[int, int, int],
    tile: tuple[int, int],
) -> None:  # fmt: skip
    """Write `out` and the running statistics with one program a channel (or a block of channels)."""
    samples, channels, length = sizes
    inner = length == 1
    tile_rows, tile_cols = tile
    if inner:  # 16 channels are one 32-byte sector of a 2-byte type; more where there are channels to spare
        tile_cols = max(16, min(64, power_of_two(channels // MULTIPROCESSORS), _RESIDENT // tile_rows))
    with on_device(x):
        _train_resident[(ceil_div(channels, tile_cols) if inner else channels,)](
            x, running_mean, running_var, x if weight is None else weight.contiguous(),
            x if bias is None else bias.contiguous(), out, momentum, eps, float(samples * length), samples, channels, length,
            WEIGHTED=weight is not None, BIASED=bias is not None, CHANNELS_INNER=inner,
            ROWS=tile_rows, COLS=tile_cols, num_warps=max(1, min(16, tile_rows * tile_cols // 512)),
        )  # fmt: skip


def _launch_statistics(
    x: torch.Tensor, running_mean: torch.Tensor, running_var: torch.Tensor, momentum: float,
    sizes: tuple[int, int, int],
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Batch mean and biased variance by channel; blends them into the running statistics on the way."""
    samples, channels, length = sizes
    inner = length == 1
    tile_cols = 64 if inner else min(power_of_two(length), _STATISTICS_TILE)
    tile_rows = min(power_of_two(samples), _STATISTICS_TILE // tile_cols)
    blocks = (ceil_div(samples, tile_rows), 1 if inner else ceil_div(length, tile_cols))
    programs = ceil_div(channels, tile_cols) if inner else channels
    splits = max(1, min(blocks[0] * blocks[1], 64, ceil_div(16 * MULTIPROCESSORS, programs)))
    parts = torch.empty((3, splits, channels), dtype=torch.float32, device=x.device)
    totals = torch.empty((2, channels), dtype=torch.float32, device=x.device)
    with on_device(x):
        _statistics[(programs, splits)](
            x, parts[0], parts[1], parts[2], samples, channels, length, *blocks,
            CHANNELS_INNER=inner, ROWS=tile_rows, COLS=tile_cols, num_warps=8,
        )  # fmt: skip
        _finish_statistics[(ceil_div(channels, 32),)](
            parts[0], parts[1], parts[2], totals[0], totals[1], running_mean, running_var, momentum, splits, channels,
            SPLITS=power_of_two(splits), CHANNELS=32, num_warps=4,
        )  # fmt: skip
    return totals[0], totals[1]
