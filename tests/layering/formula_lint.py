"""Finds FLOPs and bytes that are computed, by syntax: an arithmetic expression that is given a price's name.

A price is copied from `op.eval_roofline()`; what computes one (a product of extents, a sum of sizes) is a formula, and
formulas live in the manifest and in `perf/formulas/`. Rates, times and ratios have other names and are not meant.
"""

import ast
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# Names that a price goes by, in assignments, keyword arguments, dictionary keys and functions.
_PRICE = re.compile(
    r"(?:(?:total|read|write|written|moved|min|call|row|op|num|n)_?)?(?:flops?|n?bytes|traffic)(?:_moved|_count)?"
)
_ARITHMETIC = (ast.Mult, ast.Pow, ast.Add, ast.Sub, ast.FloorDiv, ast.Div, ast.LShift, ast.RShift, ast.MatMult)
_COMPUTING = {"prod", "numel", "element_size", "sum", "fsum", "nelement", "dot"}


class Finding(NamedTuple):
    """A formula: the file by its name, the line, and the name that it computes."""

    file: str
    line: int
    name: str


def findings(paths: Iterable[pathlib.Path]) -> list[Finding]:
    """Formulas in Python files, in order."""
    return [
        Finding(path.name, line, name) for path in paths for line, name in formulas(path.read_text(encoding="utf-8"))
    ]


def formulas(source: str) -> Iterator[tuple[int, str]]:
    """(line, name) of each price that a source computes."""
    for node in ast.walk(ast.parse(source)):
        for name, value in _named(node):
            if value is not None and _PRICE.fullmatch(name.lower().lstrip("_")) and _is_computed(value):
                yield value.lineno, name


def _named(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """The values that a piece of syntax names."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _bound(target, node.value)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        yield from _bound(node.target, node.value)
    elif isinstance(node, ast.AugAssign):
        computed = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
        yield from _bound(node.target, computed)
    elif isinstance(node, ast.keyword) and node.arg:
        yield node.arg, node.value
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        for inner in ast.walk(node):
            if isinstance(inner, ast.Return):
                yield node.name, inner.value
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr" and len(node.args) == 3:
        if isinstance(node.args[1], ast.Constant):
            yield str(node.args[1].value), node.args[2]


def _bound(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Attribute):
        yield target.attr, value
    elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        for each, part in zip(target.elts, value.elts):
            yield from _bound(each, part)
    elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        yield str(target.slice.value), value


def _is_computed(value: ast.expr) -> bool:
    return any(map(computes, ast.walk(value)))


def computes(node: ast.AST) -> bool:
    """Returns whether a piece of syntax is arithmetic, which a sum of texts is not, or calls what computes."""
    if isinstance(node, ast.Call):
        return (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) in _COMPUTING
    return isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC) and not _is_text(node)


def _is_text(node: ast.BinOp) -> bool:
    """Whether a sum is one of texts."""
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )
