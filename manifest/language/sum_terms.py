"""Finds the sums over a range that range_sums.range_sum computes in closed form, by the form of their terms.

A term's degree in the indices is that of the polynomial that it is between two places where a comparison changes: 1 of
`min((i + 1, W))` and of `i // 2`, 2 of `i * (i + 1)`. Comparisons, quotients, max, min and abs take degree 1 at most.
"""

from __future__ import annotations

import functools

from tileops.manifest.language import expr
from tileops.manifest.language.invariants import expect

# Sums of higher degree are added up one by one: no formula needs them.
_MAX_DEGREE = 8
_ORDERED = frozenset({"<", "<=", ">", ">=", "==", "!=", "in", "not in"})
# Primitives whose result has a length that a size decides. Inside a term they would run for each part of the range.
_SEQUENCES = frozenset({"balanced_sizes", "range", "repeat"})


def is_range_sum(node: expr.Expr) -> bool:
    """Returns whether the expression is a sum over a range that has a closed form."""
    return _is_sum(node) and _is_closed(expect(node, expr.Call))


def is_long_sum(node: expr.Expr) -> bool:
    """Returns whether the expression is a sum over a range that has no closed form, which is added up term by term."""
    return _is_sum(node) and not _is_closed(expect(node, expr.Call))


@functools.lru_cache(maxsize=1_024)
def _is_closed(node: expr.Call) -> bool:
    return _sum_degree(node, frozenset()) is not None


def any_length(node: expr.Expr) -> set[int]:
    """Returns the ids of the calls of `range` over which sums with a closed form run."""
    return {id(range_of(part)) for part in expr.walk(node) if is_range_sum(part)}


def range_of(node: expr.Expr) -> expr.Expr:
    """Returns the call of `range` that a sum over a range runs over."""
    return sum_loop(node).sequence


def sum_loop(node: expr.Expr) -> expr.Comprehension:
    """Returns the comprehension that a sum over a range adds up."""
    return expect(expect(node, expr.Call).args[0], expr.Comprehension)


def _is_sum(node: expr.Expr) -> bool:
    """Returns whether the expression is a sum over a range."""
    if not isinstance(node, expr.Call) or node.function != "sum" or len(node.args) != 1:
        return False
    loop = node.args[0]
    return (
        isinstance(loop, expr.Comprehension)
        and isinstance(loop.sequence, expr.Call)
        and loop.sequence.function == "range"
    )


def _sum_degree(node: expr.Expr, indices: frozenset[str]) -> int | None:
    """Returns the degree of a sum over a range in the indices of the sums around it; None for anything else."""
    if not _is_sum(node):
        return None
    loop = sum_loop(node)
    inner = indices | {loop.variable}
    count, term = _linear(expect(loop.sequence, expr.Call).args[0], indices), _degree(loop.element, inner)
    if count is None or term is None or (loop.condition is not None and _degree(loop.condition, inner) is None):
        return None
    return term + 1


def _degree(node: expr.Expr, indices: frozenset[str]) -> int | None:
    """Returns a number's degree in the indices, 0 for a condition; None if no piecewise polynomial of low degree."""
    if not indices.intersection(node.free_names):
        return 0 if _is_short(node) else None
    if isinstance(node, expr.Name):
        return 1
    if isinstance(node, expr.Unary):
        return _degree(node.operand, indices)
    if isinstance(node, expr.Binary):
        left, right = _degree(node.left, indices), _degree(node.right, indices)
        if left is None or right is None:
            return None
        if node.op in "+-":
            return max(left, right)
        if node.op == "*":
            return _low(left + right)
        return 1 if left == 1 and right == 0 else None
    if isinstance(node, expr.Compare):
        return (
            0
            if _ORDERED.issuperset(node.ops) and all(_compared(operand, indices) for operand in node.operands)
            else None
        )
    if isinstance(node, expr.Logic):
        return _highest(node.operands, indices)
    if isinstance(node, expr.Conditional):
        return _highest((node.test, node.then, node.otherwise), indices)
    return _call_degree(node, indices) if isinstance(node, expr.Call) else None


def _is_short(node: expr.Expr) -> bool:
    """Returns whether an expression without an index runs over no sequence, apart from sums in closed form."""
    if is_range_sum(node):
        return True
    if isinstance(node, expr.Comprehension) or isinstance(node, expr.Call) and node.function in _SEQUENCES:
        return False
    return all(map(_is_short, expr.children(node)))


def _call_degree(node: expr.Call, indices: frozenset[str]) -> int | None:
    first, *others = node.args
    if node.function in ("max", "min", "sum", "prod") and isinstance(first, expr.Tuple):
        if node.function == "prod":
            degrees = [degree for item in first.items if (degree := _degree(item, indices)) is not None]
            return _low(sum(degrees)) if len(degrees) == len(first.items) else None
        highest = _highest((*first.items, *others), indices)
        return None if node.function != "sum" and highest not in (0, 1) else highest
    if node.function == "abs":
        return _linear(first, indices)
    if node.function == "ceil_div":
        return 1 if _linear(first, indices) == 1 and _degree(others[0], indices) == 0 else None
    return _low(_sum_degree(node, indices))


def _compared(node: expr.Expr, indices: frozenset[str]) -> bool:
    """Returns whether a comparison may take the expression: a linear one, or a tuple of linear ones."""
    items = node.items if isinstance(node, expr.Tuple) else (node,)
    return all(_linear(item, indices) is not None for item in items)


def _linear(node: expr.Expr, indices: frozenset[str]) -> int | None:
    degree = _degree(node, indices)
    return degree if degree in (0, 1) else None


def _highest(nodes: tuple[expr.Expr, ...], indices: frozenset[str]) -> int | None:
    degrees = [degree for node in nodes if (degree := _degree(node, indices)) is not None]
    return max(degrees) if len(degrees) == len(nodes) else None


def _low(degree: int | None) -> int | None:
    return degree if degree is not None and degree <= _MAX_DEGREE else None
