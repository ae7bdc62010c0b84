"""Reads typed fields from YAML nodes. Each wrong field is one diagnostic, and reading goes on."""

from __future__ import annotations

import difflib
import keyword
from collections import abc
from collections.abc import Callable
from typing import Any

from tileops.manifest.diagnostics import Diagnostics, line_at
from tileops.manifest.language import expr_parser
from tileops.manifest.language.expr import Expr
from tileops.manifest.language.names import NAME, RESERVED_NAMES
from tileops.manifest.language.text import odd_character, shown
from tileops.manifest.reading.forms import Form
from tileops.manifest.reading.source import Mapping, Node, Scalar, Sequence

_TYPE_NAMES = {str: "text", bool: "true or false", int: "an integer"}
MAX_MEMBERS = 256  # per mapping or list of an entry; real ops have a tenth of it
MAX_ROWS = 1000
MAX_NAME = 80


class Fields:
    """Reports defects of one entry and remembers which fields could not be read.

    Attributes:
      types_readable: whether all names of algebraic types are known.
    """

    def __init__(
        self, file: str, op: str, lines: abc.Mapping[str, int], diagnostics: Diagnostics, types_readable: bool = True
    ) -> None:
        self.file = file
        self.op = op
        self.types_readable = types_readable
        self.malformed: set[str] = set()
        self._lines = lines
        self._diagnostics = diagnostics

    def report(self, path: str, code: str, message: str, line: int = 0) -> None:
        """Records a defect of the field `path`, on its own line or on `line`, and marks the field unreadable."""
        self.malformed.add(path)
        self._diagnostics.add(self.file, line or line_at(self._lines, path, 1), self.op, path, code, message)

    def form(self, node: Node | None, path: str, form: Form) -> Mapping:
        """Returns a mapping with the fields of a form. Reports defects as `mapping` does."""
        return self.mapping(node, path, () if form.open else form.names, form.required)

    def mapping(
        self, node: Node | None, path: str, allowed: tuple[str, ...] = (), required: tuple[str, ...] = ()
    ) -> Mapping:
        """Returns a mapping with text keys, empty if `node` is none. Reports unknown, missing and non-text keys."""
        if node is None:
            return Mapping({}, {}, 0)
        if not isinstance(node, Mapping):
            self.report(path, "M012", "must be a mapping")
            return Mapping({}, {}, node.line)
        if self._too_many(len(node.entries), path, MAX_MEMBERS):
            return Mapping({}, {}, node.line)
        kept: dict[Any, Node] = {}
        misspelt = _misspelt(node, allowed, required)
        for key, value in node.entries.items():
            if key in node.doubtful:
                self.malformed.add(path)
            elif not isinstance(key, str):
                self.report(path, "M012", f"key {shown(key)} must be text (quote it)", node.key_lines[key])
            elif allowed and key not in allowed:
                hint = f"; did you mean {misspelt[key]!r}?" if key in misspelt else f"; known are {', '.join(allowed)}"
                self.report(_join(path, key), "M011", f"unknown field {shown(key)}{hint}")
            else:
                kept[key] = value
        meant = set(misspelt.values())
        if node.partial:
            self.malformed.add(path)
            meant.update(required)  # an unreadable key may be the missing one
        self.malformed.update(_join(path, key) for key in meant - kept.keys())
        for key in required:
            if key not in kept and key not in meant:
                self.report(_join(path, key), "M010", "is required and missing")
        return Mapping(kept, node.key_lines, node.line)

    def scalar(self, node: Node | None, path: str, wanted: type) -> Any:
        """Returns a scalar of one Python type, or None if it is absent or reported."""
        if node is None:
            return None
        if isinstance(node, Scalar) and type(node.value) is wanted:
            return node.value
        self.report(path, "M012", f"must be {_TYPE_NAMES[wanted]}", node.line)
        return None

    def text(self, node: Node | None, path: str, choices: tuple[str, ...] = ()) -> str | None:
        """Returns non-empty text, which is one of `choices` if there are any; None if absent or reported."""
        value = self.scalar(node, path, str)
        if value is None:
            return None
        if not value.strip():
            self.report(path, "M012", "must not be empty")
        elif choices and value not in choices:
            self.report(path, "M012", f"must be {'one of ' if len(choices) > 1 else ''}{', '.join(choices)}")
        else:
            return value
        return None

    def parsed(
        self, node: Node | None, path: str, parse: Callable[[str], Expr] = expr_parser.parse, line: int = 0
    ) -> tuple[str, Expr] | None:
        """Returns a text and the expression that it is; None if absent or reported."""
        text = self.text(node, path)
        if text is None:
            return None
        try:
            return text, parse(text)
        except expr_parser.ExprError as error:
            self.report(path, "M022" if error.is_kind else "M020", str(error), line)
            return None

    def texts(self, node: Node | None, path: str, least: str = "") -> tuple[str, ...]:
        """Returns the non-empty texts of a sequence, without those that are reported."""
        found = (self.text(item, path) for item in self.sequence(node, path, least=least))
        return tuple(text for text in found if text is not None)

    def words(self, node: Node, path: str) -> dict[str, str]:
        """Returns a mapping from names to non-empty texts, without those that are reported."""
        found = {name: self.text(value, f"{path}.{name}") for name, value in self.mapping(node, path).entries.items()}
        return {name: text for name, text in found.items() if text is not None}

    def sequence(self, node: Node | None, path: str, most: int = MAX_MEMBERS, least: str = "") -> tuple[Node, ...]:
        """Returns the items of a sequence; none if absent or reported.

        Args:
          node: the sequence.
          path: its field.
          most: how many items it may have.
          least: what it must have one of, as in "row"; "" if it may be empty.
        """
        if node is None:
            return ()
        if isinstance(node, Sequence):
            if least and not node.items:
                self.report(path, "M010", f"must hold at least one {least}")
            return () if self._too_many(len(node.items), path, most) else node.items
        self.report(path, "M012", "must be a sequence")
        return ()

    def _too_many(self, count: int, path: str, most: int) -> bool:
        if count > most:
            self.report(path, "M003", f"has {count} members; at most {most} are read")
        return count > most

    def plain(self, node: Node, path: str, mappings: bool = False) -> Any:
        """Returns a value with sequences as tuples. Reports a mapping, unless `mappings` lets it be a dict."""
        if isinstance(node, Scalar):
            return node.value
        if isinstance(node, Sequence):
            return tuple(self.plain(item, path, mappings) for item in node.items)
        if mappings:
            return {key: self.plain(item, path, mappings) for key, item in node.entries.items()}
        self.report(path, "M012", "must be a plain value or a list of them", node.line)
        return None

    def name(self, name: str, path: str, reserved: abc.Mapping[str, str] = RESERVED_NAMES) -> bool:
        """Returns whether `name` is allowed, and reports it if not; `reserved` maps taken names to their meanings."""
        if not NAME.fullmatch(name):
            self.report(path, "M013", f"{shown(name)} is no name: {_why_no_name(name)}")
        elif keyword.iskeyword(name):
            self.report(path, "M013", f"{name!r} is a keyword of Python, so no argument can have this name")
        elif name in reserved:
            self.report(path, "M013", f"{name!r} is {reserved[name]}; choose another name, such as {name}_")
        else:
            return True
        return False


def _misspelt(node: Mapping, allowed: tuple[str, ...], required: tuple[str, ...]) -> dict[str, str]:
    """Returns what each unknown field likely means: a field spelt like it, or the one that is missing."""
    unknown = [key for key in node.entries if isinstance(key, str) and key not in allowed] if allowed else []
    found = {}
    for key in unknown:
        close = [name for name in difflib.get_close_matches(key[:MAX_NAME], allowed) if name not in node.entries]
        if close:
            found[key] = close[0]
    missing = [name for name in required if name not in node.entries and name not in found.values()]
    odd = [key for key in unknown if key not in found]
    if len(odd) == 1 and len(missing) == 1:
        found[odd[0]] = missing[0]
    return found


def _why_no_name(name: str) -> str:
    odd = odd_character(name)
    return (
        f"{odd} is not among ASCII letters, digits and _"
        if odd
        else (f"write ASCII letters, digits and _, a letter first, at most {MAX_NAME} characters")
    )


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
