"""Instantiates workload rows: what a row binds, the tensors it builds, and that they infer back to the row."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from tileops.manifest import expr, kinds
from tileops.manifest.check_signature import let_order
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.dtypes import BITS
from tileops.manifest.evaluate import Unknown, evaluate
from tileops.manifest.inference import Mismatch, infer
from tileops.manifest.model import Entry, Row, Tensor
from tileops.manifest.parse import value_fits
from tileops.manifest.plan import Plan
from tileops.manifest.points import Point
from tileops.manifest.shapes import shape_at


@dataclasses.dataclass(frozen=True, kw_only=True)
class CaseTensor:
    """A tensor of a case with its extents; `values` is (generator, arguments) of a metadata tensor."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: tuple[str, tuple[Any, ...]] | None

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * BITS[self.dtype] // 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One call that a row describes.

    Attributes:
      written: what the row writes, parameters and indices apart.
      values: every parameter, index and let by name.
      inputs, outputs: the tensors, absent ones left out.
    """

    case_id: str
    label: str
    line: int
    written_params: dict[str, Any]
    written_indices: dict[str, Any]
    dtypes: dict[str, str]
    values: dict[str, Any]
    present: dict[str, bool]
    inputs: tuple[CaseTensor, ...]
    outputs: tuple[CaseTensor, ...]


class _Refused(Exception):
    """A row does not fit; carries the field and the message."""

    def __init__(self, field: str, message: str, code: str = "M060") -> None:
        super().__init__(message)
        self.field = field
        self.code = code


def instantiate(entry: Entry, plans: list[tuple[Point, Plan]], diagnostics: Diagnostics) -> list[Case]:
    """The cases of an entry's rows; a row that does not fit is reported and left out."""
    cases: list[Case] = []
    lines: dict[str, int] = {}
    for position, row in enumerate(entry.rows):
        path = f"workloads[{position}]"
        for dtypes in row.dtype_cases:
            try:
                case = _Instance(entry, row, dtypes).case(plans)
            except _Refused as error:
                field = f"{path}.{error.field}" if error.field else path
                diagnostics.add(entry.file, row.line, entry.op, field, error.code, str(error))
                continue
            if case.case_id in lines:
                diagnostics.add(
                    entry.file, row.line, entry.op, path, "M061",
                    f"case {case.case_id!r} stands on line {lines[case.case_id]} already",
                )
                continue
            lines[case.case_id] = row.line
            cases.append(case)
    return cases


def check_coverage(entry: Entry, cases: list[Case], diagnostics: Diagnostics) -> None:
    """Every optional tensor of an implemented entry is passed in one row and omitted in another."""
    if entry.status != "implemented":
        return
    for tensor in entry.signature.inputs.values():
        if tensor.optional:
            seen = {case.present[tensor.name] for case in cases}
            for wanted, word in ((True, "passes"), (False, "omits")):
                if wanted not in seen:
                    diagnostics.add(
                        entry.file, tensor.line, entry.op, f"signature.inputs.{tensor.name}", "M063",
                        f"no workload row {word} the optional {tensor.name!r}",
                    )


class _Instance:
    """One row with one dtype case, on its way to a Case."""

    def __init__(self, entry: Entry, row: Row, dtypes: dict[str, str]) -> None:
        self._entry = entry
        self._signature = entry.signature
        self._row = row
        self._dtypes = dtypes
        self._present = {name: True for name in self._signature.tensors}
        for tensor in self._signature.inputs.values():
            self._present[tensor.name] = not tensor.optional or tensor.name in row.some

    def case(self, plans: list[tuple[Point, Plan]]) -> Case:
        params, indices = self._bindings()
        for name, param in self._signature.params.items():
            if isinstance(param.kind, kinds.Maybe):
                self._present[name] = params[name] is not None
        values = {**params, **indices, **self._dtypes}
        for name in let_order(self._signature):
            values[name] = self._value(f"let {name}", self._signature.lets[name].expr, values)
        for rule in self._signature.rules:
            if not self._value("shape_rules", rule.expr, values):
                raise _Refused("", f"the rule {rule.text!r} does not hold for this row")
        point, plan = self._branch(plans, values)
        inputs = [self._tensor(tensor, point, values) for tensor in self._signature.inputs.values() if self._present[tensor.name]]
        outputs = [self._tensor(tensor, point, values) for tensor in self._signature.outputs.values()]
        self._back(plan, params, values, inputs)
        written = {name: value for name, value in self._row.bindings.items() if name in self._signature.params}
        dtype_params = [str(value) for name, value in written.items() if _is_dtype(self._signature.params[name].kind)]
        ordered = {name: self._dtypes[name] for name in self._signature.forall if name in self._dtypes}
        return Case(
            case_id="-".join([self._row.label, *ordered.values(), *dtype_params]),
            label=self._row.label, line=self._row.line, written_params=written,
            written_indices={name: value for name, value in self._row.bindings.items() if name not in written},
            dtypes=ordered, values=values, present=self._present, inputs=tuple(inputs), outputs=tuple(outputs),
        )

    def _bindings(self) -> tuple[dict[str, Any], dict[str, Any]]:
        signature, row = self._signature, self._row
        for name in row.some:
            if name not in signature.inputs or not signature.inputs[name].optional:
                raise _Refused("some", f"{name!r} is no optional input")
        for name, value in row.bindings.items():
            kind = signature.params[name].kind if name in signature.params else signature.forall.get(name)
            if kind is None or isinstance(kind, kinds.DType) and name in signature.forall:
                raise _Refused(name, f"{name!r} is no parameter or index that a row writes")
            if not value_fits(value, kind):
                raise _Refused(name, f"{value!r} is no {kind}")
        params = {}
        for name, param in signature.params.items():
            if name not in row.bindings and param.required:
                raise _Refused(name, f"the parameter {name!r} has no default and is not written")
            params[name] = row.bindings.get(name, param.default)
        indices = {}
        for name, kind in signature.forall.items():
            if isinstance(kind, kinds.DType):
                if name not in self._dtypes:
                    raise _Refused("dtype_cases", f"the dtype index {name!r} is not assigned")
                if self._dtypes[name] not in kind.values:
                    raise _Refused("dtype_cases", f"{self._dtypes[name]!r} is not in {kind}")
            elif name not in row.bindings:
                raise _Refused(name, f"the index {name!r} is not written")
            else:
                indices[name] = row.bindings[name]
        for name in self._dtypes:
            if not isinstance(signature.forall.get(name), kinds.DType):
                raise _Refused("dtype_cases", f"{name!r} is no dtype index")
        return params, indices

    def _value(self, what: str, node: expr.Expr, values: dict[str, Any]) -> Any:
        try:
            return evaluate(node, values, self._present)
        except Unknown as error:
            raise _Refused("", f"{what} needs {error.args[0]!r}, which the row does not bind") from None
        except (ValueError, ArithmeticError, IndexError, TypeError) as error:
            raise _Refused("", f"{what}: {error}") from None

    def _branch(self, plans: list[tuple[Point, Plan]], values: dict[str, Any]) -> tuple[Point, Plan]:
        return next(
            (point, plan) for point, plan in plans
            if all(values[name] == value for name, value in point.values.items())
            and all(self._present[name] == value for name, value in point.present.items())
        )

    def _tensor(self, tensor: Tensor, point: Point, values: dict[str, Any]) -> CaseTensor:
        shape = self._value(f"the shape of {tensor.name}", shape_at(self._signature, tensor, point), values)
        if any(size < 0 for size in shape):
            raise _Refused("", f"the shape of {tensor.name} would be {list(shape)}")
        filled = None
        if tensor.values is not None:
            call = tensor.values.expr
            filled = call.function, tuple(self._value(f"the values of {tensor.name}", arg, values) for arg in call.args)
        dtype = self._value(f"the dtype of {tensor.name}", tensor.dtype.expr, values)
        return CaseTensor(name=tensor.name, dtype=dtype, shape=shape, values=filled)

    def _back(self, plan: Plan, params: dict[str, Any], values: dict[str, Any], inputs: list[CaseTensor]) -> None:
        shapes = {tensor.name: tensor.shape for tensor in inputs}
        dtypes = {tensor.name: tensor.dtype for tensor in inputs}
        try:
            found = infer(plan, shapes, dtypes, params, self._present)
        except Mismatch as error:
            raise _Refused("", f"the row's tensors do not fit its signature: {error}", "M062") from None
        for name, value in found.items():
            if value != values[name]:
                raise _Refused("", f"the row writes {name} = {values[name]}, and its tensors infer {value}", "M062")


def _is_dtype(kind: kinds.Kind) -> bool:
    return isinstance(kind.item if isinstance(kind, kinds.Maybe) else kind, kinds.DType)
