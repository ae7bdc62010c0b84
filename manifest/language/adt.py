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
        return f"{{{self.kind}: {{{', '.join(f'{name}: {_literal(value)}' for name, value in self.fields)}}}}}"


def _literal(value: Any) -> str:
    """A field's value as YAML's flow style writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, tuple):
        return f"[{', '.join(map(_literal, value))}]"
    return str(value)
