"""Decides what construction and calls check, beyond the steps of the inference plan: emission only writes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tileops.manifest.check import Checked
from tileops.manifest.checks.obligations import decided_by_parameters, obliges
from tileops.manifest.language import expr
from tileops.manifest.language.invariants import expect
from tileops.manifest.model import Expression, Signature, Tensor
from tileops.manifest.plans.domain import Domain
from tileops.manifest.plans.plan import Branch, Plan, returned, solved_combinations, solved_partly
from tileops.manifest.plans.points import domain_restrictions
from tileops.manifest.plans.presence import is_its_input
from tileops.manifest.plans.shapes import shape_at
from tileops.manifest.plans.trees import Leaf, Tree, decide, leaves


@dataclasses.dataclass(frozen=True, kw_only=True)
class CallDecisions:
    """The checks of one entry, decided.

    Attributes:
      settled_lets, settled_rules: those that construction evaluates, lets in evaluation order.
      settled_axes: the axes that construction checks to be at least 0, by tensor, at each point of its parameters.
      restrictions: the rules that a call checks before it branches.
      rules: the other rules that a call checks.
      segments: the steps of the plan.
      combinations: where a call knows all dtypes of which `dtype_combos` lists the combinations.
      partly: the indices and lets that each part of the plan solves at some of its points only.
      returned: the shape of each output, None where a call does not return it.
      signed: the shapes of outputs that may have a negative axis.
      aliased: when an output is the input named in its `alias`.
    """

    settled_lets: tuple[str, ...]
    settled_rules: tuple[Expression, ...]
    settled_axes: dict[str, Tree[tuple[expr.Expr, ...]]]
    restrictions: tuple[Expression, ...]
    rules: tuple[Expression, ...]
    segments: tuple[Tree[Branch], ...]
    combinations: Tree[bool]
    partly: tuple[Tree[frozenset[str]], ...]
    returned: dict[str, Tree[expr.ShapeTerm | None]]
    signed: frozenset[expr.ShapeTerm]
    aliased: dict[str, expr.Expr]


def call_decisions(checked: Checked) -> CallDecisions:
    """Returns the decisions of an entry without defects."""
    entry, plan = checked.entry, expect(checked.plan, Plan)
    signature = entry.signature
    lets, settled = decided_by_parameters(signature)
    restricting = domain_restrictions(signature)
    in_calls = [rule for rule in signature.rules if rule not in settled]
    domain = Domain(signature)
    shapes = returned(signature, domain, plan)
    return CallDecisions(
        settled_lets=tuple(lets),
        settled_rules=tuple(settled),
        settled_axes={
            tensor.name: found
            for tensor in signature.tensors.values()
            if (found := _signed_axes(checked, domain, tensor, {*signature.params, *lets})) is not None
        },
        restrictions=tuple(rule for rule in in_calls if rule.expr in restricting),
        rules=tuple(rule for rule in in_calls if rule.expr not in restricting),
        segments=tuple(segment.tree for segment in plan.segments),
        combinations=solved_combinations(signature, plan),
        partly=tuple(solved_partly(plan)),
        returned=shapes,
        signed=frozenset(
            shape for tree in shapes.values() for shape in leaves(tree) if shape is not None and obliges(entry, shape)
        ),
        aliased=_aliased(signature),
    )


def _signed_axes(
    checked: Checked, domain: Domain, tensor: Tensor, known: set[str]
) -> Tree[tuple[expr.Expr, ...]] | None:
    """Returns the axes that parameters decide and that may be negative, of a tensor that every call has.

    None if there are none, or if a tensor decides which case of a type family a call takes.
    """
    signature, shape = checked.entry.signature, tensor.shape.expr
    if tensor.may_be_absent:
        return None
    if isinstance(shape, expr.ShapeTerm):
        axes = tuple(_may_be_negative(checked, shape, known))
        return Leaf(axes) if axes else None
    points = domain.points([shape])
    deciding = {one.name for point in points for one, _ in point.assigned}
    if not deciding <= signature.params.keys() - signature.constants.keys():
        return None
    tree: Tree[tuple[expr.Expr, ...]] = decide(
        [(point, tuple(_may_be_negative(checked, shape_at(signature, tensor, point), known))) for point in points]
    )
    return tree if any(len(axes) for axes in leaves(tree)) else None


def _may_be_negative(checked: Checked, shape: expr.ShapeTerm, known: set[str]) -> Iterator[expr.Expr]:
    """Yields the axes that parameters decide and that may be negative."""
    for axis in shape.axes:
        if axis.free_names and known.issuperset(axis.free_names) and obliges(checked.entry, expr.ShapeTerm((axis,))):
            yield axis


def _aliased(signature: Signature) -> dict[str, expr.Expr]:
    found = {name: is_its_input(signature, output) for name, output in signature.outputs.items()}
    return {name: where for name, where in found.items() if where is not None}
