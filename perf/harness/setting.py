"""A process-wide setting: how it is called, read and written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

# Of a setting that could not be read.
UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One row of a table of settings.

    Attributes:
      name: in words, as a message says them.
      read: its value now; it may raise RuntimeError or AttributeError where there is no such setting.
      write: gives it a value that was read; None for what cannot be written.
      is_inherited: whether threads that were started meanwhile keep it, so that writing it does not undo it for all.
    """

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], Any] | None = None
    is_inherited: bool = False


class Held:
    """Somebody's object as a value: equal to the very same object's alone, whatever that says of itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        """Of any object."""
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)

    def __str__(self) -> str:
        return str(getattr(self.value, "__qualname__", type(self.value).__name__))

    __repr__ = __str__
