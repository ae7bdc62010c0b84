"""Discriminants and discriminant points: the finite facts of a call on which its types and its price depend."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

from tileops.manifest import expr, kinds
from tileops.manifest.model import Signature

MAX_POINTS = 65_536


@dataclasses.dataclass(frozen=True)
class Discriminant:
    """One finite fact of a call.

    Attributes:
      name: the parameter, tensor or dtype index.
      presence: whether the fact is `present(name)` rather than the value of `name`.
      values: the values it takes, in order.
    """

    name: str
    presence: bool
    values: tuple[Any, ...]

    @property
    def key(self) -> str:
        """How a message or comment writes it."""
        return f"present({self.name})" if self.presence else self.name


@dataclasses.dataclass(frozen=True)
class Point:
    """One assignment of discriminants, in their order."""

    assigned: tuple[tuple[Discriminant, Any], ...]

    @property
    def values(self) -> dict[str, Any]:
        """Values of parameters and dtype indices."""
        return {d.name: value for d, value in self.assigned if not d.presence}

    @property
    def present(self) -> dict[str, bool]:
        """Presence of tensors and Maybes."""
        return {d.name: value for d, value in self.assigned if d.presence}

    def __str__(self) -> str:
        return ", ".join(f"{d.key} = {value}" for d, value in self.assigned) or "every call"


class TooManyPoints(Exception):
    """The discriminants span more than MAX_POINTS points; `args[0]` is their number."""


def discriminants(signature: Signature, read_by: Iterable[expr.Expr]) -> list[Discriminant]:
    """The discriminants that decide an arm, a case or a presence in some of the expressions, in signature order.

    A Bool that is only handed to a primitive decides nothing here: the primitive takes either value.
    """
    read: set[tuple[str, bool]] = set()
    compared: set[str] = set()

    def tested(node: expr.Expr) -> None:
        """`node` stands where a truth value decides."""
        if isinstance(node, expr.Name):
            read.add((node.id, False))

    for root in read_by:
        tested(root)
        for part in expr.walk(root):
            if isinstance(part, expr.Call) and part.function == "present":
                read.add((part.args[0].id, True))
            elif isinstance(part, expr.Conditional):
                tested(part.test)
            elif isinstance(part, expr.Unary) and part.op == "not":
                tested(part.operand)
            elif isinstance(part, expr.Logic):
                for operand in part.operands:
                    tested(operand)
            elif isinstance(part, expr.Compare):
                compared.update(operand.id for operand in part.operands if isinstance(operand, expr.Name))
            elif isinstance(part, expr.FamilyTerm):
                for arg in part.args:
                    tested(arg)
    found = []
    for name, kind in (*signature.forall.items(), *((p.name, p.kind) for p in signature.params.values())):
        if ((name, False) in read or name in compared) and isinstance(kind, kinds.Bool):
            found.append(Discriminant(name, False, (False, True)))
        elif name in compared and isinstance(kind, (kinds.Enum, kinds.DType)):
            found.append(Discriminant(name, False, kind.values))
        if (name, True) in read and isinstance(kind, kinds.Maybe):
            found.append(Discriminant(name, True, (False, True)))
    for name, tensor in signature.inputs.items():
        if (name, True) in read and tensor.optional:
            found.append(Discriminant(name, True, (False, True)))
    return found


def enumerate_points(found: list[Discriminant]) -> list[Point]:
    """Every assignment, the last discriminant varying fastest. Raises TooManyPoints."""
    number = 1
    for discriminant in found:
        number *= len(discriminant.values)
    if number > MAX_POINTS:
        raise TooManyPoints(number)
    return [
        Point(tuple(zip(found, values, strict=True)))
        for values in itertools.product(*(discriminant.values for discriminant in found))
    ]


@dataclasses.dataclass(frozen=True)
class Split:
    """A decision tree over points: a branch per value of one discriminant, in order, each a Split or a leaf."""

    discriminant: Discriminant
    branches: tuple[tuple[Any, Any], ...]


def decide(decisions: list[tuple[Point, Any]]) -> Any:
    """Group points by equal decisions: the decision itself where all agree, else the smallest Split in point order."""
    first = decisions[0][1]
    if all(decision == first for _, decision in decisions):
        return first
    for position, (discriminant, _) in enumerate(decisions[0][0].assigned):
        groups: dict[Any, list[tuple[Point, Any]]] = {}
        for point, decision in decisions:
            groups.setdefault(point.assigned[position][1], []).append((point, decision))
        if len(groups) < 2:
            continue
        branches = tuple((value, decide(group)) for value, group in groups.items())
        if any(branch != branches[0][1] for _, branch in branches):
            return Split(discriminant, branches)
    raise AssertionError("points that differ in no discriminant have different decisions")
