"""Narrowing of what the checks before have established, for the reader and for type checkers alike."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def expect(value: object, form: type[T]) -> T:
    """Returns the value, which is of the class `form` because of checks that have run; asserts so."""
    assert isinstance(value, form), f"a {form.__name__} is due here, not {type(value).__name__}"
    return value
