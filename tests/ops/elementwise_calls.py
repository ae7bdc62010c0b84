"""Calls of every op of the elementwise table: over the dtypes that its entry declares, with the values that go wrong."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from tileops.manifest.language import kinds
from tileops.manifest.model import Entry
from tileops.manifest.reading import loader
from tileops.ops.errors import OpCallError
from tileops.ops.families import elementwise
from tileops.ops.kernels.elementwise.table import TABLE, launch, meeting
from tileops.ops.op import Op
from tileops.tools.cli import paths

CLASSES: dict[str, type[Op]] = {name: getattr(elementwise, name) for name in TABLE}


@functools.cache
def _entries() -> dict[str, Entry]:
    files = loader.spec_files(str(paths.data_path("manifest", "spec")))
    return loader.load([path for path in files if "elementwise" in path]).entries


@dataclasses.dataclass(frozen=True)
class Settings:
    """Parameters of an op, and the optional inputs that its calls pass."""

    params: dict[str, Any]
    present: tuple[str, ...]


def settings(op: str) -> list[Settings]:
    """The combinations of parameters and optional inputs that an op's rows name, those that work in place left out."""
    found = []
    for case in CLASSES[op].CASES:
        defaults = {name: parameter.default for name, parameter in inspect.signature(CLASSES[op]).parameters.items()}
        del defaults["target"]
        one = Settings({**defaults, **case.params}, tuple(tensor.name for tensor in case.tensors))
        if one not in found and not one.params.get("inplace"):
            found.append(one)
    return found


def dtypes(op: str) -> list[dict[str, torch.dtype]]:
    """Every assignment of dtypes that the entry admits, by input."""
    signature = _entries()[op].signature
    sets = {name: kind.values for name, kind in signature.forall.items() if isinstance(kind, kinds.DType)}
    found = []
    for chosen in itertools.product(*sets.values()):
        by_index = dict(zip(sets, chosen, strict=True))
        named = {name: tensor.dtype.text for name, tensor in signature.inputs.items()}
        found.append({name: getattr(torch, by_index.get(dtype, dtype)) for name, dtype in named.items()})
    return found


# Shapes of the operands that do not broadcast freely, against the shape of the first.
OWN_SHAPES: dict[tuple[str, str], Callable[[tuple[int, ...]], tuple[int, ...]]] = {
    ("MaskedFillTensorFwdOp", "value"): lambda shape: (),
    ("PReLUFwdOp", "weight"): lambda shape: (shape[1] if len(shape) > 1 else 1,),
}


def signatures(op: str) -> Iterator[tuple[Settings, dict[str, torch.dtype], torch.dtype]]:
    """Settings, dtypes of the inputs that are there, and dtype of the result, of every kind of call of an op that a
    kernel serves.
    """
    for some, chosen in itertools.product(settings(op), dtypes(op)):
        operands = {name: dtype for name, dtype in chosen.items() if name in some.present}
        given = [
            torch.empty(OWN_SHAPES.get((op, name), tuple)(()), dtype=operands[name], device="meta")
            if name in operands
            else None
            for name in chosen
        ]
        try:
            call = CLASSES[op](**some.params).check(*given)
        except OpCallError:  # a rule of the entry
            continue
        result = getattr(torch, call.outputs["output"].dtype)
        if launch(TABLE[op], call.params, operands, result) is not None:
            yield some, operands, result


_FLOAT_EDGES = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3.5,
    1e-3,
    -1e-3,
    -0.2,
    12.0,
    -12.0,
    30.0,
    -30.0,
    -80.0,
    7e4,
    -7e4,
    float("inf"),
    float("-inf"),
    float("nan"),
)


def values(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Random values with the dtype's edges among them: its limits, its subnormals, infinities and NaN."""
    stream = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=stream).bool()
    if dtype.is_floating_point:
        limits = torch.finfo(dtype)
        random = torch.randn(shape, generator=stream, dtype=torch.float64).mul(3.0).to(dtype)
        edges = [
            *_FLOAT_EDGES,
            limits.max,
            limits.min,
            limits.tiny,
            limits.smallest_normal / 4,
            -limits.smallest_normal / 2,
        ]
    else:
        limits = torch.iinfo(dtype)
        random = torch.randint(max(limits.min, -100), 100, shape, generator=stream).to(dtype)
        edges = [0, 1, limits.max, limits.min, limits.max - 1]
    flat = random.view(-1)
    places = torch.randperm(flat.numel(), generator=stream)[: len(edges)]
    flat[places] = torch.tensor(edges, dtype=torch.float64 if dtype.is_floating_point else torch.int64).to(dtype)[
        : len(places)
    ]
    return random


def scattered(tensor: torch.Tensor) -> torch.Tensor:
    """The same values with every axis strided and the axes in reverse order in memory."""
    spread = torch.zeros([2 * size for size in reversed(tensor.shape)], dtype=tensor.dtype)
    view = spread[tuple(slice(None, None, 2) for _ in tensor.shape)].permute(*reversed(range(tensor.dim())))
    view.copy_(tensor)
    return view


_DIVIDING = ("DivFwdOp", "FloorDivideFwdOp", "RemainderFwdOp")


def _as_divisor(x: torch.Tensor) -> torch.Tensor:
    """Without what has no quotient that PyTorch defines: integer 0, -1 under the least integer, and floats so small
    that its vectorised remainder on the CPU overflows."""
    if x.dtype.is_floating_point:
        return torch.where((x != 0) & (x.abs() < 1e-4), 0.5, x)
    return torch.where((x == 0) | (x == -1), 3, x) if x.dtype != torch.bool else torch.ones_like(x)


def inputs(
    op: str, shapes: tuple[tuple[int, ...], ...], chosen: dict[str, torch.dtype], some: Settings
) -> list[torch.Tensor | None]:
    """The inputs of a call, in signature order: the shapes in turn, None for an absent one.

    Operands of one shape have a third of their elements in common.
    """
    found: list[torch.Tensor | None] = []
    for seed, (name, shape) in enumerate(zip(CLASSES[op].INPUT_NAMES, shapes, strict=True)):
        if (op, name) in OWN_SHAPES:
            shape = OWN_SHAPES[op, name](shapes[0])
        x = values(shape, chosen[name], seed)
        if found and found[0] is not None and found[0].shape == x.shape and chosen[name] == found[0].dtype:
            x.view(-1)[::3] = found[0].view(-1)[::3]
        if op in _DIVIDING and seed == 1:
            x = _as_divisor(x)
        found.append(x if name in some.present else None)
    return found


# Those that scale on the way to a result that would fit, and overflow where float32 does.
OVERFLOWING = ("RoundFwdOp", "HardswishFwdOp")


def exact(op: str, params: dict[str, Any], given: Sequence[torch.Tensor | None]) -> torch.Tensor:
    """Returns the op's result, worked out in float64 and rounded once, in the result's dtype.

    Torch's faster ways for narrower types differ by processor. Operands are rounded first to the dtype in which they
    meet, as kernels round them.

    Args:
      op: name of an entry of the table.
      params: parameters of the op, by name.
      given: inputs in signature order, None for an absent one.
    """
    reference = CLASSES[op](**params, target="torch")
    result = getattr(torch, reference.check(*given).outputs["output"].dtype)
    operands = {name: one for name, one in zip(CLASSES[op].INPUT_NAMES, given, strict=True) if one is not None}
    met = {name: one.dtype for name, one in operands.items() if name not in TABLE[op].masks}
    common = meeting(met, [name for name, one in operands.items() if one.dim() == 0])
    if op == "NanToNumFwdOp" or not (common.is_floating_point or result.is_floating_point):
        return reference(*given)  # nothing is rounded
    wide = torch.float32 if op in OVERFLOWING else torch.float64
    narrow = common if common.is_floating_point else torch.float32
    for name in met:
        operands[name] = operands[name].to(narrow).to(wide)
    return reference(*(operands.get(name) for name in CLASSES[op].INPUT_NAMES)).to(result)
