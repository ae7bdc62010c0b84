"""Makes the cases of workload rows, and checks that the tensors of each case infer back to the row."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from tileops.manifest.checks.signature import let_order
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.language import effort, expr, kinds
from tileops.manifest.language.adt import same
from tileops.manifest.language.primitives import divided
from tileops.manifest.model import Entry, Expression, Row, Tensor
from tileops.manifest.plans.inference import MismatchError, infer
from tileops.manifest.plans.plan import Plan, item_terms, needed_at, through_lets
from tileops.manifest.plans.plan_steps import Step
from tileops.manifest.plans.planner import affine
from tileops.manifest.plans.points import Discriminant, Point, discriminants, domain_restrictions
from tileops.manifest.plans.shapes import shape_at
from tileops.manifest.reading import value_lists, values
from tileops.manifest.rows.cases import Case, CaseTensor
from tileops.manifest.rows.row_values import RefusedError, RowValues, refused


def instantiate(entry: Entry, plan: Plan, diagnostics: Diagnostics) -> list[Case]:
    """Returns the cases of an entry's rows. Reports rows that do not fit, and leaves them out.

    Args:
      entry: the entry.
      plan: the inference plan of its calls.
      diagnostics: takes the defects.
    """
    cases: list[Case] = []
    lines: dict[str, int] = {}
    for row in entry.rows:
        path = f"workloads[{row.position}]"
        for at, dtypes in enumerate(row.dtype_cases):
            instance = _Instance(entry, row, dtypes)
            try:
                case = instance.case(plan)
            except effort.ExhaustedError as error:
                entry.report(diagnostics, path, "M004", str(error))
                return cases
            for fault in instance.faults:
                field = f"{path}.{fault.field}" if fault.field else path
                if fault.field == "dtype_cases" and dtypes:
                    field += f"[{at}]"
                entry.report(diagnostics, field, fault.code, str(fault))
            if case is None:
                continue
            if case.case_id in lines:
                message = f"case {case.case_id!r} is on line {lines[case.case_id]} already; change a label"
                entry.report(diagnostics, path, "M061", message)
                continue
            lines[case.case_id] = row.line
            cases.append(case)
    return cases


def check_coverage(entry: Entry, cases: list[Case], diagnostics: Diagnostics) -> None:
    """Reports optional tensors of an implemented entry that no row passes, or that no row omits."""
    if entry.status != "implemented":
        return
    for section, tensors in (("params", entry.signature.constants), ("inputs", entry.signature.inputs)):
        for tensor in tensors.values():
            if not tensor.may_be_absent:
                continue
            seen = {case.present[tensor.name] for case in cases}
            for wanted, word in ((True, "passes"), (False, "omits")):
                if wanted not in seen:
                    message = f"no workload row {word} the optional {tensor.name!r}"
                    entry.report(diagnostics, f"signature.{section}.{tensor.name}", "M063", message)


class _Filled(NamedTuple):
    """A tensor that a generator fills: its shape, and the names that the generator's arguments read on the branch."""

    shape: expr.ShapeTerm
    reads: set[str]


def _metadata(tensor: Tensor) -> list[Expression]:
    """Returns the generator call and the requirements of a tensor."""
    return [*([] if tensor.values is None else [tensor.values]), *tensor.requires]


class _Instance:
    """One row with one dtype case, of which it makes a Case.

    Attributes:
      faults: why the row does not fit; those that do not follow from each other, all of them.
    """

    def __init__(self, entry: Entry, row: Row, dtypes: dict[str, str]) -> None:
        self._entry = entry
        self._signature = entry.signature
        self._row = row
        self._written_dtypes = dtypes
        # `U: T` gives U the dtype that the same case gives T.
        self._dtypes = {name: dtypes.get(dtype, dtype) for name, dtype in dtypes.items()}
        self.faults: list[RefusedError] = []
        self._bound = RowValues(entry, self._case_id())

    def case(self, plan: Plan) -> Case | None:
        """Returns the call that the row describes, or None if the row does not fit."""
        try:
            return self._case(plan)
        except RefusedError as error:
            self.faults.append(error)
            return None

    def _fault(self, field: str, message: str) -> None:
        self.faults.append(RefusedError(message, field=field))

    def _case(self, plan: Plan) -> Case | None:
        params = self._params()
        self._restrictions(params)
        self._chosen()
        if self.faults:
            return None
        self._presence(params)
        self._bound.known = {**params, **self._dtypes}
        point = self._point(plan)
        written = self._indices(point)
        if self.faults:
            return None
        self._bound.known.update(written)
        self._generated(point)
        self._complete(point)
        if self.faults:
            return None
        self._lets(point)
        for rule in self._signature.rules:
            if not self._bound.value("shape_rules", rule.expr):
                self._fault("", f"the rule {rule.text!r} does not hold for this row")
        if self.faults:
            return None
        constants, inputs, outputs = (
            tuple(self._bound.tensor(tensor, point) for name, tensor in tensors.items() if self._bound.present[name])
            for tensors in (self._signature.constants, self._signature.inputs, self._signature.outputs)
        )
        self._back(plan.steps_at(self._has), params, [*constants, *inputs])
        self._bound.check_requirements((*constants, *inputs), point)
        return self._as_case(written, constants, inputs, outputs)

    def _written(self) -> dict[str, Any]:
        """Returns the parameters that the row writes."""
        return {name: value for name, value in self._row.bindings.items() if name in self._signature.params}

    def _ordered(self) -> dict[str, str]:
        """Returns the dtype case in the order of `forall`."""
        return {name: self._dtypes[name] for name in self._signature.forall if name in self._dtypes}

    def _case_id(self) -> str:
        """Returns the label, the dtypes that the case writes, and those of dtype parameters, defaults included."""
        dtypes = [dtype for name, dtype in self._ordered().items() if self._written_dtypes[name] == dtype]
        all_params = self._signature.params
        params = {
            name: param.default for name, param in all_params.items() if isinstance(param.kind.given, kinds.DType)
        }
        params |= {name: value for name, value in self._row.bindings.items() if name in params}
        return "-".join([self._row.label, *dtypes, *(str(dtype) for dtype in params.values() if dtype is not None)])

    def _as_case(self, written: dict[str, Any], constants, inputs, outputs) -> Case:
        return Case(
            case_id=self._case_id(),
            label=self._row.label,
            line=self._row.line,
            written_params=self._written(),
            written_indices=written,
            dtypes=self._ordered(),
            values=self._bound.known,
            present=self._bound.present,
            constants=constants,
            inputs=inputs,
            outputs=outputs,
        )

    # ---- what the row writes

    def _params(self) -> dict[str, Any]:
        signature, row = self._signature, self._row
        for name, value in row.bindings.items():
            param, index = signature.params.get(name), signature.forall.get(name)
            kind = param.kind if param else index
            if kind is None or isinstance(index, kinds.DType) or name in signature.constants:
                self._fault(name, f"{name!r} is no parameter or index that a row writes")
            elif param is None and isinstance(value, str) and kinds.is_value_list(kind):
                self._fault(name, value_lists.problem(value))
            elif not values.fits(value, kind):
                self._fault(name, values.misfit(value, kind, param.type if param else str(kind)))
        params = {}
        for name, param in signature.params.items():
            if name in signature.constants:
                continue
            if name not in row.bindings and param.required:
                self._fault(name, f"the parameter {name!r} has no default and is not written")
            params[name] = row.bindings.get(name, param.default)
        return params

    def _chosen(self) -> None:
        """Checks the optional tensors that the row says it passes."""
        bound, some = self._signature.bound, self._row.some
        for name in dict.fromkeys(some):
            if some.count(name) > 1:
                self._fault("some", f"{name!r} is there twice")
            elif name not in bound or not bound[name].optional:
                self._fault("some", f"{name!r} is no optional tensor that a row may pass")

    def _presence(self, params: dict[str, Any]) -> None:
        signature, some = self._signature, self._row.some
        for name, value in params.items():
            if isinstance(signature.params[name].kind, kinds.Maybe):
                self._bound.present[name] = value is not None
        if signature.takes_out:
            self._bound.present["out"] = False  # a row passes no storage
        for name, tensor in signature.bound.items():
            if tensor.when is None:
                self._bound.present[name] = not tensor.optional or name in some
        for name, tensor in signature.tensors.items():
            if tensor.when is not None:
                self._bound.known = {**params, **self._dtypes}
                self._bound.present[name] = bool(self._bound.value(f"the presence of {name}", tensor.when.expr))
            self._bound.present.setdefault(name, True)

    def _restrictions(self, params: dict[str, Any]) -> None:
        combos = self._signature.combos
        for name in self._dtypes:
            kind = self._signature.forall.get(name)
            if not isinstance(kind, kinds.DType):
                self._fault("dtype_cases", f"{name!r} is no dtype index")
            elif self._dtypes[name] not in kind.values:
                self._fault("dtype_cases", f"{self._dtypes[name]!r} is not in {kind}")
        dtypes = {**params, **self._dtypes}
        if self.faults or not combos or not combos[0].keys() <= dtypes.keys():
            return
        if not any(all(dtypes[name] == dtype for name, dtype in combo.items()) for combo in combos):
            found = {name: dtypes[name] for name in combos[0]}
            self._fault("dtype_cases", f"{found} is not among the entry's dtype_combos")

    def _point(self, plan: Plan) -> Point:
        """Returns the discriminant point of the row's values."""
        signature = self._signature
        for step in plan.deciding:
            if step.index not in self._bound.known:
                raise RefusedError(f"the dtype index {step.index!r} is not assigned", field="dtype_cases")
        restrictions = domain_restrictions(signature)
        for rule in signature.rules:
            if rule.expr in restrictions and not self._bound.value("shape_rules", rule.expr):
                raise RefusedError(f"the rule {rule.text!r} does not hold for this row")
        terms = [term for name in (*signature.tensors, *signature.lets) for term in item_terms(signature, name)]
        # A row decides whether each optional tensor is there: what an absent one alone reads is not relevant.
        terms += [
            expr.Call("present", (expr.Name(name),)) for name, tensor in signature.bound.items() if tensor.optional
        ]
        terms += [part.expr for tensor in signature.bound.values() for part in _metadata(tensor)]
        found = discriminants(signature, [*terms, *(rule.expr for rule in signature.rules)])
        # A dtype index that the row does not assign decides nothing here. It is reported if the row's branch reads it.
        return Point(tuple((one, self._value(one)) for one in found if one.presence or one.name in self._bound.known))

    def _value(self, one: Discriminant) -> Any:
        return self._bound.present[one.name] if one.presence else self._bound.known[one.name]

    def _has(self, one: Discriminant, value: Any) -> bool:
        """Returns whether the row has this value of a discriminant."""
        return self._value(one) == value if one.presence else same(self._value(one), value)

    def _relevant(self, point: Point) -> list[str]:
        """Returns the indices that this row's branch reads in types, rules, generators and requirements."""
        read = set(needed_at(self._signature, point))
        for tensor in self._signature.bound.values():
            if self._bound.present[tensor.name]:
                for part in _metadata(tensor):
                    read.update(point.fold(part.expr).free_names)
        found = through_lets(self._signature, read, point)
        return [name for name in self._signature.forall if name in found]

    def _indices(self, point: Point) -> dict[str, Any]:
        relevant = self._relevant(point)
        for name in relevant:
            if isinstance(self._signature.forall[name], kinds.DType) and name not in self._dtypes:
                self._fault("dtype_cases", f"the dtype index {name!r} is not assigned")
        for name in self._dtypes:
            if name not in relevant:
                self._fault("dtype_cases", f"no tensor of this row has the dtype index {name!r}")
        written = {name: value for name, value in self._row.bindings.items() if name in self._signature.forall}
        for name in written:
            if name not in relevant:
                self._fault(name, f"nothing in this row's branch reads the index {name!r}")
        return written

    def _generated(self, point: Point) -> None:
        """Works out lets and solves indices from generators, whose shapes are the tensors' shapes, until nothing moves."""
        terms = self._filled(point)
        for name in self._row.bindings:
            if name in self._signature.forall and name in self._solvable(
                terms, self._bound.known.keys() - {name}, point
            ):
                raise RefusedError(f"{name!r} is solved by a generator; remove it from the row", field=name)
        waiting = dict(terms)
        while True:
            ready = [name for name, filled in waiting.items() if filled.reads <= self._bound.known.keys()]
            for name in ready:
                self._unify(self._signature.bound[name], waiting.pop(name).shape)
            if not (ready or (waiting and self._lets(point))):
                return

    def _lets(self, point: Point) -> bool:
        """Works out the lets that can be by now. Returns whether there was one."""
        before = len(self._bound.known)
        for name in let_order(self._signature):
            let = self._signature.lets[name].expr
            if name not in self._bound.known and (
                {*point.fold(let).free_names} <= self._bound.known.keys() | self._bound.present.keys()
            ):
                self._bound.known[name] = self._bound.value(f"let {name}", let)
                self._bound.present[name] = self._bound.known[name] is not None
        return len(self._bound.known) > before

    def _filled(self, point: Point) -> dict[str, _Filled]:
        """Returns the tensors that generators fill."""
        return {
            name: _Filled(shape_at(self._signature, tensor, point), {*point.fold(tensor.values.expr).free_names})
            for name, tensor in self._signature.bound.items()
            if tensor.values is not None and self._bound.present[name]
        }

    def _solvable(self, terms: dict[str, _Filled], known: Collection[str], point: Point) -> set[str]:
        """Returns the indices that generators solve if `known` are known."""
        names = set(known)
        waiting = dict(terms)
        lets = {name: {*point.fold(let.expr).free_names} for name, let in self._signature.lets.items()}
        while True:
            ready = [name for name, filled in waiting.items() if filled.reads <= names]
            for name in ready:
                axes = waiting.pop(name).shape.axes
                if not any(isinstance(axis, expr.Splice) for axis in axes):
                    found = (affine(axis, names) for axis in axes)
                    names.update(
                        solved[0] for solved in found if solved is not None and solved[0] in self._signature.forall
                    )
            worked_out = {
                name
                for name, reads in lets.items()
                if name not in names and reads <= names | self._bound.present.keys()
            }
            names |= worked_out
            if not ready and not worked_out:
                return (names - set(known)) & self._signature.forall.keys()

    def _unify(self, tensor: Tensor, term: expr.ShapeTerm) -> None:
        found = self._bound.extent(tensor).shape
        if len(term.axes) != len(found) or any(isinstance(axis, expr.Splice) for axis in term.axes):
            return  # the comparison of shapes below says what does not fit
        for axis, size in zip(term.axes, found, strict=True):
            solved = affine(axis, set(self._bound.known))
            if solved is None or solved[0] not in self._signature.forall:
                continue
            index, factor, offset = solved
            value = divided(size, factor, self._bound.value(f"the shape of {tensor.name}", offset))
            if value is None:
                raise refused(tensor, f"no {index} gives an axis of {tensor.name} the size {size} of its generator")
            self._bound.known[index] = value

    def _complete(self, point: Point) -> None:
        missing = [name for name in self._relevant(point) if name not in self._bound.known]
        named, terms = {*self._bound.known, *missing}, self._filled(point)
        # Once these are written, generators solve the others.
        unsolved = [name for name in missing if name not in self._solvable(terms, named - {name}, point)]
        for name in unsolved or missing:
            self._fault(name, f"the index {name!r} is not written")

    def _back(self, steps: list[Step], params: dict[str, Any], tensors: list[CaseTensor]) -> None:
        shapes = {tensor.name: tensor.shape for tensor in tensors}
        dtypes = {tensor.name: tensor.dtype for tensor in tensors}
        try:
            found = infer(steps, shapes, dtypes, params, self._bound.present)
        except MismatchError as error:
            raise RefusedError(f"the row's tensors do not fit its signature: {error}", "M062") from None
        for name, value in found.items():
            if value != self._bound.known.get(name, value):
                raise RefusedError(
                    f"the row has {name} = {self._bound.known[name]}, but its tensors infer {value}", "M062"
                )
