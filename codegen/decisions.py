"""Decides a formula at its points: one tree if the points are few, else one tree per independent addend.

Addends without a common discriminant are decided separately, so that seventeen flags make seventeen small trees and
not one of 131,072 leaves. Points whose folded sums are equal share a branch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping

from tileops.manifest.language import expr
from tileops.manifest.language.invariants import expect
from tileops.manifest.model import Signature
from tileops.manifest.plans.domain import Domain
from tileops.manifest.plans.points import Point, discriminants
from tileops.manifest.plans.sums import related
from tileops.manifest.plans.trees import MAX_LEAVES, TooManyBranchesError, Tree, decide

MAX_BRANCHES = 16  # of a formula that is decided as a whole: more are hard to read in generated code


@dataclasses.dataclass(frozen=True)
class Part:
    """Addends that share discriminants: their sum, and its folded form at each of their points."""

    node: expr.Expr
    decisions: tuple[tuple[Point, expr.Expr], ...]

    @property
    def tree(self) -> Tree[expr.Expr]:
        """Returns the folded sum at each point. Raises TooManyBranchesError."""
        return decide(self.decisions)


def parts(signature: Signature, domain: Domain, node: expr.Expr, guards: Mapping[str, expr.Expr]) -> list[Part]:
    """Returns the independent parts of a formula: one if it has few points, none if the entry accepts no call.

    Args:
      signature: the entry's.
      domain: its points.
      node: the formula.
      guards: the presence conditions of the tensors whose bytes it reads, by tensor.

    Raises:
      TooManyPointsError: the discriminants of one part span too many.
      TooManyBranchesError: one part folds to too many forms.
    """
    groups = related(node, lambda part: _names(signature, part, guards))
    number = math.prod(len(one.values) for one in discriminants(signature, [node, *guards.values()]))
    sums = [node] if number <= MAX_BRANCHES or len(groups) == 1 else groups
    made = []
    for part in sums:
        points = domain.points([part, *(guards[name] for name in bytes_read(part) if name in guards)])
        if not points:
            return []
        made.append(Part(part, tuple(_folded(part, points))))
    return made


def _folded(part: expr.Expr, points: list[Point]) -> Iterator[tuple[Point, expr.Expr]]:
    """Yields the folded form at each point. Raises TooManyBranchesError as soon as more forms differ than may."""
    forms: set[expr.Expr] = set()
    for point in points:
        form = point.fold(part)
        forms.add(form)
        if len(forms) > MAX_LEAVES:
            raise TooManyBranchesError.at(point)
        yield point, form


def _names(signature: Signature, part: expr.Expr, guards: Mapping[str, expr.Expr]) -> frozenset[str]:
    """Returns the names of the discriminants that decide an addend."""
    read = [guards[name] for name in bytes_read(part) if name in guards]
    return frozenset(one.name for one in discriminants(signature, [part, *read]))


def bytes_read(node: expr.Expr) -> list[str]:
    """Returns the tensors whose bytes an expression reads, each once."""
    calls = (part for part in expr.walk(node) if isinstance(part, expr.Call) and part.function == "bytes")
    return list(dict.fromkeys(expect(call.args[0], expr.Name).id for call in calls))
