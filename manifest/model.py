"""The parsed manifest, as frozen dataclasses with stated invariants."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tileops.manifest.diagnostics import Diagnostics, line_at
from tileops.manifest.language import kinds
from tileops.manifest.language.expr import Expr

# The parameter that says where a call without tensors is.
DEVICE_PARAM = "device"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expression:
    """An expression with its text and line."""

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
      optional: the caller may leave the input out, whatever else holds (a presence tag of its own).
      when: the condition under which the tensor is there (an input's shared tag, an output's `nullable`); None: always.
      mutated: condition under which an input is written (Literal(True) for always); None for never.
      write_only: the old contents of a mutated input are not read.
      values: for a metadata tensor, the generator call that fills it.
      requires: predicate calls that its contents must satisfy, the tensor being their implicit first argument.
      contiguous: the tensor must be contiguous.
      on_cpu: the tensor lives on the CPU wherever the call is.
      kw_only: the input is passed by its name only.
      buffer: the caller may pass the output's storage as `out`.
      alias: the input that is also this output, on the branch that writes the input.
    """

    name: str
    dtype: Expression
    shape: Expression
    optional: bool = False
    when: Expression | None = None
    mutated: Expression | None = None
    write_only: bool = False
    values: Expression | None = None
    requires: tuple[Expression, ...] = ()
    contiguous: bool = False
    on_cpu: bool = False
    kw_only: bool = False
    buffer: bool = False
    alias: str = ""
    line: int

    @property
    def may_be_absent(self) -> bool:
        """Returns whether some calls have no such tensor."""
        return self.optional or self.when is not None


@dataclasses.dataclass(frozen=True)
class Pattern:
    """What one discriminant of a family case must be.

    Attributes:
      value: a literal, or the name of a constructor; None also for an absent value.
      fields: for a constructor, the finite fields that the case also constrains.
      anything: whether every value will do, an absent one too; then there is no `value`.
    """

    value: Any
    fields: tuple[tuple[str, Any], ...] = ()
    anything: bool = False

    def __str__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.fields)
        return "_" if self.anything else f"{self.value}({fields})" if fields else str(self.value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FamilyCase:
    """One case of a type family: a pattern for each of `match`, and the shape (or further family) they select."""

    patterns: tuple[Pattern, ...]
    shape: Expr
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
    """A typed signature; every mapping is in file order, and names are distinct across all of them.

    Attributes:
      constants: construction-time tensors, which stand among the parameters and are bound with them.
      combos: the assignments of dtype indices and dtype parameters that the entry accepts; empty where every one is.
      loose: by field path, what could be read of tensors that as a whole could not, so that it is judged all the same.
    """

    forall: dict[str, kinds.Kind]
    params: dict[str, Param]
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    families: dict[str, TypeFamily]
    lets: dict[str, Expression]
    rules: tuple[Expression, ...]
    constants: dict[str, Tensor]
    combos: tuple[dict[str, str | None], ...]
    loose: Mapping[str, Expression]

    @property
    def sections(self) -> dict[str, dict[str, Tensor]]:
        """Returns the tensors by section. Construction-time tensors are among the params."""
        return {"params": self.constants, "inputs": self.inputs, "outputs": self.outputs}

    @property
    def bound(self) -> dict[str, Tensor]:
        """Returns the tensors from which a call solves its indices: construction-time tensors, then inputs."""
        return {**self.constants, **self.inputs}

    @property
    def takes_out(self) -> bool:
        """Returns whether a caller may pass the storage of an output as `out`."""
        return any(tensor.buffer for tensor in self.outputs.values())

    @property
    def device_param(self) -> str:
        """Returns the parameter that says where a call is, which only an entry without such tensors has; else ""."""
        return DEVICE_PARAM if DEVICE_PARAM in self.params and not self.bound else ""

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Returns construction-time tensors, inputs, then outputs."""
        return {**self.bound, **self.outputs}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A workload row, number `position` of its entry's: one call per dtype case."""

    label: str
    bindings: dict[str, Any]
    some: tuple[str, ...]
    dtype_cases: tuple[dict[str, str], ...]
    line: int
    position: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """Stage number `position` of a composite: the op or kernel that runs it. A call may leave out an optional stage."""

    name: str
    op: str
    kernel: str
    optional: bool
    line: int
    position: int


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
      stages: the stages of a composite, in order; empty for an op that is none.
      malformed: field paths that were reported and could not be read; checks that need them are not reached.
      lines: where the members of the entry stand, by field path, five levels deep.
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
    stages: tuple[Stage, ...] = ()
    malformed: frozenset[str]
    lines: Mapping[str, int]

    @property
    def signature_gaps(self) -> list[str]:
        """Returns the fields of the signature that could not be read."""
        return sorted(path or "the op's name" for path in self.malformed if path.split(".")[0] in ("", "signature"))

    @property
    def row_gaps(self) -> list[str]:
        """Returns the fields of the rows that could not be read."""
        return sorted(path for path in self.malformed if path.startswith("workloads"))

    def report(self, diagnostics: Diagnostics, path: str, code: str, message: str, line: int = 0) -> None:
        """Adds a defect of the field `path`, on the field's line or on `line`."""
        diagnostics.add(self.file, line or self.line_of(path), self.op, path, code, message)

    def line_of(self, path: str) -> int:
        """Returns the line of the field `path`, or of the member that holds it."""
        return line_at(self.lines, path, self.line)
