"""What each primitive takes and gives: the kinds by which expressions are checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tileops.manifest import kinds
from tileops.manifest.kinds import BOOL, DIM, INT, SHAPE, Dim, DType, Enum, Int, Kind, Maybe, NoneKind, Seq, Union

_SEQ_INT = Seq(INT)
_DIM_ARGUMENT = Maybe(Union((INT, _SEQ_INT)))
_DTYPE = kinds.ALL_DTYPES


@dataclasses.dataclass(frozen=True)
class Primitive:
    """A member of the closed set.

    Attributes:
      args: kind of each argument; the last repeats where `variadic`.
      optional: how many of the last arguments may be left out.
      result: kind of the result, from the kinds of the arguments.
      summary: one line for messages and documentation.
    """

    args: tuple[Kind, ...]
    result: Callable[[list[Kind]], Kind]
    summary: str
    optional: int = 0
    variadic: bool = False


def _same(kind: Kind) -> Callable[[list[Kind]], Kind]:
    return lambda args: kind


def _item(args: list[Kind]) -> Kind:
    """Dim where every summed or chosen value is one, else Int."""
    item = args[0].item if isinstance(args[0], Seq) else INT
    values = [item, *args[1:]]
    return DIM if all(isinstance(value, Dim) for value in values) else INT


def _coalesced(args: list[Kind]) -> Kind:
    names: dict[str, None] = {}
    for arg in args:
        kind = arg.item if isinstance(arg, Maybe) else arg
        if isinstance(kind, DType):
            names.update(dict.fromkeys(kind.values))
    return DType(tuple(names)) if names else _DTYPE


PRIMITIVES: dict[str, Primitive] = {
    "broadcast": Primitive((_SEQ_INT,), _same(SHAPE), "two-sided broadcast of shapes", variadic=True),
    "reduced": Primitive(
        (_SEQ_INT, _DIM_ARGUMENT, BOOL, Enum(("full", "noop", "reject"))), _same(SHAPE),
        "shape after reducing axes; the last word says what an empty dim means",
    ),
    "ceil_div": Primitive((INT, INT), lambda args: DIM if isinstance(args[0], Dim) else INT, "division rounded up"),
    "len": Primitive((Union((Seq(INT), Seq(BOOL))),), _same(DIM), "number of items"),
    "prod": Primitive((_SEQ_INT,), _item, "product; 1 of nothing"),
    "sum": Primitive((_SEQ_INT,), _item, "sum; 0 of nothing"),
    "max": Primitive((_SEQ_INT, INT), _item, "largest item", optional=1),
    "min": Primitive((_SEQ_INT, INT), _item, "smallest item", optional=1),
    "abs": Primitive((INT,), _same(DIM), "absolute value"),
    "log2_floor": Primitive((INT,), _same(DIM), "exponent of the largest power of two within"),
    "range": Primitive((INT,), _same(Seq(DIM)), "0 to n - 1, for a comprehension to run over"),
    "all": Primitive((Seq(BOOL),), _same(BOOL), "whether every item holds"),
    "valid_axes": Primitive((_DIM_ARGUMENT, INT), _same(BOOL), "whether axes lie in [-rank, rank)"),
    "unique_axes": Primitive((_DIM_ARGUMENT, INT), _same(BOOL), "whether no axis is named twice"),
    "category": Primitive((_DTYPE,), _same(Enum(("bool", "int", "float", "complex"))), "class of a dtype"),
    "coalesce_dtype": Primitive((Maybe(_DTYPE), _DTYPE), _coalesced, "the first dtype where given, else the second"),
}

# Generators fill metadata tensors: what they take, and the rank of what they give.
GENERATORS: dict[str, tuple[tuple[Kind, ...], int]] = {
    "as_tensor": ((_SEQ_INT,), 1),
    "prefix_sum": ((_SEQ_INT,), 1),
    "exclusive_prefix_sum": ((_SEQ_INT,), 1),
    "topk_ids": ((INT, INT, INT), 2),
    "local_expert_map": ((INT, INT, INT), 1),
}


def check_call(name: str, args: list[Kind]) -> Kind | str:
    """Kind of a primitive's result; a string says why the call does not fit."""
    declared = PRIMITIVES[name]
    most = None if declared.variadic else len(declared.args)
    least = len(declared.args) - declared.optional
    if len(args) < least or (most is not None and len(args) > most):
        return f"{name} takes {least if most == least else f'{least} or more'} arguments, not {len(args)}"
    for position, arg in enumerate(args):
        wanted = declared.args[min(position, len(declared.args) - 1)]
        if not kinds.fits(arg, wanted):
            return f"argument {position + 1} of {name} is {arg}, and {wanted} is asked for"
    return declared.result(args)


def is_integer(kind: Kind) -> bool:
    """Int or Dim; a union of such too."""
    return all(isinstance(item, Int) for item in kind.items) if isinstance(kind, Union) else isinstance(kind, Int)


def join(first: Kind, second: Kind) -> Kind:
    """The kind of a value that is one or the other."""
    if kinds.fits(first, second):
        return second
    if kinds.fits(second, first):
        return first
    if isinstance(first, NoneKind) or isinstance(second, NoneKind):
        return Maybe(second if isinstance(first, NoneKind) else first)
    if isinstance(first, Enum) and isinstance(second, Enum):
        return Enum(tuple(dict.fromkeys(first.values + second.values)))
    if isinstance(first, DType) and isinstance(second, DType):
        return DType(tuple(dict.fromkeys(first.values + second.values)))
    return Union((first, second))
