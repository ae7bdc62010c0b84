"""Finds where a price is set, by syntax: each place that gives `flops`, `bytes` or `read_bytes` a value.

formula_lint finds arithmetic under a price's name. A formula can stand elsewhere and come in by a local name, a helper, a
lambda or an unpacked dictionary. It still has to be set: only a few functions may do that, and the test lists them.
A copy from the same field of another object (`target.flops = source.flops`) sets nothing new and is no finding. So a
class that gives its objects such a field is one.

It finds what a colleague may write in good faith. Who means to get around it still can: `getattr(record, "__set" + ...)`,
descriptors, a run file that is put together as text.
"""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tileops.tests.layering import formula_lint

FIELDS = frozenset({"flops", "bytes", "read_bytes", "declared_read_bytes"})
# Messages that hold a price: unpacking into them could set it. Some modules name the first one Record.
_MESSAGES = frozenset({"BenchmarkRecord", "Record", "Row", "AuditRow", "DeclaredCall"})
# What makes or fills a message from text, bytes or other messages.
_PARSERS = frozenset(
    {"FromString", "ParseFromString", "MergeFromString", "ParseDict", "Parse", "Merge", "MergeFrom", "CopyFrom"}
)
# A copy into one of these copies no price: times and parts of headers, and headers.
_NO_RECORDS = frozenset({"started_at", "finished_at", "parts", "header", "stamped"})
# A price's name and a value in a text that a program makes: `"flops": {}`, `flops: 12`, or the name before a `+`. The
# mark stands for a value that the text takes up.
_VALUE = "\0"
_TEXT = re.compile(rf"\b(?:{'|'.join(sorted(FIELDS))})[\"']?\s*[:=]\s*(?:[\d%{{$<{_VALUE}]|$)")
# Under another name, or handed on, these could not be seen.
_SETTERS = frozenset({"setattr", "__setattr__"})
_HIDDEN = _MESSAGES | _PARSERS | _SETTERS
# What copies a record with other values, sets a key by name, or makes a class whose fields are set by position.
_COPIES = frozenset({"replace", "_replace"})
_KEYS = frozenset({"setitem", "__setitem__", "setdefault"})
_CLASSES = frozenset({"namedtuple", "NamedTuple", "make_dataclass"})
_FORMULAS = "tileops.perf.formulas"


class Write(NamedTuple):
    """A place that sets a price: the file below the project's root, the function around it, the line, and how."""

    file: str
    function: str
    line: int
    how: str


def writes_in(root: pathlib.Path, paths: Iterable[pathlib.Path]) -> list[Write]:
    """Returns the writes of Python files below `root`, in order."""
    return [
        Write(path.relative_to(root).as_posix(), *found)
        for path in paths
        for found in writes(path.read_text(encoding="utf-8"))
    ]


def writes(source: str) -> Iterator[tuple[str, int, str]]:
    """Yields (function, line, how) of each place in a source that sets a price."""
    yield from _visit(ast.parse(source), "")


def _visit(node: ast.AST, function: str) -> Iterator[tuple[str, int, str]]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        function = node.name
    for line, how in _of(node):
        yield function, line, how
    for child in ast.iter_child_nodes(node):
        yield from _visit(child, function)


def _of(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields (line, how) of the writes that one piece of syntax makes."""
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        value = None if isinstance(node, ast.AugAssign) else node.value
        for target in targets:
            yield from _set_by(target, value)
        if value is not None and _name(value) in _HIDDEN and not _HIDDEN.issuperset(map(_name, targets)):
            yield node.lineno, f"another name of {_name(value)}"
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if alias.name in _HIDDEN and alias.asname is not None and alias.asname not in _HIDDEN:
                yield node.lineno, f"another name of {alias.name}"
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield from _set_by(node.target, None)
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        for item in node.items:
            if item.optional_vars is not None:
                yield from _set_by(item.optional_vars, None)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value in FIELDS and not _is_copy(key.value, value):
                yield key.lineno, f"a key {key.value!r}"
    elif isinstance(node, (ast.Constant, ast.JoinedStr)):
        if _TEXT.search(_text(node)):
            yield node.lineno, "a text that states a price"
    elif isinstance(node, ast.Call):
        yield from _call(node)
    elif isinstance(node, ast.ClassDef):
        yield from _fields(node)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in FIELDS:
        yield node.lineno, f"a function {node.name}()"


def _set_by(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[int, str]]:
    if isinstance(target, (ast.Tuple, ast.List)):
        values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [None] * len(target.elts)
        for each, part in zip(target.elts, values):
            yield from _set_by(each, part)
    elif isinstance(target, ast.Starred):
        yield from _set_by(target.value, None)
    elif isinstance(target, ast.Attribute) and target.attr in FIELDS and not _is_copy(target.attr, value):
        yield target.lineno, f"an assignment to .{target.attr}"
    elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and target.slice.value in FIELDS:
        if not _is_copy(target.slice.value, value):
            yield target.lineno, f"an assignment to [{target.slice.value!r}]"


def _call(node: ast.Call) -> Iterator[tuple[int, str]]:
    name = _name(node.func)
    handed = _HIDDEN.intersection(map(_name, node.args))
    for keyword in node.keywords:
        if keyword.arg in FIELDS and not _is_copy(keyword.arg, keyword.value):
            yield keyword.value.lineno, f"an argument {keyword.arg}="
        if keyword.arg is None and name in _MESSAGES | _COPIES:
            yield node.lineno, f"an unpacked dictionary in {name}()"
    if handed and (name == "partial" or handed & _SETTERS):
        yield node.lineno, f"{min(handed)} is handed on"
    if name in _SETTERS:
        named = node.args[-2] if len(node.args) > 1 else None
        if not isinstance(named, ast.Constant) or named.value in FIELDS:
            yield node.lineno, "setattr"
    elif (name in _PARSERS and not _copies_no_record(node)) or (
        isinstance(node.func, ast.Name) and name in ("exec", "eval")
    ):
        yield node.lineno, f"{name}()"
    elif name in _KEYS and FIELDS.intersection(_texts(node)):
        yield node.lineno, f"{name}() of a price"
    elif name in _CLASSES and FIELDS.intersection(_texts(node)):
        yield node.lineno, f"{name}() with fields that are set by position"


def _copies_no_record(node: ast.Call) -> bool:
    """Whether a call is CopyFrom, and fills a part of a message that holds no price."""
    method = node.func
    return isinstance(method, ast.Attribute) and method.attr == "CopyFrom" and _name(method.value) in _NO_RECORDS


def _text(node: ast.Constant | ast.JoinedStr) -> str:
    """A text, with a mark for each value that it takes up; "" of another constant."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else _VALUE for part in node.values)
    return node.value if isinstance(node.value, str) else ""


def _name(node: ast.AST) -> str:
    """The last name of a dotted name; "" of anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _texts(node: ast.Call) -> set[str]:
    """The words of the texts in a call's arguments."""
    texts = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str))
    return {word for text in texts for word in re.split(r"[\s,]+", text)}


def _fields(node: ast.ClassDef) -> Iterator[tuple[int, str]]:
    """A class that sets a price itself, or whose fields are set by position, which hides their names from all above."""
    by_name = any(
        isinstance(decorator, ast.Call) and any(word.arg == "kw_only" for word in decorator.keywords)
        for decorator in node.decorator_list
    )
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and getattr(statement.target, "id", "") in FIELDS and not by_name:
            yield statement.lineno, f"a field {statement.target.id} that is set by position"
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and not _is_none(statement.value):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if FIELDS.intersection(map(_name, targets)):
                yield statement.lineno, "a price that a class holds"


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _is_copy(field: str, value: ast.expr | None) -> bool:
    """Whether a value is the same field of another object."""
    return isinstance(value, ast.Attribute) and value.attr == field


def imports_of_formulas(source: str) -> list[int]:
    """Returns the lines of a source that import the formulas in Python."""
    package, _, name = _FORMULAS.rpartition(".")
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names]
            origin = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if any(each.startswith(_FORMULAS) for each in (origin, *names)) or (origin == package and name in names):
                found.append(node.lineno)
    return found


def arithmetic(source: str, function: str) -> list[int]:
    """Returns the lines of what computes in a function of a source: arithmetic, sums, functions without a name."""
    return [
        node.lineno
        for found in ast.walk(ast.parse(source))
        if isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef)) and found.name == function
        for node in ast.walk(found)
        if isinstance(node, (ast.AugAssign, ast.Lambda)) or formula_lint.computes(node)
    ]
