"""The kinds of arguments and results of each primitive, generator and predicate.

The docstring of the function that computes a member says what the member means: `summary` and `domain` read it there.
"""

from __future__ import annotations

import builtins
import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from tileops.manifest.language import kinds, primitives
from tileops.manifest.language.generators import REGISTRY, Argument
from tileops.manifest.language.invariants import expect
from tileops.manifest.language.kinds import (
    BOOL,
    DIM,
    INT,
    REAL,
    SHAPE,
    Adt,
    Constructor,
    DType,
    Enum,
    Kind,
    Maybe,
    Seq,
    Union,
)
from tileops.manifest.language.predicates import PREDICATE_FUNCTIONS

_SEQ_INT = Seq(INT)
_INTS = Union((INT, _SEQ_INT))
_DIM_ARGUMENT = Maybe(_INTS)
_PER_AXIS = Maybe(Union((INT, Seq(Maybe(INT)))))
_NUMBER = Union((INT, REAL, BOOL))
_DTYPE = kinds.ALL_DTYPES
# Any algebraic type whose constructors are among these and have these fields, whatever the type and its classes are.
_LAYOUT = Adt(
    "a layout of experts",
    tuple(
        Constructor(name, "", tuple((field, Enum(words) if words else INT) for field, words in fields.items()))
        for name, fields in primitives.MOE_LAYOUTS.items()
    ),
)

# Returns the kind of a result from the kinds of the arguments, or a string that says why these do not fit.
Result = Callable[[list[Kind]], Kind | str]


@dataclasses.dataclass(frozen=True)
class Primitive:
    """A primitive of the language.

    Attributes:
      function: what computes it: a function of primitives.py, or Python's own len, abs or all.
      args: kind of each argument; the last repeats where `variadic`.
      optional: how many of the last arguments may be left out.
      result: kind of the result.
    """

    function: Callable[..., Any]
    args: tuple[Kind, ...]
    result: Result
    optional: int = 0
    variadic: bool = False


class Form(NamedTuple):
    """One way to call a generator: the kind of each argument, and the rank of the tensor that it fills.

    If the rank is None, the first argument is a tuple that is written out, and the rank is its length.
    """

    args: tuple[Kind, ...]
    rank: int | None


class Generator(NamedTuple):
    """A generator, which fills a metadata tensor. Its forms differ in the number of arguments."""

    forms: tuple[Form, ...]

    def form(self, count: int) -> Form | None:
        """Returns the form that takes `count` arguments, or None."""
        return next((form for form in self.forms if len(form.args) == count), None)


class Predicate(NamedTuple):
    """A predicate on a metadata tensor: the kind of each argument after the tensor, and the tensor's rank if fixed."""

    args: tuple[Kind, ...]
    rank: int | None = 1


def _same(kind: Kind) -> Result:
    return lambda args: kind


def _item(args: list[Kind]) -> Kind:
    """Returns Dim if every value is a Dim, else Int."""
    return DIM if all(_counts(arg) for arg in args) else INT


def _counts(kind: Kind) -> bool:
    """Returns whether every integer in the kind is a Dim."""
    if isinstance(kind, (Maybe, Seq)):
        return _counts(kind.item)
    if isinstance(kind, Union):
        return all(_counts(item) for item in kind.items)
    return isinstance(kind, (kinds.Dim, kinds.NoneKind))


def _per_axis(args: list[Kind]) -> Kind:
    return _item([args[0], *args[3:]])


def _dtypes(kind: Kind) -> tuple[str, ...]:
    return kind.given.values if isinstance(kind.given, DType) else ()


def _coalesced(args: list[Kind]) -> Kind:
    return DType(tuple(dict.fromkeys(name for arg in args for name in _dtypes(arg))))


def _categories(args: list[Kind]) -> Kind:
    return Enum(tuple(dict.fromkeys(word for option in args[0].options for word in _categories_of(option))))


def _categories_of(kind: Kind) -> list[str]:
    if isinstance(kind, DType):
        return [primitives.category(name) for name in kind.values]
    if isinstance(kind, kinds.Real):  # a float parameter takes integers too
        return [*(["bool"] if isinstance(kind, kinds.Number) else []), "int", "float"]
    return ["bool" if isinstance(kind, kinds.Bool) else "int"]


def _as_float(args: list[Kind]) -> Kind:
    return DType(tuple(dict.fromkeys(primitives.promote_int_to_float(name) for name in _dtypes(args[0]))))


def _promoted(args: list[Kind]) -> Kind | str:
    """Returns every dtype to which some pair promotes. Only a discriminant point says which pairs meet."""
    found: dict[str, None] = {}
    for first in _dtypes(args[0]):
        for second in _dtypes(args[1]):
            try:
                found[primitives.promote_types(first, second)] = None
            except ValueError:
                continue
    return DType(tuple(found)) if found else f"no dtype of {args[0]} promotes with one of {args[1]}"


# The primitive set: the one list of functions that an expression may call. A primitive is added here and nowhere else.
PRIMITIVES: dict[str, Primitive] = {
    "broadcast": Primitive(primitives.broadcast, (_SEQ_INT,), _same(SHAPE), variadic=True),
    "reduced": Primitive(
        primitives.reduced, (_SEQ_INT, _DIM_ARGUMENT, BOOL, Enum(("full", "noop", "reject"))), _same(SHAPE)
    ),
    "ceil_div": Primitive(primitives.ceil_div, (INT, INT), lambda args: _item(args[:1])),
    "len": Primitive(builtins.len, (Union((_SEQ_INT, Seq(BOOL))),), _same(DIM)),
    "prod": Primitive(primitives.prod, (_SEQ_INT,), _item),
    "sum": Primitive(primitives.sum, (_SEQ_INT,), _item),
    "max": Primitive(primitives.max, (_SEQ_INT, INT), _item, optional=1),
    "min": Primitive(primitives.min, (_SEQ_INT, INT), _item, optional=1),
    "per_axis": Primitive(primitives.per_axis, (_PER_AXIS, INT, INT, _INTS), _per_axis, optional=1),
    "conv.out": Primitive(primitives.conv_out, (INT,) * 5, _same(DIM)),
    "pool.out": Primitive(primitives.pool_out, (*(INT,) * 5, BOOL), _same(DIM)),
    "moe.capacity": Primitive(primitives.moe_capacity, (_LAYOUT, INT, INT), _same(DIM)),
    "mhc.expansion": Primitive(primitives.mhc_expansion, (INT,), _same(DIM)),
    "log2_floor": Primitive(primitives.log2_floor, (INT,), _same(DIM)),
    "abs": Primitive(builtins.abs, (INT,), _same(DIM)),
    "range": Primitive(primitives.range, (INT,), _same(Seq(DIM))),
    "all": Primitive(builtins.all, (Seq(BOOL),), _same(BOOL)),
    "valid_axes": Primitive(primitives.valid_axes, (_DIM_ARGUMENT, INT), _same(BOOL)),
    "unique_axes": Primitive(primitives.unique_axes, (_DIM_ARGUMENT, INT), _same(BOOL)),
    "category": Primitive(primitives.category, (Union((_DTYPE, *_NUMBER.items)),), _categories),
    "representable": Primitive(primitives.representable, (_NUMBER, _DTYPE), _same(BOOL)),
    "is_int": Primitive(primitives.is_int, (_NUMBER,), _same(BOOL)),
    "promote_int_to_float": Primitive(primitives.promote_int_to_float, (_DTYPE,), _as_float),
    "coalesce_dtype": Primitive(primitives.coalesce_dtype, (Maybe(_DTYPE), _DTYPE), _coalesced),
    "promote_types": Primitive(primitives.promote_types, (_DTYPE, _DTYPE), _promoted),
    "balanced_sizes": Primitive(primitives.balanced_sizes, (INT, INT), _same(Seq(DIM))),
    "repeat": Primitive(primitives.repeat, (INT, INT), lambda args: Seq(_item(args[:1]))),
}

_ARGUMENTS: dict[Argument, Kind] = {
    "int": INT,
    "list": _SEQ_INT,
    "sizes": _SEQ_INT,
    "side": Enum(("start", "end")),
    "layout": _LAYOUT,
}
GENERATORS: dict[str, Generator] = {
    name: Generator(tuple(Form(tuple(_ARGUMENTS[sort] for sort in sorts), rank) for sorts, rank in one.forms.items()))
    for name, one in REGISTRY.items()
}

# Generators that published manifests call by another name; the parser reads either as the first.
SYNONYMS = {"prefix_sum": "offsets", "exclusive_prefix_sum": "starts", "padded_exclusive_prefix_sum": "padded_offsets"}
# Until the first release, what defects of tensors add that a synonym with a new meaning fills.
_NEW_MEANINGS = {
    "prefix_sum": "prefix_sum now begins with 0, as offsets does; for sums without the 0 write running_sums",
    "exclusive_prefix_sum": "exclusive_prefix_sum now lacks the total, as starts does; with the total write offsets",
}

PREDICATES: dict[str, Predicate] = {
    "prefix_offsets": Predicate((INT,)),
    "max_segment": Predicate((INT,)),
    "in_range": Predicate((INT, INT), rank=None),
    "sums_to": Predicate((INT,)),
    "exclusive_prefix_of": Predicate((_SEQ_INT,)),
    "indices_within": Predicate((_SEQ_INT,), rank=2),
    "chunk_offsets_of": Predicate((_SEQ_INT, INT)),
    "moe.layout_valid": Predicate((_LAYOUT, INT, INT)),
    "attn.paged_fits": Predicate((_SEQ_INT, INT)),
}

# The docstrings of Python's own functions describe more than the language has.
_PYTHONS = {"len": "Number of items.", "abs": "Absolute value.", "all": "Whether every item holds."}


def _text(name: str) -> str:
    """Returns the docstring of what computes a primitive, generator or predicate."""
    if name in PRIMITIVES:
        return expect(inspect.getdoc(PRIMITIVES[name].function), str)
    return expect(inspect.getdoc(REGISTRY[name].fill if name in REGISTRY else PREDICATE_FUNCTIONS[name]), str)


def new_meaning(call: str) -> str:
    """Returns what a synonym has come to mean, as the end of a message; "" if the text of `call` calls no such one."""
    note = _NEW_MEANINGS.get(call.lstrip(" \t\n(").partition("(")[0].strip(), "")
    return f"; {note}" if note else ""


def summary(name: str) -> str:
    """Returns one line on a primitive, generator or predicate."""
    return _PYTHONS.get(name) or _text(name).partition("\n")[0]


def domain(name: str) -> str:
    """Returns what arguments of a primitive, generator or predicate must fulfil beyond their kinds, or ""."""
    _, _, text = _text(name).partition("\nDomain: ")
    return text.partition("\n")[0]


def optional_names(name: str) -> tuple[str, ...]:
    """Returns the names of a primitive's arguments that may be left out, in order."""
    declared = PRIMITIVES[name]
    parameters = list(inspect.signature(declared.function).parameters) if declared.optional else []
    return tuple(parameters[len(declared.args) - declared.optional :])


def check_call(name: str, args: list[Kind]) -> Kind | str:
    """Returns the kind of a primitive's result, or a string that says why the arguments do not fit."""
    declared = PRIMITIVES[name]
    most = None if declared.variadic else len(declared.args)
    least = len(declared.args) - declared.optional
    if len(args) < least or (most is not None and len(args) > most):
        count = f"{least} or more" if most is None else f"{least} to {most}" if most > least else str(least)
        return f"{name} takes {count} arguments, not {len(args)}"
    for position, arg in enumerate(args):
        wanted = declared.args[min(position, len(declared.args) - 1)]
        if not fits(arg, wanted):
            return f"argument {position + 1} of {name} is {arg}; it must be {described(wanted)}"
    return declared.result(args)


def fits(found: Kind, wanted: Kind) -> bool:
    """Returns whether an argument fits. Algebraic types fit by constructors and fields: a primitive names no type."""
    if not isinstance(wanted, Adt):
        return kinds.fits(found, wanted)
    known = {constructor.name: constructor for constructor in wanted.constructors}
    return isinstance(found, Adt) and all(
        constructor.name in known
        and all(_has(constructor, field, kind) for field, kind in known[constructor.name].fields)
        for constructor in found.constructors
    )


def _has(constructor: Constructor, field: str, kind: Kind) -> bool:
    found = dict(constructor.fields).get(field)
    return found is not None and kinds.fits(found, kind)


def described(kind: Kind) -> str:
    """Returns the kind of an argument as messages name it."""
    if not isinstance(kind, Adt):
        return str(kind)
    forms = (
        f"{one.name}{{{', '.join(f'{field}: {item}' for field, item in one.fields)}}}" for one in kind.constructors
    )
    return f"an algebraic type of {', '.join(forms)}"


def is_integer(kind: Kind) -> bool:
    """Returns whether the kind is Int, Dim, or a union of these."""
    return (
        all(isinstance(item, kinds.Int) for item in kind.items)
        if isinstance(kind, Union)
        else isinstance(kind, kinds.Int)
    )


def join(first: Kind, second: Kind) -> Kind:
    """Returns the kind of a value that has one of two kinds."""
    if kinds.fits(first, second):
        return second
    if kinds.fits(second, first):
        return first
    if isinstance(first, kinds.NoneKind) or isinstance(second, kinds.NoneKind):
        return Maybe(second if isinstance(first, kinds.NoneKind) else first)
    if isinstance(first, Enum) and isinstance(second, Enum):
        return Enum(tuple(dict.fromkeys(first.values + second.values)))
    if isinstance(first, DType) and isinstance(second, DType):
        return DType(tuple(dict.fromkeys(first.values + second.values)))
    return Union((first, second))
