"""Finds the shapes that may have a negative axis, so that a call must check them."""

from __future__ import annotations

from tileops.manifest.checks.signature import let_order, scope
from tileops.manifest.language import expr, kind_check, kinds
from tileops.manifest.model import Entry, Expression, Signature


def obliges(entry: Entry, shape: expr.ShapeTerm) -> bool:
    """Returns whether an axis of a folded shape may be negative, such as `K - 1` or an item of a list parameter."""
    names = scope(entry)

    def sure(axis: expr.Expr) -> bool:
        if isinstance(axis, expr.Splice):
            run = kind_check.check(axis.sequence, names, lambda what, message: None)
            return isinstance(run, kinds.Seq) and isinstance(run.item, kinds.Dim)
        return isinstance(kind_check.check(axis, names, lambda what, message: None), kinds.Dim)

    return not all(map(sure, shape.axes))


def decided_by_parameters(signature: Signature) -> tuple[list[str], list[Expression]]:
    """Returns (lets, rules) that read only parameters, so that construction checks them; lets in evaluation order."""
    known, lets = {*signature.params}, []
    for name in let_order(signature):
        if known.issuperset(signature.lets[name].expr.free_names):
            known.add(name)
            lets.append(name)
    return lets, [rule for rule in signature.rules if known.issuperset(rule.expr.free_names)]
