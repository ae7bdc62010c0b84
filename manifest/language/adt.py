"""Algebraic values of the manifest language: a constructor's name and its fields."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class AdtValue:
    """A value of an algebraic type, as a row or a default writes it: `{constructor: {field: value}}`."""

    kind: str
    fields: tuple[tuple[str, Any], ...]

    def field(self, name: str) -> Any:
        """Returns the field `name`, or the constructor's name for `kind`."""
        return self.kind if name == "kind" else dict(self.fields)[name]

    def __str__(self) -> str:
        return literal({self.kind: dict(self.fields)}, quoted=False)


def same(value: Any, other: Any) -> bool:
    """Returns whether two values are equal: algebraic values of one constructor by the fields that both give."""
    if not (isinstance(value, AdtValue) and isinstance(other, AdtValue)):
        return value == other
    fields = dict(value.fields)
    return value.kind == other.kind and all(fields.get(name, part) == part for name, part in other.fields)


def literal(value: Any, quoted: bool = True) -> str:
    """Returns a plain value in YAML's flow style, with text in quotes if `quoted`."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(literal(item, quoted) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {literal(item, quoted)}' for key, item in value.items())}}}"
    return repr(value) if quoted and isinstance(value, str) else str(value)
