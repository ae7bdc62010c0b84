"""Refuses formulas that run over one long sequence at each step of another, which could take hours."""

from __future__ import annotations

from tileops.manifest.language import expr
from tileops.manifest.language.sum_terms import is_range_sum
from tileops.manifest.model import Signature

# Primitives that make a sequence as long as a size says, up to 2**20 items; the size is their last argument.
_LONG = frozenset({"balanced_sizes", "range", "repeat"})
# A sequence of a literal length up to this many items may be made at each step of another sequence.
_SHORT = 32


def endless(signature: Signature, node: expr.Expr) -> str:
    """Returns why a formula could take 2**40 steps, or "" if no long run is within another.

    Args:
      signature: of the entry, whose lets the formula may read.
      node: a kind-checked formula.
    """
    return _within(signature, node, "")


def _within(signature: Signature, node: expr.Expr, outer: str) -> str:
    """Returns the same for a part that is evaluated at each step of the run over `outer` ("": evaluated once)."""
    if outer and _is_long(node):
        made = expr.to_source(node)
        return f"makes {made} at each step of {outer}, which may be 2**40 items; write a closed form or a func"
    if is_range_sum(node) and not outer:  # inside a run it would cost time at each step
        return ""
    if not isinstance(node, expr.Comprehension):
        return next((problem for part in expr.children(node) if (problem := _within(signature, part, outer))), "")
    sequence = node.sequence
    let = signature.lets.get(sequence.id) if isinstance(sequence, expr.Name) else None
    is_long = _is_long(sequence if let is None else let.expr)
    if outer and is_long:
        run = expr.to_source(sequence)
        return f"runs over {run} at each step of {outer}, which may be 2**40 steps; write a closed form or a func"
    inner = expr.to_source(sequence) if is_long else outer
    parts = [node.element] if node.condition is None else [node.element, node.condition]
    every = [_within(signature, part, inner) for part in parts]
    return next(filter(None, [*every, "" if is_long else _within(signature, sequence, outer)]), "")


def _is_long(node: expr.Expr) -> bool:
    """Returns whether a primitive makes a sequence whose length is large or not a literal."""
    if not isinstance(node, expr.Call) or node.function not in _LONG:
        return False
    length = node.args[-1]
    return not (isinstance(length, expr.Literal) and length.value <= _SHORT)
