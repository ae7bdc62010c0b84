"""Checks type families: applications, cases, and references among families."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection

from tileops.manifest.diagnostics import Report
from tileops.manifest.language import declarations, expr, kind_check, kinds
from tileops.manifest.language.invariants import expect
from tileops.manifest.language.kind_check import CODES, FORM, KIND, Scope
from tileops.manifest.language.narrowing import NOTHING, Facts
from tileops.manifest.model import Entry, FamilyCase, Pattern, TypeFamily
from tileops.manifest.plans.points import TooManyPointsError, discriminants, enumerate_points
from tileops.manifest.plans.presence import conditions_of, substitute_presence


def check_axes(
    term: expr.ShapeTerm,
    names: Scope,
    report: Callable[[str, str], None],
    facts: Facts = NOTHING,
    families: Collection[str] = (),
) -> None:
    """Checks that each axis is an integer, each run a sequence of integers, and no axis a type family."""
    for axis in term.axes:
        if isinstance(axis, expr.Subscript) and isinstance(axis.sequence, expr.Name) and axis.sequence.id in families:
            report(FORM, f"{expr.to_source(axis)}: a type family is a whole shape, not an axis of a shape")
            continue
        kind = kind_check.check(axis, names, report, facts)
        if kind is not None and not isinstance(axis, expr.Splice) and not declarations.is_integer(kind):
            report(KIND, f"axis {expr.to_source(axis)!r} must be Dim or Int, and is {kind}")


class FamilyCheck:
    """Checks every family of one entry and every application of one."""

    def __init__(self, entry: Entry, broken: frozenset[str], report: Report, names: Scope) -> None:
        self._entry = entry
        self._signature = entry.signature
        self._broken = broken
        self._report = report
        self._names = names
        self._conditions = conditions_of(entry.signature)

    def run(self) -> None:
        """Reports every defect."""
        applied: set[str] = set()
        for section, tensors in self._signature.sections.items():
            for tensor in tensors.values():
                if isinstance(tensor.shape.expr, expr.FamilyTerm):
                    applied.add(tensor.shape.expr.family)
                    path = f"signature.{section}.{tensor.name}.shape"
                    self._application(tensor.shape.expr, self._names, functools.partial(self._report, path))
        references = {name: self._references(family) for name, family in self._signature.families.items()}
        for name in cycles(references):
            self._report(f"signature.types.{name}", "M041", "refers to itself")
        reached = applied.union(*(reachable(name, references) for name in applied))
        inside = {name for tensor in self._signature.tensors.values() for name in expr.names(tensor.shape.expr)}
        # An application may be misspelt or misplaced. Both are reported at the application.
        unclear = (
            self._entry.signature_gaps
            or applied - set(self._signature.families)
            or inside & set(self._signature.families)
        )
        for family in self._signature.families.values():
            if family.name not in reached and not unclear:
                self._report(
                    f"signature.types.{family.name}", "M030", "is not applied by any tensor; apply it or remove it"
                )
            self._cases(family)

    def _references(self, family: TypeFamily) -> set[str]:
        return {case.shape.family for case in family.cases if isinstance(case.shape, expr.FamilyTerm)}

    def _application(
        self, term: expr.FamilyTerm, names: Scope, report: Callable[[str, str], None], facts: Facts = NOTHING
    ) -> None:
        """Checks an application of a family; `report` takes the code and the message of a defect."""
        family = self._signature.families.get(term.family)
        if family is None:
            if term.family not in self._broken:
                known = ", ".join(self._signature.families) or "none"
                report("M030", f"no type family is called {term.family!r}; there are: {known}")
            return
        if len(term.args) != len(family.params):
            report("M030", f"{term.family} takes {len(family.params)} arguments, not {len(term.args)}")
            return
        for arg, (name, wanted) in zip(term.args, family.params.items(), strict=True):
            kind = kind_check.check(arg, names, _coded(report), facts)
            if kind is None:
                continue
            # An Int may stand for a Dim: the axis that it becomes must then be 0 or more, which a call checks.
            if not kinds.fits(kind, kinds.INT if isinstance(wanted, kinds.Dim) else wanted):
                report("M022", f"argument {name!r} of {term.family} must be {wanted}, and is {kind}")
            elif name in family.match and not self._decides(arg, names):
                report("M030", f"argument {name!r} of {term.family} selects the case; write a parameter or present(t)")

    def _decides(self, arg: expr.Expr, names: Scope) -> bool:
        """Returns whether each point decides an argument: a finite name or literal, or a condition on discriminants."""
        if names is self._names:
            arg = substitute_presence(arg, self._conditions)
        if isinstance(arg, (expr.Name, expr.Literal)):
            return not isinstance(arg, expr.Name) or arg.id not in self._signature.lets
        if names is self._names:
            finite = {one.name for one in discriminants(self._signature, [arg])}
        else:
            finite = set(names.names)
        condition = isinstance(arg, (expr.Logic, expr.Unary, expr.Compare, expr.Call, expr.Field, expr.Conditional))
        return condition and set(expr.names(arg)) <= finite and self._folds(arg, names)

    def _folds(self, arg: expr.Expr, names: Scope) -> bool:
        """Returns whether an argument folds to a literal at each point. Inside a family, the cases' patterns decide."""
        if names is not self._names:
            return True
        try:
            points = enumerate_points(discriminants(self._signature, [arg]))
        except TooManyPointsError:
            return True  # which the inference plan reports
        return all(isinstance(point.fold(arg), expr.Literal) for point in points)

    def _cases(self, family: TypeFamily) -> None:
        path = f"signature.types.{family.name}.cases"
        names = Scope(family.params, {})
        sound: list[FamilyCase] = []
        for case in family.cases:
            report = functools.partial(self._report, path, line=case.line)
            problems = [
                problem
                for name, pattern in zip(family.match, case.patterns, strict=True)
                if (problem := _pattern_problem(pattern, family.params.get(name)))
            ]
            for problem in problems:
                report("M031", problem)
            if problems:
                continue  # it is not known what the case says of its parameters
            if any(_overlap(case, other) for other in sound):
                report("M031", "overlaps a case before it")
            sound.append(case)
            given = {
                name: pattern.value
                for name, pattern in zip(family.match, case.patterns, strict=True)
                if not pattern.anything
            }
            facts = Facts(
                frozenset(name for name, value in given.items() if value is not None),
                {name: frozenset({value}) for name, value in given.items()},
            )
            if isinstance(case.shape, expr.FamilyTerm):
                self._application(case.shape, names, report, facts)
            else:
                check_axes(expect(case.shape, expr.ShapeTerm), names, _coded(report), facts)


def _coded(report: Callable[[str, str], None]) -> Callable[[str, str], None]:
    """Returns what reports a defect of an expression under the code of its sort."""
    return lambda what, message: report(CODES[what], message)


def cycles(references: dict[str, set[str]]) -> list[str]:
    """Returns the first member of each cycle of references."""
    reached = {name: reachable(name, references) for name in references}
    first: list[str] = []
    for name in references:
        if name in reached[name] and not any(name in reached[other] and other in reached[name] for other in first):
            first.append(name)
    return first


def reachable(name: str, references: dict[str, set[str]]) -> set[str]:
    """Returns the names to which `name` refers, directly or through others."""
    found: set[str] = set()
    waiting = list(references.get(name, ()))
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting.extend(references.get(one, ()))
    return found


def _pattern_problem(pattern: Pattern, kind: kinds.Kind | None) -> str:
    """Returns what is wrong with a pattern for a parameter of the kind, or ""."""
    if pattern.anything or (isinstance(kind, kinds.Maybe) and pattern.value is None):
        return ""
    kind = None if kind is None else kind.given
    if isinstance(kind, kinds.Bool):
        return "" if isinstance(pattern.value, bool) else f"{pattern.value!r} is neither true nor false"
    if isinstance(kind, kinds.Enum):
        return "" if pattern.value in kind.values else f"{pattern.value!r} is not one of {kind}"
    if isinstance(kind, kinds.Adt):
        constructor = next((one for one in kind.constructors if one.name == pattern.value), None)
        if constructor is None:
            return f"{pattern.value!r} is no constructor of {kind}"
        fields = dict(constructor.fields)
        for name, value in pattern.fields:
            field = fields.get(name)
            fine = isinstance(field, kinds.Enum) and value in field.values
            if not fine and not (isinstance(field, kinds.Bool) and isinstance(value, bool)):
                return f"{name}={value!r} is no value of a finite field of {pattern.value}"
    return ""


def _overlap(first: FamilyCase, second: FamilyCase) -> bool:
    """Returns whether the same literals match both cases.

    Whether `_` matches what another case matches too is found at the points of the applications: some values of both
    may be those of no call.
    """
    return all(_both(a, b) for a, b in zip(first.patterns, second.patterns, strict=True))


def _both(first: Pattern, second: Pattern) -> bool:
    if first.anything or second.anything:
        return first.anything and second.anything
    if type(first.value) is not type(second.value) or first.value != second.value:
        return False
    other = dict(second.fields)
    return all(other.get(name, value) == value for name, value in first.fields)
