"""Roofline analysis: reads an entry's roofline block, reports each defect, and decides what is emitted.

The analysis raises no exception for a defect, distinguishes absent, malformed and valid fields, and goes on after a
defect. If a missing fact makes a check impossible, the analysis records the check as unreached and names the fact.
"""

from __future__ import annotations

import contextvars
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

from tileops.codegen.branches import Branches, branches
from tileops.codegen.call_decisions import CallDecisions, call_decisions
from tileops.codegen.decisions import MAX_BRANCHES, Part, bytes_read, parts
from tileops.codegen.termination import too_long
from tileops.manifest.check import Checked
from tileops.manifest.checks.signature import scope
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.language import declarations, effort, expr, expr_parser, kind_check, kinds
from tileops.manifest.language.kind_check import FORM, KIND, NAME, PRESENCE
from tileops.manifest.model import Entry, RooflineField, Signature
from tileops.manifest.plans.domain import Domain
from tileops.manifest.plans.points import Point, TooManyPointsError, discriminants
from tileops.manifest.plans.presence import conditions_of, is_its_input, resolve, substitute_presence
from tileops.manifest.plans.solved import Solved, missing
from tileops.manifest.plans.sums import grouped
from tileops.manifest.plans.trees import TooManyBranchesError, Tree, decide
from tileops.manifest.reading.forms import ROOFLINE
from tileops.manifest.reading.python_paths import formula_problem

_CODES = {FORM: "R010", NAME: "R011", KIND: "R012", PRESENCE: "R013"}
_FIELDS = ROOFLINE.names


@dataclasses.dataclass(frozen=True, kw_only=True)
class Formula:
    """A checked inline formula, decided at every point.

    Attributes:
      trees: the folded expressions; several trees add up.
      integer: whether its kind makes it an integer >= 0; otherwise each evaluation checks the value.
      line: its line in the spec file.
    """

    trees: tuple[Tree[expr.Expr], ...]
    integer: bool
    line: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traffic:
    """The tensors read and written at a point, in signature order. An absent tensor costs nothing.

    A call whose written tensors have no element computes nothing, so that it reads nothing either.
    """

    read: tuple[str, ...]
    written: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Analysis:
    """The result of the analysis, which emission writes out.

    Attributes:
      emittable: whether the entry's price can be emitted.
      func: the path of the formula in func mode, "" in inline mode.
      flops: the inline formula.
      bytes: the inline formula, None if the bytes follow from the signature.
      traffic: if the bytes follow from the signature, what each call is charged; several trees add up.
      sometimes: indices that some calls solve and others do not.
      unreached: judgments that were not reached, each naming the fact that was missing.
      calls: what construction and calls check; None if the entry has a defect or was not checked.
      branches: the branches of the price, and those that each row takes; None likewise.
    """

    emittable: bool
    func: str = ""
    func_line: int = 0
    flops: Formula | None = None
    bytes: Formula | None = None
    traffic: tuple[Tree[Traffic], ...] | None = None
    sometimes: frozenset[str] = frozenset()
    unreached: tuple[str, ...] = ()
    calls: CallDecisions | None = None
    branches: Branches | None = None


def analyse(entry: Entry, diagnostics: Diagnostics, checked: Checked | None = None) -> Analysis:
    """Returns the analysis of the roofline block of one entry, whatever the entry's status.

    Args:
      entry: the entry.
      diagnostics: takes the defects.
      checked: the result of the entry's checks. If it has no plan, the analysis does not report unsolved indices.
    """
    with effort.bounded() as allowed:
        if allowed.exhausted:
            return Analysis(emittable=False, unreached=("roofline: checking the signature took all the effort",))
        try:
            found = _Analyser(entry, diagnostics, checked).run()
        except effort.ExhaustedError as error:
            entry.report(diagnostics, "roofline", "M004", str(error))
            return Analysis(emittable=False, unreached=(f"roofline: it {error}",))
    if checked is None or not (found.emittable and checked.callable):
        return found
    try:
        # The checks counted the effort of these points; an empty context counts nothing twice.
        return contextvars.Context().run(_for_emission, found, checked)
    except TooManyBranchesError as error:
        entry.report(diagnostics, "signature", "M042", str(error))
        return dataclasses.replace(found, emittable=False)


def _for_emission(found: Analysis, checked: Checked) -> Analysis:
    signature, formulas = checked.entry.signature, {"flops": found.flops, "bytes": found.bytes}
    trees = {name: formula.trees for name, formula in formulas.items() if formula is not None}
    return dataclasses.replace(
        found,
        calls=call_decisions(checked),
        branches=branches(signature, checked.cases, None if found.func else trees, found.traffic),
    )


class _Analyser:
    def __init__(self, entry: Entry, diagnostics: Diagnostics, checked: Checked | None) -> None:
        self._entry = resolve(entry)
        self._solved = _solved(checked)
        self._planned = checked is not None and checked.plan is not None
        self._cases = () if checked is None else checked.cases
        self._diagnostics = diagnostics
        self._domain = Domain(self._entry.signature)
        self._failed = False
        self._unreached: list[str] = []

    def run(self) -> Analysis:
        block = self._entry.roofline
        if block is None:
            if {"", "roofline"} & self._entry.malformed:
                self._unreached.append("the roofline block is malformed")
            else:
                self._report("roofline", "R001", "is missing; write flops (and bytes), or func")
            return self._verdict()
        for name in block:
            if name not in _FIELDS:
                self._report(f"roofline.{name}", "R001", f"unknown field {name!r}; known are {', '.join(_FIELDS)}")
        texts = {name: self._text(name, block.get(name)) for name in _FIELDS}
        if "func" in block:
            func = self._func(block["func"], texts["func"])
            if not block.keys() & {"flops", "bytes"}:
                return func
            self._report("roofline", "R001", "func excludes flops and bytes")
        elif "flops" not in block and not self._failed:  # an unknown field may be a misspelt one
            self._report("roofline", "R001", "needs flops, or func")
        return self._inline(block, texts)

    def _report(self, path: str, code: str, message: str) -> None:
        self._failed = True
        self._entry.report(self._diagnostics, path, code, message)

    def _verdict(self, **decided: Any) -> Analysis:
        fine = not self._failed and not self._unreached
        return Analysis(emittable=fine, unreached=tuple(self._unreached), sometimes=self._solved.sometimes, **decided)

    def _text(self, name: str, field: RooflineField | None) -> str | None:
        """Returns the field's text, or None if it is absent or reported as malformed."""
        if field is None:
            return None
        if isinstance(field.value, str) and field.value.strip():
            return field.value.strip()
        self._report(f"roofline.{name}", "R002", "must be non-empty text; write a number in quotes")
        return None

    def _func(self, field: RooflineField, path: str | None) -> Analysis:
        problem = "" if path is None else formula_problem(field.value)  # unstripped: a path has no spaces around it
        if problem:
            self._report("roofline.func", "R020", problem)
        return self._verdict(func=path or "", func_line=field.line)

    def _inline(self, block: dict[str, RooflineField], texts: dict[str, str | None]) -> Analysis:
        if self._entry.signature_gaps:
            self._unreached.append(
                f"names and kinds of the formula: the signature is malformed at {', '.join(self._entry.signature_gaps)}"
            )
            for name, text in texts.items():
                if text is not None:
                    self._parse(name, text)
            return self._verdict()
        flops = self._formula("flops", block.get("flops"), texts["flops"])
        if "bytes" in block:
            return self._verdict(flops=flops, bytes=self._formula("bytes", block["bytes"], texts["bytes"]))
        return self._verdict(flops=flops, traffic=self._derived())

    def _parse(self, name: str, text: str) -> expr.Expr | None:
        try:
            return expr_parser.parse(text)
        except expr_parser.ExprError as error:
            self._report(f"roofline.{name}", "R012" if error.is_kind else "R010", str(error))
            return None

    def _formula(self, name: str, field: RooflineField | None, text: str | None) -> Formula | None:
        if field is None or text is None:
            return None
        node = self._parse(name, text)
        if node is None:
            return None
        path, before = f"roofline.{name}", self._failed
        self._failed = False
        kind = kind_check.check(
            node, scope(self._entry, roofline=True), lambda what, message: self._report(path, _CODES[what], message)
        )
        if kind is not None and not declarations.is_integer(kind) and not isinstance(kind, kinds.Real):
            self._report(path, "R012", f"must be an integer, and is {kind}")
        if problem := too_long(self._entry.signature, node, self._cases) if kind is not None else "":
            self._report(path, "R010", problem)
        clean, self._failed = not self._failed, self._failed or before
        if clean and kind is None:  # what it reads has a defect that is reported elsewhere
            unclear = sorted(scope(self._entry, roofline=True).broken & {*expr.names(node)})
            self._unreached.append(f"{path}: it reads {', '.join(unclear)}, which has a defect")
        if not clean or kind is None:
            return None
        signature = self._entry.signature
        conditions = conditions_of(signature)
        node = substitute_presence(node, conditions)
        guards = {name: conditions[name] for name in bytes_read(node) if name in conditions}
        found = self._apart(lambda: parts(signature, self._domain, node, guards), path)
        if not found:
            return None
        absent = {
            name
            for part in found
            for point, folded in part.decisions
            for name, guard in guards.items()
            if point.fold(guard) == expr.Literal(False) and _reads_bytes(folded, name)
        }
        for name in sorted(absent):
            self._report(path, "R013", f"bytes({name}) is read where {name} is absent")
        self._unsolved(found, guards, path)
        trees = self._apart(lambda: [part.tree for part in found], path)
        return Formula(trees=tuple(trees), integer=isinstance(kind, kinds.Dim), line=field.line) if trees else None

    def _unsolved(self, found: list[Part], guards: dict[str, expr.Expr], path: str) -> None:
        """Reports indices and lets that the formula reads on a branch whose calls do not solve them."""
        if not self._planned:
            return
        signature = self._entry.signature
        open_names = frozenset((*signature.forall, *signature.lets)) - self._solved.known
        told: set[str] = set()
        for part in found:
            names = open_names.intersection(part.node.free_names)
            if not names:
                continue
            terms = [part.node, *(guards[name] for name in bytes_read(part.node) if name in guards)]
            for _, point, unsolved in missing(
                self._domain, self._solved, terms, names, functools.partial(_read, part.node, open_names)
            ):
                for name in sorted(unsolved - told):
                    told.add(name)
                    self._report(
                        path,
                        "R011",
                        f"{name!r} is read on a branch where no input solves it ({point}); read it only on the others, as in"
                        " `... if ... else 0`",
                    )

    def _apart(self, enumerate_parts: Callable[[], list[Any]], path: str) -> list[Any]:
        """Returns what `enumerate_parts` does; [] if points or branches are too many, or if the entry accepts no call."""
        try:
            found = enumerate_parts()
        except TooManyPointsError as error:
            self._report(path, "M042", str(error))
            return []
        if not found:
            self._unreached.append(f"{path}: the shape rules reject every call")
        return found

    def _derived(self) -> tuple[Tree[Traffic], ...] | None:
        """Returns the derived traffic: inputs read once, outputs written once, written inputs both."""
        signature = self._entry.signature
        written = {name: tensor.mutated.expr for name, tensor in signature.inputs.items() if tensor.mutated is not None}
        aliased = {
            name: where for name, output in signature.outputs.items() if (where := is_its_input(signature, output))
        }
        conditions = [*written.values(), *aliased.values()]
        charges: list[tuple[list[expr.Expr], list[str]]] = []
        number = math.prod(len(one.values) for one in discriminants(signature, conditions))
        for name in signature.tensors:
            own = [where for where in (written.get(name), aliased.get(name)) if where is not None]
            charges.append((own if number > MAX_BRANCHES else conditions, [name]))
        found: list[Tree[Traffic]] = []
        for terms, names in _joined(signature, charges):
            points = self._apart(functools.partial(self._domain.points, terms), "roofline")
            decisions = [(point, self._traffic(point, names, written, aliased)) for point in points]
            trees = self._apart(functools.partial(_tree, decisions), "roofline") if decisions else []
            if not trees:
                return None
            found += trees
        return tuple(found)

    def _traffic(
        self, point: Point, names: list[str], written: dict[str, expr.Expr], aliased: dict[str, expr.Expr]
    ) -> Traffic:
        """Returns the traffic of some tensors at a point."""
        signature = self._entry.signature
        true = expr.Literal(True)
        mutated = [name for name in names if name in written and point.fold(written[name]) == true]
        read = [
            name
            for name in names
            if name in signature.bound and not (name in mutated and signature.inputs[name].write_only)
        ]
        # An output that is a written input has the input's storage, which is charged once.
        own = [
            name
            for name in names
            if name in signature.outputs and not (name in aliased and point.fold(aliased[name]) == true)
        ]
        return Traffic(read=tuple(read), written=(*mutated, *own))


def _tree(decisions: list[tuple[Point, Traffic]]) -> list[Tree[Traffic]]:
    """Returns the tree of some decisions. Raises TooManyBranchesError."""
    return [decide(decisions)]


def _solved(checked: Checked | None) -> Solved:
    """Returns the names that calls solve; nothing for an entry without a plan."""
    return Solved(frozenset(), ()) if checked is None or checked.plan is None else checked.plan.solved


def _read(node: expr.Expr, names: frozenset[str], point: Point) -> set[str]:
    """Returns the names of `names` that an expression reads at a point, decided dtype indices included."""
    others = Point(tuple((one, value) for one, value in point.assigned if one.name not in names))
    return {*names.intersection(others.fold(node).free_names)}


def _joined(
    signature: Signature, charges: list[tuple[list[expr.Expr], list[str]]]
) -> list[tuple[list[expr.Expr], list[str]]]:
    """Returns the charges joined if their conditions share a discriminant. Those that always hold come first."""
    groups = grouped(
        (frozenset(one.name for one in discriminants(signature, terms)), (terms, names)) for terms, names in charges
    )
    order = list(signature.tensors)
    return [
        ([term for terms, _ in own for term in terms], sorted((n for _, names in own for n in names), key=order.index))
        for _, own in sorted(groups, key=lambda group: bool(group[0]))
    ]


def _reads_bytes(node: expr.Expr, name: str) -> bool:
    """Returns whether the expression reads bytes(name)."""
    return any(part == expr.Call("bytes", (expr.Name(name),)) for part in expr.walk(node))
