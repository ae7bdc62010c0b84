"""The parsed manifest: frozen dataclasses with stated invariants; dictionaries of YAML stop before here."""

from __future__ import annotations

import dataclasses
from typing import Any

from tileops.manifest import kinds
from tileops.manifest.expr import Expr, ShapeTerm


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expression:
    """An expression with its text and the line where it stands."""

    text: str
    expr: Expr
    line: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Param:
    """A construction parameter.

    Attributes:
      type: the declared type as written; `kind` what it means.
      default: the plain default (tuples for lists) where `required` is false.
    """

    name: str
    type: str
    kind: kinds.Kind
    required: bool
    default: Any
    kw_only: bool
    line: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tensor:
    """An input or output.

    Attributes:
      mutated: condition under which an input is written (Literal(True) for always); None for never.
      write_only: the old contents of a mutated input are not read.
      values: for a metadata tensor, the generator call that fills it.
    """

    name: str
    dtype: Expression
    shape: Expression
    optional: bool = False
    mutated: Expression | None = None
    write_only: bool = False
    values: Expression | None = None
    line: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class FamilyCase:
    """One case of a type family: the literals that `match` takes, and the shape they select."""

    pattern: tuple[Any, ...]
    shape: ShapeTerm
    line: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class TypeFamily:
    """A shape chosen by finite discriminants; cases are disjoint and exhaustive."""

    name: str
    params: dict[str, kinds.Kind]
    match: tuple[str, ...]
    cases: tuple[FamilyCase, ...]
    line: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Signature:
    """A typed signature; every mapping is in file order, and names are distinct across all of them."""

    forall: dict[str, kinds.Kind]
    params: dict[str, Param]
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    families: dict[str, TypeFamily]
    lets: dict[str, Expression]
    rules: tuple[Expression, ...]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Inputs, then outputs."""
        return {**self.inputs, **self.outputs}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A workload row: one call per dtype case."""

    label: str
    bindings: dict[str, Any]
    some: tuple[str, ...]
    dtype_cases: tuple[dict[str, str], ...]
    line: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class RooflineField:
    """One field of the roofline block as YAML gave it; the roofline analysis judges it."""

    value: Any
    line: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """One op.

    Attributes:
      roofline: the block's fields by name; None where the entry has no block.
      malformed: field paths that were reported and could not be read; checks that need them are not reached.
    """

    op: str
    file: str
    line: int
    family: str
    status: str
    ref_api: str
    signature: Signature
    rows: tuple[Row, ...]
    roofline: dict[str, RooflineField] | None
    roofline_line: int
    malformed: frozenset[str]
