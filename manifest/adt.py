"""Algebraic values as the language sees them: a constructor's name and its fields."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class AdtValue:
    """A value of an algebraic type, as a row or a default writes it: `{constructor: {field: value}}`."""

    kind: str
    fields: tuple[tuple[str, Any], ...]

    def field(self, name: str) -> Any:
        """The field `name`, or the constructor's name for `kind`."""
        return self.kind if name == "kind" else dict(self.fields)[name]

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(f'{name}={value!r}' for name, value in self.fields)})"
