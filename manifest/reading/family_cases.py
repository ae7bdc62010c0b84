"""Reads the cases of a type family, in either spelling: `{literal: shape}`, or a list of `{when: ..., is: shape}`.

Of a family with `match: [mode, flag]`, `"('tile', True)": "[M, N]"` and `{when: [tile, true], is: "[M, N]"}` are one case.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from tileops.manifest.language import expr_parser, kinds
from tileops.manifest.language.text import shown
from tileops.manifest.model import FamilyCase, Pattern
from tileops.manifest.reading import forms
from tileops.manifest.reading.fields import Fields
from tileops.manifest.reading.source import Mapping as MappingNode
from tileops.manifest.reading.source import Node, Scalar, Sequence

_ANYTHING = "_"
_CONSTRUCTOR = re.compile(r"(?P<name>[A-Za-z_]\w*)(\((?P<fields>.*)\))?", re.ASCII)


class _PatternError(Exception):
    """A component of `when` is no pattern; the message says why."""


def read_cases(
    fields: Fields, node: Node | None, place: str, match: tuple[str, ...] | None, params: Mapping[str, kinds.Kind]
) -> tuple[FamilyCase, ...]:
    """Returns the cases of a family, without those that are reported.

    Args:
      fields: takes the defects.
      node: the cases.
      place: their field.
      match: the parameters that choose the case; None if it is not known which these are.
      params: the kinds of the family's parameters, as far as they could be read.
    """
    if node is None:
        return ()
    if isinstance(node, MappingNode):
        found = [
            _keyed(fields, key, value, place, None if match is None else len(match))
            for key, value in node.entries.items()
        ]
        count = len(node.entries)
    elif isinstance(node, Sequence):
        found = [
            _listed(fields, item, f"{place}[{at}]", match, params)
            for at, item in enumerate(fields.sequence(node, place))
        ]
        count = len(node.items)
    else:
        fields.report(place, "M012", "must be a mapping from literals to shapes, or a list of {when, is}")
        return ()
    if not count:
        fields.report(place, "M010", "must hold at least one case")
    return tuple(case for case in found if case is not None)


def _listed(
    fields: Fields, node: Node, place: str, match: tuple[str, ...] | None, params: Mapping[str, kinds.Kind]
) -> FamilyCase | None:
    """Returns the case `{when, is}`, or None if reported."""
    body = fields.form(node, place, forms.FAMILY_CASE)
    shape = fields.parsed(body.entries.get("is"), f"{place}.is", expr_parser.parse_shape)
    when = body.entries.get("when")
    if when is None or match is None:
        return None
    try:
        patterns = _components(when, match, params)
    except _PatternError as error:
        fields.report(f"{place}.when", "M031", str(error), when.line)
        return None
    return None if shape is None else FamilyCase(patterns=patterns, shape=shape[1], line=node.line)


def _components(when: Node, match: tuple[str, ...], params: Mapping[str, kinds.Kind]) -> tuple[Pattern, ...]:
    """Returns the pattern of each parameter. Raises _PatternError."""
    if len(match) == 1:
        if isinstance(when, Sequence):
            raise _PatternError(f"must give one component, for {match[0]!r}, without brackets")
        return (_component(when, match[0], params.get(match[0])),)
    if not isinstance(when, Sequence) or len(when.items) != len(match):
        raise _PatternError(f"must give {len(match)} components in brackets, for {', '.join(match)}")
    return tuple(_component(part, name, params.get(name)) for part, name in zip(when.items, match, strict=True))


def _component(node: Node, name: str, kind: kinds.Kind | None) -> Pattern:
    """Returns the pattern that a component is for the parameter `name`. Raises _PatternError."""
    adt = kind.given if kind is not None and isinstance(kind.given, kinds.Adt) else None
    if isinstance(node, Scalar):
        if node.value == _ANYTHING:
            return Pattern(None, anything=True)
        if adt is not None and node.value is not None:
            raise _PatternError(
                f"{shown(node.value)} for {name!r}: write {{constructor: _}}, with a constructor of {adt}"
            )
        if isinstance(node.value, float):
            raise _PatternError(f"{shown(node.value)} for {name!r}: a float chooses no case")
        return Pattern(node.value)
    if isinstance(node, Sequence) or len(node.entries) != 1:
        raise _PatternError(
            f"the component for {name!r} must be a literal, _, {{constructor: _}} or {{constructor: {{field: literal}}}}"
        )
    ((constructor, inner),) = node.entries.items()
    if kind is not None and adt is None:
        raise _PatternError(f"{shown(constructor)} for {name!r}: {kind} has no constructors; write a literal or _")
    if isinstance(inner, Scalar) and inner.value == _ANYTHING:
        return Pattern(constructor)
    if not isinstance(inner, MappingNode):
        raise _PatternError(f"{constructor} for {name!r} must be followed by _ or by {{field: literal}}")
    constrained = []
    for field, literal in inner.entries.items():
        if not isinstance(literal, Scalar):
            raise _PatternError(f"{constructor}.{field} for {name!r} must be a literal")
        constrained.append((field, literal.value))
    return Pattern(constructor, tuple(constrained))


def _keyed(fields: Fields, key: Any, node: Node, place: str, width: int | None) -> FamilyCase | None:
    """Returns the case `key: shape`, or None if reported.

    `width` is the number of parameters that choose the case, None if it is not known.
    """
    found = fields.parsed(node, place, expr_parser.parse_shape, node.line)
    if found is None or width is None:
        return None
    parts = _parts(key) if width > 1 else [key]
    patterns = [pattern for part in parts if (pattern := _pattern(part)) is not None]
    if len(parts) != width or len(patterns) != width:
        fields.report(place, "M031", f"the case {key!r} must give {width} literals, one for each of `match`", node.line)
        return None
    return FamilyCase(patterns=tuple(patterns), shape=found[1], line=node.line)


def _parts(key: Any) -> list[Any]:
    """Returns the parts of a key such as `(True, Padded(block=4))`, each as text."""
    if not isinstance(key, str) or not (key.startswith("(") and key.endswith(")")):
        return [key]
    parts, depth, start = [], 0, 1
    for at, char in enumerate(key[:-1]):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 1:
            parts.append(key[start:at].strip())
            start = at + 1
    return [*parts, key[start:-1].strip()]


def _pattern(part: Any) -> Pattern | None:
    """Returns a literal, a word, or a constructor that may constrain finite fields; None for anything else."""
    if not isinstance(part, str):
        return Pattern(part) if part is None or isinstance(part, (bool, int)) else None
    try:
        value = ast.literal_eval(part)
        return Pattern(value) if isinstance(value, (bool, int, str)) else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        pass
    found = _CONSTRUCTOR.fullmatch(part)
    if found is None:
        return Pattern(part)  # a word that is no Python literal, such as 1d
    constrained = []
    for field in filter(None, (found["fields"] or "").split(",")):
        name, equals, literal = (text.strip() for text in field.partition("="))
        try:
            constrained.append((name, ast.literal_eval(literal)))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return None
        if not equals:
            return None
    return Pattern(found["name"], tuple(constrained))
