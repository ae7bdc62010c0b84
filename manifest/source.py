"""YAML with source positions: every key and value knows its line; nothing is kept silently twice."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import yaml

from tileops.manifest.diagnostics import Diagnostics

# Far above any real spec file (the largest family of a 200-op library is about 4,000 lines), far below what hurts.
MAX_BYTES = 4 << 20
MAX_NODES = 200_000
MAX_DEPTH = 32


@dataclasses.dataclass(frozen=True)
class Scalar:
    """A YAML scalar as Python value: str, int, float, bool or None."""

    value: Any
    line: int


@dataclasses.dataclass(frozen=True)
class Sequence:
    """A YAML sequence."""

    items: tuple[Node, ...]
    line: int


@dataclasses.dataclass(frozen=True)
class Mapping:
    """A YAML mapping with scalar keys; `key_lines` holds each key's own line."""

    entries: dict[Any, Node]
    key_lines: dict[Any, int]
    line: int


Node = Scalar | Sequence | Mapping


class _TooLarge(Exception):
    """A document passes a bound; carries the line where it does."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


def read(path: str, file: str, diagnostics: Diagnostics) -> Node | None:
    """Parse the file at `path`; defects go to `diagnostics` under the name `file`. None where nothing can be read."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        diagnostics.add(file, 1, "", "", "M001", f"cannot be read: {error.strerror}")
        return None
    return parse(data, file, diagnostics)


def parse(data: bytes, file: str, diagnostics: Diagnostics) -> Node | None:
    """Parse YAML bytes into positioned nodes; any bytes give nodes or diagnostics, never an exception."""
    if len(data) > MAX_BYTES:
        diagnostics.add(file, 1, "", "", "M003", f"larger than {MAX_BYTES >> 20} MiB")
        return None
    loader = None
    try:
        loader = yaml.SafeLoader(data)
        root = loader.get_single_node()
        if root is None:
            diagnostics.add(file, 1, "", "", "M001", "holds no entry")
            return None
        return _Builder(loader, file, diagnostics).build(root, 0)
    except _TooLarge as error:
        diagnostics.add(file, error.line, "", "", "M003", str(error))
    except RecursionError:
        diagnostics.add(file, 1, "", "", "M003", f"nested deeper than {MAX_DEPTH} levels")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        diagnostics.add(file, mark.line + 1 if mark else 1, "", "", "M001", f"not YAML: {error.problem or error.context}")
    except (yaml.YAMLError, UnicodeError, ValueError) as error:
        diagnostics.add(file, 1, "", "", "M001", f"not YAML: {str(error).splitlines()[0]}")
    finally:
        if loader is not None:
            loader.dispose()
    return None


class _Builder:
    """Turns PyYAML's nodes into positioned ones, bounded in number (aliases count as what they stand for) and depth."""

    def __init__(self, loader: yaml.SafeLoader, file: str, diagnostics: Diagnostics) -> None:
        self._loader = loader
        self._file = file
        self._diagnostics = diagnostics
        self._nodes = 0

    def build(self, node: yaml.Node, depth: int) -> Node:
        line = node.start_mark.line + 1
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _TooLarge(line, f"more than {MAX_NODES} values, aliases expanded")
        if depth > MAX_DEPTH:
            raise _TooLarge(line, f"nested deeper than {MAX_DEPTH} levels, or an alias refers to itself")
        if isinstance(node, yaml.SequenceNode):
            return Sequence(tuple(self.build(item, depth + 1) for item in node.value), line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, line, depth)
        return Scalar(self._scalar(node), line)

    def _mapping(self, node: yaml.MappingNode, line: int, depth: int) -> Mapping:
        entries: dict[Any, Node] = {}
        key_lines: dict[Any, int] = {}
        for key_node, value_node in node.value:
            key_line = key_node.start_mark.line + 1
            value = self.build(value_node, depth + 1)
            if not isinstance(key_node, yaml.ScalarNode):
                self._diagnostics.add(self._file, key_line, "", "", "M012", "a key must be a plain word")
                continue
            key = self._scalar(key_node)
            if key in entries:
                self._diagnostics.add(
                    self._file, key_line, "", "", "M002", f"key {key!r} stands twice in one mapping"
                    f" (first on line {key_lines[key]})"
                )
                continue
            entries[key] = value
            key_lines[key] = key_line
        return Mapping(entries, key_lines, line)

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        """The value by YAML's own rules where it is a plain number, bool, null or text; else the text as written."""
        if node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float") and len(node.value) > 40:
            return node.value  # a number no shape or constant needs; as text it is refused where a number is meant
        if node.tag in _PLAIN_TAGS:
            value = self._loader.construct_object(node)
            # NaN equals nothing, not even itself: as text it cannot slip through a comparison
            return node.value if isinstance(value, float) and math.isnan(value) else value
        return node.value


_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null", "str"))
