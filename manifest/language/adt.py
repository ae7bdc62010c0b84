"""Algebraic values of the manifest language: a constructor's name and its fields."""

from __future__ import annotations

import dataclasses
from typing import Any

from tileops.manifest.language.text import literal


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
