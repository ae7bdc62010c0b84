"""Triton kernels of batch normalization by the batch's own statistics, over x viewed as [N, C, L].

Three ways, by size. A channel of few elements stays in the registers of one program from load to store. A longer one
with spatial axes (L > 1) is streamed twice by one launch that normalizes a channel while it measures the next ones, so
that the second reading finds the channel in the L2. Without spatial axes columns are measured in parts, the parts
merged, and x normalized by the inference kernel.

Statistics are exact on a tile (its mean, then its squared deviations) and tiles merged by Chan's formula: nothing
cancels, however large the mean.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import triton
import triton.language as tl

from tileops.ops.kernels.norm.batch_norm import normalize, sizes
from tileops.ops.kernels.support import MULTIPROCESSORS, ceil_div, column_tile, on_device, power_of_two, vector_unit

# Elements of a channel up to which one program holds it.
_RESIDENT = 16384
# Elements of a tile of the streaming kernels.
_TILE = 8192


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
def _resident(
    x_ptr,
    running_mean_ptr,
    running_var_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    save_mean_ptr,
    save_invstd_ptr,
    momentum,
    eps,
    count,
    samples,
    channels,
    length_units,
    UNIT: tl.constexpr,
    RUNNING: tl.constexpr,
    WEIGHTED: tl.constexpr,
    BIASED: tl.constexpr,
    CHANNELS_INNER: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    # A tile is all samples of COLS channels, or all samples and positions of one.
    pid = tl.program_id(0)
    row = tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    if CHANNELS_INNER:
        channel = pid * COLS + col
        channel_mask = channel < channels
        mask = (row < samples)[:, None] & channel_mask[None, :]
        at = row.to(tl.int64)[:, None] * channels + channel[None, :]
    else:
        length = length_units * UNIT
        channel = pid + tl.arange(0, 1)
        channel_mask = channel < channels
        mask = (row < samples)[:, None] & (col < length)[None, :]
        at = (row.to(tl.int64)[:, None] * channels + pid) * length + col[None, :]
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    mean = _channel_sum(x, CHANNELS_INNER) / count
    centered = tl.where(mask, x - mean[None, :], 0.0)
    var = _channel_sum(centered * centered, CHANNELS_INNER) / count
    invstd = tl.rsqrt(var + eps)
    tl.store(save_mean_ptr + channel, mean, mask=channel_mask)
    tl.store(save_invstd_ptr + channel, invstd, mask=channel_mask)
    if RUNNING:
        _running_update(running_mean_ptr, running_var_ptr, channel, channel_mask, mean, var, count, momentum)
    value = centered * invstd[None, :]
    if WEIGHTED:
        value *= tl.load(weight_ptr + channel, mask=channel_mask, other=0.0)[None, :]
    if BIASED:
        value += tl.load(bias_ptr + channel, mask=channel_mask, other=0.0)[None, :]
    tl.store(out_ptr + at, value.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _streamed(
    x_ptr,
    running_mean_ptr,
    running_var_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    save_mean_ptr,
    save_invstd_ptr,
    momentum,
    eps,
    count,
    samples,
    channels,
    length_units,
    parts_ptr,
    counters_ptr,
    col_blocks,
    splits,
    delay,
    UNIT: tl.constexpr,
    RUNNING: tl.constexpr,
    WEIGHTED: tl.constexpr,
    BIASED: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    SPLITS: tl.constexpr,
):
    # Work is handed out by ticket, in the order in which programs start: even tickets measure tile after tile, channel
    # after channel; odd ones normalize the same tiles `delay` channels later. A program that waits for a channel's
    # statistics therefore waits for programs that are already running and never wait themselves.
    # parts [channels, 3, splits]: means, squared deviations, counts.
    # counters: tickets given; then tiles measured, and then whether the statistics are saved, by channel.
    length = length_units * UNIT
    ticket = tl.atomic_add(counters_ptr, 1, sem="relaxed")
    block = (ticket // 2) % splits
    slot = (ticket // 2) // splits
    row_start = (block // col_blocks) * ROWS
    col_start = (block % col_blocks) * COLS
    row = row_start + tl.arange(0, ROWS)
    col = col_start + tl.arange(0, COLS)
    mask = (row < samples)[:, None] & (col < length)[None, :]
    if ticket % 2 == 0:
        if slot < channels:
            at = (row.to(tl.int64)[:, None] * channels + slot) * length + col[None, :]
            x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
            tile_count = (tl.minimum(samples - row_start, ROWS) * tl.minimum(length - col_start, COLS)).to(tl.float32)
            tile_mean = tl.sum(x) / tile_count
            centered = tl.where(mask, x - tile_mean, 0.0)
            part = parts_ptr + slot * 3 * splits + block
            tl.store(part, tile_mean)
            tl.store(part + splits, tl.sum(centered * centered))
            tl.store(part + 2 * splits, tile_count)
            tl.debug_barrier()  # every thread's stores, before one thread's release publishes them
            before = tl.atomic_add(counters_ptr + 1 + slot, 1, sem="acq_rel")
            if before == splits - 1:
                split = tl.arange(0, SPLITS)
                split_mask = split < splits
                parts = parts_ptr + slot * 3 * splits + split
                # Past the L1, which may hold what a neighbouring channel's parts looked like earlier.
                means = tl.load(parts, mask=split_mask, other=0.0, cache_modifier=".cg")
                m2s = tl.load(parts + splits, mask=split_mask, other=0.0, cache_modifier=".cg")
                counts = tl.load(parts + 2 * splits, mask=split_mask, other=0.0, cache_modifier=".cg")
                mean = tl.sum(means * counts) / count
                var = tl.sum(m2s + counts * (means - mean) * (means - mean)) / count
                tl.store(save_mean_ptr + slot, mean)
                tl.store(save_invstd_ptr + slot, tl.rsqrt(var + eps))
                if RUNNING:
                    _running_update(running_mean_ptr, running_var_ptr, slot, True, mean, var, count, momentum)
                tl.debug_barrier()
                tl.atomic_xchg(counters_ptr + 1 + channels + slot, 1, sem="release")
    else:
        channel = slot - delay
        if channel >= 0:
            target = (row.to(tl.int64)[:, None] * channels + channel) * length + col[None, :]
            # x is read for the last time and the output not again: neither is to push waiting channels out of the L2.
            values = tl.load(x_ptr + target, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
            ready = tl.atomic_add(counters_ptr + 1 + channels + channel, 0, sem="acquire")
            while ready == 0:
                ready = tl.atomic_add(counters_ptr + 1 + channels + channel, 0, sem="acquire")
            scale = tl.load(save_invstd_ptr + channel, cache_modifier=".cg")
            values = values - tl.load(save_mean_ptr + channel, cache_modifier=".cg")
            if WEIGHTED:
                scale *= tl.load(weight_ptr + channel)
            values *= scale
            if BIASED:
                values += tl.load(bias_ptr + channel)
            result = values.to(out_ptr.dtype.element_ty)
            tl.store(out_ptr + target, result, mask=mask, eviction_policy="evict_first")


@triton.jit
def _column_statistics(x_ptr, parts_ptr, samples, channels, row_blocks, ROWS: tl.constexpr, COLS: tl.constexpr):
    # x [samples, channels] -> parts [3, splits, channels]: program (c, s) measures row blocks s, s + splits, ...
    split = tl.program_id(1)
    splits = tl.num_programs(1)
    channel = tl.program_id(0) * COLS + tl.arange(0, COLS)
    channel_mask = channel < channels
    mean = tl.zeros([COLS], tl.float32)
    m2 = tl.zeros([COLS], tl.float32)
    count = 0.0
    for block in range(split, row_blocks, splits):
        row = block * ROWS + tl.arange(0, ROWS)
        mask = (row < samples)[:, None] & channel_mask[None, :]
        at = row.to(tl.int64)[:, None] * channels + channel[None, :]
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        tile_count = tl.minimum(samples - block * ROWS, ROWS).to(tl.float32)
        tile_mean = tl.sum(x, axis=0) / tile_count
        centered = tl.where(mask, x - tile_mean[None, :], 0.0)
        total = count + tile_count
        delta = tile_mean - mean
        mean += delta * (tile_count / total)
        m2 += tl.sum(centered * centered, axis=0) + delta * delta * (count * tile_count / total)
        count = total
    at = split * channels + channel
    tl.store(parts_ptr + at, mean, mask=channel_mask)
    tl.store(parts_ptr + splits * channels + at, m2, mask=channel_mask)
    tl.store(parts_ptr + 2 * splits * channels + at, tl.zeros([COLS], tl.float32) + count, mask=channel_mask)


@triton.jit
def _merge_column_statistics(
    parts_ptr,
    var_ptr,
    save_mean_ptr,
    save_invstd_ptr,
    running_mean_ptr,
    running_var_ptr,
    momentum,
    eps,
    count,
    splits,
    channels,
    RUNNING: tl.constexpr,
    SPLITS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    split = tl.arange(0, SPLITS)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    channel_mask = channel < channels
    mask = (split < splits)[:, None] & channel_mask[None, :]
    at = split[:, None] * channels + channel[None, :]
    means = tl.load(parts_ptr + at, mask=mask, other=0.0)
    m2s = tl.load(parts_ptr + splits * channels + at, mask=mask, other=0.0)
    counts = tl.load(parts_ptr + 2 * splits * channels + at, mask=mask, other=0.0)
    mean = tl.sum(means * counts, axis=0) / count
    delta = means - mean[None, :]
    var = tl.sum(m2s + counts * delta * delta, axis=0) / count
    tl.store(var_ptr + channel, var, mask=channel_mask)
    tl.store(save_mean_ptr + channel, mean, mask=channel_mask)
    tl.store(save_invstd_ptr + channel, tl.rsqrt(var + eps), mask=channel_mask)
    if RUNNING:
        _running_update(running_mean_ptr, running_var_ptr, channel, channel_mask, mean, var, count, momentum)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Training:
    """One call: x [N, C, *S], what blends into it by channel, and the tensors that its kernels write."""

    x: torch.Tensor
    running: tuple[torch.Tensor, torch.Tensor] | None
    weight: torch.Tensor | None
    bias: torch.Tensor | None
    momentum: float
    eps: float
    out: torch.Tensor
    save_mean: torch.Tensor
    save_invstd: torch.Tensor

    def running_or_x(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the running statistics, or tensors that the kernel does not read."""
        return self.running or (self.x, self.x)

    def arguments(self) -> tuple[Any, ...]:
        """Returns the first arguments of `_resident` and `_streamed`, to `length_units`. A missing tensor is x, unread."""
        samples, channels, length = sizes(self.x)
        weight, bias = (self.x if each is None else each for each in (self.weight, self.bias))
        pointers = (self.x, *self.running_or_x(), weight, bias, self.out, self.save_mean, self.save_invstd)
        count, length_units = float(samples * length), length // vector_unit(length)
        return *pointers, self.momentum, self.eps, count, samples, channels, length_units

    def constants(self) -> dict[str, Any]:
        """Returns their constants that do not depend on the tile."""
        return {
            "UNIT": vector_unit(sizes(self.x)[2]),
            "RUNNING": self.running is not None,
            "WEIGHTED": self.weight is not None,
            "BIASED": self.bias is not None,
        }


def batch_norm_training(
    x: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns x [N, C, *S] normalized by its own statistics, their means [C] and reciprocal roots [C] in float32.

    The running statistics, if there are any, are written in place: (1 - momentum) * running + momentum * batch, with the
    unbiased variance; output and reciprocal roots use the biased one. Other arguments as for `batch_norm_inference`.

    Raises:
      ValueError: a channel has fewer than two elements, and so no variance.
    """
    x = x.contiguous()
    samples, channels, length = sizes(x)
    if samples * length < 2:
        raise ValueError(f"a channel of {samples * length} elements has no variance; training needs at least two")
    saved = [torch.empty(channels, dtype=torch.float32, device=x.device) for _ in range(2)]
    out = torch.empty_like(x)
    if channels == 0:
        return out, saved[0], saved[1]
    running = None
    if running_mean is not None and running_var is not None:
        running = running_mean.contiguous(), running_var.contiguous()
    if power_of_two(samples) * power_of_two(length) <= _RESIDENT:
        train = _train_resident
    else:
        train = _train_columns if length == 1 else _train_streamed
    with on_device(x):
        train(
            _Training(
                x=x,
                running=running,
                weight=None if weight is None else weight.contiguous(),
                bias=None if bias is None else bias.contiguous(),
                momentum=momentum,
                eps=eps,
                out=out,
                save_mean=saved[0],
                save_invstd=saved[1],
            )
        )
    if running is not None:
        for given, live in zip((running_mean, running_var), running, strict=True):
            if given is not None and given is not live:
                given.copy_(live)
    return out, saved[0], saved[1]


def _train_resident(call: _Training) -> None:
    samples, channels, length = sizes(call.x)
    inner = length == 1
    tile_rows, tile_cols = power_of_two(samples), power_of_two(length)
    if inner:  # 16 channels are one 32-byte sector of a 2-byte type; more where there are channels to spare
        tile_cols = max(16, min(64, power_of_two(channels // MULTIPROCESSORS), _RESIDENT // tile_rows))
    _resident[(ceil_div(channels, tile_cols) if inner else channels,)](
        *call.arguments(),
        **call.constants(),
        CHANNELS_INNER=inner,
        ROWS=tile_rows,
        COLS=tile_cols,
        num_warps=max(1, min(16, tile_rows * tile_cols // 512)),
    )


def _train_streamed(call: _Training) -> None:
    x = call.x
    samples, channels, length = sizes(x)
    tile_cols = column_tile(length, 2048)
    tile_rows = min(power_of_two(samples), _TILE // tile_cols)
    col_blocks = ceil_div(length, tile_cols)
    splits = ceil_div(samples, tile_rows) * col_blocks
    # Measuring must be ahead by as many tickets as run at a time (eight programs of eight warps a multiprocessor).
    delay = ceil_div(8 * MULTIPROCESSORS, 2 * splits)
    parts = torch.empty(channels * 3 * splits, dtype=torch.float32, device=x.device)
    counters = torch.zeros(1 + 2 * channels, dtype=torch.int32, device=x.device)
    _streamed[(2 * splits * (channels + delay),)](
        *call.arguments(),
        parts,
        counters,
        col_blocks,
        splits,
        delay,
        **call.constants(),
        ROWS=tile_rows,
        COLS=tile_cols,
        SPLITS=power_of_two(splits),
        num_warps=8,
    )


def _train_columns(call: _Training) -> None:
    x = call.x
    samples, channels, _ = sizes(x)
    tile_cols = 64
    row_blocks = ceil_div(samples, _TILE // tile_cols)
    programs = ceil_div(channels, tile_cols)
    splits = max(1, min(row_blocks, 64, ceil_div(4 * MULTIPROCESSORS, programs)))
    parts = torch.empty((3, splits, channels), dtype=torch.float32, device=x.device)
    var = torch.empty(channels, dtype=torch.float32, device=x.device)
    _column_statistics[(programs, splits)](
        x, parts, samples, channels, row_blocks, ROWS=_TILE // tile_cols, COLS=tile_cols, num_warps=8
    )
    _merge_column_statistics[(ceil_div(channels, 32),)](
        parts,
        var,
        call.save_mean,
        call.save_invstd,
        *call.running_or_x(),
        call.momentum,
        call.eps,
        float(samples),
        splits,
        channels,
        RUNNING=call.running is not None,
        SPLITS=power_of_two(splits),
        CHANNELS=32,
        num_warps=4,
    )
    normalize(x, call.save_mean, var, call.weight, call.bias, call.eps, call.out)
