"""Shapes at a discriminant point: type families applied, everything that the point decides folded away."""

from __future__ import annotations

import dataclasses
from typing import Any

from tileops.manifest.language import expr
from tileops.manifest.language.adt import AdtValue
from tileops.manifest.language.evaluate import fold
from tileops.manifest.language.invariants import expect
from tileops.manifest.model import FamilyCase, Pattern, Signature, Tensor, TypeFamily
from tileops.manifest.plans.points import Point


class NoCaseError(Exception):
    """The family `family` has no case, or several, for what a point hands it; the message says which."""

    def __init__(self, family: str, message: str) -> None:
        super().__init__(message)
        self.family = family


def shape_at(signature: Signature, tensor: Tensor, point: Point) -> expr.ShapeTerm:
    """The axes of `tensor` at `point`; a family's discriminants must be among the point's. Raises NoCaseError."""
    return point.once("shape", tensor.shape.expr, lambda: _applied(signature, tensor, point))


def _applied(signature: Signature, tensor: Tensor, point: Point) -> expr.ShapeTerm:
    term = tensor.shape.expr
    while isinstance(term, expr.FamilyTerm):
        family = signature.families[term.family]
        args = dict(zip(family.params, (point.fold(arg) for arg in term.args), strict=True))
        term = substitute(_case(family, args, point).shape, args)
    shape = point.fold(term) if term is tensor.shape.expr else fold(term, point.values, point.present)
    return expect(shape, expr.ShapeTerm)


def _case(family: TypeFamily, args: dict[str, expr.Expr], point: Point) -> FamilyCase:
    given = [_given(args[name], point) for name in family.match]
    found = [case for case in family.cases if all(map(matches, case.patterns, given))]
    if len(found) == 1:
        return found[0]
    shown = ", ".join(f"{name} = {value}" for name, value in zip(family.match, given, strict=True))
    raise NoCaseError(family.name, f"{family.name} has {'no case' if not found else f'{len(found)} cases'} for {shown}")


def _given(arg: expr.Expr, point: Point) -> Any:
    """What a matched argument is at the point: a literal's value, or an algebraic value."""
    if isinstance(arg, expr.Name):
        return point.values.get(arg.id)
    return arg.value if isinstance(arg, expr.Literal) else None


def matches(pattern: Pattern, value: Any) -> bool:
    """Whether a value is what a pattern asks for; True and 1 are not the same."""
    if isinstance(value, AdtValue):
        return pattern.value == value.kind and all(
            dict(value.fields).get(name) == wanted for name, wanted in pattern.fields
        )
    return type(pattern.value) is type(value) and pattern.value == value


def substitute(node: expr.Expr, args: dict[str, expr.Expr]) -> expr.Expr:
    """The expression with names replaced by expressions; for the axes of a family case. Raises effort.ExhaustedError.

    The variable of a comprehension is no such name, and takes another where an argument reads its own.
    """

    def argument(part: expr.Expr) -> expr.Expr | None:
        if isinstance(part, expr.Comprehension):
            return _comprehension(part, args)
        if isinstance(part, expr.Name):
            return args.get(part.id)
        if isinstance(part, (expr.Field, expr.Value)) and isinstance(arg := args.get(part.name), expr.Name):
            return dataclasses.replace(part, name=arg.id)
        return None

    return expr.substitute(node, argument)


def _comprehension(node: expr.Comprehension, args: dict[str, expr.Expr]) -> expr.Comprehension:
    inner = {name: arg for name, arg in args.items() if name != node.variable}
    read = {name for arg in inner.values() for name in expr.names(arg)}
    variable = node.variable
    while variable in read:
        variable += "_"
    if variable != node.variable:
        inner[node.variable] = expr.Name(variable)
    condition = None if node.condition is None else substitute(node.condition, inner)
    return expr.Comprehension(substitute(node.element, inner), variable, substitute(node.sequence, args), condition)
