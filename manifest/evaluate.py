"""Values of checked expressions on given bindings, and their folding at a discriminant point; build time only."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from tileops.manifest import expr
from tileops.manifest.adt import AdtValue
from tileops.manifest.dtypes import BITS
from tileops.manifest.primitives import PRIMITIVE_FUNCTIONS

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "in": lambda left, right: left in right, "not in": lambda left, right: left not in right,
}

class Unknown(Exception):
    """A name has no value in the bindings given; `args[0]` is the name."""

def evaluate(node: expr.Expr, values: Mapping[str, Any], present: Mapping[str, bool], sizes: Mapping[str, int] | None = None) -> Any:
    """Value of a kind-checked expression.

    Args:
      node: the expression.
      values: indices, parameters and lets by name; a dtype's name stands for itself where it is not among them.
      present: tensors and Maybes by name.
      sizes: bytes of each tensor, for `bytes(t)`.

    Raises:
      Unknown: a name without a value is needed.
      ValueError: a primitive outside its domain. ZeroDivisionError, IndexError: as Python's operators.
    """

    def of(part: expr.Expr, values: Mapping[str, Any]) -> Any:
        if isinstance(part, expr.Literal):
            return part.value
        if isinstance(part, (expr.Name, expr.Value)):
            name = part.id if isinstance(part, expr.Name) else part.name
            if name in values:
                return values[name]
            if name in BITS:
                return name
            raise Unknown(name)
        if isinstance(part, expr.Field):
            if part.name not in values:
                raise Unknown(part.name)
            return values[part.name].field(part.field)
        if isinstance(part, expr.Unary):
            operand = of(part.operand, values)
            return (not operand) if part.op == "not" else -operand if part.op == "-" else operand
        if isinstance(part, expr.Binary):
            return _BINARY[part.op](of(part.left, values), of(part.right, values))
        if isinstance(part, expr.Compare):
            left = of(part.operands[0], values)
            for op, operand in zip(part.ops, part.operands[1:], strict=True):
                right = of(operand, values)
                if not _COMPARE[op](left, right):
                    return False
                left = right
            return True
        if isinstance(part, expr.Logic):
            wanted = part.op == "or"
            return wanted if any(bool(of(operand, values)) == wanted for operand in part.operands) else not wanted
        if isinstance(part, expr.Conditional):
            return of(part.then if of(part.test, values) else part.otherwise, values)
        if isinstance(part, expr.Subscript):
            return of(part.sequence, values)[of(part.index, values)]
        if isinstance(part, expr.Slice):
            bounds = (None if bound is None else of(bound, values) for bound in (part.start, part.stop))
            return of(part.sequence, values)[slice(*bounds)]
        if isinstance(part, expr.Tuple):
            return tuple(of(item, values) for item in part.items)
        if isinstance(part, expr.ShapeTerm):
            shape: list[int] = []
            for axis in part.axes:
                shape.extend(of(axis.sequence, values)) if isinstance(axis, expr.Splice) else shape.append(of(axis, values))
            return tuple(shape)
        if isinstance(part, expr.Comprehension):
            return [
                of(part.element, inner)
                for item in of(part.sequence, values)
                for inner in [{**values, part.variable: item}]
                if part.condition is None or of(part.condition, inner)
            ]
        if isinstance(part, expr.Call):
            if part.function == "present":
                return _lookup(present, part.args[0].id)
            if part.function == "bytes":
                return _lookup(sizes or {}, part.args[0].id)
            return PRIMITIVE_FUNCTIONS[part.function](*(of(arg, values) for arg in part.args))
        raise TypeError(f"no value for {type(part).__name__}")

    return of(node, values)

def _lookup(mapping: Mapping[str, Any], name: str) -> Any:
    if name not in mapping:
        raise Unknown(name)
    return mapping[name]

def fold(node: expr.Expr, values: Mapping[str, Any], present: Mapping[str, bool]) -> expr.Expr:
    """The expression with everything that the point decides worked out: known names, presence, arms not taken.

    Args:
      node: a kind-checked expression.
      values: the discriminants' values at the point.
      present: presence of optional tensors and Maybes at the point.
    """

    def again(part: expr.Expr) -> expr.Expr:
        return fold(part, values, present)

    if isinstance(node, (expr.Name, expr.Value)):
        known = values.get(node.id if isinstance(node, expr.Name) else node.name)
        return expr.Literal(known) if isinstance(known, (bool, str, int)) else node
    if isinstance(node, expr.Field):
        value = values.get(node.name)
        known = isinstance(value, AdtValue) and (node.field == "kind" or node.field in dict(value.fields))
        return expr.Literal(value.field(node.field)) if known else node
    if isinstance(node, expr.Call):
        if node.function == "present" and isinstance(node.args[0], expr.Name):
            known = present.get(node.args[0].id)
            return node if known is None else expr.Literal(known)
        if node.function == "bytes":
            return node
    if isinstance(node, (expr.Call, expr.Unary, expr.Binary, expr.Compare)):
        return _identity(_constant(expr.rebuild(node, again)))
    if isinstance(node, expr.Logic):
        return _logic(node.op, [again(part) for part in node.operands])
    if isinstance(node, expr.Conditional):
        test = again(node.test)
        if isinstance(test, expr.Literal):
            return again(node.then if test.value else node.otherwise)
        return expr.Conditional(test, again(node.then), again(node.otherwise))
    return expr.rebuild(node, again)

def _constant(node: expr.Expr) -> expr.Expr:
    """The literal that an operation on literals gives; the operation itself where it has no value."""
    if not all(isinstance(part, expr.Literal) for part in expr.children(node)) or isinstance(node, expr.Call) and not node.args:
        return node
    try:
        value = evaluate(node, {}, {})
    except (ArithmeticError, ValueError, TypeError):
        return node
    return expr.Literal(value) if isinstance(value, (bool, int, str)) else node

def _identity(node: expr.Expr) -> expr.Expr:
    """`x * 1`, `1 * x`, `x + 0`, `0 + x` and `x - 0` as x: what a point leaves behind of its arms."""
    if isinstance(node, expr.Binary):
        one, nothing = expr.Literal(1), expr.Literal(0)
        if (node.op == "*" and node.right == one) or (node.op in "+-" and node.right == nothing):
            return node.left
        if (node.op == "*" and node.left == one) or (node.op == "+" and node.left == nothing):
            return node.right
    return node

def _logic(op: str, operands: list[expr.Expr]) -> expr.Expr:
    """`and` / `or` with the decided operands taken out."""
    decides = op == "or"
    kept: list[expr.Expr] = []
    for operand in operands:
        if isinstance(operand, expr.Literal):
            if bool(operand.value) == decides:
                kept.append(expr.Literal(decides))
                break
        else:
            kept.append(operand)
    if kept and kept[-1] == expr.Literal(decides) and len(kept) == 1:
        return kept[0]
    if not kept:
        return expr.Literal(not decides)
    return kept[0] if len(kept) == 1 else expr.Logic(op, tuple(kept))
