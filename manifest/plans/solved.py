"""The indices that every call of an entry solves, and those that only some branches solve."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from tileops.manifest.language import expr
from tileops.manifest.language.adt import AdtValue, same
from tileops.manifest.plans.domain import Domain
from tileops.manifest.plans.points import Discriminant, Point


@dataclasses.dataclass(frozen=True)
class Solved:
    """Indices and lets that calls solve.

    Attributes:
      known: those that every call solves.
      partly: of each part of the plan, the other ones that each of its points solves; parts without any left out.
    """

    known: frozenset[str]
    partly: tuple[tuple[tuple[Point, frozenset[str]], ...], ...]

    @property
    def sometimes(self) -> frozenset[str]:
        """Returns the names that some calls solve and others do not."""
        return frozenset(name for part in self.partly for _, names in part for name in names)


def missing(
    domain: Domain,
    solved: Solved,
    terms: Sequence[expr.Expr],
    names: AbstractSet[str],
    read: Callable[[Point], set[str]],
) -> Iterator[tuple[set[str], Point, set[str]]]:
    """Yields (indices read, point, unsolved indices among them) for some terms, at each of their points.

    Args:
      domain: the points that the entry accepts.
      solved: what its calls solve.
      terms: the expressions whose discriminants make the points.
      names: all names that are read at some point.
      read: the indices that are read at a point.

    Raises:
      TooManyPointsError: the terms and the plan together have too many points.
    """
    also = [
        _reading(one)
        for part in solved.partly
        if any(found & names for _, found in part)
        for one, _ in part[0][0].assigned
    ]
    for point in domain.points([*terms, *also]):
        found = read(point)
        here = set(solved.known).union(
            *(known for part in solved.partly for other, known in part if _agree(other, point))
        )
        yield found, point, found - here


def _reading(one: Discriminant) -> expr.Expr:
    """Returns a term that reads a discriminant, so that points are enumerated over the discriminant."""
    name = expr.Name(one.name)
    if one.presence:
        return expr.Call("present", (name,))
    if isinstance(one.values[0], AdtValue):
        fields = dict.fromkeys(field for value in one.values if value is not None for field, _ in value.fields)
        return expr.Tuple(tuple(expr.Field(one.name, field) for field in ("kind", *fields)))
    return expr.Compare(("==",), (name, expr.Literal(one.values[0])))


def _agree(first: Point, second: Point) -> bool:
    """Returns whether two points give the same values to the discriminants that they share."""
    return all(
        second.present.get(one.name, value) == value
        if one.presence
        else same(second.values.get(one.name, value), value)
        for one, value in first.assigned
    )
