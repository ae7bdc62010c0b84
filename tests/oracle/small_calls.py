"""Small calls of each op that reach every branch of its price; extents differ from one another where they may."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch

from tileops.ops.kernels.elementwise.table import TABLE
from tileops.ops.op import Op
from tileops.tests.oracle.small_call import SmallCall

# (parameters, shapes of the inputs) by op.
_SHAPES: dict[str, list[tuple[dict[str, Any], list[tuple[int, ...] | None]]]] = {
    "SiLUAndMulFwdOp": [({}, [(3, 5, 14)]), ({}, [(4,)]), ({}, [(2, 6)]), ({}, [(0, 6)])],
    "GELUAndMulFwdOp": [
        ({"approximate": approximate}, [shape])
        for approximate in ("none", "tanh")
        for shape in ((3, 5, 14), (4,), (2, 6), (0, 6))
    ],
    "AlibiFwdOp": [
        ({"seq_len": length, "num_heads": heads, "out_dtype": "float32"}, [])
        for length, heads in ((3, 5), (1, 8), (4, 1), (1, 1), (0, 2), (2, 0))
    ],
    "SinusoidalFwdOp": [
        ({"seq_len": length, "d_model": width, "out_dtype": "float32"}, [])
        for length, width in ((3, 5), (1, 8), (4, 1), (0, 2), (2, 0))
    ],
    "DropoutFwdOp": [
        ({"p": 0.25, "seed": 2**40 + 3}, [(3, 5)]),
        ({"p": 0.0}, [(7,)]),
        ({"p": 1.0}, [(2, 2)]),
        ({"training": False}, [()]),
        ({"p": 0.75, "seed": 1}, [()]),
        ({}, [(0, 3)]),
    ],
    "GEMMFwdOp": [
        ({"trans_a": a, "trans_b": b}, [(5, 3) if a else (3, 5), (7, 5) if b else (5, 7)])
        for a, b in itertools.product((False, True), repeat=2)
    ]
    + [({}, [(0, 5), (7, 5)]), ({}, [(3, 5), (0, 5)])],
    "RMSNormFwdOp": [
        ({"normalized_shape": (4,)}, [(3, 4), (4,)]),
        ({"normalized_shape": (2, 7)}, [(5, 3, 2, 7), None]),
        ({"normalized_shape": (4,)}, [(0, 4), (4,)]),
    ],
    "BatchNormFwdOp": [
        ({"training": training}, [(3, 2, *spatial), running, running, weight, bias])
        for training, running, spatial, weight, bias in itertools.product(
            (False, True), ((2,), None), ((5, 7), ()), ((2,), None), ((2,), None)
        )
        if training or running
    ]
    + [
        ({"training": False}, [shape, (2,), (2,), affine, affine])
        for shape in ((0, 2, 5), (3, 2, 0), (0, 2), (1, 2))
        for affine in ((2,), None)
    ],
    "INT8QuantPerTensorFwdOp": [({}, [shape]) for shape in ((3, 5), (1, 1), (2, 130), (4, 256))],
    "INT8QuantPerChannelFwdOp": [({}, [shape]) for shape in ((3, 5), (1, 1), (2, 130), (4, 256), (0, 4))],
    **{
        op: [({}, [shape]) for shape in ((3, 5), (129, 130), (2, 256), (300, 1), (0, 4), (4, 0))]
        for op in ("INT8QuantPerTokenGroupFwdOp", "FP8QuantPerBlockFwdOp")
    },
    "SmoothQuantFwdOp": [({}, [shape, shape[1:]]) for shape in ((3, 5), (1, 1), (2, 130), (0, 4))],
    **{
        op: [
            ({"out_dtype": "float32"}, [(rows, cols), scales(rows, cols)])
            for rows, cols in ((3, 5), (1, 1), (2, 130), (0, 4), (4, 0))
        ]
        for op, scales in (
            ("INT8DequantPerTensorFwdOp", lambda rows, cols: (1,)),
            ("INT8DequantPerChannelFwdOp", lambda rows, cols: (rows,)),
            ("INT8DequantPerBlockFwdOp", lambda rows, cols: (rows, -(-cols // 128))),
        )
    },
    "FP8QuantPerTokenGroupFwdOp": [
        ({}, [shape])
        for shape in ((2, 3, 5, 7), (1, 1, 1, 1), (3, 2, 4, 130), (4, 5, 2, 3), (0, 3, 1, 4), (2, 0, 3, 1))
    ],
    "INT4QuantPerGroupFwdOp": [
        ({"group_size": size}, [shape])
        for size, shape in ((2, (3, 4)), (3, (5, 6)), (128, (1, 256)), (4, (0, 8)), (7, (2, 0)))
    ],
    "SumFwdOp": [
        ({"dim": -1}, [(3, 4)]),
        ({"dim": None, "keepdim": True}, [(3, 4)]),
        ({"dim": (0, 2), "dtype": "float32"}, [(2, 3, 4)]),
        ({"dim": 0}, [(3, 0)]),
    ],
    "FFTC2CFwdOp": [({}, [(4,)]), ({}, [(3, 1)]), ({}, [(2, 5, 8)]), ({}, [(0, 2)])],
    "MeanFwdOp": [
        ({"dim": -1}, [(3, 4)]),
        ({"dim": None, "keepdim": True}, [(3, 4)]),
        ({"dim": (0, 2), "dtype": "float32"}, [(2, 3, 4)]),
        ({"dim": ()}, [(2, 5)]),
        ({"dim": 0}, [(3, 0)]),
        ({"dim": 0}, [()]),
    ],
    **{
        op: [
            ({"dim": -1}, [(3, 4)]),
            ({"dim": None, "keepdim": True}, [(3, 4)]),
            ({"dim": (0, 2)}, [(2, 3, 4)]),
            ({"dim": 0}, [(3, 0)]),
            ({"dim": 0}, [()]),
        ]
        for op in ("AmaxFwdOp", "AminFwdOp")
    },
    "ProdFwdOp": [
        ({"dim": -1}, [(3, 4)]),
        ({"dim": 0, "keepdim": True}, [(3, 5)]),
        ({"dim": 1, "dtype": "float32"}, [(2, 3, 4)]),
        ({"dim": 0}, [(3, 0)]),
        ({"dim": 1}, [(3, 0)]),
        ({"dim": 0}, [()]),
    ],
    "VectorNormFwdOp": [
        ({"ord": order, **params}, [shape])
        for order in (1, 2, 2.0, math.inf)
        for params, shape in (
            ({"dim": -1}, (3, 4)),
            ({"dim": None, "keepdim": True}, (3, 4)),
            ({"dim": (0, 2), "dtype": "float32"}, (2, 3, 4)),
            ({"dim": 0}, (3, 0)),
            ({"dim": 0}, ()),
        )
    ]
    + [({"ord": order, "dim": 1}, [(3, 0)]) for order in (1, 2)],
}


# Shapes of the inputs of an elementwise op, by how many it has: two-sided broadcasts first, no output and one element
# last.
_ELEMENTWISE_SHAPES = {
    1: [[(3, 5)], [()], [(0, 3)]],
    2: [[(4, 1), (1, 3)], [(4, 1), (3,)], [(), (5,)], [(2, 3), ()], [(0, 1), (7,)], [(7,), (0, 1)], [(1,), ()]],
    3: [
        [(4, 1), (1, 3), (2, 1, 1)],
        [(5,), (2, 1), (5,)],
        [(1, 3), (7, 1, 3), (3,)],
        [(5,), (7, 1), (0, 1, 1)],
        [(0, 1), (7,), ()],
        [(1,), (), (1,)],
    ],
}
# Of those whose operands do not broadcast freely.
_OWN_SHAPES = {
    "PReLUFwdOp": [[(2, 3, 5), (3,)], [(4,), (1,)], [(), (1,)], [(2, 2), ()], [(0, 3), (3,)]],
    "MaskedFillTensorFwdOp": [
        [(4, 1), (1, 3), ()],
        [(5,), (2, 1), ()],
        [(), (3,), ()],
        [(0, 1), (3,), ()],
        [(3,), (0, 1), ()],
    ],
}

# Parameters of elementwise ops beside those that their rows write: numbers that decide a price, on either side of what
# the price asks for.
_FURTHER_PARAMS: dict[str, list[dict[str, Any]]] = {
    **{op: [{"alpha": alpha} for alpha in (-1, -0.5, 0, 1.0, 2, 3.5)] for op in ("AddFwdOp", "SubFwdOp")},
    "ELUFwdOp": [{"alpha": alpha} for alpha in (-1.0, 0.0, 2.0)],
    "LeakyReLUFwdOp": [{"negative_slope": slope} for slope in (-0.5, 0.0, 1.0, 2.0)],
    "LerpScalarFwdOp": [{"weight": weight} for weight in (-0.5, 0.0, 1.0, 2.0)],
    "RoundFwdOp": [{"decimals": decimals} for decimals in (-2, -1, 3)],
    "SoftplusFwdOp": [{"beta": beta} for beta in (-1.0, 0.5, 3.0)],
}
# Dtypes of elementwise ops of one operand beside those of their rows: those of which a price has a branch.
_FURTHER_DTYPES = dict.fromkeys(("AbsFwdOp", "ReLUFwdOp"), ("int8", "int16", "int64"))


def small_calls(op_class: type[Op]) -> Iterator[SmallCall]:
    """The small calls of an op, with data from a fixed seed.

    Those of the elementwise table take the parameters and dtypes of every row that works on copies, and further
    parameters in the dtypes of the first, and further dtypes; the others are listed, in the dtypes of the op's first case.
    """
    stream = torch.Generator().manual_seed(0)
    if op_class.ENTRY in TABLE:
        yield from _elementwise_calls(op_class, stream)
        return
    dtypes = {record.name: getattr(torch, record.dtype) for record in op_class.CASES[0].tensors}
    for params, shapes in _SHAPES[op_class.ENTRY]:
        yield SmallCall(
            params,
            tuple(
                None if shape is None else torch.rand(shape, generator=stream).add(0.5).to(dtypes[name])
                for name, shape in zip(op_class.INPUT_NAMES, shapes, strict=True)
            ),
        )


def _elementwise_calls(op_class: type[Op], stream: torch.Generator) -> Iterator[SmallCall]:
    seen = []
    for case in op_class.CASES:
        key = case.params, {tensor.name: tensor.dtype for tensor in case.tensors}
        if case.params.get("inplace") or key in seen:
            continue
        seen.append(key)
        for shapes in _shapes(op_class):
            yield _elementwise_call(op_class, dict(case.params), key[1], shapes, stream)
    for params in _FURTHER_PARAMS.get(op_class.ENTRY, ()):
        shapes = _shapes(op_class)[0]
        yield _elementwise_call(op_class, params, seen[0][1], shapes, stream)
    for dtype in _FURTHER_DTYPES.get(op_class.ENTRY, ()):
        yield _elementwise_call(op_class, {}, {op_class.INPUT_NAMES[0]: dtype}, _shapes(op_class)[0], stream)


def _shapes(op_class: type[Op]) -> list[list[tuple[int, ...]]]:
    return _OWN_SHAPES.get(op_class.ENTRY) or _ELEMENTWISE_SHAPES[len(op_class.INPUT_NAMES)]


def _elementwise_call(
    op_class: type[Op],
    params: dict[str, Any],
    dtypes: dict[str, str],
    shapes: list[tuple[int, ...]],
    stream: torch.Generator,
) -> SmallCall:
    """A call with the inputs that `dtypes` names."""
    given = zip(op_class.INPUT_NAMES, shapes, strict=True)
    inputs = (_small(shape, getattr(torch, dtypes[name]), stream) if name in dtypes else None for name, shape in given)
    return SmallCall(params, tuple(inputs))


def _small(shape: tuple[int, ...], dtype: torch.dtype, stream: torch.Generator) -> torch.Tensor:
    return torch.rand(shape, generator=stream).add(0.5).mul(1 if dtype.is_floating_point else 4).to(dtype)
