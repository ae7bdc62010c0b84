"""Checks of one entry's signature: kinds at every use, families, effects, and the inference plan at every point."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tileops.manifest import declarations, expr, kind_check, kinds, plan
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.kind_check import FORM, KIND, NAME, PRESENCE, Scope
from tileops.manifest.kinds import BOOL, DIM, Kind, Maybe
from tileops.manifest.model import Entry, Expression, Signature, Tensor
from tileops.manifest.points import Point, TooManyPoints, discriminants, enumerate_points

_CODES = {FORM: "M020", NAME: "M021", KIND: "M022", PRESENCE: "M025"}


def scope(entry: Entry, roofline: bool = False, dtypes: bool = False) -> Scope:
    """What an expression of the entry may read; lets have the kinds of their expressions."""
    signature = entry.signature
    names: dict[str, Kind] = {
        **{name: kind for name, kind in signature.forall.items()},
        **{name: param.kind for name, param in signature.params.items()},
    }
    tensors = {name: tensor.optional for name, tensor in signature.tensors.items()}
    for name in let_order(signature):
        kind = kind_check.check(signature.lets[name].expr, Scope(names, tensors), lambda what, message: None)
        names[name] = kind or DIM
    return Scope(names, tensors, roofline, dtypes, broken_names(entry))


def broken_names(entry: Entry) -> frozenset[str]:
    """Names that the entry means to declare and whose declaration could not be read."""
    parts = (path.split(".") for path in entry.malformed)
    return frozenset(part[2] for part in parts if part[0] == "signature" and len(part) > 2)


def let_order(signature: Signature) -> list[str]:
    """Lets, each after those that it reads; those in a cycle are left out."""
    order: list[str] = []
    waiting = dict(signature.lets)
    while ready := [name for name, let in waiting.items() if not set(expr.names(let.expr)) & set(waiting)]:
        order.extend(ready)
        for name in ready:
            del waiting[name]
    return order


def type_terms(signature: Signature) -> list[expr.Expr]:
    """The expressions that shape a call: shapes and dtypes of all tensors."""
    return [term for tensor in signature.tensors.values() for term in (tensor.shape.expr, tensor.dtype.expr)]


def type_points(signature: Signature) -> list[Point]:
    """The points over the discriminants on which the types of a call depend. Raises TooManyPoints.

    An input's own presence is not among them: its checks are guarded by it, whatever else holds.
    """
    found = [one for one in discriminants(signature, type_terms(signature)) if one.name not in signature.inputs]
    return enumerate_points(found)


class SignatureCheck:
    """Checks one signature; `plans` holds the plan of each type point where nothing stands in its way."""

    def __init__(self, entry: Entry, diagnostics: Diagnostics) -> None:
        self._entry = entry
        self._signature = entry.signature
        self._diagnostics = diagnostics
        self._failed = False
        self.plans: list[tuple[Point, plan.Plan]] = []

    def run(self) -> bool:
        """Report every defect; True where the signature can be planned and called."""
        cycle = [name for name in self._signature.lets if name not in let_order(self._signature)]
        for name in cycle:
            self._report(f"signature.let.{name}", self._signature.lets[name].line, "M041", "refers to itself")
        if cycle:
            return False
        names = scope(self._entry)
        for path, expression, wanted in self._expressions():
            self._kind(path, expression, names, wanted)
        for section, tensors in (("inputs", self._signature.inputs), ("outputs", self._signature.outputs)):
            for tensor in tensors.values():
                self._tensor(f"signature.{section}.{tensor.name}", tensor)
        self._families()
        if not self._failed and not self._entry.malformed:
            self._plan()
        return not self._failed and not self._entry.malformed

    def _report(self, path: str, line: int, code: str, message: str) -> None:
        self._failed = True
        self._diagnostics.add(self._entry.file, line, self._entry.op, path, code, message)

    def _reporter(self, path: str, line: int) -> Callable[[str, str], None]:
        return lambda what, message: self._report(path, line, _CODES[what], message)

    def _expressions(self) -> Iterator[tuple[str, Expression, Kind | None]]:
        for name, let in self._signature.lets.items():
            yield f"signature.let.{name}", let, None
        for position, rule in enumerate(self._signature.rules):
            yield f"signature.shape_rules[{position}]", rule, BOOL
        for tensor in self._signature.inputs.values():
            if tensor.mutated is not None:
                yield f"signature.inputs.{tensor.name}.mutated", tensor.mutated, BOOL

    def _kind(self, path: str, expression: Expression, names: Scope, wanted: Kind | None) -> None:
        kind = kind_check.check(expression.expr, names, self._reporter(path, expression.line))
        if kind is not None and wanted is not None and not kinds.fits(kind, wanted):
            self._report(path, expression.line, "M022", f"must be {wanted}, and is {kind}")

    def _tensor(self, path: str, tensor: Tensor) -> None:
        names = scope(self._entry, dtypes=True)
        dtype = kind_check.check(tensor.dtype.expr, names, self._reporter(f"{path}.dtype", tensor.dtype.line))
        if dtype is not None and not isinstance(dtype.item if isinstance(dtype, Maybe) else dtype, kinds.DType):
            self._report(f"{path}.dtype", tensor.dtype.line, "M022", f"must be a dtype, and is {dtype}")
        term, report = tensor.shape.expr, self._reporter(f"{path}.shape", tensor.shape.line)
        if isinstance(term, expr.FamilyTerm):
            self._application(path, tensor, term)
        else:
            for axis in term.axes:
                kind = kind_check.check(axis, scope(self._entry), report)
                if kind is not None and not isinstance(axis, expr.Splice) and not declarations.is_integer(kind):
                    report(KIND, f"axis {expr.to_source(axis)!r} must be Dim or Int, and is {kind}")
        if tensor.values is not None:
            self._generator(path, tensor)

    def _application(self, path: str, tensor: Tensor, term: expr.FamilyTerm) -> None:
        family = self._signature.families.get(term.family)
        if family is None:
            if term.family in broken_names(self._entry):
                return
            known = ", ".join(self._signature.families) or "none"
            self._report(f"{path}.shape", tensor.shape.line, "M030", f"no type family {term.family!r}; there are: {known}")
            return
        if len(term.args) != len(family.params):
            self._report(
                f"{path}.shape", tensor.shape.line, "M030",
                f"{term.family} takes {len(family.params)} arguments, not {len(term.args)}",
            )
            return
        report = self._reporter(f"{path}.shape", tensor.shape.line)
        for arg, (name, wanted) in zip(term.args, family.params.items(), strict=True):
            kind = kind_check.check(arg, scope(self._entry), report)
            if kind is not None and not kinds.fits(kind, wanted):
                report(KIND, f"argument {name!r} of {term.family} must be {wanted}, and is {kind}")
            elif kind is not None and name in family.match and not isinstance(arg, expr.Name):
                report(KIND, f"argument {name!r} of {term.family} chooses the case and must be a parameter's name")

    def _generator(self, path: str, tensor: Tensor) -> None:
        call, line = tensor.values.expr, tensor.values.line
        report = self._reporter(f"{path}.values", line)
        if not isinstance(call, expr.Call) or call.function not in declarations.GENERATORS:
            report(FORM, f"must be a call of a generator: {', '.join(declarations.GENERATORS)}")
            return
        args, _ = declarations.GENERATORS[call.function]
        if len(call.args) != len(args):
            report(KIND, f"{call.function} takes {len(args)} arguments, not {len(call.args)}")
            return
        for arg, wanted in zip(call.args, args, strict=True):
            kind = kind_check.check(arg, scope(self._entry), report)
            if kind is not None and not kinds.fits(kind, wanted):
                report(KIND, f"{expr.to_source(arg)!r} must be {wanted}, and is {kind}")

    def _families(self) -> None:
        applied = {
            tensor.shape.expr.family for tensor in self._signature.tensors.values()
            if isinstance(tensor.shape.expr, expr.FamilyTerm)
        }
        for family in self._signature.families.values():
            path = f"signature.types.{family.name}"
            unclear = self._entry.malformed or applied - set(self._signature.families)  # the application may be misspelt
            if family.name not in applied and not unclear:
                self._report(path, family.line, "M030", "is applied by no tensor")
            names = Scope(family.params, {})
            for case in family.cases:
                for axis in case.shape.axes:
                    kind_check.check(axis, names, self._reporter(f"{path}.cases", case.line))

    def _plan(self) -> None:
        try:
            points = type_points(self._signature)
        except TooManyPoints as error:
            self._report("signature", self._entry.line, "M042", f"{error.args[0]} discriminant points are too many")
            return
        told: set[str] = set()
        for point in points:
            made = plan.build(self._signature, point)
            for name in (name for name in made.unsolved if name not in told):
                told.add(name)
                self._report(
                    f"signature.forall.{name}", self._entry.line, "M040",
                    f"{name!r} is not solved by any input ({point}); an input axis must be {name}, a constant times"
                    f" {name} plus known terms, or *{name}",
                )
            self.plans.append((point, made))


