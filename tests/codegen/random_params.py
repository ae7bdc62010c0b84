"""Random construction parameters of every kind, with values for each call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tileops.tests.codegen import random_scope as sorts
from tileops.tests.codegen.random_draw import Draw
from tileops.tests.codegen.random_types import ALGEBRAIC, CLASSES

DTYPES = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
)
MOST_POINTS = 24  # that the parameters of one entry span: a branch of the emitted code is cheap, hundreds are not
WORDS = ("mean", "sum", "nchw", "row major", "a-b", "None ", "x1", "True", "é")


@dataclasses.dataclass(frozen=True)
class Param:
    """A parameter.

    Attributes:
      type: as the entry declares it.
      make: draws a value of it.
      wrong: a value that its type does not take; Param.ANY where it takes everything.
      default: its default where `defaulted`.
    """

    ANY = object()

    name: str
    type: str
    sort: sorts.Sort
    make: Callable[[Draw], Any]
    wrong: Any
    defaulted: bool
    default: Any
    kw_only: bool


def _ints(draw: Draw) -> int:
    return draw.integer(-2, 6)


def _list(draw: Draw, most: int = 3) -> tuple[int, ...]:
    return tuple(draw.integer(0, 3) for _ in range(draw.integer(0, most)))


def _few(draw: Draw, most: int, least: int = 1) -> tuple[int, ...]:
    return tuple(draw.integer(0, 3) for _ in range(draw.integer(least, most)))


def _items(draw: Draw) -> tuple[int | None, ...]:
    return tuple(None if draw.chance(30) else draw.integer(0, 4) for _ in range(draw.integer(1, 3)))


def _algebraic(sort: sorts.Algebraic) -> Callable[[Draw], Any]:
    def field(draw: Draw, one: sorts.Sort) -> Any:
        if isinstance(one, sorts.Word):
            return draw.choice(one.values)
        return draw.chance(50) if isinstance(one, sorts.Flag) else draw.integer(1, 4)

    def make(draw: Draw) -> Any:
        constructor = draw.choice(list(sort.constructors))
        return CLASSES[constructor](**{name: field(draw, one) for name, one in sort.constructors[constructor].items()})

    return make


def _kinds(draw: Draw) -> tuple[str, sorts.Sort, Callable[[Draw], Any], Any]:
    """(type, sort, make, wrong) of a drawn kind."""
    form = draw.weighted(
        {
            "int": 6,
            "bool": 7,
            "enum": 6,
            "list": 3,
            "tuple": 2,
            "pair": 2,
            "flags": 1,
            "axes": 2,
            "float": 2,
            "number": 2,
            "joined": 2,
            "items": 2,
            "word or": 3,
            "str": 1,
            "opaque": 1,
            "dtype": 2,
            "adt": 4,
            "any dtype": 1,
        }
    )
    draw.use(f"parameter {form}")
    if form == "int":
        return "int", sorts.Integer(), _ints, "1"
    if form == "bool":
        return "bool", sorts.Flag(), lambda d: d.chance(50), 1
    if form == "enum":
        words = tuple(draw.some(WORDS, 2, 3))
        return " | ".join(f"'{word}'" for word in words), sorts.Word(words), lambda d: d.choice(words), "no such word"
    if form == "list":
        return "list[int]", sorts.Sequence(), _list, (1, "2")
    if form == "tuple":
        return "tuple[int, ...]", sorts.Sequence(), _list, 3
    if form == "pair":
        return "tuple[int, int]", sorts.Sequence(length=2), lambda d: (d.integer(0, 4), d.integer(0, 4)), (1, 2, 3)
    if form == "flags":
        return "list[bool]", sorts.Flags(), lambda d: tuple(d.chance(50) for _ in range(d.integer(1, 3))), (1, 0)
    if form == "axes":
        return "int | list[int]", sorts.Axes(), lambda d: d.integer(-1, 1) if d.chance(50) else _list(d, 2), 1.5
    if form == "float":
        return "float", sorts.Number(), lambda d: d.choice((0.0, 0.5, 1, -1.5)), draw.choice(("0.5", True))
    if form == "number":
        return "Number", sorts.Number(bools=True), lambda d: d.choice((0.0, 0.5, 1, -1.5, True, False)), "0.5"
    if form == "joined":
        if draw.chance(50):
            return "list[int] | tuple[int, ...]", sorts.Sequence(), _list, (1, True)
        return "tuple[int] | tuple[int, int]", sorts.Sequence(), lambda d: _few(d, 2), (1, 2, 3)
    if form == "items":
        return "list[int | None]", sorts.Items(), _items, (1, "2")
    if form == "word or":
        words = tuple(draw.some(WORDS, 1, 2))
        text, item, make = draw.choice(
            (("int", sorts.Integer(), _ints), ("tuple[int, int]", sorts.Sequence(length=2), lambda d: _few(d, 2, 2)))
        )
        parts = draw.shuffled([*(f"'{word}'" for word in words), text])
        either = sorts.WordOr(words, item)
        return " | ".join(parts), either, lambda d: d.choice(words) if d.chance(40) else make(d), "no such word"
    if form == "str":
        return "str", sorts.Text(), lambda d: d.choice(("a", "long text", "#: é")), 3
    if form == "opaque":
        text, written = draw.choice(
            (
                ("torch.Generator | None", (None,)),
                ("RoutingSpec | None", (None,)),
                ("torch.Generator | int | None", (None, 3)),
                ("torch.Generator | 'a' | list[int]", ("a", (1, 2))),
            )
        )
        return text, sorts.Opaque(), lambda d: d.choice(written), Param.ANY
    if form == "any dtype":
        return "torch.dtype", sorts.DTypeName(DTYPES), lambda d: d.choice(DTYPES), "float7"
    if form == "dtype":
        names = tuple(draw.some([one for one in DTYPES if one != "bool"], 2, 3))
        return " | ".join(names), sorts.DTypeName(names), lambda d: d.choice(names), "complex128"
    sort = draw.choice(ALGEBRAIC)
    return sort.type, sort, _algebraic(sort), "Nopad"


DEVICE = "device"  # of an entry without inputs: where a call is


def params(draw: Draw, names: Callable[[str], str]) -> list[Param]:
    """Up to five parameters, those with defaults after those without, keywords anywhere behind."""
    found, points = [], 1
    for _ in range(draw.weighted({0: 1, 1: 3, 2: 4, 3: 4, 4: 2, 5: 1})):
        text, sort, make, wrong = _kinds(draw)
        maybe = isinstance(sort, sorts.Opaque)
        apart = (sorts.Text, sorts.Flags, sorts.Items, sorts.WordOr)
        if not maybe and not isinstance(sort, apart) and text != "torch.dtype" and draw.chance(25):
            draw.use("parameter Maybe")
            text, sort, make = f"{text} | None", sorts.Maybe(sort), _maybe(make)
        defaulted = maybe or draw.chance(55)
        default = make(draw) if defaulted else None
        if points * finite_size(sort) > MOST_POINTS:
            continue
        points *= finite_size(sort)
        found.append(Param(names("p"), text, sort, make, wrong, defaulted, default, draw.chance(25)))
    positional = [param for param in found if not param.kw_only]
    ordered = [p for p in positional if not p.defaulted] + [p for p in positional if p.defaulted]
    keywords = [param for param in found if param.kw_only]
    if any(param.kw_only for param in found):
        draw.use("keyword parameter")
    return ordered + keywords


def _maybe(make: Callable[[Draw], Any]) -> Callable[[Draw], Any]:
    return lambda draw: None if draw.chance(40) else make(draw)


def finite_size(sort: sorts.Sort) -> int:
    """How many points a parameter spans where its value decides something."""
    if isinstance(sort, sorts.Maybe):
        return finite_size(sort.item) + 1
    if isinstance(sort, (sorts.Word, sorts.DTypeName)):
        return len(sort.values)
    if isinstance(sort, sorts.Algebraic):
        return len(sort.constructors) + 1
    return 2 if isinstance(sort, sorts.Flag) else 1
