"""The Python side of the random entries: the classes of their algebraic types, and their func formula."""

from __future__ import annotations

import dataclasses
import enum
import functools
import pathlib
import sys
import tempfile
from typing import Any

from tileops.manifest.foreign import roots
from tileops.ops.algebraic import Algebraic
from tileops.tests.codegen import random_scope as sorts

MODULE = "tileops.tests.codegen.random_types"
FORMULAS = "random_formulas"  # a formula of a manifest outside the project stands in a module of its own


class Order(enum.Enum):
    """Words of Blocked.order, as objects of a sum hold them."""

    ROW = "row"
    COLUMN = "column"


class _Kinded:
    """An object of a sum says by `kind` which constructor made it."""

    @property
    def kind(self) -> str:
        """Name of the constructor."""
        return type(self).__name__


@dataclasses.dataclass(frozen=True)
class Nopad(_Kinded):
    """Rows of experts one after the other."""


@dataclasses.dataclass(frozen=True)
class Padded(_Kinded):
    """Rows of each expert rounded up."""

    block: int
    zeroed: bool


@dataclasses.dataclass(frozen=True)
class Masked(_Kinded):
    """A slab for each expert."""

    capacity: int


@dataclasses.dataclass(frozen=True)
class Whole(_Kinded):
    """One scale."""


@dataclasses.dataclass(frozen=True)
class Blocked(_Kinded):
    """A scale a block."""

    rows: int
    order: str | Order


CLASSES = {one.__name__: one for one in (Nopad, Padded, Masked, Whole, Blocked)}
LAYOUT = sorts.Algebraic(
    "Layout",
    {
        "Nopad": {},
        "Padded": {"block": sorts.Integer(), "zeroed": sorts.Flag()},
        "Masked": {"capacity": sorts.Integer()},
    },
)
SCALING = sorts.Algebraic(
    "Scaling", {"Whole": {}, "Blocked": {"rows": sorts.Integer(), "order": sorts.Word(("row", "column"))}}
)
ALGEBRAIC = (LAYOUT, SCALING)


def types_yaml(sums: bool = False) -> dict[str, Any]:
    """types.yaml of the random entries, under `adts` if `sums`."""

    def field(sort: sorts.Sort) -> str:
        if isinstance(sort, sorts.Word):
            return " | ".join(f"'{value}'" for value in sort.values)
        return "bool" if isinstance(sort, sorts.Flag) else "int"

    def kind(sort: sorts.Sort) -> Any:
        if isinstance(sort, sorts.Word):
            return {"type": field(sort), "python": f"{MODULE}.Order"}
        return "Bool" if isinstance(sort, sorts.Flag) else "Int"

    if sums:
        return {
            "adts": {
                one.type: {
                    "sum": {
                        name: {
                            "python": f"{MODULE}.{name}",
                            "fields": {field_name: kind(sort) for field_name, sort in fields.items()},
                        }
                        for name, fields in one.constructors.items()
                    }
                }
                for one in ALGEBRAIC
            }
        }
    return {
        one.type: {
            "constructors": {
                constructor: {
                    "class": f"{MODULE}.{constructor}",
                    "fields": {name: field(sort) for name, sort in fields.items()},
                }
                for constructor, fields in one.constructors.items()
            }
        }
        for one in ALGEBRAIC
    }


def in_yaml(value: Any) -> Any:
    """A parameter's value as a row writes it: sequences as lists, algebraic ones as {constructor: {field: value}}."""
    if type(value).__name__ in CLASSES:
        return {type(value).__name__: dict(vars(value))}
    return [in_yaml(item) for item in value] if isinstance(value, tuple) else value


def as_passed(value: Any, sums: bool) -> Any:
    """A parameter's value as a caller passes it: words of a sum's object are members of their enum class."""
    return dataclasses.replace(value, order=Order(value.order)) if sums and isinstance(value, Blocked) else value


def as_recorded(value: Any) -> Any:
    """A parameter's value as a checked call has it."""
    name = type(value).__name__
    return Algebraic(name, **vars(value)) if name in CLASSES else value


def every_tensor(call: Any) -> tuple[int, int]:
    """A func formula: how many tensors the call has, and their bytes."""
    return len(call.tensors), call.bytes_of(*call.tensors)


# The same formula in a package with a --root, which sees the call in an interpreter of its own.
FOREIGN = "random_foreign._prices.every_tensor"
_FOREIGN = """
def every_tensor(call):
    assert all(call.present(name) for name in call.tensors) and call.stages == {}
    return len(call.tensors), sum(map(call.bytes, call.tensors))
"""


@functools.cache
def use_foreign_formulas() -> tempfile.TemporaryDirectory:
    """Writes the package of FOREIGN, and makes its folder the package's root; the result keeps the folder."""
    folder = tempfile.TemporaryDirectory()
    package = pathlib.Path(folder.name, "random_foreign")
    package.mkdir()
    (package / "_prices.py").write_text(_FOREIGN)
    roots.use({"random_foreign": folder.name})
    return folder


sys.modules[FORMULAS] = sys.modules[__name__]
