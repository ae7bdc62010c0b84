"""Translates checked expressions to the Python of generated code.

Generated code writes a name of the entry as the entry does, and begins every name of its own with an underscore, which
no name of an entry does: whatever an entry calls its tensors and parameters, it hides nothing.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable

from tileops.manifest.language import declarations, expr
from tileops.manifest.language.dtypes import BITS
from tileops.manifest.language.invariants import expect
from tileops.manifest.language.sum_terms import is_long_sum, is_range_sum, sum_loop

Present = Callable[[str], expr.Expr]

# Python's own functions that generated code calls, each imported as `_<name>`.
BUILTINS = ("abs", "all", "len", "locals")


def is_not_none(name: str) -> expr.Expr:
    """Returns the source of a presence inside a call's checks: the argument is not None."""
    return expr.Verbatim(f"{name} is not None", expr.COMPARISON)


def function_name(name: str) -> str:
    """Returns how generated code calls a primitive: Python's own function, or one of the module of primitives."""
    function = declarations.PRIMITIVES[name].function
    return f"_{name}" if function is getattr(builtins, name, None) else f"_primitives.{function.__name__}"


def python_form(node: expr.Expr, names: frozenset[str], present: Present) -> expr.Expr:
    """Returns the expression with every form replaced that Python lacks.

    Args:
      node: a kind-checked expression.
      names: what the entry names; a dtype's name outside them becomes a string.
      present: how presence is read where the code will stand.
    """

    def again(part: expr.Expr) -> expr.Expr:
        return python_form(part, names, present)

    if isinstance(node, expr.Name):
        return expr.Literal(node.id) if node.id not in names and node.id in BITS else node
    if isinstance(node, expr.Value):
        return expr.Name(node.name)
    if isinstance(node, expr.Literal) and isinstance(node.value, float) and node.value == float("inf"):
        return expr.Verbatim("_math.inf", expr.ATOM)
    if isinstance(node, expr.Call):
        if node.function == "present":
            return present(expect(node.args[0], expr.Name).id)
        if node.function == "bytes":
            return expr.Verbatim(f'_call.tensors["{expect(node.args[0], expr.Name).id}"].bytes', expr.ATOM)
        if is_range_sum(node) or is_long_sum(node):
            function = "range_sum" if is_range_sum(node) else "counted_sum"
            return _sum(function, sum_loop(node), names, present)
        return expr.Call(function_name(node.function), tuple(map(again, node.args)))
    if isinstance(node, expr.Comprehension):
        inner = names | {node.variable}
        condition = None if node.condition is None else python_form(node.condition, inner, present)
        return expr.Comprehension(
            python_form(node.element, inner, present), node.variable, again(node.sequence), condition
        )
    return expr.rebuild(node, again)


def _sum(function: str, node: expr.Comprehension, names: frozenset[str], present: Present) -> expr.Expr:
    """Returns a sum over a range as a call whose term is a function of the index."""
    inner = names | {node.variable}
    term = python_form(node.element, inner, present)
    if node.condition is not None:
        term = expr.Conditional(python_form(node.condition, inner, present), term, expr.Literal(0))
    count = python_form(expect(node.sequence, expr.Call).args[0], names, present)
    return expr.Call(
        f"_primitives.{function}", (count, expr.Verbatim(f"lambda {node.variable}: {expr.to_source(term)}", 0))
    )


def can_raise(node: expr.Expr) -> bool:
    """Returns whether evaluating the expression can raise: a domain error, division by zero, or a bad index."""
    for part in expr.walk(node):
        if isinstance(part, (expr.Subscript, expr.Call)) and not (
            isinstance(part, expr.Call)
            and (part.function in ("present", "bytes") or not declarations.domain(part.function))
        ):
            return True
        if isinstance(part, expr.Binary) and part.op in ("//", "%") and not _is_positive(part.right):
            return True
    return False


def _is_positive(node: expr.Expr) -> bool:
    return isinstance(node, expr.Literal) and node.value > 0
