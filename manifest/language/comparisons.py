"""Checks comparisons: a comparison that has the same result in every call is a mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileops.manifest.language import expr, kinds
from tileops.manifest.language.kinds import NONE, Bool, DType, Enum, Int, Kind, Maybe, Opaque, Real, Seq, Union
from tileops.manifest.language.text import shown

_EQUALITIES = ("==", "!=")
_MEMBERSHIPS = ("in", "not in")


def problem(node: expr.Compare, found: list[Kind], kind_of: Callable[[expr.Expr], Kind | None]) -> str:
    """Returns what is wrong with comparing operands of these kinds, or "".

    Args:
      node: the comparison.
      found: the kinds of its operands.
      kind_of: gives the kind of a part of an operand; None if that is unclear.
    """
    for position, op in enumerate(node.ops):
        sides, shapes = node.operands[position : position + 2], found[position : position + 2]
        said = _between(op, sides[0], shapes[0], sides[1], shapes[1], kind_of)
        if said:
            return said
    return _chain(node, found)


def _between(
    op: str, one: expr.Expr, left: Kind, other: expr.Expr, right: Kind, kind_of: Callable[[expr.Expr], Kind | None]
) -> str:
    never = _never_equal(op, left, other) or _never_equal(op, right, one)
    if never is not None:
        return f"{left} {op} {right}: no value of the kind equals {shown(never.value)}"
    if op in _EQUALITIES and isinstance(left, Seq) and isinstance(right, Seq) and _lengths_differ(left, right):
        return f"{left} {op} {right}: {left.length} items never equal {right.length}"
    if op in _EQUALITIES and isinstance(one, expr.Tuple) and isinstance(other, expr.Tuple):
        for first, second in zip(one.items, other.items, strict=True):
            here, there = kind_of(first), kind_of(second)
            if here is not None and there is not None and (said := _between(op, first, here, second, there, kind_of)):
                return said
    if op in _MEMBERSHIPS:
        fine = isinstance(right, Seq) and comparable(left, right.item)
    elif op in _EQUALITIES:
        fine = comparable(left, right)
    else:
        fine = all(isinstance(side, (Int, Real)) for side in (left, right))
    if not fine:
        return f"{left} {op} {right} compares values that can never be equal or ordered"
    compared = right.item if op in _MEMBERSHIPS and isinstance(right, Seq) else right
    if op in (*_EQUALITIES, *_MEMBERSHIPS) and _bool_meets_number(left, compared):
        return f"{left} {op} {right} may compare a Bool with a number; a Bool is no number here, but Python would take True for 1"
    return ""


def _lengths_differ(left: Seq, right: Seq) -> bool:
    return None not in (left.length, right.length) and left.length != right.length


def _chain(node: expr.Compare, found: list[Kind]) -> str:
    """Returns the problem if words or dtypes are compared as equal but have no value in common, else ""."""
    common: frozenset[str] | None = None
    for position, kind in enumerate(found):
        if position and node.ops[position - 1] != "==":
            common = None
        inner = kind.given
        if isinstance(inner, (Enum, DType)):  # a word by itself is an enumeration of one
            common = frozenset(inner.values) if common is None else common & frozenset(inner.values)
        if common is not None and not common:
            return f"{expr.to_source(node)}: nothing equals all of these"
    return ""


def _never_equal(op: str, kind: Kind, other: expr.Expr) -> expr.Literal | None:
    """Returns the first literal in `other` that no value of the kind can equal, or None."""
    inner = kind.given
    if op in _MEMBERSHIPS:
        literals = other.items if isinstance(other, expr.Tuple) else ()
    else:
        literals = (other,) if op in _EQUALITIES else ()
    for literal in literals:
        if not isinstance(literal, expr.Literal):
            continue
        value = literal.value
        if isinstance(inner, (Enum, DType)) and isinstance(value, str) and value not in inner.values:
            return literal
        if isinstance(inner, Union) and isinstance(value, str) and not comparable(inner, Enum((value,))):
            return literal
        if isinstance(inner, Int) and isinstance(value, float) and not value.is_integer():
            return literal
    return None


def comparable(left: Kind, right: Kind) -> bool:
    """Returns whether some value of one kind may equal some value of the other kind."""
    if isinstance(left, Maybe) or isinstance(right, Maybe):
        return NONE in (left, right) or comparable(left.given, right.given)
    if isinstance(left, Union) or isinstance(right, Union):
        return any(comparable(one, other) for one in left.options for other in right.options)
    names = (Enum, DType)
    if isinstance(left, names) and isinstance(right, names):
        return bool(set(left.values) & set(right.values))
    if isinstance(left, Seq) and isinstance(right, Seq):
        return comparable(left.item, right.item)
    numbers = (Int, Real)
    if isinstance(left, numbers) and isinstance(right, numbers):
        return True
    if isinstance(left, (kinds.Text, Enum)) and isinstance(right, (kinds.Text, Enum)):
        return True
    return type(left) is type(right) and not isinstance(left, Opaque) and isinstance(left, (Bool, kinds.Text))


def may_equal(value: Any, kind: Kind) -> bool:
    """Returns whether some value of a kind, which is no Maybe and no union, may equal a literal."""
    if isinstance(value, bool):
        return isinstance(kind, Bool)
    if isinstance(value, (int, float)):
        return isinstance(kind, Real) or isinstance(kind, Int) and (isinstance(value, int) or value.is_integer())
    return isinstance(value, str) and isinstance(kind, kinds.Text)


def _bool_meets_number(left: Kind, right: Kind) -> bool:
    lefts, rights = _scalars(left), _scalars(right)
    return any(
        any(isinstance(kind, Bool) for kind in ones) and any(isinstance(kind, (Int, Real)) for kind in others)
        for ones, others in ((lefts, rights), (rights, lefts))
    )


def _scalars(kind: Kind) -> list[Kind]:
    """Returns the kinds that a value, or an item of the value, can have."""
    if isinstance(kind, (Maybe, Seq)):
        return _scalars(kind.item)
    return [found for item in kind.items for found in _scalars(item)] if isinstance(kind, Union) else [kind]
