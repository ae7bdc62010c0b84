"""Formulas with one thing wrong each: what the oracles must tell from the formula as it stands.

A mutant changes one node of the Python source that prices a call: an emitted `eval_roofline`, or a function of
perf/formulas.py that an entry names. Changed are integer constants, operators, dropped terms and factors, one index read
for another, one tensor charged for another or not at all, branch conditions and comparisons.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Callable, Iterator


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One wrong formula.

    Attributes:
      place: line of the source, counted from 1 at its first line.
      change: what was changed, as "before -> after" in Python.
      tree: the changed source.
    """

    place: int
    change: str
    tree: ast.Module


_SWAPPED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr,
}  # fmt: skip


# What a price is put together in: reading one for an index is no mistake that anyone makes.
_RESULTS = frozenset({"call", "flops", "nbytes", "read", "written", "_call", "_flops", "_nbytes", "_read", "_written"})


def mutants(source: str, functions: frozenset[str], tensors: tuple[str, ...]) -> Iterator[Mutant]:
    """Every mutant of some functions of a source.

    Args:
      source: of a module or of one function.
      functions: names of the functions to change.
      tensors: the names of tensors that one may be taken for.
    """
    tree = ast.parse(source)
    for position, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.FunctionDef) and node.name in functions:
            yield from _of_function(tree, position, node, tensors)


def _of_function(tree: ast.Module, place: int, function: ast.FunctionDef, tensors: tuple[str, ...]) -> Iterator[Mutant]:
    stored = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names = sorted(stored - _RESULTS)
    body = [node for statement in _statements(function) for node in ast.walk(statement)]
    order = {id(node): index for index, node in enumerate(ast.walk(function))}
    for node in body:
        for change, replace in _changes(node, names, tensors):
            changed = copy.deepcopy(tree)
            inside = list(ast.walk(list(ast.walk(changed))[place]))
            target = inside[order[id(node)]]
            before = ast.unparse(target) if not isinstance(target, ast.If) else f"if {ast.unparse(target.test)}"
            replaced = ast.fix_missing_locations(ast.copy_location(replace(target), target))
            _Replace(target, replaced).visit(changed)
            yield Mutant(node.lineno, f"{before} -> {change(replaced)}", ast.fix_missing_locations(changed))


def _statements(function: ast.FunctionDef) -> list[ast.stmt]:
    """The function's statements without its docstring."""
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, replaced: ast.AST) -> None:
        self._target, self._replaced = target, replaced

    def visit(self, node: ast.AST) -> ast.AST:
        return self._replaced if node is self._target else self.generic_visit(node)


_Change = tuple[Callable[[ast.AST], str], Callable[[ast.AST], ast.AST]]


def _changes(node: ast.AST, names: list[str], tensors: tuple[str, ...]) -> Iterator[_Change]:
    """The ways to get one node wrong."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.unparse, lambda old: ast.Constant(old.value + 1)
        if node.value > 1:
            yield ast.unparse, lambda old: ast.Constant(old.value - 1)
    elif isinstance(node, ast.Constant) and node.value in tensors:
        for other in tensors:
            if other != node.value:
                yield ast.unparse, lambda old, other=other: ast.Constant(other)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        for other in names:
            if other != node.id:
                yield ast.unparse, lambda old, other=other: ast.Name(other, ast.Load())
    elif isinstance(node, ast.BinOp):
        yield ast.unparse, lambda old: old.left
        yield ast.unparse, lambda old: old.right
        if type(node.op) in _SWAPPED:
            yield ast.unparse, lambda old: ast.BinOp(old.left, _SWAPPED[type(old.op)](), old.right)
    elif isinstance(node, ast.BoolOp):
        yield ast.unparse, lambda old: ast.BoolOp(_SWAPPED[type(old.op)](), old.values)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _SWAPPED:
        yield ast.unparse, lambda old: ast.Compare(old.left, [_SWAPPED[type(old.ops[0])]()], old.comparators)
    elif isinstance(node, ast.IfExp):
        yield ast.unparse, lambda old: ast.IfExp(_negated(old.test), old.body, old.orelse)
    elif isinstance(node, ast.If):
        yield lambda new: f"if {ast.unparse(new.test)}", lambda old: ast.If(_negated(old.test), old.body, old.orelse)
    elif isinstance(node, ast.AugAssign):
        yield ast.unparse, lambda old: ast.Assign([old.target], old.value)
    elif isinstance(node, ast.Call) and len(node.args) > 1:  # a tensor or operand less
        for position in range(len(node.args)):
            yield ast.unparse, lambda old, at=position: ast.Call(old.func, old.args[:at] + old.args[at + 1 :], old.keywords)


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)
