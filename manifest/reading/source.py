"""Parses YAML into nodes that know their lines, and reports keys that appear twice."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import yaml

from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.reading import scalars

# Far above any real spec file (the largest family of a library of 200 ops has about 4,000 lines), and cheap to read.
MAX_BYTES = 4 << 20
MAX_NODES = 100_000
MAX_DEPTH = 32
_LINE_ENDS = re.compile("[\x85\u2028\u2029]")


@dataclasses.dataclass(frozen=True)
class Scalar:
    """A YAML scalar as a Python value: str, int, float (no NaN), bool or None."""

    value: Any
    line: int


@dataclasses.dataclass(frozen=True)
class Sequence:
    """A YAML sequence."""

    items: tuple[Node, ...]
    line: int


@dataclasses.dataclass(frozen=True)
class Mapping:
    """A YAML mapping with scalar keys.

    Attributes:
      entries: the members by key.
      key_lines: each key's own line.
      partial: whether some member was reported and is not here.
      doubtful: keys that were reported, and stand here for the likeliest meaning.
    """

    entries: dict[Any, Node]
    key_lines: dict[Any, int]
    line: int
    partial: bool = False
    doubtful: frozenset[Any] = frozenset()


Node = Scalar | Sequence | Mapping


def line_of(node: Node | None) -> int:
    """Returns the line of a node that was found to be there, as that of a field with a value is."""
    assert node is not None, "a field with a value has a node"
    return node.line


def lines(node: Node, depth: int, path: str = "") -> dict[str, int]:
    """Returns the line of each member down to `depth`, by the path that diagnostics show: `workloads[0].M`."""
    found: dict[str, int] = {}
    if isinstance(node, Mapping):
        members = [
            (f"{path}.{key}" if path else str(key), node.key_lines[key], part) for key, part in node.entries.items()
        ]
    elif isinstance(node, Sequence):
        members = [(f"{path}[{at}]", part.line, part) for at, part in enumerate(node.items)]
    else:
        return found
    for name, line, part in members:
        found[name] = line
        if depth > 1:
            found |= lines(part, depth - 1, name)
    return found


class _NoAnchorError(Exception):
    """An alias on the line `line` names no anchor before it."""

    def __init__(self, line: int, anchor: str) -> None:
        super().__init__(f"the alias *{anchor} has no anchor before it; write text that begins with * in quotes")
        self.line = line


class _TooLargeError(Exception):
    """A document exceeds a bound, on the line `line`."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


def read(path: str, file: str, diagnostics: Diagnostics) -> Node | None:
    """Returns the parsed file at `path`, or None if unreadable. `diagnostics` takes defects under the name `file`."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        diagnostics.add_of_file(file, 1, "M001", f"cannot be read: {error.strerror}")
        return None
    return parse(data, file, diagnostics)


def parse(data: bytes, file: str, diagnostics: Diagnostics) -> Node | None:
    """Returns the nodes of YAML bytes, or None. Any bytes give nodes or diagnostics, never an exception."""
    if len(data) > MAX_BYTES:
        diagnostics.add_of_file(file, 1, "M003", f"larger than {MAX_BYTES >> 20} MiB")
        return None
    loader = None
    try:
        found = _LINE_ENDS.search(data.decode("utf-8"))
        if found:
            line = found.string.count("\n", 0, found.start()) + 1
            diagnostics.add_of_file(
                file, line, "M005", f"U+{ord(found[0]):04X} ends a line for some readers of YAML only; remove it"
            )
            return None  # the parser counts lines differently from here on
        loader = _LOADER(data)
        return _Builder(loader, file, diagnostics).document()
    except _TooLargeError as error:
        diagnostics.add_of_file(file, error.line, "M003", str(error))
    except _NoAnchorError as error:
        diagnostics.add_of_file(file, error.line, "M001", f"not YAML: {error}")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        code = "M003" if "nesting" in (error.problem or "") else "M001"  # the parser has a bound of its own
        last = data.count(b"\n") + (not data.endswith(b"\n"))  # a parser that expects more text is behind the last line
        line = min(mark.line + 1, last) if mark else 1
        hint = "; indent with spaces, not with a tab" if mark and _begins_with_a_tab(data, mark.line) else ""
        diagnostics.add_of_file(file, max(line, 1), code, f"not YAML: {error.problem or error.context}{hint}")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        diagnostics.add_of_file(
            file, line, "M001", f"not UTF-8: byte 0x{data[error.start]:02x} at {error.start} of the file"
        )
    except (yaml.YAMLError, ValueError) as error:
        diagnostics.add_of_file(file, 1, "M001", f"not YAML: {str(error).splitlines()[0]}")
    finally:
        if loader is not None:
            loader.dispose()
    return None


def _begins_with_a_tab(data: bytes, line: int) -> bool:
    """Returns whether the indentation of a line, counted from 0, has a tab."""
    text = b"".join(data.split(b"\n")[line : line + 1])
    return b"\t" in text[: len(text) - len(text.lstrip())]


# libyaml's parser if PyYAML was built with it: the same events, ten times as fast.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclasses.dataclass(frozen=True)
class _Anchored:
    """The target of an alias: the node, the number of values in it, and its depth."""

    node: Node
    size: int
    height: int


class _Builder:
    """Turns parse events into nodes one by one, so that the parser stops where a bound is exceeded.

    Values are bounded in number and depth. An alias counts as its target.
    """

    def __init__(self, loader: yaml.SafeLoader, file: str, diagnostics: Diagnostics) -> None:
        self._loader = loader
        self._file = file
        self._diagnostics = diagnostics
        self._nodes = 0
        self._deepest = 0
        self._anchors: dict[str, _Anchored | None] = {}

    def document(self) -> Node | None:
        """Returns the one document of the stream. Reports no document, or several, and returns None."""
        self._loader.get_event()
        if self._loader.check_event(yaml.StreamEndEvent):
            self._diagnostics.add_of_file(self._file, 1, "M001", "holds no entry")
            return None
        self._loader.get_event()
        root = self._node(self._loader.get_event(), 0)
        self._loader.get_event()
        if not self._loader.check_event(yaml.StreamEndEvent):
            line = self._loader.peek_event().start_mark.line + 1
            self._diagnostics.add_of_file(self._file, line, "M001", "holds more than one document")
            return None
        return root

    def _node(self, event: yaml.Event, depth: int, key_line: int = 0) -> Node:
        """Returns the node that begins with `event`. The line of a collection is `key_line`, the line of its key."""
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor, line, depth, key_line)
        self._count(1, line)
        self._deepen(depth, line)
        if isinstance(event, yaml.ScalarEvent):
            self._untagged(event.tag, line)
            node: Node = Scalar(self._scalar(event, line), line)
            if event.anchor is not None:
                self._anchors[event.anchor] = _Anchored(node, 1, 0)
            return node
        self._untagged(event.tag, line)
        before, outside, self._deepest = self._nodes, self._deepest, depth
        if event.anchor is not None:
            self._anchors[event.anchor] = None  # not complete yet
        if isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(key_line or line, depth)
        else:
            node = self._mapping(key_line or line, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(node, self._nodes - before + 1, self._deepest - depth)
        self._deepest = max(self._deepest, outside)
        return node

    def _count(self, number: int, line: int) -> None:
        self._nodes += number
        if self._nodes > MAX_NODES:
            raise _TooLargeError(line, f"more than {MAX_NODES} values, aliases expanded")

    def _deepen(self, depth: int, line: int) -> None:
        if depth > MAX_DEPTH:
            raise _TooLargeError(line, f"nested deeper than {MAX_DEPTH} levels")
        self._deepest = max(self._deepest, depth)

    def _alias(self, anchor: str, line: int, depth: int, key_line: int) -> Node:
        if anchor not in self._anchors:
            raise _NoAnchorError(line, anchor)
        found = self._anchors[anchor]
        if found is None:
            raise _TooLargeError(line, f"the alias *{anchor} refers to itself")
        self._count(found.size, line)
        self._deepen(depth + found.height, line)
        return found.node if isinstance(found.node, Scalar) else dataclasses.replace(found.node, line=key_line or line)

    def _sequence(self, line: int, depth: int) -> Sequence:
        items = []
        while not isinstance(event := self._loader.get_event(), yaml.SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return Sequence(tuple(items), line)

    def _mapping(self, line: int, depth: int) -> Mapping:
        entries: dict[Any, Node] = {}
        key_lines: dict[Any, int] = {}
        partial, doubtful = False, set()
        while not isinstance(event := self._loader.get_event(), yaml.MappingEndEvent):
            key_line = event.start_mark.line + 1
            merges = isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]
            key_node = self._node(event, depth + 1)
            value = self._node(self._loader.get_event(), depth + 1, key_line)
            if merges:
                self._report(key_line, "M005", "a merge key (<<) is not accepted; write out the fields")
                partial = True
                continue
            if not isinstance(key_node, Scalar):
                self._report(key_line, "M012", "a key must be a plain word")
                partial = True
                continue
            key = key_node.value
            if isinstance(event, yaml.ScalarEvent) and not isinstance(key, str) and self._reading(event).objection:
                doubtful.add(key)
            if key in entries:
                self._report(key_line, "M002", f"key {key!r} is twice in one mapping (first on line {key_lines[key]})")
                continue
            entries[key] = value
            key_lines[key] = key_line
        return Mapping(entries, key_lines, line, partial, frozenset(doubtful))

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> Any:
        """Returns the value of a plain scalar by its form, and the text of any other scalar."""
        reading = self._reading(event)
        if reading.objection:
            self._report(line, "M005", reading.objection)
        return reading.value

    def _reading(self, event: yaml.ScalarEvent) -> scalars.Reading:
        return (
            scalars.Reading(event.value)
            if event.tag is not None or not event.implicit[0]
            else scalars.read(event.value)
        )

    def _untagged(self, tag: str | None, line: int) -> None:
        """Reports a tag: it gives a value a type that its form does not show, and some readers run code for it."""
        if tag is not None:
            self._report(line, "M005", f"the tag {tag} is not accepted; write the value without it, and text in quotes")

    def _report(self, line: int, code: str, message: str) -> None:
        self._diagnostics.add_of_file(self._file, line, code, message)
