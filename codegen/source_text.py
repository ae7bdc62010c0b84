"""Lays out lines of generated Python: indentation, literals, and calls within the line length."""

from __future__ import annotations

import math
import re
from typing import Any

from tileops.manifest.language import expr
from tileops.manifest.language.adt import AdtValue

LINE_LENGTH = 118


class Lines:
    """Collects lines at the current indentation."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def add(self, *lines: str) -> None:
        """Appends lines at the current indentation. An empty line stays empty."""
        self._lines.extend("    " * self._depth + line if line else "" for line in lines)

    def call(self, function: str, arguments: list[str], reserved: int = 0) -> None:
        """Appends a call, laid out within the line length less `reserved` characters."""
        self.add(*call(function, arguments, self.room - reserved))

    def mapping(self, head: str, items: list[str]) -> None:
        """Appends `head{item, item}`: on one line if it fits, else one item per line."""
        flat = f"{head}{{{', '.join(items)}}}"
        self.add(*([flat] if len(flat) <= self.room else [f"{head}{{", *(f"    {item}," for item in items), "}"]))

    def block(self, header: str) -> _Block:
        """Appends a header; `with lines.block("if x:"):` indents the lines added inside."""
        self.add(header)
        return _Block(self)

    def indent(self, by: int) -> None:
        """Changes the indentation by a number of levels."""
        self._depth += by

    @property
    def room(self) -> int:
        """Returns the characters left on a line at the current indentation."""
        return LINE_LENGTH - 4 * self._depth

    def text(self) -> str:
        """Returns all lines, with a newline at the end."""
        return "\n".join(self._lines) + "\n"


class _Block:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def __enter__(self) -> None:
        self._lines.indent(1)

    def __exit__(self, *unused: object) -> None:
        self._lines.indent(-1)


def literal(value: Any) -> str:
    """Returns a plain or algebraic value as Python source: strings in double quotes, infinity as `_math.inf`."""
    if isinstance(value, float) and math.isinf(value):
        return "_math.inf" if value > 0 else "-_math.inf"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"' if value.isprintable() else repr(value)
    if isinstance(value, AdtValue):
        fields = "".join(f", {name}={literal(item)}" for name, item in value.fields)
        return f"_Algebraic({literal(value.kind)}{fields})"
    if isinstance(value, tuple):
        inner = ", ".join(literal(item) for item in value)
        return f"({inner}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    return repr(value)


def call(function: str, arguments: list[str], room: int) -> list[str]:
    """Returns a call on one line if it fits, else its arguments on one line, else one argument per line.

    An argument may itself be several lines, joined by newlines.
    """
    flat = f"{function}({', '.join(arguments)})"
    if len(flat) <= room and "\n" not in flat:
        return [flat]
    inner = ", ".join(arguments)
    if len(inner) + 4 <= room and "\n" not in inner:
        return [f"{function}(", f"    {inner}", ")"]
    lines = [f"{function}("]
    for argument in arguments:
        parts = argument.split("\n")
        lines.extend(f"    {part}" for part in parts[:-1])
        lines.append(f"    {parts[-1]},")
    return [*lines, ")"]


def quoted(head: str, text: str, room: int) -> list[str]:
    """Returns `head"text"` on one line if it fits, else the text in parts, broken after commas and `or`."""
    if len(head) + len(literal(text)) <= room:
        return [f"{head}{literal(text)}"]
    parts, part = [], ""
    for word in re.split(r"(?<=, )|(?<= or )", text):
        if part and len(literal(part + word)) + 4 > room:
            parts.append(part)
            part = ""
        part += word
    return [f"{head}(", *(f"    {literal(part)}" for part in (*parts, part)), ")"]


def assign(name: str, node: expr.Expr, room: int, by: str = "=") -> list[str]:
    """Returns the lines of `name = expression` (or `name += ...`), broken before the outermost + or - if too long."""
    flat = f"{name} {by} {expr.to_source(node)}"
    if len(flat) <= room or not (isinstance(node, expr.Binary) and node.op in "+-"):
        return [flat]
    terms: list[str] = []
    first: expr.Expr = node
    while isinstance(first, expr.Binary) and first.op in "+-":
        terms.append(f"{first.op} {expr.to_source(first.right, expr.SUM + 1)}")
        first = first.left
    return [
        f"{name} {by} (",
        f"    {expr.to_source(first, expr.SUM)}",
        *(f"    {term}" for term in reversed(terms)),
        ")",
    ]


def declared(dtype: str, shape: str) -> str:
    """Returns a tensor's type as documentation writes it: `T[M, N]`, or `T Mat[flag, M, N]` for a type family."""
    return f"{dtype}{shape}" if shape.startswith("[") else f"{dtype} {shape}"


def plain(text: str) -> str:
    """Returns text of a spec file on one line that cannot end a docstring."""
    return " ".join(text.split()).replace("\\", "\\\\").replace('"', "'")
