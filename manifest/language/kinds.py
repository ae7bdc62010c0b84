"""The kinds of indices, parameters and expressions."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping
from types import MappingProxyType

from tileops.manifest.language.dtypes import BITS
from tileops.manifest.language.expr import Expr
from tileops.manifest.language.text import shown


@dataclasses.dataclass(frozen=True)
class Kind:
    """Base of all kinds; `str(kind)` is how a message names it."""

    @property
    def given(self) -> Kind:
        """Returns the kind of a value that is not None."""
        return self

    @property
    def options(self) -> tuple[Kind, ...]:
        """Returns the kinds of which a value that is not None has one."""
        return (self,)


@dataclasses.dataclass(frozen=True)
class Int(Kind):
    """Any integer. A Bool is no integer."""

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
    """A float parameter or a float literal: readable in predicates and roofline, not in types."""

    def __str__(self) -> str:
        return "Float"


@dataclasses.dataclass(frozen=True)
class Number(Real):
    """A Number parameter: what PyTorch takes for a scalar, so an integer, a float or a Bool."""

    def __str__(self) -> str:
        return "Number"


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
    """A sequence.

    Attributes:
      item: the kind of all items.
      length: the number of items; None if it is not known.
      each: the kind of each item, if these differ; else empty.
      lengths: the numbers of items, if it has one of several; else empty.
    """

    item: Kind
    length: int | None = None
    each: tuple[Kind, ...] = ()
    lengths: tuple[int, ...] = ()

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

    @property
    def given(self) -> Kind:
        return self.item

    @property
    def options(self) -> tuple[Kind, ...]:
        return self.item.options


@dataclasses.dataclass(frozen=True)
class Union(Kind):
    """One of several kinds."""

    items: tuple[Kind, ...]

    def __str__(self) -> str:
        return " | ".join(str(item) for item in self.items)

    @property
    def options(self) -> tuple[Kind, ...]:
        return self.items


@dataclasses.dataclass(frozen=True)
class Constructor:
    """One constructor of an algebraic type: its fields with their kinds, and the Python class that it is.

    Attributes:
      invariant: a condition on the fields, as text and as expression; None if all values are valid.
      by_kind: an object's attribute `kind` is the constructor's name; otherwise the name of its class is.
      enums: the paths of the enum classes of fields whose words an object holds as members.
    """

    name: str
    python_class: str
    fields: tuple[tuple[str, Kind], ...]
    invariant: tuple[str, Expr] | None = None
    by_kind: bool = False
    enums: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True)
class Adt(Kind):
    """A sealed sum of constructors, or what a guard leaves of it."""

    name: str
    constructors: tuple[Constructor, ...]

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True)
class Opaque(Kind):
    """An object that takes no part in types and has no form in YAML, or a union with one.

    Attributes:
      name: the type as written.
      others: the other members of the union, values of which rows and defaults may write.
      is_bare: the name is no dotted path, and may be that of a type which is declared nowhere.
    """

    name: str
    others: tuple[Kind, ...] = ()
    is_bare: bool = False

    def __str__(self) -> str:
        return self.name


INT, DIM, BOOL, REAL, NONE, TEXT, SHAPE = Int(), Dim(), Bool(), Real(), NoneKind(), Text(), Shape()
NUMBER = Number()
ALL_DTYPES = DType(tuple(BITS))


def fits(found: Kind, wanted: Kind) -> bool:
    """Returns whether a value of kind `found` may be used as one of kind `wanted`.

    A Dim may be used as an Int, a Shape as a Seq[Int], an Int as a Float, a Float or a Bool as a Number, but not the
    other way round.
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
        return isinstance(found, (Int, Real)) or (isinstance(wanted, Number) and isinstance(found, Bool))
    if isinstance(wanted, Seq):
        return isinstance(found, Seq) and fits(found.item, wanted.item)
    if isinstance(wanted, Enum):
        return isinstance(found, Enum) and set(found.values) <= set(wanted.values)
    if isinstance(wanted, DType):
        return isinstance(found, DType) and set(found.values) <= set(wanted.values)
    if isinstance(wanted, Text):
        return isinstance(found, (Text, Enum))
    if isinstance(wanted, Adt):
        return (
            isinstance(found, Adt) and found.name == wanted.name and set(found.constructors) <= set(wanted.constructors)
        )
    return found == wanted


def is_value_list(kind: Kind | None) -> bool:
    """Returns whether an index is a list of values that only rows hold: Seq[Int], which a Shape is not."""
    return isinstance(kind, Seq) and not isinstance(kind, Shape)


# Kinds of a constructor's fields under `adts`, beside words.
FIELD_KINDS = {"Dim": DIM, "Int": INT, "Bool": BOOL}
INDEX_KINDS = {"Dim": DIM, "Shape": SHAPE, "Seq[Int]": Seq(INT)}


def index_kind(text: str) -> Kind | str:
    """Returns the kind of a `forall` index, or a string that says what is wrong."""
    compact = " ".join(text[: MAX_TYPE + 1].split())
    if compact in INDEX_KINDS:
        return INDEX_KINDS[compact]
    match = re.fullmatch(r"DType\[([^\[\]]*)\]", compact)
    if match is None:
        if all(name.strip() in BITS for name in compact.split("|")):
            return f"{shown(text)} is no kind; write DType[{compact}]"
        return f"{shown(text)} is no kind; the kinds are Dim, Shape, Seq[Int] and DType[a | b]"
    return dtype_set([name.strip() for name in match[1].split("|")])


class BadDType(str):
    """Says what is wrong with a dtype, not with the type around it."""


class UnknownType(str):
    """Says that a name is no type. The name may be that of an algebraic type that could not be read."""


def dtype_set(names: list[str]) -> DType | BadDType:
    """Returns the DType kind of some dtypes, or a string that says what is wrong."""
    for name in names:
        if name not in BITS:
            return BadDType(f"{shown(name)} is no dtype; the dtypes are {', '.join(BITS)}")
    if len(set(names)) != len(names):
        return BadDType("a dtype is there twice")
    return DType(tuple(names))


MAX_TYPE = 4000
MAX_NAME = 80
MAX_BRACKETS = 20
SIMPLE_TYPES = {
    "int": INT,
    "bool": BOOL,
    "float": REAL,
    "Number": NUMBER,
    "str": TEXT,
    "None": NONE,
    "torch.dtype": ALL_DTYPES,
}
# Any other object: the path of its class, `dict` or `object`; brackets may say what its items are.
_OPAQUE = re.compile(r"(object|(dict|[A-Za-z_]\w*(\.[A-Za-z_]\w*)+)(\[[A-Za-z0-9_., \[\]]*\])?)", re.ASCII)
# The name of a class without its module: two words at least, or capital and small letters.
_CAMEL_CASE = re.compile(r"[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*", re.ASCII)
_MEANT = {
    "integer": "int",
    "boolean": "bool",
    "string": "str",
    "double": "float",
    "real": "float",
    "number": "Number",
    "dtype": "torch.dtype",
    "Tensor": "torch.Tensor",
    "tensor": "torch.Tensor",
    "list": "list[int]",
    "tuple": "tuple[int, ...]",
    "dim": "int",
    "seq": "list[int]",
    "shape": "list[int]",
    "Maybe": "int | None",
    "Optional": "int | None",
    "Any": "object",
    "complex": "object",
}


def parameter_kind(text: str, adts: Mapping[str, Adt] = MappingProxyType({})) -> Kind | str:
    """Returns the kind of a construction parameter from its `type`, or a string that says what is wrong.

    `int | None` is Maybe[Int]; `int | list[int] | None` a Maybe of a union; `list[int] | tuple[int, ...]` one Seq[Int];
    string literals an enum; dtype names a DType; the name of an algebraic type that type; an unknown type name an
    opaque object.
    """
    if len(text) > MAX_TYPE or text.count("[") > MAX_BRACKETS:
        return f"a type of more than {MAX_TYPE} characters or {MAX_BRACKETS} brackets"
    items: list[Kind] = []
    literals: list[str] = []
    dtypes: list[str] = []
    optional = False
    parts = _split(text)
    if len(set(parts)) != len(parts):
        return f"{shown(text)}: {shown(next(part for part in parts if parts.count(part) > 1))} is there twice"
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
    items = _joined_sequences(items)
    if literals:
        items.append(Enum(tuple(literals)))
    if dtypes:
        found = dtype_set(dtypes)
        if isinstance(found, str):
            return found
        items.append(found)
    if not items:
        return f"{shown(text)} names no type"
    if len(items) > 1 and any(isinstance(item, Adt) for item in items):
        return f"{shown(text)}: an algebraic type may be joined only with None"
    objects = [item for item in items if isinstance(item, Opaque)]
    if len(items) > 1 and objects:
        others = tuple(item for item in items if not isinstance(item, Opaque))
        name = " | ".join(part for part in parts if part != "None")
        items = [Opaque(name, others, any(one.is_bare for one in objects))]
    kind = items[0] if len(items) == 1 else Union(tuple(items))
    return Maybe(kind) if optional else kind


def _joined_sequences(items: list[Kind]) -> list[Kind]:
    """Returns the kinds with the sequences of one item kind as one, which has the length that all of them have."""
    found: dict[Kind, list[Seq]] = {}
    for kind in items:
        if isinstance(kind, Seq) and not kind.each:
            found.setdefault(kind.item, []).append(kind)
    joined: list[Kind] = []
    for kind in items:
        alike = found.get(kind.item, []) if isinstance(kind, Seq) and not kind.each else []
        if len(alike) < 2:
            joined.append(kind)
        elif kind is alike[0]:
            lengths = tuple(dict.fromkeys(one.length for one in alike if one.length is not None))
            known = all(one.length is not None for one in alike)
            length = lengths[0] if known and len(lengths) == 1 else None
            joined.append(Seq(alike[0].item, length, lengths=lengths if known and length is None else ()))
    return joined


def _one_type(text: str, adts: Mapping[str, Adt]) -> Kind | str:
    if text in SIMPLE_TYPES:
        return SIMPLE_TYPES[text]
    if text in adts:
        return adts[text]
    match = re.fullmatch(r"(list|tuple)\[(.*)\]", text)
    if match is None:
        return Opaque(text) if _OPAQUE.fullmatch(text) else _bare(text, adts)
    parts = _split(match[2], ",")
    variadic = match[1] == "tuple" and len(parts) == 2 and parts[1] == "..."
    if match[1] == "list" and len(parts) != 1:
        return f"{shown(text)}: a list has one item type"
    inner: list[Kind] = []
    for part in parts[:1] if variadic or match[1] == "list" else parts:
        kind = parameter_kind(part, adts)
        if isinstance(kind, str):
            return kind
        if isinstance(kind.given, (Adt, Opaque)):
            return f"{shown(text)}: a list or tuple cannot hold {kind}; make it a parameter of its own"
        inner.append(kind)
    if variadic or match[1] == "list":
        return Seq(inner[0])
    distinct = tuple(dict.fromkeys(inner))
    return Seq(inner[0], len(inner)) if len(distinct) == 1 else Seq(Union(distinct), len(inner), tuple(inner))


def _bare(text: str, adts: Mapping[str, Adt]) -> Kind | str:
    """Returns the kind of an object whose class is named without its module, unless the name is like a known type's."""
    if not _CAMEL_CASE.fullmatch(text) or _meant(text) or _close(text, adts):
        return unknown_type(text, adts)
    return Opaque(text, is_bare=True)


def _meant(text: str) -> str | None:
    """Returns the type that a name of other languages, or of a kind, means here, however it is capitalized."""
    return _MEANT.get(text) or _MEANT.get(text.lower())


def _close(text: str, adts: Mapping[str, Adt]) -> list[str]:
    known = [*SIMPLE_TYPES, "torch.Tensor", "list[int]", "tuple[int, ...]", *adts, *BITS]
    return difflib.get_close_matches(text[:MAX_NAME], known, 1)


def unknown_type(text: str, adts: Mapping[str, Adt]) -> str:
    meant = _meant(text)
    close = [meant] if meant else _close(text, adts)
    hint = f"; did you mean {close[0]}?" if close else "."
    return UnknownType(
        f"{shown(text)} is no type{hint} Types are {', '.join(SIMPLE_TYPES)}, torch.Tensor, 'words', list[...],"
        f" tuple[...], names of dtypes and of algebraic types ({', '.join(adts) or 'none is declared'}); any other"
        " object is written by the dotted path of its class, or as `Name | None` with `default: null`"
    )


def _split(text: str, separator: str = "|") -> list[str]:
    """Returns the parts of `text` between separators outside brackets, stripped."""
    parts, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if char == separator and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    return parts
