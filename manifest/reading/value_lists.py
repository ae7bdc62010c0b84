"""Reads a list that a row writes as a call: `repeat(96, 3)` is `[96, 96, 96]`."""

from __future__ import annotations

from typing import Any

from tileops.manifest.language import declarations, expr, expr_parser, kinds
from tileops.manifest.language.text import shown

MAX_LIST = 2**16  # items of a list; generated code writes it out
MAX_LISTS = 2**20  # items of all lists of an entry that calls give
# What gives a list of integers: `repeat` and `balanced_sizes`. The last argument is the number of items.
LISTS = tuple(
    name
    for name, declared in declarations.PRIMITIVES.items()
    if not declared.variadic
    and all(isinstance(arg, kinds.Int) for arg in declared.args)
    and isinstance(declared.result(list(declared.args)), kinds.Seq)
    and name != "range"  # which only comprehensions run over
)


class NotAListError(Exception):
    """A text is no call that gives a list; the message says why."""


def as_list(value: Any, kind: kinds.Kind | None) -> Any:
    """Returns the list that a text gives for a value list; any other value, and a text that gives none, as it is.

    `kind` is that of the index; None for a parameter.
    """
    if not isinstance(value, str) or not kinds.is_value_list(kind):
        return value
    try:
        return called(value)
    except NotAListError:
        return value


def problem(text: str) -> str:
    """Returns why a text gives no list, or ""."""
    try:
        called(text)
    except NotAListError as error:
        return str(error)
    return ""


def called(text: str) -> tuple[int, ...]:
    """Returns the list that a call gives. Raises NotAListError."""
    try:
        node = expr_parser.parse(text)
    except expr_parser.ExprError as error:
        raise NotAListError(str(error)) from None
    if not isinstance(node, expr.Call) or node.function not in LISTS:
        raise NotAListError(f"{shown(text)} is no list; write a list of integers, or one call of {' or '.join(LISTS)}")
    wanted = len(declarations.PRIMITIVES[node.function].args)
    if len(node.args) != wanted:
        raise NotAListError(f"{node.function} takes {wanted} arguments, not {len(node.args)}")
    numbers = [_written(arg, node.function) for arg in node.args]
    if numbers[-1] > MAX_LIST:
        raise NotAListError(f"{shown(text)}: a list of more than {MAX_LIST} items")
    try:
        return tuple(declarations.PRIMITIVES[node.function].function(*numbers))
    except ValueError as error:
        raise NotAListError(f"{shown(text)}: {error}") from None


def _written(arg: expr.Expr, function: str) -> int:
    """Returns the integer that an argument is written as. Raises NotAListError."""
    sign = isinstance(arg, expr.Unary) and arg.op in "+-"
    number = arg.operand if isinstance(arg, expr.Unary) and sign else arg
    if not isinstance(number, expr.Literal) or type(number.value) is not int:
        raise NotAListError(f"{expr.to_source(arg)} is no written integer, as each argument of {function} is here")
    return -number.value if isinstance(arg, expr.Unary) and arg.op == "-" else number.value
