"""Formulas with one thing wrong each: what the oracles must tell from the formula as it stands.

A mutant changes one node of the Python source that prices a call: an emitted method, or a function of perf/formulas/
that an entry names. Changed are integer constants, operators, signs and negations, dropped terms, factors and
arguments, one index or parameter read for another, one tensor charged for another or not at all, branch conditions and
comparisons.
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
      function: the function that is changed.
      place: line of the source, counted from 1 at its first line.
      change: what was changed, as "before -> after" in Python.
      becomes: the changed statement (of a compound one, its head): with `function`, which mutant this is.
      tree: the changed source; None where no source is changed.
    """

    function: str
    place: int
    change: str
    becomes: str
    tree: ast.Module | None = None


@dataclasses.dataclass(frozen=True)
class Names:
    """The names of an entry that one may take for one another."""

    tensors: tuple[str, ...] = ()
    indices: tuple[str, ...] = ()
    params: tuple[str, ...] = ()


_SWAPPED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
}

# What a price is put together in: reading one for an index is no mistake that anyone makes.
_RESULTS = frozenset({"call", "flops", "nbytes", "read", "written", "_call", "_flops", "_nbytes", "_read", "_written"})
# Arguments of these are put there by the emitter, not by whoever writes a formula.
_EMITTED_CHECKS = frozenset({"price", "price_error", "price_pair"})


def mutants(source: str, functions: frozenset[str], names: Names) -> Iterator[Mutant]:
    """Every mutant of some functions of a source.

    Args:
      source: of a module or of one function.
      functions: names of the functions to change.
      names: of the entry that the functions price.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in functions:
            yield from _of_function(tree, node, names)


@dataclasses.dataclass(frozen=True)
class _Slot:
    """A place in a tree: what stands there, and the statement that it is part of."""

    holder: ast.AST
    field: str
    index: int | None
    node: ast.AST
    statement: ast.stmt

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.holder, self.field, node)
        else:
            getattr(self.holder, self.field)[self.index] = node


def _of_function(tree: ast.Module, function: ast.FunctionDef, names: Names) -> Iterator[Mutant]:
    stored = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    known = sorted(stored - _RESULTS)
    first = 1 if ast.get_docstring(function) is not None else 0
    slots = [slot for slot in _slots(function, function) if slot.holder is not function or slot.field == "body"]
    skipped = {id(function.body[0])} if first else set()
    for slot in slots:
        if id(slot.statement) in skipped:
            continue
        for after in _changes(slot.node, known, names):
            yield _mutant(tree, function, slot, after)
        if slot.field == "test" and isinstance(slot.holder, ast.If):
            yield _mutant(tree, function, slot, _negated(slot.node), "if ")


def _mutant(tree: ast.Module, function: ast.FunctionDef, slot: _Slot, after: ast.AST, prefix: str = "") -> Mutant:
    before = ast.unparse(slot.node)
    after = ast.fix_missing_locations(ast.copy_location(after, slot.node))
    slot.put(after)
    try:
        changed = copy.deepcopy(tree)
        statement = after if slot.node is slot.statement else slot.statement
        becomes = ast.unparse(statement).partition("\n")[0]
    finally:
        slot.put(slot.node)
    return Mutant(
        function.name, slot.node.lineno, f"{prefix}{before} -> {prefix}{ast.unparse(after)}", becomes, changed
    )


def _slots(holder: ast.AST, statement: ast.stmt) -> Iterator[_Slot]:
    """The places below a node, those of a statement under the innermost statement they are part of."""
    for field, value in ast.iter_fields(holder):
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.AST) and not isinstance(node, ast.expr_context):
                inside = node if isinstance(node, ast.stmt) else statement
                if hasattr(node, "lineno"):
                    yield _Slot(holder, field, index, node, inside)
                yield from _slots(node, inside)


def _changes(node: ast.AST, known: list[str], names: Names) -> Iterator[ast.AST]:
    """The ways to get one node wrong."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)
        if node.value > 0:
            yield ast.Constant(node.value - 1)
    elif isinstance(node, ast.Constant):
        yield from (ast.Constant(other) for other in _others(node.value, names.tensors))
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield from (ast.Name(other, ast.Load()) for other in _others(node.id, known))
    elif isinstance(node, ast.Subscript):
        yield from _other_subscripts(node, names)
    elif isinstance(node, ast.BinOp):
        yield from (node.left, node.right)
        yield from (ast.BinOp(node.left, swapped(), node.right) for swapped in _swapped(node.op))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        yield node.operand
    elif isinstance(node, ast.BoolOp):
        yield from (ast.BoolOp(swapped(), node.values) for swapped in _swapped(node.op))
        yield from node.values
    elif isinstance(node, ast.Compare):
        yield from _other_comparisons(node)
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(_negated(node.test), node.body, node.orelse)
    elif isinstance(node, ast.AugAssign):
        yield ast.Assign([node.target], node.value)
    elif isinstance(node, ast.Call) and len(node.args) > 1 and _name_of(node.func) not in _EMITTED_CHECKS:
        for at in range(len(node.args)):  # a tensor or operand less
            yield ast.Call(node.func, node.args[:at] + node.args[at + 1 :], node.keywords)


def _others(name: object, names: tuple[str, ...] | list[str]) -> list[str]:
    """What may be taken for `name`; nothing where it is none of the names."""
    return [other for other in names if other != name] if name in names else []


def _other_subscripts(node: ast.Subscript, names: Names) -> Iterator[ast.AST]:
    """call.indices[...] and call.params[...] of another name."""
    known = {"indices": names.indices, "params": names.params}.get(_name_of(node.value), ())
    if isinstance(node.slice, ast.Constant):
        for other in _others(node.slice.value, known):
            yield ast.Subscript(node.value, ast.Constant(other), node.ctx)


def _other_comparisons(node: ast.Compare) -> Iterator[ast.AST]:
    """Each comparison of a chain another, and the chain without its first or its last."""
    for at, operator in enumerate(node.ops):
        for swapped in _swapped(operator):
            yield ast.Compare(node.left, [*node.ops[:at], swapped(), *node.ops[at + 1 :]], node.comparators)
    if len(node.ops) > 1:
        yield ast.Compare(node.left, node.ops[:-1], node.comparators[:-1])
        yield ast.Compare(node.comparators[0], node.ops[1:], node.comparators[1:])


def _swapped(operator: ast.AST) -> list[Callable[[], ast.AST]]:
    return [_SWAPPED[type(operator)]] if type(operator) in _SWAPPED else []


def _name_of(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _negated(test: ast.AST) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)
