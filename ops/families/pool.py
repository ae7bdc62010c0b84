"""Public ops of the family pool and their implementations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from tileops.manifest.language.primitives import per_axis
from tileops.ops.checked_call import CheckedCall
from tileops.ops.dtypes import BY_NAME
from tileops.ops.errors import OpCallError
from tileops.ops.families.compiled import Compiled
from tileops.ops.generated import pool as generated
from tileops.ops.implementations import implementation, on_cuda
from tileops.ops.kernels.support import triton_serves
from tileops.ops.op import Op
from tileops.perf import formulas

if TYPE_CHECKING:
    from tileops.ops.kernels.pool.windows import Windows

_MAX_POOLS: dict[int, Callable[..., Any]] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVG_POOLS: dict[int, Callable[..., Any]] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
# A channel's places are 32-bit numbers in the kernel.
_MOST_PLACES = 2**31
# Taps up to which the kernel keeps a window of one axis in registers.
_SHORT_WINDOW = 32


def _wide(x: torch.Tensor) -> torch.Tensor:
    """Returns x in float32 on the CPU, where not every processor pools 16-bit types; x itself on a GPU."""
    return x if x.is_cuda else x.float()


def _max_pool(x: torch.Tensor, settings: tuple[Any, ...], with_indices: bool) -> Any:
    return _MAX_POOLS[x.dim() - 2](x, *settings, return_indices=with_indices)


def _avg_pool(x: torch.Tensor, settings: tuple[Any, ...]) -> Any:
    return _AVG_POOLS[x.dim() - 2](x, *settings)


_compiled_max_pool = Compiled(_max_pool)
_compiled_avg_pool = Compiled(_avg_pool)


def _settings(call: CheckedCall) -> tuple[Any, ...]:
    """Returns the parameters in the order of torch's functions; a stride of None is the kernel."""
    return tuple(call.params.values())


def _windows(call: CheckedCall) -> Windows:
    from tileops.ops.kernels.pool.windows import Windows  # Triton is imported when first used

    kernel = call.params["kernel_size"]
    stride = kernel if call.params["stride"] is None else call.params["stride"]
    rank = len(call.tensors["input"].shape) - 2

    def items(value: int | Sequence[int]) -> list[int]:
        return [per_axis(value, at, rank) for at in range(rank)]

    return Windows(items(kernel), items(stride), items(call.params["padding"]), items(call.params.get("dilation", 1)))


def _kernel_serves(call: CheckedCall) -> bool:
    """Channels of fewer than 2**31 elements."""
    return triton_serves(call) and math.prod(call.tensors["input"].shape[2:]) < _MOST_PLACES


def _compiled_serves(call: CheckedCall) -> bool:
    """On a GPU, unless the kernel is faster: windows of up to 32 taps along one axis, without indices."""
    taps = call.params["kernel_size"]
    is_short = len(call.tensors["input"].shape) == 3 and per_axis(taps, 0, 1) <= _SHORT_WINDOW
    return on_cuda(call) and not (is_short and "indices" not in call.outputs and _kernel_serves(call))


class _MaxPool(Op):
    """The maximum of each window; NaN if the window has one."""

    _WITH_INDICES = False

    def eval_roofline_read_bytes(self) -> int:
        """Bytes of the input positions that some window of the last call reaches."""
        return formulas.max_pool_read_bytes(self.last_call)

    @implementation("torch")
    def _torch(self, call: CheckedCall, input: torch.Tensor) -> Any:
        found = _max_pool(_wide(input), _settings(call), self._WITH_INDICES)
        return (found[0].to(input.dtype), found[1]) if self._WITH_INDICES else found.to(input.dtype)

    @implementation("triton", when=_kernel_serves)
    def _triton(self, call: CheckedCall, input: torch.Tensor) -> Any:
        from tileops.ops.kernels.pool import windows as kernels

        spatial = call.outputs["output"].shape[2:]
        results = kernels.max_pool(input, _windows(call), spatial, self._WITH_INDICES)
        return tuple(results) if self._WITH_INDICES else results[0]

    @implementation("torch_compile", when=_compiled_serves)
    def _torch_compile(self, call: CheckedCall, input: torch.Tensor) -> Any:
        return _compiled_max_pool(input, _settings(call), self._WITH_INDICES)


class _MaxPoolIndices(_MaxPool):
    """The maximum of each window and its place in the channel: the first of equal maxima, the last NaN."""

    _WITH_INDICES = True


class _AvgPool(Op):
    """The mean of each window, added in float32 and rounded once."""

    def eval_roofline_read_bytes(self) -> int:
        """Bytes of the input positions that some window of the last call reaches."""
        return formulas.avg_pool_read_bytes(self.last_call)

    @implementation("torch")
    def _torch(self, call: CheckedCall, input: torch.Tensor) -> torch.Tensor:
        return _avg_pool(_wide(input), _settings(call)).to(input.dtype)

    @implementation("triton", when=_kernel_serves)
    def _triton(self, call: CheckedCall, input: torch.Tensor) -> torch.Tensor:
        from tileops.ops.kernels.pool import windows as kernels

        params = call.params
        spatial, divisor = call.outputs["output"].shape[2:], params.get("divisor_override")
        return kernels.avg_pool(input, _windows(call), spatial, params["count_include_pad"], divisor)

    @implementation("torch_compile", when=_compiled_serves)
    def _torch_compile(self, call: CheckedCall, input: torch.Tensor) -> torch.Tensor:
        return _compiled_avg_pool(input, _settings(call))


def _adaptive_max_pool(x: torch.Tensor, size: tuple[int, ...], with_indices: bool) -> Any:
    return F.adaptive_max_pool2d(x, size, return_indices=with_indices)


_compiled_adaptive_avg_pool = Compiled(F.adaptive_avg_pool2d)
_compiled_adaptive_max_pool = Compiled(_adaptive_max_pool)


class _AdaptiveMaxPool(Op):
    """The maximum of each bin; NaN if the bin has one."""

    _WITH_INDICES = False

    @implementation("torch")
    def _torch(self, call: CheckedCall, input: torch.Tensor) -> Any:
        if not input.numel():
            return self._empty(call, input)
        found = _adaptive_max_pool(_wide(input), call.outputs["output"].shape[-2:], self._WITH_INDICES)
        return (found[0].to(input.dtype), found[1]) if self._WITH_INDICES else found.to(input.dtype)

    @implementation("torch_compile", when=on_cuda)
    def _torch_compile(self, call: CheckedCall, input: torch.Tensor) -> Any:
        if not input.numel():
            return self._empty(call, input)
        return _compiled_adaptive_max_pool(input, call.outputs["output"].shape[-2:], self._WITH_INDICES)

    def _empty(self, call: CheckedCall, input: torch.Tensor) -> Any:
        """Returns the outputs of no channels, which torch's function refuses."""
        output = input.new_empty(call.outputs["output"].shape)
        return (output, torch.empty_like(output, dtype=torch.int64)) if self._WITH_INDICES else output


class AvgPool1dFwdOp(generated.AvgPool1dFwdOp, _AvgPool):
    """Mean of each window of the last axis."""


class AvgPool2dFwdOp(generated.AvgPool2dFwdOp, _AvgPool):
    """Mean of each window of the last two axes."""


class AvgPool3dFwdOp(generated.AvgPool3dFwdOp, _AvgPool):
    """Mean of each window of the last three axes."""


class MaxPool1dFwdOp(generated.MaxPool1dFwdOp, _MaxPool):
    """Maximum of each window of the last axis."""


class MaxPool1dIndicesFwdOp(generated.MaxPool1dIndicesFwdOp, _MaxPoolIndices):
    """Maximum of each window of the last axis, and its place."""


class MaxPool2dFwdOp(generated.MaxPool2dFwdOp, _MaxPool):
    """Maximum of each window of the last two axes."""


class MaxPool2dIndicesFwdOp(generated.MaxPool2dIndicesFwdOp, _MaxPoolIndices):
    """Maximum of each window of the last two axes, and its place."""


class MaxPool3dFwdOp(generated.MaxPool3dFwdOp, _MaxPool):
    """Maximum of each window of the last three axes."""


class MaxPool3dIndicesFwdOp(generated.MaxPool3dIndicesFwdOp, _MaxPoolIndices):
    """Maximum of each window of the last three axes, and its place."""


class AdaptiveAvgPool2dFwdOp(generated.AdaptiveAvgPool2dFwdOp):
    """Mean of each bin of the last two axes, added in float32 and rounded once."""

    @implementation("torch")
    def _torch(self, call: CheckedCall, input: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(_wide(input), call.outputs["output"].shape[-2:]).to(input.dtype)

    @implementation("torch_compile", when=on_cuda)
    def _torch_compile(self, call: CheckedCall, input: torch.Tensor) -> torch.Tensor:
        return _compiled_adaptive_avg_pool(input, call.outputs["output"].shape[-2:])


class AdaptiveMaxPool2dFwdOp(generated.AdaptiveMaxPool2dFwdOp, _AdaptiveMaxPool):
    """Maximum of each bin of the last two axes."""


class AdaptiveMaxPool2dIndicesFwdOp(generated.AdaptiveMaxPool2dIndicesFwdOp, _AdaptiveMaxPool):
    """Maximum of each bin of the last two axes, and its place in the channel."""

    _WITH_INDICES = True


def _validate(call: CheckedCall, offsets: torch.Tensor | None) -> None:
    """Raises OpCallError if the caller asked for the check and the offsets do not lead from 0 to the length of x."""
    if offsets is None or not call.params["validate_inputs"]:
        return
    found, length = offsets.tolist(), call.tensors["x"].shape[1]  # waits for the device
    if found[0] or found[-1] != length or any(one > following for one, following in itertools.pairwise(found)):
        raise OpCallError(f"{call.op}: cu_seqlens is {found}; it must begin with 0, never fall, and end with {length}")


class MeanPoolingFwdOp(generated.MeanPoolingFwdOp):
    """Mean of each chunk of a sequence; of each packed sequence's own chunks, if the call has packed sequences."""

    @implementation("torch")
    def _torch(
        self, call: CheckedCall, x: torch.Tensor, cu_seqlens: torch.Tensor | None, chunk_indices: torch.Tensor | None
    ) -> torch.Tensor:
        _validate(call, cu_seqlens)
        chunk, length = call.params["chunk_size"], x.shape[1]
        if cu_seqlens is None or chunk_indices is None:
            begin = torch.arange(0, length, chunk, device=x.device)
            limit = torch.full_like(begin, length)
        else:
            sequence, number = chunk_indices.long().unbind(1)
            begin = cu_seqlens.long()[sequence] + number * chunk
            limit = cu_seqlens.long()[sequence + 1]
        end = torch.minimum(begin + chunk, limit)
        accumulator = torch.promote_types(BY_NAME[call.params["accum_dtype"]], torch.float32)
        row = torch.arange(length, device=x.device)
        is_in = (row >= begin[:, None]) & (row < end[:, None])
        total = torch.einsum("ts,bshd->bthd", is_in.to(accumulator), x.to(accumulator))
        return (total / (end - begin).to(accumulator)[:, None, None]).to(x.dtype)

    @implementation("triton", when=triton_serves)
    def _triton(
        self, call: CheckedCall, x: torch.Tensor, cu_seqlens: torch.Tensor | None, chunk_indices: torch.Tensor | None
    ) -> torch.Tensor:
        from tileops.ops.kernels.pool import means as kernels

        _validate(call, cu_seqlens)
        chunks, is_double = call.outputs["output"].shape[1], call.params["accum_dtype"] == "float64"
        return kernels.chunk_means(x, cu_seqlens, chunk_indices, call.params["chunk_size"], chunks, is_double)
