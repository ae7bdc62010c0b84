"""Evaluates checked expressions, and folds them at a discriminant point. Only the build uses this module."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any

from tileops.manifest.language import effort, expr
from tileops.manifest.language.adt import AdtValue
from tileops.manifest.language.declarations import PRIMITIVES
from tileops.manifest.language.dtypes import BITS
from tileops.manifest.language.invariants import expect
from tileops.manifest.language.range_sums import range_sum
from tileops.manifest.language.sum_terms import is_range_sum

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda left, right: left in right,
    "not in": lambda left, right: left not in right,
}

# Far above any size, count or price of a call.
MAX_NUMBER = 2**128


class UnknownNameError(Exception):
    """A name has no value; `args[0]` is the name."""


def evaluate(node: expr.Expr, values: Mapping[str, Any], present: Mapping[str, bool]) -> Any:
    """Returns the value of a kind-checked expression of a signature. A formula's `bytes(t)` has no value here.

    Args:
      node: the expression.
      values: indices, parameters and lets by name; any other dtype name is its own value.
      present: tensors and Maybes by name.

    Raises:
      UnknownNameError: a name without a value is needed.
      ValueError: a primitive outside its domain, or a number of MAX_NUMBER and more.
      ZeroDivisionError, IndexError: as Python's operators.
      effort.ExhaustedError: it takes more steps than are left.
    """
    return _Evaluation(present).of(node, values)


class _Evaluation:
    """One evaluation. Each form has a method of its name. Every node costs a step, and long sequences cost more."""

    def __init__(self, present: Mapping[str, bool]) -> None:
        self._present = present
        self._spend = effort.current().spend

    def of(self, part: expr.Expr, values: Mapping[str, Any]) -> Any:
        self._spend()
        method = _METHODS.get(type(part))
        if method is None:
            raise TypeError(f"no value for {type(part).__name__}")
        return method(self, part, values)

    def _Literal(self, part: expr.Literal, values: Mapping[str, Any]) -> Any:
        return part.value

    def _Name(self, part: expr.Name, values: Mapping[str, Any]) -> Any:
        return _named(part.id, values)

    def _Value(self, part: expr.Value, values: Mapping[str, Any]) -> Any:
        return _named(part.name, values)

    def _Field(self, part: expr.Field, values: Mapping[str, Any]) -> Any:
        return _lookup(values, part.name).field(part.field)

    def _Unary(self, part: expr.Unary, values: Mapping[str, Any]) -> Any:
        operand = self.of(part.operand, values)
        return (not operand) if part.op == "not" else -operand if part.op == "-" else _plus(operand)

    def _Binary(self, part: expr.Binary, values: Mapping[str, Any]) -> Any:
        return _checked(_BINARY[part.op](self.of(part.left, values), self.of(part.right, values)))

    def _Compare(self, part: expr.Compare, values: Mapping[str, Any]) -> bool:
        left = self.of(part.operands[0], values)
        for op, operand in zip(part.ops, part.operands[1:], strict=True):
            right = self.of(operand, values)
            self._sized(right)
            if not _COMPARE[op](left, right):
                return False
            left = right
        return True

    def _Logic(self, part: expr.Logic, values: Mapping[str, Any]) -> bool:
        wanted = part.op == "or"
        return wanted if any(bool(self.of(operand, values)) == wanted for operand in part.operands) else not wanted

    def _Conditional(self, part: expr.Conditional, values: Mapping[str, Any]) -> Any:
        return self.of(part.then if self.of(part.test, values) else part.otherwise, values)

    def _Subscript(self, part: expr.Subscript, values: Mapping[str, Any]) -> Any:
        return self.of(part.sequence, values)[self.of(part.index, values)]

    def _Slice(self, part: expr.Slice, values: Mapping[str, Any]) -> Any:
        bounds = (None if bound is None else self.of(bound, values) for bound in (part.start, part.stop))
        return self._sized(self.of(part.sequence, values)[slice(*bounds)])

    def _Tuple(self, part: expr.Tuple, values: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple([self.of(item, values) for item in part.items])

    def _ShapeTerm(self, part: expr.ShapeTerm, values: Mapping[str, Any]) -> tuple[int, ...]:
        shape: list[int] = []
        for axis in part.axes:
            if isinstance(axis, expr.Splice):
                shape.extend(self._sized(self.of(axis.sequence, values)))
            else:
                shape.append(self.of(axis, values))
        return tuple(shape)

    def _Comprehension(self, part: expr.Comprehension, values: Mapping[str, Any]) -> list[Any]:
        inner = dict(values)
        found = []
        for item in self.of(part.sequence, values):
            inner[part.variable] = item
            if part.condition is None or self.of(part.condition, inner):
                found.append(self.of(part.element, inner))
        return found

    def _Call(self, part: expr.Call, values: Mapping[str, Any]) -> Any:
        if part.function == "present":
            return _lookup(self._present, expect(part.args[0], expr.Name).id)
        if part.function == "bytes":
            raise UnknownNameError(expr.to_source(part))
        if is_range_sum(part):
            return _checked(self._range_sum(expect(part.args[0], expr.Comprehension), values))
        args = [self._sized(self.of(arg, values)) for arg in part.args]
        if part.function == "prod" and all(isinstance(value, int) for value in args[0]):  # not the index of a sum
            _check_product(args[0])
        return _checked(self._sized(PRIMITIVES[part.function].function(*args)))

    def _range_sum(self, part: expr.Comprehension, values: Mapping[str, Any]) -> int:
        inner = dict(values)

        def term(index: Any) -> Any:
            inner[part.variable] = index
            return self.of(part.element, inner) if part.condition is None or self.of(part.condition, inner) else 0

        return range_sum(self.of(expect(part.sequence, expr.Call).args[0], values), term, self._spend)

    def _sized(self, value: Any) -> Any:
        """Returns the value. A long sequence costs steps."""
        if isinstance(value, Sized):
            self._spend(len(value) >> 5)
        return value


# The method of each form, which has the form's name.
_METHODS: dict[type[expr.Expr], Callable[[_Evaluation, Any, Mapping[str, Any]], Any]] = {
    form: getattr(_Evaluation, f"_{form.__name__}")
    for form in expr.Expr.__subclasses__()
    if hasattr(_Evaluation, f"_{form.__name__}")
}


def _plus(operand: Any) -> Any:
    """Returns `+operand`: of a Bool, which a Number may be, the integer."""
    return int(operand) if isinstance(operand, bool) else operand


def _named(name: str, values: Mapping[str, Any]) -> Any:
    if name not in values and name in BITS:
        return name
    return _lookup(values, name)


def _checked(value: Any) -> Any:
    """Returns the value. Raises ValueError for a number of MAX_NUMBER or more."""
    if isinstance(value, int) and not -MAX_NUMBER < value < MAX_NUMBER:
        raise ValueError("a number of 2**128 or more is too large for a size, count or price")
    return value


def _check_product(values: Sequence[int]) -> None:
    """Raises ValueError for a product above MAX_NUMBER, before the product is computed, which could take long."""
    if 0 not in values and sum(abs(value).bit_length() - 1 for value in values) >= MAX_NUMBER.bit_length():
        raise ValueError("a product of 2**128 or more is too large for a size, count or price")


def _lookup(mapping: Mapping[str, Any], name: str) -> Any:
    if name not in mapping:
        raise UnknownNameError(name)
    return mapping[name]


def fold(node: expr.Expr, values: Mapping[str, Any], present: Mapping[str, bool]) -> expr.Expr:
    """Returns the expression with all that the point decides worked out: names, presence and conditionals.

    Args:
      node: a kind-checked expression.
      values: the discriminants' values at the point.
      present: presence of optional tensors and Maybes at the point.
    """

    effort.spend()

    def again(part: expr.Expr) -> expr.Expr:
        return fold(part, values, present)

    if isinstance(node, (expr.Name, expr.Value)):
        name = node.id if isinstance(node, expr.Name) else node.name
        value = values.get(name)
        decided = isinstance(value, (bool, str, int)) or (value is None and name in values)
        return expr.Literal(value) if decided else node
    if isinstance(node, expr.Field):
        value = values.get(node.name)
        if isinstance(value, AdtValue) and (node.field == "kind" or node.field in dict(value.fields)):
            return expr.Literal(value.field(node.field))
        return node
    if isinstance(node, expr.Call):
        if node.function == "present" and isinstance(node.args[0], expr.Name):
            there = present.get(node.args[0].id)
            return node if there is None else expr.Literal(there)
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
    if isinstance(node, expr.Comprehension) and node.variable in values:  # the variable hides the name outside
        inner = {name: value for name, value in values.items() if name != node.variable}
        condition = None if node.condition is None else fold(node.condition, inner, present)
        return expr.Comprehension(fold(node.element, inner, present), node.variable, again(node.sequence), condition)
    return expr.rebuild(node, again)


def _constant(node: expr.Expr) -> expr.Expr:
    """Returns the literal that an operation on literals gives; the operation itself if it has no value."""
    if isinstance(node, expr.Call) and node.function not in PRIMITIVES:
        return node
    if not all(map(_is_constant, expr.children(node))) or isinstance(node, expr.Call) and not node.args:
        return node
    try:
        value = evaluate(node, {}, {})
    except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError):
        return node
    return expr.Literal(value) if isinstance(value, (bool, int, str)) else node


def _is_constant(node: expr.Expr) -> bool:
    """Returns whether an expression is a literal or a tuple of literals."""
    return isinstance(node, expr.Literal) or (isinstance(node, expr.Tuple) and all(map(_is_constant, node.items)))


def _identity(node: expr.Expr) -> expr.Expr:
    """Returns `x` for `x * 1`, `1 * x`, `x + 0`, `0 + x` and `x - 0`, which folding leaves behind."""
    if isinstance(node, expr.Binary):
        one, nothing = expr.Literal(1), expr.Literal(0)
        if (node.op == "*" and node.right == one) or (node.op in "+-" and node.right == nothing):
            return node.left
        if (node.op == "*" and node.left == one) or (node.op == "+" and node.left == nothing):
            return node.right
    return node


def _logic(op: str, operands: list[expr.Expr]) -> expr.Expr:
    """Returns an `and` or `or` without the operands that are decided."""
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
