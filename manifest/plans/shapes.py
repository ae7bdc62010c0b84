"""Shapes at a discriminant point, with type families applied and expressions folded."""

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
    """The family `family` has no case, or several cases, at a point; the message says which."""

    def __init__(self, family: str, message: str) -> None:
        super().__init__(message)
        self.family = family


def shape_at(signature: Signature, tensor: Tensor, point: Point) -> expr.ShapeTerm:
    """Returns the axes of `tensor` at `point`, which has all discriminants of its family. Raises NoCaseError."""
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
    """Returns the value of a matched argument at the point: a literal's value, or an algebraic value."""
    if isinstance(arg, expr.Name):
        return point.values.get(arg.id)
    return arg.value if isinstance(arg, expr.Literal) else None


def matches(pattern: Pattern, value: Any) -> bool:
    """Returns whether a value matches a pattern. True and 1 differ."""
    if pattern.anything:
        return True
    if isinstance(value, AdtValue):
        return pattern.value == value.kind and all(
            dict(value.fields).get(name) == wanted for name, wanted in pattern.fields
        )
    return type(pattern.value) is type(value) and pattern.value == value


def substitute(node: expr.Expr, args: dict[str, expr.Expr]) -> expr.Expr:
    """Returns the expression, as of a family case, with names replaced by expressions. Raises ExhaustedError.

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
