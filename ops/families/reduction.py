"""Public ops of the family reduction and their implementations."""

from __future__ import annotations

import math

import torch

from tileops.ops.checked_call import CheckedCall
from tileops.ops.dtypes import BY_NAME
from tileops.ops.families.compiled import Compiled
from tileops.ops.generated import reduction as generated
from tileops.ops.implementations import implementation, on_cuda
from tileops.ops.kernels.support import triton_serves
from tileops.ops.op import Op
from tileops.ops.samples import Groups, Params, Spread


def _axes(params: Params, rank: int) -> tuple[int, ...]:
    """The axes that a call reduces, non-negative: all of them for `dim` None or empty, as torch.sum has it."""
    dim = params["dim"]
    if dim is None or dim == ():
        return tuple(range(rank))
    return tuple(axis % rank for axis in (dim if isinstance(dim, tuple) else (dim,))) if rank else ()


def _folded(
    x: torch.Tensor, fold: str, axes: tuple[int, ...], keepdim: bool, dtype: torch.dtype | None
) -> torch.Tensor:
    """x, converted to `dtype` if that is given, folded over `axes` by PyTorch, in float32 at least and rounded once."""
    if fold == "sum":
        return torch.sum(x, axes, keepdim=keepdim, dtype=dtype)
    if fold == "mean":
        return torch.mean(x, axes, keepdim=keepdim, dtype=dtype)
    if fold == "amax":
        return torch.amax(x, axes, keepdim=keepdim)
    if fold == "amin":
        return torch.amin(x, axes, keepdim=keepdim)
    if fold == "prod":
        given = x if dtype is None else x.to(dtype)
        # PyTorch multiplies 16-bit floats as such on a CPU, with a rounding per factor.
        wide = torch.promote_types(given.dtype, torch.float32)
        return torch.prod(given, axes[0] if axes else 0, keepdim=keepdim, dtype=wide).to(given.dtype)
    return torch.linalg.vector_norm(x, _ORDERS[fold], axes, keepdim=keepdim, dtype=dtype)


_compiled = Compiled(_folded)
# Orders of vector norms, by the kernel's fold.
_ORDERS = {"norm_1": 1, "norm_2": 2, "norm_inf": math.inf}


def _kernel_serves(call: CheckedCall) -> bool:
    """The kernel takes its input as it is, so it leaves alone a call that rounds it to a narrower type first."""
    (given,) = call.inputs.values()
    return triton_serves(call) and call.params.get("dtype") in (None, given.dtype, "float32")


class FoldOp(Op):
    """An op that folds axes of its one input into one number; a base beside the generated class of its entry.

    Attributes:
      FOLD: the name of the kernel's fold.
    """

    FOLD = ""

    def fold(self) -> str:
        """Returns the name of the kernel's fold of this instance."""
        return self.FOLD

    @implementation("torch")
    def _torch(self, call: CheckedCall, x: torch.Tensor) -> torch.Tensor:
        return _folded(x, *self._settings(call, x))

    @implementation("torch_compile", when=on_cuda)
    def _torch_compile(self, call: CheckedCall, x: torch.Tensor) -> torch.Tensor:
        return _compiled(x, *self._settings(call, x))

    @implementation("triton", when=_kernel_serves)
    def _triton(self, call: CheckedCall, x: torch.Tensor) -> torch.Tensor:
        from tileops.ops.kernels.reduction import folds as kernels  # Triton is imported when first used

        promised = call.outputs[self.OUTPUT_NAMES[0]]
        axes = _axes(call.params, x.dim())
        return kernels.fold_over(self.fold(), x, axes, promised.shape, BY_NAME[promised.dtype])

    def _settings(self, call: CheckedCall, x: torch.Tensor) -> tuple[str, tuple[int, ...], bool, torch.dtype | None]:
        dtype = call.params.get("dtype")
        axes = _axes(call.params, x.dim())
        return self.fold(), axes, call.params["keepdim"], None if dtype is None else BY_NAME[dtype]


class SumFwdOp(generated.SumFwdOp, FoldOp):
    """Sum over some or all axes."""

    FOLD = "sum"
    SAMPLES = {"input": Groups(axes=_axes, is_added=True)}


class MeanFwdOp(generated.MeanFwdOp, FoldOp):
    """Mean over some or all axes."""

    FOLD = "mean"
    SAMPLES = {"input": Groups(axes=_axes)}


class AmaxFwdOp(generated.AmaxFwdOp, FoldOp):
    """Largest value over some or all axes; NaN if one of them is NaN."""

    FOLD = "amax"
    SAMPLES = {"input": Groups(axes=_axes)}


class AminFwdOp(generated.AminFwdOp, FoldOp):
    """Smallest value over some or all axes; NaN if one of them is NaN."""

    FOLD = "amin"
    SAMPLES = {"input": Groups(axes=_axes)}


class ProdFwdOp(generated.ProdFwdOp, FoldOp):
    """Product over one axis."""

    FOLD = "prod"
    # So near 1 that the product of some ten thousand is neither infinite nor 0.
    SAMPLES = {"input": Spread(-1 / 16, 1 / 16)}


class VectorNormFwdOp(generated.VectorNormFwdOp, FoldOp):
    """Sum of absolute values, Euclidean norm or largest absolute value over some or all axes."""

    # The sum of the absolute values of some ten thousand stays within float16.
    SAMPLES = {"x": Groups(axes=_axes, scales=(-8.0, -2.0))}

    def fold(self) -> str:
        """Returns the name of the kernel's fold of this instance, by its order."""
        return next(fold for fold, order in _ORDERS.items() if order == self.params["ord"])
