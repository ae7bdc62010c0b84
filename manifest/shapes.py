"""Shapes at a discriminant point: type families applied, everything that the point decides folded away."""

from __future__ import annotations

from tileops.manifest import expr
from tileops.manifest.evaluate import fold
from tileops.manifest.model import Signature, Tensor
from tileops.manifest.points import Point


def shape_at(signature: Signature, tensor: Tensor, point: Point) -> expr.ShapeTerm:
    """The axes of `tensor` at `point`; a family's discriminants must be among the point's."""
    term = tensor.shape.expr
    if isinstance(term, expr.FamilyTerm):
        family = signature.families[term.family]
        args = dict(zip(family.params, (fold(arg, point.values, point.present) for arg in term.args), strict=True))
        chosen = tuple(args[name].value for name in family.match)
        case = next(case for case in family.cases if case.pattern == chosen)
        term = substitute(case.shape, args)
    return fold(term, point.values, point.present)


def substitute(node: expr.Expr, args: dict[str, expr.Expr]) -> expr.Expr:
    """The expression with names replaced by expressions; for the axes of a family case."""
    if isinstance(node, expr.Name):
        return args.get(node.id, node)
    return expr.rebuild(node, lambda part: substitute(part, args))
