"""States for readers and type checkers what earlier checks have established."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def expect(value: object, form: type[T]) -> T:
    """Returns the value, which is of the class `form` because of checks that have run; asserts so."""
    assert isinstance(value, form), f"a {form.__name__} is due here, not {type(value).__name__}"
    return value
