"""Calls of every kernel with its inputs laid out in every way: without axes, expanded, sliced, transposed, moved by an
element.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from tileops.ops import catalogue
from tileops.ops.errors import OpCallError
from tileops.ops.kernels.elementwise.table import GATED, TABLE
from tileops.ops.kernels.gemm import skinny
from tileops.ops.op import Op
from tileops.tests.ops import elementwise_calls, quantized

OPS: dict[str, type[Op]] = catalogue.load()
WITH_KERNEL = tuple(op for op in OPS if any(made.name == "triton" for made in OPS[op].implementations()))
# One op of each kernel family; sine branches on what its tile holds, remainder calls the device's library.
ONE_PER_FAMILY = (
    "SinFwdOp",
    "RemainderFwdOp",
    "SiLUAndMulFwdOp",
    "SinusoidalFwdOp",
    "DropoutFwdOp",
    "SumFwdOp",
    "RMSNormFwdOp",
    "BatchNormFwdOp",
    "GEMMFwdOp",
    "GQADenseFwdOp",
    "MoePermuteNopadFwdOp",
    "MaxPool2dIndicesFwdOp",
    "SmoothQuantFwdOp",
    "FP8QuantPerBlockFwdOp",
    "INT8DequantPerBlockFwdOp",
)
# Where the kernels of this process run; on the CPU the interpreter runs them.
HERE = "cuda" if torch.cuda.is_available() else "cpu"
WITHOUT_INPUTS = ("AlibiFwdOp", "SinusoidalFwdOp")
PRODUCTS = ("GEMMFwdOp", "GQADenseFwdOp")
_POOLS = tuple(op for op in OPS if "Pool" in op)
# Quantizers of one input, with what they give exactly; and all ops of the family.
_QUANTIZERS: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "INT8QuantPerTensorFwdOp": quantized.int8_of_all,
    "INT8QuantPerChannelFwdOp": quantized.int8_of_rows,
    "INT8QuantPerTokenGroupFwdOp": quantized.int8_of_groups,
    "FP8QuantPerBlockFwdOp": quantized.fp8_of_tiles,
    "FP8QuantPerTokenGroupFwdOp": quantized.fp8_of_vectors,
    "INT4QuantPerGroupFwdOp": lambda w: quantized.int4_of_groups(w, 6),
}
QUANTIZATION = (*_QUANTIZERS, "SmoothQuantFwdOp", *quantized.SCALES)
_NEED_AXES = (*PRODUCTS, *GATED, *_POOLS, "RMSNormFwdOp", "BatchNormFwdOp", "MoePermuteNopadFwdOp", *QUANTIZATION)
FLOATS = (torch.float16, torch.bfloat16, torch.float32)
# Enough for inputs of which one alone lies otherwise: how operands meet is the same in every dtype.
IN_TURN = (torch.bfloat16, torch.int32)


@dataclasses.dataclass(frozen=True)
class Case:
    """A call of a kernel.

    Attributes:
      dtype: of the operands that decide how the kernel computes.
      inputs: contiguous on the CPU, None for an absent one.
      run: (inputs) -> the outputs that the kernel gives; raises OpCallError if the op refuses their layout.
      exact: (inputs) -> the same in float64, or rounded from it.
    """

    dtype: torch.dtype
    inputs: tuple[torch.Tensor | None, ...]
    run: Callable[..., tuple[torch.Tensor, ...]]
    exact: Callable[..., tuple[torch.Tensor, ...]]


# ---- layouts


def _without_axes(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1)[0]


def _expanded(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1)[:1].reshape([1] * x.dim()).expand(x.shape)


def _rows_expanded(x: torch.Tensor) -> torch.Tensor:
    return x[:1].expand(x.shape) if x.dim() else x


def _sliced(x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 0:
        return x
    view = x.new_zeros((*x.shape[:-1], 2 * x.shape[-1]))[..., ::2]
    return view.copy_(x)


def _transposed(x: torch.Tensor) -> torch.Tensor:
    axes = tuple(reversed(range(x.dim())))
    return x.permute(axes).contiguous().permute(axes)


def _offset(x: torch.Tensor) -> torch.Tensor:
    return x.new_zeros(x.numel() + 1)[1:].view(x.shape).copy_(x)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "no axes": _without_axes,
    "one number expanded": _expanded,
    "one row expanded": _rows_expanded,
    "every second": _sliced,
    "transposed": _transposed,
    "offset by one element": _offset,
}


def are_taken(op: str, layout: str) -> bool:
    """Whether an op takes inputs of a layout at all."""
    return layout != "no axes" or op not in _NEED_AXES


def laid_out(
    case: Case, layout: str, device: str = "cpu", in_turn: bool = True
) -> Iterator[tuple[torch.Tensor | None, ...]]:
    """Yields inputs of `case` on `device`: all in the layout and, if `in_turn`, then each alone among contiguous ones."""
    there = [at for at, one in enumerate(case.inputs) if one is not None]
    for chosen in (there, *([at] for at in there if in_turn and len(there) > 1)):
        yield tuple(  # copies, since a call may write its inputs
            one
            if one is None
            else LAYOUTS[layout](one.to(device, copy=True))
            if at in chosen
            else one.to(device, copy=True)
            for at, one in enumerate(case.inputs)
        )


def check(case: Case, layout: str, device: str = "cpu", in_turn: bool = True) -> int:
    """Returns how many calls of `case` in the layout the kernel serves; each gives what is exact, or raises
    AssertionError.
    """
    served = 0
    for here, there in zip(
        laid_out(case, layout, "cpu", in_turn), laid_out(case, layout, device, in_turn), strict=True
    ):
        try:
            found = case.run(*there)
        except OpCallError:  # a rule of the entry, or memory that a written input shares
            continue
        served += 1
        for one, wanted in zip(found, case.exact(*here), strict=True):
            assert one.shape == wanted.shape
            # The interpreter rounds to bfloat16 towards zero.
            tolerance = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 2e-5}.get(one.dtype, 0.0)
            torch.testing.assert_close(
                one.cpu().double(), wanted.double(), rtol=tolerance, atol=tolerance, equal_nan=True
            )
    return served


# ---- calls


def cases(op: str) -> Iterator[Case]:
    """Yields the calls of an op that its kernel serves, over the dtypes of its entry."""
    if op in TABLE:
        yield from _of_table(op)
    else:
        yield from _BUILDERS[op](op)


def _values(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Between 0.5 and 1, or from 1 to 8: every op is defined there."""
    stream = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.rand(shape, generator=stream, dtype=torch.float64).mul(0.5).add(0.5).to(dtype)
    return torch.randint(1, 9, shape, generator=stream).to(dtype)


def _of_table(op: str) -> Iterator[Case]:
    masks, names = TABLE[op].masks, OPS[op].INPUT_NAMES
    for some in elementwise_calls.settings(op):
        for chosen in elementwise_calls.dtypes(op):
            met = {chosen[name] for name in names if name not in masks} or set(chosen.values())
            shapes = [elementwise_calls.OWN_SHAPES.get((op, name), tuple)((6, 18)) for name in names]
            inputs = tuple(
                _values(shape, chosen[name], at) if name in some.present else None
                for at, (name, shape) in enumerate(zip(names, shapes, strict=True))
            )
            if len(met) == 1 and _is_served(op, some.params, inputs):
                yield Case(*met, inputs, _kernel(op, some.params), _exact_elementwise(op, some.params))


def _is_served(op: str, params: dict[str, Any], inputs: tuple[torch.Tensor | None, ...]) -> bool:
    instance = OPS[op](**params)
    try:
        return "triton" in instance.serving(instance.check(*(one if one is None else one.to(HERE) for one in inputs)))
    except OpCallError:  # a rule of the entry
        return False


def _kernel(op: str, params: dict[str, Any]) -> Callable[..., tuple[torch.Tensor, ...]]:
    def run(*inputs: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        found = OPS[op](**params, target="triton")(*inputs)
        return found if isinstance(found, tuple) else (found,)

    return run


def _exact_elementwise(op: str, params: dict[str, Any]) -> Callable[..., tuple[torch.Tensor, ...]]:
    return lambda *inputs: (elementwise_calls.exact(op, params, inputs),)


def _rows(op: str) -> Iterator[Case]:
    """Of gated ops and dropout, whose references take float64."""
    params = {"p": 0.25, "seed": 3} if op == "DropoutFwdOp" else {}
    reference = OPS[op](**params, target="torch")
    for dtype in FLOATS:
        yield Case(dtype, (_values((6, 18), dtype, 0),), _kernel(op, params), lambda x: (reference(x.double()),))


def _fold(op: str) -> Iterator[Case]:
    function = _FOLDS[op]
    for dtype in FLOATS:
        for shape, dim in (((6, 18), None), ((6, 18), 0), ((6, 18), 1), ((3, 1100), 1), ((1200, 5), 0)):
            if op == "ProdFwdOp" and (dim is None or max(shape) > 18):  # a product of many would be 0
                continue
            yield Case(
                dtype,
                (_values(shape, dtype, 0),),
                _kernel(op, {"dim": dim}),
                lambda x, dim=dim: (
                    function(x.double().reshape(-1), 0) if dim is None or not x.dim() else function(x.double(), dim),
                ),
            )


# What folds compute, by op: (x, axis) -> the result.
_FOLDS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "SumFwdOp": torch.sum,
    "MeanFwdOp": torch.mean,
    "AmaxFwdOp": torch.amax,
    "AminFwdOp": torch.amin,
    "ProdFwdOp": torch.prod,
    "VectorNormFwdOp": lambda x, axis: x.square().sum(axis).sqrt(),
}


def _positions(op: str) -> Iterator[Case]:
    for dtype in FLOATS:
        params: dict[str, Any] = {"seq_len": 9, "num_heads" if op == "AlibiFwdOp" else "d_model": 6}
        params["out_dtype"] = dtype
        kernel, exact = _kernel(op, params), OPS[op](**params, target="torch")

        def run(kernel: Callable[..., tuple[torch.Tensor, ...]] = kernel) -> tuple[torch.Tensor, ...]:
            with torch.device(HERE):  # a call without inputs is where new tensors are
                return kernel()

        yield Case(dtype, (), run, lambda exact=exact: (exact(),))


def _rms_norm(op: str) -> Iterator[Case]:
    def exact(x: torch.Tensor, weight: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        wide = x.double()
        normalized = wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        return (normalized if weight is None else normalized * weight.double(),)

    for dtype in FLOATS:
        x, weight = _values((6, 18), dtype, 0), _values((18,), dtype, 1)
        for given in ((x, weight), (x, None)):
            yield Case(dtype, given, _kernel(op, {"normalized_shape": [18]}), exact)


def _statistics(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean by channel, and the reciprocal root of the biased variance plus 1e-5."""
    axes = (0, *range(2, x.dim()))
    return x.mean(axes), (x.var(axes, unbiased=False) + 1e-5).rsqrt()


def _batch_norm(op: str) -> Iterator[Case]:
    def run(*inputs: torch.Tensor, training: bool) -> tuple[torch.Tensor, ...]:
        results = OPS[op](training=training, target="triton")(*inputs)
        return *(one for one in results if one is not None), *inputs[1:3]

    def exact(*inputs: torch.Tensor, training: bool) -> tuple[torch.Tensor, ...]:
        x, mean, var, *affine = (one.to(torch.float64, copy=True) for one in inputs)
        saved = _statistics(x) if training else ()
        return F.batch_norm(x, mean, var, *affine, training, 0.1, 1e-5), *saved, mean, var

    for dtype in FLOATS:
        for shape in ((7, 6), (4, 6, 5)):
            channels = tuple(_values((6,), torch.float32, seed) for seed in range(1, 5))
            for training in (False, True):
                given = (_values(shape, dtype, 0), *channels)
                yield Case(
                    dtype,
                    given,
                    lambda *inputs, training=training: run(*inputs, training=training),
                    lambda *inputs, training=training: exact(*inputs, training=training),
                )


def _gemm(op: str) -> Iterator[Case]:
    """The kernel itself, which the op leaves alone for matrices as small as these."""

    def run(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        OPS[op](trans_b=True).check(a, b)
        return (skinny.matmul_skinny(a, b),)

    for dtype in (torch.float16, torch.bfloat16):
        yield Case(
            dtype,
            (_values((5, 64), dtype, 0), _values((40, 64), dtype, 1)),
            run,
            lambda a, b: (a.double() @ b.double().T,),
        )


def _attention(op: str) -> Iterator[Case]:
    def exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> tuple[torch.Tensor, ...]:
        mask = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool)
        mask = mask.tril(k.shape[1] - q.shape[1]) if is_causal else mask
        wide = (one.transpose(1, 2).double() for one in (q, k, v))
        return (F.scaled_dot_product_attention(*wide, attn_mask=mask, enable_gqa=True).transpose(1, 2),)

    for dtype in (torch.float16, torch.bfloat16):
        q, k, v = (_values((2, length, heads, 16), dtype, length) for length, heads in ((5, 4), (7, 2), (7, 2)))
        for is_causal in (False, True):
            yield Case(
                dtype,
                (q, k, v),
                _kernel(op, {"is_causal": is_causal}),
                lambda *inputs, is_causal=is_causal: exact(*inputs, is_causal=is_causal),
            )


def _moe(op: str) -> Iterator[Case]:
    """Every expert is local, so that all of the outputs are specified."""
    params = {"num_experts": 9, "num_experts_local": 9}
    reference = OPS[op](**params, target="torch")
    ids = _values((6, 2), torch.int32, 1)
    places = torch.arange(8, -1, -1, dtype=torch.int32)
    for dtype in (torch.float16, torch.bfloat16):
        for expert_map in (None, places):
            yield Case(dtype, (_values((6, 18), dtype, 0), ids, expert_map), _kernel(op, params), reference)


def _pool(op: str) -> Iterator[Case]:
    """Windows that overlap, and gaps between windows."""
    shape = (2, 3, *(9, 6, 5)[: len(OPS[op].CASES[0].tensors[0].shape) - 2])
    for params in ({"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": 2, "stride": 3}):
        reference = OPS[op](**params, target="torch")
        for dtype in FLOATS:
            yield Case(dtype, (_values(shape, dtype, 0),), _kernel(op, params), _tuple_of(reference))


def _tuple_of(reference: Op) -> Callable[..., tuple[torch.Tensor, ...]]:
    def exact(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = reference(*inputs)
        return found if isinstance(found, tuple) else (found,)

    return exact


def _quantize(op: str) -> Iterator[Case]:
    shape = (2, 3, 2, 18) if op == "FP8QuantPerTokenGroupFwdOp" else (6, 18)
    params = {"group_size": 6} if op == "INT4QuantPerGroupFwdOp" else {}
    for dtype in FLOATS if not params else (torch.float16,):
        yield Case(dtype, (_values(shape, dtype, 0),), _kernel(op, params), _QUANTIZERS[op])


def _smooth_quant(op: str) -> Iterator[Case]:
    for dtype in (torch.float16, torch.bfloat16):
        inputs = _values((6, 18), dtype, 0), _values((18,), torch.float32, 1)
        yield Case(
            dtype,
            inputs,
            _kernel(op, {}),
            lambda x, smooth: quantized.int8_of_rows((x.double() / smooth.double()).float()),
        )


def _dequantize(op: str) -> Iterator[Case]:
    q, scale = _values((6, 18), torch.int8, 0), _values(quantized.SCALES[op](6, 18), torch.float32, 1)
    for dtype in FLOATS:
        yield Case(
            dtype, (q, scale), _kernel(op, {"out_dtype": dtype}), lambda q, scale: (quantized.product(q, scale),)
        )


_BUILDERS: dict[str, Callable[[str], Iterator[Case]]] = {
    **dict.fromkeys(GATED, _rows),
    **dict.fromkeys(WITHOUT_INPUTS, _positions),
    "DropoutFwdOp": _rows,
    **dict.fromkeys(_FOLDS, _fold),
    "RMSNormFwdOp": _rms_norm,
    "BatchNormFwdOp": _batch_norm,
    "GEMMFwdOp": _gemm,
    "GQADenseFwdOp": _attention,
    "MoePermuteNopadFwdOp": _moe,
    **dict.fromkeys(_POOLS, _pool),
    **dict.fromkeys(_QUANTIZERS, _quantize),
    "SmoothQuantFwdOp": _smooth_quant,
    **dict.fromkeys(quantized.SCALES, _dequantize),
}
