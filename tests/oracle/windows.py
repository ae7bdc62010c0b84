"""Poolings and convolutions by brute force: every tap of every window, and every position that a tap reaches.

Shared by the enumerations of FLOPs and the recounts of bytes; nothing here asks a formula or an implementation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tileops.tests.oracle.recount import Recount
from tileops.tests.oracle.small_call import SmallCall

Params = Mapping[str, Any]


def _each(value: int | Sequence[int], rank: int) -> list[int]:
    return [value] * rank if isinstance(value, int) else list(value) * (rank if len(value) == 1 else 1)


class Windows:
    """The windows of one call, over all of its axes."""

    def __init__(
        self,
        lengths: Sequence[int],
        kernel: int | Sequence[int],
        stride: int | Sequence[int],
        before: Sequence[int],
        after: Sequence[int],
        dilation: int | Sequence[int],
        ceil_mode: bool = False,
    ) -> None:
        """`before` and `after`: padding on each side of each axis."""
        rank = len(lengths)
        self.lengths = list(lengths)
        self.positions = []  # per axis: [outputs, kernel] positions, inside the input or not
        for length, k, s, left, right, d in zip(
            lengths, _each(kernel, rank), _each(stride, rank), before, after, _each(dilation, rank), strict=True
        ):
            # In ceil mode a window may run over the right padding by less than one stride, if it begins before it.
            end, over = (length, s - 1) if ceil_mode else (length + right, 0)
            starts = [at for at in range(-left, end, s) if at + d * (k - 1) < length + right + over]
            self.positions.append(np.array([[at + tap * d for tap in range(k)] for at in starts]).reshape(-1, k))

    @property
    def outputs(self) -> int:
        """Number of outputs of a channel."""
        return int(np.prod([len(axis) for axis in self.positions]))

    def taps_one_by_one(self) -> int:
        """Taps inside the input, counted one by one."""
        count = 0
        for window in itertools.product(*(axis.tolist() for axis in self.positions)):
            for tap in itertools.product(*window):
                count += all(0 <= at < length for at, length in zip(tap, self.lengths, strict=True))
        return count

    def taps(self) -> int:
        """The same from one array of truth values per axis."""
        inside = [(axis >= 0) & (axis < n) for axis, n in zip(self.positions, self.lengths, strict=True)]
        return int(np.prod([int(np.count_nonzero(one)) for one in inside]))

    def reached(self) -> int:
        """Positions of a channel that some tap reaches, marked in an array of the channel's shape."""
        marks = np.zeros(self.lengths, dtype=bool)
        for taps in itertools.product(*(range(axis.shape[1]) for axis in self.positions)):
            at = [axis[:, tap] for axis, tap in zip(self.positions, taps, strict=True)]
            at = [one[(one >= 0) & (one < n)] for one, n in zip(at, self.lengths, strict=True)]
            marks[np.ix_(*at)] = True
        return int(np.count_nonzero(marks))

    def used_taps(self) -> int:
        """Taps of the kernel that reach the input in some window."""
        count = 0
        for taps in itertools.product(*(range(axis.shape[1]) for axis in self.positions)):
            columns = [axis[:, tap] for axis, tap in zip(self.positions, taps, strict=True)]
            count += all(bool(((at >= 0) & (at < n)).any()) for at, n in zip(columns, self.lengths, strict=True))
        return count


# ---- poolings


def pooled(params: Params, x: torch.Tensor) -> Windows:
    """The windows of a pooling's call."""
    lengths = x.shape[2:]
    stride = params["kernel_size"] if params["stride"] is None else params["stride"]
    sides = _each(params["padding"], len(lengths))
    return Windows(lengths, params["kernel_size"], stride, sides, sides, params.get("dilation", 1), params["ceil_mode"])


def pool_calls(rank: int, averages: bool) -> Iterator[SmallCall]:
    """Windows that overlap, touch, leave gaps, run over either end, are dilated; no samples, one window."""
    for extents, kernel, stride, padding, dilation, ceil_mode in (
        ((2, 3, (7, 6, 5)), 3, 2, 1, 1, False),
        ((3, 4, (8, 5, 7)), 2, None, 0, 1, True),
        ((1, 4, (9, 10, 11)), 2, (4, 3, 5), 0, 1, False),
        ((2, 1, (6, 8, 9)), (2, 3, 4), (1, 2, 3), (1, 1, 2), 1, True),
        ((0, 3, (4, 4, 4)), 2, 1, 0, 1, False),
        ((1, 1, (3, 3, 3)), 3, 5, 0, 1, False),
        ((2, 2, (9, 8, 7)), 3, 2, 1, (2, 1, 3), False),
        ((1, 3, (9, 7, 8)), 2, 3, 1, 4, False),
    ):
        batch, channels, lengths = extents
        if averages and dilation != 1:
            continue
        params = {"kernel_size": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil_mode}
        params = {name: value[:rank] if isinstance(value, tuple) else value for name, value in params.items()}
        x = torch.rand((batch, channels, *lengths[:rank]), generator=torch.Generator().manual_seed(rank))
        if not averages:
            yield SmallCall({**params, "dilation": dilation[:rank] if isinstance(dilation, tuple) else dilation}, (x,))
            continue
        yield SmallCall({**params, "count_include_pad": batch % 2 == 0}, (x,))
        if rank > 1 and batch:
            yield from (SmallCall({**params, "divisor_override": divisor}, (x,)) for divisor in (-3, 1, 2))


def pool_divides(params: Params, outputs: int) -> int:
    """Divides of an average; a maximum has none. A divisor of 1 divides nothing."""
    return 0 if "count_include_pad" not in params or params.get("divisor_override") == 1 else outputs


def recount_pool(params: Params, inputs: Mapping[str, torch.Tensor | None]) -> Recount:
    """The positions that windows reach, and the outputs; indices are int64."""
    x = inputs["input"]
    windows = pooled(params, x)
    channels = x.shape[0] * x.shape[1]
    written = channels * windows.outputs * x.element_size()
    return Recount(channels * windows.reached() * x.element_size(), written)


def recount_pool_with_indices(params: Params, inputs: Mapping[str, torch.Tensor | None]) -> Recount:
    """The same, and an int64 for each output."""
    x = inputs["input"]
    values = recount_pool(params, inputs)
    return Recount(values.read, values.written + x.shape[0] * x.shape[1] * pooled(params, x).outputs * 8)


# ---- adaptive poolings


def bins(length: int, count: int) -> list[range]:
    """The positions of each bin of an axis: those that overlap it where both are laid over one unit."""
    return [
        range(
            next(at for at in range(length) if (at + 1) * count > one * length),
            max(at for at in range(length) if at * count < (one + 1) * length) + 1,
        )
        for one in range(count)
    ]


def adaptive_extents(params: Params, x: torch.Tensor) -> list[int]:
    """Lengths of the output's axes; None keeps an axis."""
    size = params["output_size"]
    sizes = [size, size] if size is None or isinstance(size, int) else size
    return [length if one is None else one for one, length in zip(sizes, x.shape[-2:], strict=True)]


def adaptive_calls() -> Iterator[SmallCall]:
    """Bins that divide the axes, overlap, outnumber the positions; no channels, no samples' axis."""
    for shape, size in (
        ((2, 3, 6, 4), (3, 2)),
        ((3, 7, 5), (3, 4)),
        ((1, 2, 3, 5), (5, 7)),
        ((2, 2, 4, 9), 2),
        ((4, 3, 5), None),
        ((1, 1, 5, 3), (None, 2)),
        ((0, 2, 4, 4), 2),
    ):
        x = torch.rand(shape, generator=torch.Generator().manual_seed(3)).to(torch.float16)
        yield SmallCall({"output_size": size}, (x,))


def count_adaptive(params: Params, x: torch.Tensor, divides: int) -> int:
    """A compare or an add for each position of each bin, and `divides` for each output."""
    channels = int(np.prod(x.shape[:-2]))
    axes = [bins(n, count) for n, count in zip(x.shape[-2:], adaptive_extents(params, x), strict=True)]
    return channels * sum(len(rows) * len(columns) + divides for rows, columns in itertools.product(*axes))


# ---- means of chunks


def mean_calls() -> Iterator[SmallCall]:
    """Chunks of one sequence and of packed ones, short last chunks, an empty sequence, no samples."""
    for shape, chunk, lengths in (
        ((2, 70, 3, 4), 32, None),
        ((1, 128, 2, 8), 64, None),
        ((3, 33, 1, 5), 96, [33]),
        ((1, 100, 4, 2), 32, [70, 0, 30]),
        ((2, 65, 2, 3), 64, [1, 64]),
        ((0, 64, 2, 2), 32, None),
    ):
        x = torch.rand(shape, generator=torch.Generator().manual_seed(6)).to(torch.float16)
        metadata: tuple[torch.Tensor | None, ...] = (None, None)
        if lengths is not None:
            starts = [0, *itertools.accumulate(lengths)]
            chunks = [(one, at) for one, length in enumerate(lengths) for at in range(-(-length // chunk))]
            metadata = (torch.tensor(starts, dtype=torch.int32), torch.tensor(chunks, dtype=torch.int32))
        yield SmallCall({"chunk_size": chunk, "accum_dtype": "float32"}, (x, *metadata))


def count_means(params: Params, inputs: tuple[torch.Tensor | None, ...]) -> int:
    """An add for each row of each chunk and a divide for each chunk, for every sample and column."""
    x, offsets, numbers = inputs
    (batch, length, heads, width), chunk = x.shape, params["chunk_size"]
    if offsets is None or numbers is None:
        bounds = [(at, min(at + chunk, length)) for at in range(0, length, chunk)]
    else:
        starts = offsets.tolist()
        bounds = [(starts[i] + j * chunk, min(starts[i] + (j + 1) * chunk, starts[i + 1])) for i, j in numbers.tolist()]
    return batch * heads * width * sum(end - begin + 1 for begin, end in bounds)


# ---- convolutions


def convolved(params: Params, x: torch.Tensor, weight: torch.Tensor) -> Windows:
    """The windows of a convolution's call; 'same' has the odd padding after the input."""
    lengths, kernel = x.shape[2:], weight.shape[2:]
    rank, padding = len(lengths), params.get("padding", 0)
    dilation = _each(params.get("dilation", 1), rank)
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        before = [one // 2 for one in total]
        after = [one - half for one, half in zip(total, before, strict=True)]
    else:
        before = after = [0] * rank if padding == "valid" else _each(padding, rank)
    return Windows(lengths, list(kernel), params.get("stride", 1), before, after, dilation)


def convolution_calls(rank: int) -> Iterator[SmallCall]:
    """Paddings of every kind, strides that leave gaps, taps that never reach the input, groups, biases, no samples."""
    for (batch, channels, filters), lengths, kernel, params in (
        ((2, 4, 6), (7, 6, 5), (3, 2, 1), {"padding": 1, "groups": 2}),
        ((1, 3, 2), (8, 5, 7), (2, 3, 2), {"stride": (3, 2, 4)}),
        ((1, 2, 2), (6, 7, 5), (4, 3, 2), {"padding": "same", "dilation": (2, 1, 3), "groups": 2}),
        ((1, 2, 2), (5, 5, 5), (3, 3, 3), {"padding": "same", "dilation": 3}),
        ((3, 1, 5), (9, 8, 7), (2, 2, 3), {"padding": "valid", "stride": 2}),
        ((1, 1, 1), (2, 2, 2), (3, 3, 3), {"padding": 5, "dilation": 4, "stride": 3}),
        ((0, 2, 3), (4, 4, 4), (2, 2, 2), {}),
    ):
        stream = torch.Generator().manual_seed(rank)
        params = {name: value[:rank] if isinstance(value, tuple) else value for name, value in params.items()}
        x = torch.rand((batch, channels, *lengths[:rank]), generator=stream).to(torch.float16)
        weight = torch.rand((filters, channels // params.get("groups", 1), *kernel[:rank]), generator=stream)
        bias = torch.rand((filters,), generator=stream).to(torch.float16)
        yield from (SmallCall(params, (x, weight.to(torch.float16), one)) for one in (None, bias))


def recount_convolution(params: Params, inputs: Mapping[str, torch.Tensor | None]) -> Recount:
    """The positions and the taps that meet in some window, the bias and the outputs."""
    x, weight, bias = inputs["input"], inputs["weight"], inputs["bias"]
    windows = convolved(params, x, weight)
    written = x.shape[0] * weight.shape[0] * windows.outputs
    if not written:
        return Recount(0, 0)
    read = x.shape[0] * x.shape[1] * windows.reached()
    read += weight.shape[0] * weight.shape[1] * windows.used_taps()
    read += 0 if bias is None else bias.shape[0]
    return Recount(read * x.element_size(), written * x.element_size())
