"""Kinds: what an index, a parameter or an expression can be."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from types import MappingProxyType

from tileops.manifest.dtypes import BITS


@dataclasses.dataclass(frozen=True)
class Kind:
    """Base of all kinds; `str(kind)` is how a message names it."""


@dataclasses.dataclass(frozen=True)
class Int(Kind):
    """Any integer. A Bool is none."""

    def __str__(self) -> str:
        return "Int"


@dataclasses.dataclass(frozen=True)
class Dim(Int):
    """An axis length: an integer >= 0."""

    def __str__(self) -> str:
        return "Dim"


@dataclasses.dataclass(frozen=True)
class Bool(Kind):
    """True or False."""

    def __str__(self) -> str:
        return "Bool"


@dataclasses.dataclass(frozen=True)
class Real(Kind):
    """A float or Number parameter, or a float literal: readable in predicates and roofline, not in types."""

    def __str__(self) -> str:
        return "Float"


@dataclasses.dataclass(frozen=True)
class NoneKind(Kind):
    """The literal None."""

    def __str__(self) -> str:
        return "None"


@dataclasses.dataclass(frozen=True)
class Text(Kind):
    """An open string."""

    def __str__(self) -> str:
        return "Str"


@dataclasses.dataclass(frozen=True)
class Enum(Kind):
    """One of a finite set of strings."""

    values: tuple[str, ...]

    def __str__(self) -> str:
        return " | ".join(repr(value) for value in self.values)


@dataclasses.dataclass(frozen=True)
class DType(Kind):
    """One of a finite set of dtypes, by name."""

    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"DType[{' | '.join(self.values)}]"


@dataclasses.dataclass(frozen=True)
class Seq(Kind):
    """A sequence; of known length where `length` says so."""

    item: Kind
    length: int | None = None

    def __str__(self) -> str:
        return f"Seq[{self.item}]"


@dataclasses.dataclass(frozen=True)
class Shape(Seq):
    """A run of axes: a sequence of Dim."""

    item: Kind = Dim()

    def __str__(self) -> str:
        return "Shape"


@dataclasses.dataclass(frozen=True)
class Maybe(Kind):
    """A value or None; read through `.value` where `present(...)` is known to hold."""

    item: Kind

    def __str__(self) -> str:
        return f"Maybe[{self.item}]"


@dataclasses.dataclass(frozen=True)
class Union(Kind):
    """One of several kinds."""

    items: tuple[Kind, ...]

    def __str__(self) -> str:
        return " | ".join(str(item) for item in self.items)


@dataclasses.dataclass(frozen=True)
class Constructor:
    """One constructor of an algebraic type: its fields with their kinds, and the Python class that it is."""

    name: str
    python_class: str
    fields: tuple[tuple[str, Kind], ...]


@dataclasses.dataclass(frozen=True)
class Adt(Kind):
    """A sealed sum of constructors, or what a guard leaves of it."""

    name: str
    constructors: tuple[Constructor, ...]

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True)
class Opaque(Kind):
    """An object that takes no part in types."""

    name: str

    def __str__(self) -> str:
        return self.name


INT, DIM, BOOL, REAL, NONE, TEXT, SHAPE = Int(), Dim(), Bool(), Real(), NoneKind(), Text(), Shape()
ALL_DTYPES = DType(tuple(BITS))


def fits(found: Kind, wanted: Kind) -> bool:
    """Whether a value of kind `found` may stand where `wanted` is asked for.

    A Dim stands for an Int, a Shape for a Seq[Int], an Int for a Float; nothing the other way round.
    """
    if isinstance(found, Union):
        return all(fits(item, wanted) for item in found.items)
    if isinstance(wanted, Union):
        return any(fits(found, item) for item in wanted.items)
    if isinstance(wanted, Maybe):
        if isinstance(found, Maybe):
            return fits(found.item, wanted.item)
        return isinstance(found, NoneKind) or fits(found, wanted.item)
    if isinstance(wanted, Dim):
        return isinstance(found, Dim)
    if isinstance(wanted, Int):
        return isinstance(found, Int)
    if isinstance(wanted, Real):
        return isinstance(found, (Int, Real))
    if isinstance(wanted, Seq):
        return isinstance(found, Seq) and fits(found.item, wanted.item)
    if isinstance(wanted, Enum):
        return isinstance(found, Enum) and set(found.values) <= set(wanted.values)
    if isinstance(wanted, DType):
        return isinstance(found, DType) and set(found.values) <= set(wanted.values)
    if isinstance(wanted, Text):
        return isinstance(found, (Text, Enum))
    if isinstance(wanted, Adt):
        return isinstance(found, Adt) and found.name == wanted.name and set(found.constructors) <= set(wanted.constructors)
    return found == wanted


INDEX_KINDS = {"Dim": DIM, "Shape": SHAPE, "Seq[Int]": Seq(INT)}


def index_kind(text: str) -> Kind | str:
    """Kind of a `forall` index; a string says what is wrong."""
    compact = " ".join(text[: MAX_TYPE + 1].split())
    if compact in INDEX_KINDS:
        return INDEX_KINDS[compact]
    match = re.fullmatch(r"DType\[([^\[\]]*)\]", compact)
    if match is None:
        return f"{text!r} is no kind; the kinds are Dim, Shape, Seq[Int] and DType[a | b]"
    return dtype_set([name.strip() for name in match[1].split("|")])


def dtype_set(names: list[str]) -> DType | str:
    """A DType kind from names; a string says what is wrong."""
    for name in names:
        if name not in BITS:
            return f"{name!r} is no dtype; the dtypes are {', '.join(BITS)}"
    if len(set(names)) != len(names):
        return "a dtype stands twice"
    return DType(tuple(names))


MAX_TYPE = 4000
MAX_BRACKETS = 20
SIMPLE_TYPES = {
    "int": INT,
    "bool": BOOL,
    "float": REAL,
    "Number": REAL,
    "str": TEXT,
    "None": NONE,
    "torch.dtype": ALL_DTYPES,
}
_OPAQUE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*(\[[A-Za-z0-9_., \[\]]*\])?")


def parameter_kind(text: str, adts: Mapping[str, Adt] = MappingProxyType({})) -> Kind | str:
    """Kind of a construction parameter from its `type`; a string says what is wrong.

    `int | None` is Maybe[Int]; `int | list[int] | None` a Maybe of a union; string literals an enum; dtype names a
    DType; the name of an algebraic type that type; an unknown type name an opaque object.
    """
    if len(text) > MAX_TYPE or text.count("[") > MAX_BRACKETS:
        return f"a type of more than {MAX_TYPE} characters or {MAX_BRACKETS} brackets"
    items: list[Kind] = []
    literals: list[str] = []
    dtypes: list[str] = []
    optional = False
    parts = _split(text)
    dtype_union = any(part in BITS and part != "bool" for part in parts)  # elsewhere `bool` is Python's
    for part in parts:
        if part in BITS and (part != "bool" or dtype_union):
            dtypes.append(part)
        elif len(part) >= 2 and part[0] in "'\"" and part[-1] == part[0]:
            literals.append(part[1:-1])
        elif part == "None":
            optional = True
        else:
            kind = _one_type(part, adts)
            if isinstance(kind, str):
                return kind
            items.append(kind)
    if literals:
        items.append(Enum(tuple(literals)))
    if dtypes:
        found = dtype_set(dtypes)
        if isinstance(found, str):
            return found
        items.append(found)
    if not items:
        return f"{text!r} names no type"
    kind = items[0] if len(items) == 1 else Union(tuple(items))
    return Maybe(kind) if optional else kind


def _one_type(text: str, adts: Mapping[str, Adt]) -> Kind | str:
    if text in SIMPLE_TYPES:
        return SIMPLE_TYPES[text]
    if text in adts:
        return adts[text]
    match = re.fullmatch(r"(list|tuple)\[(.*)\]", text)
    if match is None:
        return Opaque(text) if _OPAQUE.fullmatch(text) else f"{text!r} is no type"
    parts = _split(match[2], ",")
    variadic = match[1] == "tuple" and len(parts) == 2 and parts[1] == "..."
    if match[1] == "list" and len(parts) != 1:
        return f"{text!r}: a list has one item type"
    inner = [parameter_kind(part, adts) for part in (parts[:1] if variadic or match[1] == "list" else parts)]
    for kind in inner:
        if isinstance(kind, str):
            return kind
    if len(set(inner)) != 1:
        return Opaque(text)  # different types side by side take no part in types
    return Seq(inner[0], None if variadic or match[1] == "list" else len(inner))


def _split(text: str, separator: str = "|") -> list[str]:
    """Parts of `text` between separators outside brackets, stripped."""
    parts, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if char == separator and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    return parts
