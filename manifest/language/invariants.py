"""States for readers and type checkers what earlier checks have established."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def expect(value: object, form: type[T]) -> T:
    """Returns the value. Asserts that it has the class `form`, as earlier checks ensure."""
    assert isinstance(value, form), f"a {form.__name__} is due here, not {type(value).__name__}"
    return value
