"""Formulas of poolings and convolutions: which positions the windows of a call reach.

An example: an axis of 5 under two windows of 2 with stride 3 and no padding. The windows have the taps 0, 1 and 3, 4, so
they reach 4 positions with 4 taps, and position 2 is never read. Axes are independent of each other: a window of two
axes has every pair of taps, so both counts of a call are products over its axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tileops.manifest.language.dtypes import BITS
from tileops.manifest.language.primitives import per_axis
from tileops.ops.checked_call import CheckedCall

_Setting = int | Sequence[int]


class Axis(NamedTuple):
    """The windows of one axis: `outputs` of them, each of `kernel` taps.

    Attributes:
      length: of the input.
      outputs: of the output.
      kernel: number of taps.
      stride: distance between neighbouring windows.
      padding: positions before the input where the first window begins.
      dilation: distance between neighbouring taps.
    """

    length: int
    outputs: int
    kernel: int
    stride: int
    padding: int
    dilation: int

    def taps(self) -> int:
        """Returns the number of taps of all windows that lie inside the input."""
        return sum(len(self._windows(tap)) for tap in range(self.kernel))

    def positions(self) -> int:
        """Returns the number of positions of the input that some tap reaches."""
        reached = np.zeros(self.length, dtype=bool)
        for tap in range(self.kernel):
            windows = self._windows(tap)
            if windows:
                first = windows[0] * self.stride + self._offset(tap)
                reached[first : first + len(windows) * self.stride : self.stride] = True
        return int(np.count_nonzero(reached))

    def used_taps(self) -> int:
        """Returns the number of taps that lie inside the input in some window."""
        return sum(bool(self._windows(tap)) for tap in range(self.kernel))

    def _offset(self, tap: int) -> int:
        return tap * self.dilation - self.padding

    def _windows(self, tap: int) -> range:
        """Returns the windows whose tap number `tap` lies inside the input."""
        offset = self._offset(tap)
        first = max(0, -(offset // self.stride))  # the least window with window * stride + offset >= 0
        return range(first, max(first, min(self.outputs, (self.length - 1 - offset) // self.stride + 1)))


def max_pool_roofline(call: CheckedCall) -> tuple[int, int]:
    """(flops, bytes) of input [N, C, *L] -> output [N, C, *L_out], and perhaps indices of that shape.

    FLOPs (section 1.3): one compare for each tap inside the input; the index of a maximum is bookkeeping. Bytes
    (section 1.2): the positions that some window reaches, once; every output.
    """
    channels, axes = _pooled(call, call.params["dilation"])
    written = sum(record.bytes for record in call.outputs.values())
    return channels * math.prod(axis.taps() for axis in axes), max_pool_read_bytes(call) + written


def max_pool_read_bytes(call: CheckedCall) -> int:
    """The read half of `max_pool_roofline`: the positions of every channel that some window reaches, once."""
    channels, axes = _pooled(call, call.params["dilation"])
    return channels * math.prod(axis.positions() for axis in axes) * _element_bytes(call)


def avg_pool_roofline(call: CheckedCall) -> tuple[int, int]:
    """(flops, bytes) of input [N, C, *L] -> output [N, C, *L_out].

    FLOPs (section 1.3): one add for each tap inside the input, one divide for each output, none if the divisor that the
    caller chose is 1. Bytes (section 1.2): the positions that some window reaches, once; the output.
    """
    channels, axes = _pooled(call, 1)
    divides = 0 if call.params.get("divisor_override") == 1 else channels * math.prod(axis.outputs for axis in axes)
    flops = channels * math.prod(axis.taps() for axis in axes) + divides
    return flops, avg_pool_read_bytes(call) + call.outputs["output"].bytes


def avg_pool_read_bytes(call: CheckedCall) -> int:
    """The read half of `avg_pool_roofline`: the positions of every channel that some window reaches, once."""
    channels, axes = _pooled(call, 1)
    return channels * math.prod(axis.positions() for axis in axes) * _element_bytes(call)


def convolution_roofline(call: CheckedCall) -> tuple[int, int]:
    """(flops, bytes) of input [N, C_in, *L], weight [C_out, C_in / groups, *K], perhaps bias -> output [N, C_out, *L_out].

    FLOPs (section 1.3): a multiply and an add for each channel of the group and each tap inside the input, for each
    output channel; one add for each output if there is a bias. Bytes (section 1.2): the reads of
    `convolution_read_bytes` and the output.
    """
    axes = _convolved(call)
    (batch, filters, *_), depth = call.tensors["output"].shape, call.tensors["weight"].shape[1]
    flops = 2 * batch * filters * depth * math.prod(axis.taps() for axis in axes)
    if call.present("bias"):
        flops += math.prod(call.tensors["output"].shape)
    return flops, convolution_read_bytes(call) + call.tensors["output"].bytes


def convolution_read_bytes(call: CheckedCall) -> int:
    """The read half of `convolution_roofline`.

    The positions of the input that some tap reaches and the taps of the weight that reach the input in some window, once
    each; the bias. A call without outputs reads nothing.
    """
    if not math.prod(call.tensors["output"].shape):
        return 0
    axes = _convolved(call)
    batch, channels = call.tensors["input"].shape[:2]
    filters, depth = call.tensors["weight"].shape[:2]
    read = batch * channels * math.prod(axis.positions() for axis in axes) * _element_bytes(call)
    read += filters * depth * math.prod(axis.used_taps() for axis in axes) * _element_bytes(call)
    return read + (call.tensors["bias"].bytes if call.present("bias") else 0)


def _pooled(call: CheckedCall, dilation: _Setting) -> tuple[int, list[Axis]]:
    """Returns the number of channels of all samples, and the axes of a pooling."""
    batch, channels, *lengths = call.tensors["input"].shape
    kernel = call.params["kernel_size"]
    stride = kernel if call.params["stride"] is None else call.params["stride"]
    settings = (kernel, stride, call.params["padding"], dilation)
    outputs = call.tensors["output"].shape[2:]
    return batch * channels, [
        Axis(length, outputs[at], *(per_axis(setting, at, len(lengths)) for setting in settings))
        for at, length in enumerate(lengths)
    ]


def _convolved(call: CheckedCall) -> list[Axis]:
    """Returns the axes of a convolution. 'same' puts the smaller half of its padding before the input."""
    lengths, kernels = call.tensors["input"].shape[2:], call.tensors["weight"].shape[2:]
    outputs, padding, rank = call.tensors["output"].shape[2:], call.params["padding"], len(lengths)
    axes = []
    for at, (length, kernel, count) in enumerate(zip(lengths, kernels, outputs, strict=True)):
        stride, dilation = (per_axis(call.params[name], at, rank) for name in ("stride", "dilation"))
        if isinstance(padding, str):
            before = dilation * (kernel - 1) // 2 if padding == "same" else 0
        else:
            before = per_axis(padding, at, rank)
        axes.append(Axis(length, count, kernel, stride, before, dilation))
    return axes


def _element_bytes(call: CheckedCall) -> int:
    """Returns the bytes of one element of the input, whose dtype every tensor that counts has."""
    return BITS[call.tensors["input"].dtype] // 8
