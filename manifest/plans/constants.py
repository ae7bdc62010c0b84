"""Finds expressions without a value, and rules that decide nothing, for all sizes of a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tileops.manifest.language import declarations, expr, kinds
from tileops.manifest.language.dtypes import BITS
from tileops.manifest.language.evaluate import evaluate, fold
from tileops.manifest.language.sum_terms import any_length
from tileops.manifest.model import Signature, Tensor
from tileops.manifest.plans.points import Discriminant, Point, discriminants, domain_restrictions, enumerate_points
from tileops.manifest.plans.shapes import NoCaseError, shape_at, substitute
from tileops.manifest.plans.sums import strict_parts

_DTYPES: dict[str, expr.Expr] = {dtype: expr.Literal(dtype) for dtype in BITS}
# Positions of the arguments that must be positive.
_POSITIVE = {"ceil_div": (1,), "balanced_sizes": (1,), "conv.out": (1, 2, 4), "pool.out": (1, 2, 4)}


def without_value(signature: Signature, node: expr.Expr, tensor: Tensor | None = None) -> list[str]:
    """Returns where constants of the entry leave a part of an expression without a value, each with the point.

    Args:
      signature: what the expression reads; its kinds must be right.
      node: the expression.
      tensor: the tensor whose shape it is, if the shape may apply a type family.

    Raises:
      TooManyPointsError: the facts that the expression reads have too many combinations.
    """
    found: list[str] = []
    for part in strict_parts(node):
        found += _without_value(signature, part, tensor)
    return found[:1]  # only the first problem of an expression is reported


def _without_value(signature: Signature, node: expr.Expr, tensor: Tensor | None) -> list[str]:
    terms = [node, *_lets(signature, node)]
    if not any(_may_fail(part) for term in (*terms, *_cases(signature, node)) for part in expr.walk(term)):
        return []
    found: dict[str, None] = {}
    for point in _points(signature, terms):
        try:
            if tensor is not None and isinstance(node, expr.FamilyTerm):
                folded: expr.Expr = shape_at(signature, tensor, point)
            else:
                folded = node
        except NoCaseError:
            continue  # which the inference plan reports
        for problem in _problems(_folded(signature, folded, point)):
            found.setdefault(f"{problem} ({point})")
    return list(found)


def constant(signature: Signature, node: expr.Expr) -> bool | None:
    """Returns what a condition is in every call; None if calls differ. Raises TooManyPointsError."""
    found = discriminants(signature, [node])
    if not set(expr.names(node)) <= {one.name for one in found}:
        return None
    results = {point.fold(node) for point in enumerate_points(found)}
    return next((value for value in (True, False) if results == {expr.Literal(value)}), None)


def _lets(signature: Signature, node: expr.Expr) -> list[expr.Expr]:
    """Returns the lets that an expression reads, directly or through others."""
    found: dict[str, expr.Expr] = {}
    waiting = [node]
    while waiting:
        for name in expr.names(waiting.pop()):
            if name in signature.lets and name not in found:
                found[name] = signature.lets[name].expr
                waiting.append(found[name])
    return list(found.values())


def _cases(signature: Signature, node: expr.Expr) -> Iterator[expr.Expr]:
    if isinstance(node, expr.FamilyTerm):
        for family in signature.families.values():
            yield from (case.shape for case in family.cases)


def _may_fail(part: expr.Expr) -> bool:
    """Returns whether constants can leave a form without a value."""
    if isinstance(part, expr.Binary) and part.op in ("//", "%"):
        return not (isinstance(part.right, expr.Literal) and part.right.value > 0)
    return (
        isinstance(part, expr.Call)
        and part.function in declarations.PRIMITIVES
        and bool(declarations.domain(part.function))
    )


def _points(signature: Signature, terms: list[expr.Expr]) -> list[Point]:
    """Returns the points of the discriminants and promoted dtypes that the terms read."""
    found = discriminants(signature, terms)
    known = {one.name for one in found}
    for name in _promoted(terms):
        kind = signature.forall.get(name) or (signature.params[name].kind if name in signature.params else None)
        inner = None if kind is None else kind.given
        if isinstance(inner, kinds.DType) and name not in known:
            known.add(name)
            found.append(Discriminant(name, False, inner.values if inner is kind else (*inner.values, None)))
    combos = signature.combos
    return [
        point
        for point in enumerate_points(found, domain_restrictions(signature))
        if not combos
        or any(all(point.values.get(name, dtype) == dtype for name, dtype in combo.items()) for combo in combos)
    ]


def _promoted(terms: Iterable[expr.Expr]) -> list[str]:
    """Returns the names whose dtypes decide whether a primitive has a value."""
    calls = (
        part
        for term in terms
        for part in expr.walk(term)
        if isinstance(part, expr.Call) and part.function == "promote_types"
    )
    return list(dict.fromkeys(name for call in calls for name in expr.names(call)))


def _folded(signature: Signature, node: expr.Expr, point: Point) -> expr.Expr:
    """Returns the expression at a point, with the lets that the point decides."""
    values = dict(point.values)

    def at_point(term: expr.Expr) -> expr.Expr:
        return fold(substitute(term, _DTYPES), values, point.present)

    waiting = dict(signature.lets)
    while decided := {
        name: folded.value
        for name, let in waiting.items()
        if isinstance(folded := at_point(let.expr), expr.Literal) and folded.value is not None
    }:
        values.update(decided)
        waiting = {name: let for name, let in waiting.items() if name not in decided}
    return at_point(node)


def _problems(node: expr.Expr) -> Iterator[str]:
    long = any_length(node)
    for part in expr.walk(node):
        if id(part) in long:
            continue
        if isinstance(part, expr.Binary) and part.op in ("//", "%") and part.right == expr.Literal(0):
            yield f"{expr.to_source(part)} divides by zero"
        elif isinstance(part, expr.Call) and part.function in declarations.PRIMITIVES:
            problem = _refusal(part)
            if problem:
                yield f"{expr.to_source(part)}: {problem}"


def _refusal(call: expr.Call) -> str:
    """Returns why a call of a primitive has no value, if constants show it, else ""."""
    for position in _POSITIVE.get(call.function, ()):
        arg = call.args[position]
        if isinstance(arg, expr.Literal) and arg.value <= 0:
            return f"argument {position + 1} is {arg.value}; it must be positive"
    if call.args and all(isinstance(arg, expr.Literal) for arg in call.args):
        try:
            evaluate(call, {}, {})
        except (ValueError, ArithmeticError) as error:
            return str(error)
    return ""
