"""The syntax tree of the closed expression language: what it is made of, how it is walked, and how it is written."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

from tileops.manifest.language import effort

# A formula that a person can review is far smaller; the bounds keep hostile ones cheap to refuse.
MAX_TERMS = 1_000
MAX_DEPTH = 60


@dataclasses.dataclass(frozen=True)
class Expr:
    """Base of all expressions; equality is structural."""

    @functools.cached_property
    def parts(self) -> tuple[Expr, ...]:
        """Returns the direct sub-expressions, in reading order."""
        found: list[Expr] = []
        for name in _members(type(self)):  # type: ignore[arg-type]  # mypy takes a class of hashables for unhashable
            part = getattr(self, name)
            if isinstance(part, Expr):
                found.append(part)
            elif isinstance(part, tuple):
                found += [item for item in part if isinstance(item, Expr)]
        return tuple(found)

    @functools.cached_property
    def free_names(self) -> tuple[str, ...]:
        """Returns the names that the expression reads, each once, in reading order, without comprehension variables."""
        if isinstance(self, Name):
            return (self.id,)
        own = (self.name,) if isinstance(self, (Value, Field)) else ()
        if isinstance(self, Comprehension):
            bound = (self.element, *(() if self.condition is None else (self.condition,)))
            inner = [name for part in bound for name in part.free_names if name != self.variable]
            return tuple(dict.fromkeys((*self.sequence.free_names, *inner)))
        return tuple(dict.fromkeys((*own, *(name for part in self.parts for name in part.free_names))))


@dataclasses.dataclass(frozen=True)
class Literal(Expr):
    """An int, finite float, bool, None, str, or the float infinity (written `inf`)."""

    value: Any

    def __eq__(self, other: object) -> bool:  # 1, 1.0 and True are three different literals
        return isinstance(other, Literal) and (type(self.value), self.value) == (type(other.value), other.value)

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclasses.dataclass(frozen=True)
class Name(Expr):
    """An index, parameter, `let`, comprehension variable, tensor (inside present and bytes) or dtype."""

    id: str


@dataclasses.dataclass(frozen=True)
class Value(Expr):
    """`x.value`: the contents of a Maybe that is known to be present."""

    name: str


@dataclasses.dataclass(frozen=True)
class Field(Expr):
    """`layout.block` or `layout.kind`: a field of an algebraic value, or the name of its constructor.

    Attributes:
      unwrapped: it was written `layout.value.block`, so that `layout` may be None; only checks of kinds read this.
    """

    name: str
    field: str
    unwrapped: bool = dataclasses.field(default=False, compare=False)


@dataclasses.dataclass(frozen=True)
class Unary(Expr):
    """`-a`, `+a` or `not a`."""

    op: str
    operand: Expr


@dataclasses.dataclass(frozen=True)
class Binary(Expr):
    """`a + b`, `a - b`, `a * b`, `a // b` or `a % b`."""

    op: str
    left: Expr
    right: Expr


@dataclasses.dataclass(frozen=True)
class Compare(Expr):
    """`a < b <= c`: operators between consecutive operands."""

    ops: tuple[str, ...]
    operands: tuple[Expr, ...]


@dataclasses.dataclass(frozen=True)
class Logic(Expr):
    """`a and b and c`, or the same with `or`."""

    op: str
    operands: tuple[Expr, ...]


@dataclasses.dataclass(frozen=True)
class Conditional(Expr):
    """`then if test else otherwise`."""

    test: Expr
    then: Expr
    otherwise: Expr


@dataclasses.dataclass(frozen=True)
class Subscript(Expr):
    """`sequence[index]`."""

    sequence: Expr
    index: Expr


@dataclasses.dataclass(frozen=True)
class Slice(Expr):
    """`sequence[start:stop]`; either bound may be absent."""

    sequence: Expr
    start: Expr | None
    stop: Expr | None


@dataclasses.dataclass(frozen=True)
class Tuple(Expr):
    """`(a, b)`."""

    items: tuple[Expr, ...]


@dataclasses.dataclass(frozen=True)
class Call(Expr):
    """A call of a built-in primitive, `present(x)` or `bytes(t)`."""

    function: str
    args: tuple[Expr, ...]


@dataclasses.dataclass(frozen=True)
class Comprehension(Expr):
    """`element for variable in sequence if condition`: only as the argument of all, sum, max or min."""

    element: Expr
    variable: str
    sequence: Expr
    condition: Expr | None


@dataclasses.dataclass(frozen=True)
class Splice(Expr):
    """`*S` among the axes of a shape."""

    sequence: Expr


@dataclasses.dataclass(frozen=True)
class ShapeTerm(Expr):
    """`[axis, *S, axis]`."""

    axes: tuple[Expr, ...]


@dataclasses.dataclass(frozen=True)
class FamilyTerm(Expr):
    """`Mat[trans_a, M, K]`: one application of a type family."""

    family: str
    args: tuple[Expr, ...]


@dataclasses.dataclass(frozen=True)
class Verbatim(Expr):
    """Python text that emission puts in the place of a form that Python lacks; no parser makes one."""

    text: str
    level: int


def children(node: Expr) -> tuple[Expr, ...]:
    """Returns the direct sub-expressions, in reading order."""
    return node.parts


@functools.cache
def _members(form: type[Expr]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(form))


def rebuild(node: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Returns the form with `change` applied to each direct sub-expression; the node itself if nothing changes."""
    if not node.parts:
        return node
    fields, changed = {}, False
    for name in _members(type(node)):  # type: ignore[arg-type]  # as above
        part = getattr(node, name)
        made = part
        if isinstance(part, Expr):
            made = change(part)
            changed |= made is not part
        elif isinstance(part, tuple):
            made = tuple([change(item) if isinstance(item, Expr) else item for item in part])
            changed |= any(new is not old for new, old in zip(made, part, strict=True))
        fields[name] = made
    return type(node)(**fields) if changed else node


# An expression with others worked into it, as presence conditions and the arguments of type families are.
MAX_WORKED_TERMS, MAX_WORKED_DEPTH = 4 * MAX_TERMS, 2 * MAX_DEPTH


def substitute(node: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Returns `node` with each part replaced for which `change` returns another.

    Raises effort.ExhaustedError where what comes out is larger than an expression may be.
    """
    made: dict[int, Expr] = {}

    def of(part: Expr) -> Expr:
        if id(part) not in made:
            effort.spend()
            other = change(part)
            made[id(part)] = rebuild(part, of) if other is None else other
        return made[id(part)]

    result = of(node)
    terms, depth = (0, 0) if result is node else measure(result)
    if terms > MAX_WORKED_TERMS or depth > MAX_WORKED_DEPTH:
        raise effort.ExhaustedError(
            f"has, with the expressions that it refers to, more than {MAX_WORKED_TERMS} terms or {MAX_WORKED_DEPTH} levels"
        )
    return result


def walk(node: Expr) -> Iterator[Expr]:
    """Yields the expression and all its parts."""
    yield node
    for child in children(node):
        yield from walk(child)


def names(node: Expr) -> list[str]:
    """Returns the names read, each once, in reading order, without comprehension variables."""
    return list(node.free_names)


def measure(node: Expr) -> tuple[int, int]:
    """Returns (terms, depth) of the expression written out. A part that appears in several places counts at each.

    Substitution shares parts, so that few objects may be very many terms.
    """
    found: dict[int, tuple[int, int]] = {}

    def of(part: Expr) -> tuple[int, int]:
        if id(part) not in found:
            inner = [of(child) for child in children(part)]
            found[id(part)] = 1 + sum(terms for terms, _ in inner), 1 + max((depth for _, depth in inner), default=0)
        return found[id(part)]

    return of(node)


ATOM, SUM, COMPARISON = 9, 5, 4
# Python's precedence, loosest first; a child looser than its place is put in parentheses.
_LEVEL = {
    "if": 0,
    "or": 1,
    "and": 2,
    "not": 3,
    "compare": COMPARISON,
    "+": SUM,
    "-": SUM,
    "*": 6,
    "//": 6,
    "%": 6,
    "unary": 7,
    "atom": ATOM,
}


def to_source(node: Expr, level: int = 0) -> str:
    """Returns the expression as text of the language (also plain Python), with only the parentheses it needs.

    Args:
      node: the expression.
      level: precedence of the place of the text; a looser expression is put in parentheses.
    """
    text, own = _source(node)
    return text if own >= level else f"({text})"


def _source(node: Expr) -> tuple[str, int]:
    def place(child: Expr, level: int) -> str:
        text, own = _source(child)
        return text if own >= level else f"({text})"

    if isinstance(node, Literal):
        return ("inf" if node.value == math.inf and isinstance(node.value, float) else _literal(node.value)), _LEVEL[
            "atom"
        ]
    if isinstance(node, Name):
        return node.id, _LEVEL["atom"]
    if isinstance(node, Value):
        return f"{node.name}.value", _LEVEL["atom"]
    if isinstance(node, Field):
        return f"{node.name}.{node.field}", _LEVEL["atom"]
    if isinstance(node, Verbatim):
        return node.text, node.level
    if isinstance(node, Unary):
        level = _LEVEL["not" if node.op == "not" else "unary"]
        return f"{node.op}{' ' if node.op == 'not' else ''}{place(node.operand, level)}", level
    if isinstance(node, Binary):
        level = _LEVEL[node.op]
        return f"{place(node.left, level)} {node.op} {place(node.right, level + 1)}", level
    if isinstance(node, Compare):
        level = _LEVEL["compare"]
        text = place(node.operands[0], level + 1)
        for op, operand in zip(node.ops, node.operands[1:], strict=True):
            text += f" {op} {place(operand, level + 1)}"
        return text, level
    if isinstance(node, Logic):
        level = _LEVEL[node.op]
        return f" {node.op} ".join(place(operand, level + 1) for operand in node.operands), level
    if isinstance(node, Conditional):
        return f"{place(node.then, 1)} if {place(node.test, 1)} else {place(node.otherwise, 0)}", _LEVEL["if"]
    if isinstance(node, Subscript):
        return f"{place(node.sequence, 9)}[{to_source(node.index)}]", _LEVEL["atom"]
    if isinstance(node, Slice):
        start, stop = ("" if part is None else to_source(part) for part in (node.start, node.stop))
        return f"{place(node.sequence, 9)}[{start}:{stop}]", _LEVEL["atom"]
    if isinstance(node, Tuple):
        inner = ", ".join(to_source(item) for item in node.items)
        return f"({inner}{',' if len(node.items) == 1 else ''})", _LEVEL["atom"]
    if isinstance(node, Call):
        alone = len(node.args) == 1
        texts = (
            to_source(arg) if alone or not isinstance(arg, Comprehension) else f"({to_source(arg)})"
            for arg in node.args
        )
        return f"{node.function}({', '.join(texts)})", _LEVEL["atom"]
    if isinstance(node, Comprehension):
        condition = "" if node.condition is None else f" if {place(node.condition, 1)}"
        return f"{to_source(node.element)} for {node.variable} in {place(node.sequence, 1)}{condition}", 0
    if isinstance(node, Splice):
        return f"*{place(node.sequence, 9)}", _LEVEL["atom"]
    if isinstance(node, ShapeTerm):
        return f"[{', '.join(to_source(axis) for axis in node.axes)}]", _LEVEL["atom"]
    if isinstance(node, FamilyTerm):
        return f"{node.family}[{', '.join(to_source(arg) for arg in node.args)}]", _LEVEL["atom"]
    raise TypeError(f"no source form for {type(node).__name__}")


def _literal(value: Any) -> str:
    return (
        f'"{value}"'
        if isinstance(value, str) and '"' not in value and "\\" not in value and value.isprintable()
        else repr(value)
    )
