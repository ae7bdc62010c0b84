"""Algebraic values in calls: what a row, a default or the caller's object becomes when an op is constructed.

Example: a caller passes `Padded(block=16)`, an object of the class that types.yaml names. The op holds
`Algebraic("Padded", block=16)`. A row holds that from the start, so that pricing rows imports no class.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn


class Algebraic:
    """An algebraic value: `kind` is the name of its constructor, the other attributes are its fields. Immutable."""

    kind: str

    def __init__(self, kind: str, /, **fields: Any) -> None:
        """Holds the fields in the order of the declaration; sequences as tuples."""
        vars(self).update(kind=kind, **{name: _plain(value) for name, value in fields.items()})

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{self!r} cannot change")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self!r} cannot change")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if isinstance(other, Algebraic) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(sorted(vars(self).items(), key=lambda item: item[0])))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in fields_of(self).items())
        return f"{self.kind}({fields})"


def fields_of(value: Algebraic) -> dict[str, Any]:
    """Returns the fields of an algebraic value by name."""
    return {name: field for name, field in vars(value).items() if name != "kind"}


class Constructor(NamedTuple):
    """One constructor of an algebraic type.

    Attributes:
      python_class: dotted path of the class of its objects.
      fields: the names of its fields, each with the dotted path of the enum class of its words, or "".
    """

    python_class: str
    fields: Mapping[str, str] = MappingProxyType({})


class UnreadableError(Exception):
    """An object may be of a declared class that cannot be imported; the message says which and why."""


class Sum:
    """An algebraic type: from the objects of its classes to its values."""

    def __init__(self, constructors: Mapping[str, Constructor], by_kind: bool = False) -> None:
        """Of its constructors by name; `by_kind`: an object's attribute `kind` says which constructor made it."""
        self._constructors = constructors
        self._by_kind = by_kind

    def holds(self, value: object) -> bool:
        """Returns whether a value is one of this type's, its fields unread."""
        if not isinstance(value, Algebraic) or value.kind not in self._constructors:
            return False
        return fields_of(value).keys() == self._constructors[value.kind].fields.keys()

    def read(self, value: Any) -> Any:
        """Returns the algebraic value of an object of one of the classes; anything else as it is.

        A subclass of a class is another type. Only this method imports the classes.

        Raises:
          UnreadableError: the object is of none of the classes that can be imported, and others cannot.
        """
        if value is None or isinstance(value, (Algebraic, bool, int, float, str, list, tuple, dict)):
            return value
        missing = []
        for name, constructor in self._candidates(value).items():
            try:
                found = _imported(constructor.python_class)
            except Exception as error:  # whatever a module of the user's does on import
                missing.append(f"{constructor.python_class} cannot be imported: {type(error).__name__}: {error}")
                continue
            if type(value) is found:
                return self._value(name, constructor, value)
        if missing:
            raise UnreadableError("; ".join(missing))
        return value

    def _candidates(self, value: Any) -> Mapping[str, Constructor]:
        if not self._by_kind:
            return self._constructors
        kind = _word(getattr(value, "kind", None))
        return {kind: self._constructors[kind]} if isinstance(kind, str) and kind in self._constructors else {}

    def _value(self, name: str, constructor: Constructor, value: Any) -> Any:
        fields = {}
        for field, enum in constructor.fields.items():
            if not hasattr(value, field):
                return value  # which the check of its type refuses
            found = getattr(value, field)
            # A word of the class is read by its value; another object stays, and is refused.
            fields[field] = found.value if enum and type(found) is _imported(enum) else found
        return Algebraic(name, **fields)


def _word(value: Any) -> Any:
    """Returns the value of a member of an enum class; anything else as it is."""
    return value if isinstance(value, str) and type(value) is str else getattr(value, "value", value)


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def _imported(path: str) -> Any:
    """Returns what a dotted path names. Raises ImportError if its module lacks it."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError:
        raise ImportError(f"{module} has no class {name!r}") from None
