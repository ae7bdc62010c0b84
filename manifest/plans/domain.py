"""Enumerates the discriminant points of some terms, without the points that the entry's restrictions reject.

Discriminants that no restriction relates are enumerated separately, and combined only if one term reads both. A
restriction counts even if it reads discriminants that the terms do not read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

from tileops.manifest.language import effort, expr
from tileops.manifest.language.adt import AdtValue, same
from tileops.manifest.language.evaluate import UnknownNameError, evaluate
from tileops.manifest.model import Signature
from tileops.manifest.plans.points import (
    MAX_POINTS,
    Discriminant,
    Point,
    TooManyPointsError,
    check_number,
    discriminants,
    domain_restrictions,
)

# Steps that each value of each point adds to the effort of an entry: more points are more work, and there are at most
# MAX_POINTS.
STEPS_A_VALUE = 8


class Domain:
    """The points that one signature accepts."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._rules = [(rule, frozenset(expr.names(rule))) for rule in domain_restrictions(signature)]
        self._known: dict[tuple[Discriminant, ...], list[Point]] = {}
        self._accepted_values: dict[tuple[Discriminant, ...], list[tuple[Any, ...]]] = {}

    def points(self, terms: Iterable[expr.Expr]) -> list[Point]:
        """Returns the points of the terms' discriminants, in signature order, the last discriminant varying fastest.

        Empty where the restrictions reject every call. Raises TooManyPointsError.
        """
        found = tuple(discriminants(self._signature, terms))
        if found not in self._known:
            self._known[found] = self._enumerated(found)
        return self._known[found]

    def restricted(self) -> frozenset[str]:
        """Returns the names on which some restriction depends."""
        return frozenset().union(*(names for _, names in self._rules))

    def _enumerated(self, found: tuple[Discriminant, ...]) -> list[Point]:
        columns = [self._accepted(members, rules) for members, rules in self._related(found)]
        number = math.prod(len(rows) for _, rows in columns)
        if number > MAX_POINTS:
            raise TooManyPointsError(number)
        effort.current().allow(STEPS_A_VALUE * number * len(found))
        order = [discriminant for members, _ in columns for discriminant in members]
        places = [order.index(discriminant) for discriminant in found]
        rank = [{value: at for at, value in enumerate(discriminant.values)} for discriminant in found]
        assigned = []
        for combination in itertools.product(*(rows for _, rows in columns)):
            flat = [value for row in combination for value in row]
            assigned.append(tuple(flat[place] for place in places))
        assigned.sort(key=lambda values: [rank[at][value] for at, value in enumerate(values)])
        shared: dict[Any, Any] = {}
        return [Point(tuple(zip(found, values, strict=True)), shared) for values in assigned]

    def _related(self, found: tuple[Discriminant, ...]) -> list[tuple[list[Discriminant], list[expr.Expr]]]:
        """Returns the discriminants in groups that restrictions relate, each with its restrictions."""
        groups, waiting = [], list(found)
        while waiting:
            names, rules, rest = {waiting[0].name}, [], list(self._rules)
            while touching := [rule for rule in rest if rule[1] & names]:
                rest = [rule for rule in rest if rule not in touching]
                rules += [rule for rule, _ in touching]
                names.update(*(read for _, read in touching))
            groups.append(([one for one in waiting if one.name in names], rules))
            waiting = [one for one in waiting if one.name not in names]
        return groups

    def _accepted(
        self, members: list[Discriminant], rules: list[expr.Expr]
    ) -> tuple[list[Discriminant], list[tuple[Any, ...]]]:
        """Returns the members and the values that some call has for them."""
        if not rules:
            return members, list(_product(members))
        wide = discriminants(self._signature, rules)
        wide += [one for one in members if one.name not in {other.name for other in wide}]
        by_name = {one.name: at for at, one in enumerate(wide)}
        if tuple(wide) not in self._accepted_values:
            self._accepted_values[tuple(wide)] = _restricted(wide, rules)
        accepted = self._accepted_values[tuple(wide)]
        kept = dict.fromkeys(tuple(values[by_name[one.name]] for one in members) for values in accepted)
        narrow: dict[tuple[Any, ...], None] = {}
        for values in kept:
            sources = [wide[by_name[one.name]] for one in members]
            choices = [_seen(value, source, one) for value, source, one in zip(values, sources, members, strict=True)]
            narrow |= dict.fromkeys(itertools.product(*choices))
        return members, list(narrow)


def _product(found: list[Discriminant]) -> Iterable[tuple[Any, ...]]:
    _allow(found)
    return itertools.product(*(discriminant.values for discriminant in found))


def _restricted(found: list[Discriminant], rules: list[expr.Expr]) -> list[tuple[Any, ...]]:
    """Returns the assignments that no rule rejects. Each rule is applied as soon as all that it reads is assigned."""
    _allow(found)
    read = [
        [at for at, one in enumerate(found) if one.name in names] for names in (set(expr.names(rule)) for rule in rules)
    ]
    rows: list[tuple[Any, ...]] = [()]
    for depth, discriminant in enumerate(found):
        rows = [(*row, value) for row in rows for value in discriminant.values]
        for rule, places in zip(rules, read, strict=True):
            if places and places[-1] == depth:
                held: dict[tuple[Any, ...], bool] = {}
                for row in rows:
                    key = tuple([row[at] for at in places])
                    if key not in held:
                        held[key] = _holds(rule, Point(tuple((found[at], row[at]) for at in places)))
                rows = [row for row in rows if held[tuple([row[at] for at in places])]]
    return rows


def _allow(found: list[Discriminant]) -> None:
    """Adds the effort that the points may cost. Raises TooManyPointsError."""
    effort.current().allow(STEPS_A_VALUE * check_number(found) * len(found))


def _holds(rule: expr.Expr, point: Point) -> bool:
    """Returns whether a restriction accepts a point. A restriction without a value there accepts it."""
    try:
        return bool(evaluate(rule, point.values, point.present))
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, UnknownNameError):
        return True


def _seen(value: Any, source: Discriminant, wanted: Discriminant) -> list[Any]:
    """Returns the values of `wanted` that fit a value of the discriminant of the same name in a restriction."""
    if source == wanted:
        return [value]
    if wanted.presence:
        return [value if source.presence else value is not None]
    if source.presence:
        return [one for one in wanted.values if (one is not None) == value]
    if isinstance(value, AdtValue):
        return [one for one in wanted.values if same(value, one)]
    return [value]
