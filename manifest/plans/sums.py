"""Splits sums into groups of addends that share names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tileops.manifest.language import expr

T = TypeVar("T")


def grouped(items: Iterable[tuple[frozenset[str], T]]) -> list[tuple[frozenset[str], list[T]]]:
    """Returns items in groups that share names, directly or through others. Items without names are one group.

    Args:
      items: the names of each item, and the item.
    """
    groups: list[tuple[frozenset[str], list[T]]] = []
    for names, item in items:
        mine = [group for group in groups if group[0] & names or not (group[0] or names)]
        groups = [group for group in groups if group not in mine]
        groups.append((names.union(*(group[0] for group in mine)), [*(one for _, own in mine for one in own), item]))
    return groups


def related(node: expr.Expr, names: Callable[[expr.Expr], frozenset[str]]) -> list[expr.Expr]:
    """Returns a sum for each group of addends that share names. Addends without names are the first group.

    Args:
      node: any expression; one that is no sum is its only addend.
      names: the names by which an addend is related to others.
    """
    numbered = enumerate(_addends(node, False))
    groups = grouped((names(addend), (at, negative, addend)) for at, (negative, addend) in numbered)
    made = [(read, sorted(addends, key=lambda one: one[0])) for read, addends in groups]
    made.sort(key=lambda group: (bool(group[0]), group[1][0][0]))
    return [_sum(addends) for _, addends in made]


def strict_parts(node: expr.Expr) -> Iterator[expr.Expr]:
    """Yields the parts that are always evaluated, and that together decide whether the whole has a value."""
    total = isinstance(node, expr.Binary) and node.op in "+-*"
    if total or isinstance(node, (expr.ShapeTerm, expr.Tuple, expr.Splice)):
        for part in expr.children(node):
            yield from strict_parts(part)
    else:
        yield node


def _sum(addends: list[tuple[int, bool, expr.Expr]]) -> expr.Expr:
    (_, negative, total), *rest = addends
    if negative:
        total = expr.Binary("-", expr.Literal(0), total)
    for _, negative, addend in rest:
        total = expr.Binary("-" if negative else "+", total, addend)
    return total


def _addends(node: expr.Expr, negative: bool) -> Iterator[tuple[bool, expr.Expr]]:
    if isinstance(node, expr.Binary) and node.op in "+-":
        yield from _addends(node.left, negative)
        yield from _addends(node.right, negative != (node.op == "-"))
    else:
        yield negative, node
