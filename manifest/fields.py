"""Reading typed fields out of positioned YAML nodes: every miss is one diagnostic, and the reading goes on."""

from __future__ import annotations

import difflib
import keyword
import re
from typing import Any

from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.source import Mapping, Node, Scalar, Sequence

# Names that generated code uses for itself beside the entry's own.
RESERVED_NAMES = frozenset({"out", "self", "call", "target", "device", "checks", "primitives", "math", "inf"})
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,79}")
_TYPE_NAMES = {str: "text", bool: "true or false", int: "an integer"}


class Fields:
    """Reports defects of one entry and remembers which fields could not be read."""

    def __init__(self, file: str, op: str, diagnostics: Diagnostics) -> None:
        self.file = file
        self.op = op
        self.malformed: set[str] = set()
        self._diagnostics = diagnostics

    def report(self, path: str, line: int, code: str, message: str) -> None:
        """Record a defect of the field `path` and mark it unreadable."""
        self.malformed.add(path)
        self._diagnostics.add(self.file, line, self.op, path, code, message)

    def mapping(self, node: Node | None, path: str, allowed: tuple[str, ...] = (), required: tuple[str, ...] = ()) -> Mapping:
        """A mapping with text keys; unknown, missing and non-text keys are reported. Empty where it is none."""
        if node is None:
            return Mapping({}, {}, 0)
        if not isinstance(node, Mapping):
            self.report(path, node.line, "M012", "must be a mapping")
            return Mapping({}, {}, node.line)
        kept: dict[Any, Node] = {}
        for key, value in node.entries.items():
            line = node.key_lines[key]
            if not isinstance(key, str):
                self.report(path, line, "M012", f"key {key!r} must be text (quote it)")
            elif allowed and key not in allowed:
                close = difflib.get_close_matches(key, allowed, 1)
                hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(allowed)}"
                self.report(_join(path, key), line, "M011", f"unknown field {key!r}{hint}")
            else:
                kept[key] = value
        for key in required:
            if key not in kept:
                self.report(_join(path, key), node.line, "M010", "is required and missing")
        return Mapping(kept, node.key_lines, node.line)

    def scalar(self, node: Node | None, path: str, wanted: type) -> Any:
        """A scalar of one Python type; None where absent or reported."""
        if node is None:
            return None
        if isinstance(node, Scalar) and type(node.value) is wanted:
            return node.value
        self.report(path, node.line, "M012", f"must be {_TYPE_NAMES[wanted]}")
        return None

    def text(self, node: Node | None, path: str) -> str | None:
        """Non-empty text; None where absent or reported."""
        value = self.scalar(node, path, str)
        if value is not None and not value.strip():
            self.report(path, node.line, "M012", "must not be empty")
            return None
        return value

    def sequence(self, node: Node | None, path: str) -> tuple[Node, ...]:
        """Items of a sequence; none where absent or reported."""
        if node is None:
            return ()
        if isinstance(node, Sequence):
            return node.items
        self.report(path, node.line, "M012", "must be a sequence")
        return ()

    def plain(self, node: Node, path: str) -> Any:
        """A value of scalars and sequences, as tuples. A mapping is reported."""
        if isinstance(node, Scalar):
            return node.value
        if isinstance(node, Sequence):
            return tuple(self.plain(item, path) for item in node.items)
        self.report(path, node.line, "M012", "must be a plain value or a list of them")
        return None

    def name(self, name: str, path: str, line: int) -> bool:
        """Whether `name` may name something in an entry; reported where not."""
        if not _NAME.fullmatch(name):
            self.report(path, line, "M013", f"{name!r} is no name (ASCII letters, digits and _, a letter first)")
        elif keyword.iskeyword(name) or name in RESERVED_NAMES:
            self.report(path, line, "M013", f"{name!r} is reserved")
        else:
            return True
        return False


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
