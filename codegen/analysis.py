"""Roofline analysis: reads an entry's roofline block once, answers every defect it carries and whether it can be emitted.

Total (a defect is a verdict, never an exception), lossless (absent, malformed and valid are told apart) and
accumulating (a judgment that a missing fact makes unreachable is recorded as unreached, naming the fact).
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from tileops.manifest import declarations, expr, kind_check, kinds
from tileops.manifest.check_signature import scope
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.evaluate import fold
from tileops.manifest.kind_check import FORM, KIND, NAME, PRESENCE
from tileops.manifest.model import Entry, RooflineField
from tileops.manifest.points import TooManyPoints, decide, discriminants, enumerate_points

_CODES = {FORM: "R010", NAME: "R011", KIND: "R012", PRESENCE: "R013"}
_FIELDS = ("flops", "bytes", "func")
_FUNC = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Formula:
    """A checked inline formula, decided at every point.

    Attributes:
      tree: the folded expression, or a points.Split with one such at each leaf.
      integer: whether its kind alone makes it an integer >= 0; otherwise the value is checked when it is evaluated.
      line: where it stands in the spec file.
    """

    tree: Any
    integer: bool
    line: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traffic:
    """Tensors read and written at a point, in signature order; an absent one is charged nothing."""

    read: tuple[str, ...]
    written: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Analysis:
    """What emission copies.

    Attributes:
      emittable: whether the entry's price can be emitted.
      func: the path of the formula in func mode, "" in inline mode.
      flops: the inline formula.
      bytes: the inline formula, None where the bytes follow from the signature.
      traffic: where they follow from it, a Traffic or a points.Split with one at each leaf.
      unreached: judgments that were not reached, each naming the fact that was missing.
    """

    emittable: bool
    func: str = ""
    func_line: int = 0
    flops: Formula | None = None
    bytes: Formula | None = None
    traffic: Any = None
    unreached: tuple[str, ...] = ()


def analyse(entry: Entry, diagnostics: Diagnostics) -> Analysis:
    """Judge the roofline block of one entry, whatever its status."""
    return _Analyser(entry, diagnostics).run()


class _Analyser:
    def __init__(self, entry: Entry, diagnostics: Diagnostics) -> None:
        self._entry = entry
        self._diagnostics = diagnostics
        self._failed = False
        self._unreached: list[str] = []

    def run(self) -> Analysis:
        block = self._entry.roofline
        if block is None:
            if "roofline" in self._entry.malformed:
                self._unreached.append("the roofline block is malformed")
            else:
                self._report("roofline", self._entry.line, "R001", "is missing; write flops (and bytes), or func")
            return self._verdict()
        for name, field in block.items():
            if name not in _FIELDS:
                self._report(
                    f"roofline.{name}", field.line, "R001", f"unknown field {name!r}; known are {', '.join(_FIELDS)}"
                )
        texts = {name: self._text(name, block.get(name)) for name in _FIELDS}
        if "func" in block:
            if len(block.keys() & {"flops", "bytes"}):
                self._report("roofline", self._entry.roofline_line, "R001", "func excludes flops and bytes")
            return self._func(block["func"], texts["func"])
        if "flops" not in block:
            self._report("roofline", self._entry.roofline_line, "R001", "needs flops, or func")
        return self._inline(block, texts)

    def _report(self, path: str, line: int, code: str, message: str) -> None:
        self._failed = True
        self._diagnostics.add(self._entry.file, line, self._entry.op, path, code, message)

    def _verdict(self, **decided: Any) -> Analysis:
        fine = not self._failed and not self._unreached
        return Analysis(emittable=fine, unreached=tuple(self._unreached), **decided)

    def _text(self, name: str, field: RooflineField | None) -> str | None:
        """The field's text; None where absent or malformed (which is reported)."""
        if field is None:
            return None
        if isinstance(field.value, str) and field.value.strip():
            return field.value.strip()
        self._report(f"roofline.{name}", field.line, "R002", "must be non-empty text")
        return None

    def _func(self, field: RooflineField, path: str | None) -> Analysis:
        if path is not None and not _FUNC.fullmatch(path):
            self._report("roofline.func", field.line, "R020", f"{path!r} is no module path; write package.module.function")
        return self._verdict(func=path or "", func_line=field.line)

    def _inline(self, block: dict[str, RooflineField], texts: dict[str, str | None]) -> Analysis:
        if self._entry.malformed - {"roofline"}:
            self._unreached.append(
                f"names and kinds of the formula: the signature is malformed at {', '.join(sorted(self._entry.malformed))}"
            )
            for name, text in texts.items():
                if text is not None:
                    self._parse(name, block[name], text)
            return self._verdict()
        flops = self._formula("flops", block.get("flops"), texts["flops"])
        if "bytes" in block:
            return self._verdict(flops=flops, bytes=self._formula("bytes", block["bytes"], texts["bytes"]))
        return self._verdict(flops=flops, traffic=self._derived())

    def _parse(self, name: str, field: RooflineField, text: str) -> expr.Expr | None:
        try:
            return expr.parse(text)
        except expr.ExprError as error:
            self._report(f"roofline.{name}", field.line, "R010", str(error))
            return None

    def _formula(self, name: str, field: RooflineField | None, text: str | None) -> Formula | None:
        node = None if field is None or text is None else self._parse(name, field, text)
        if node is None:
            return None
        path, before = f"roofline.{name}", self._failed
        self._failed = False
        kind = kind_check.check(
            node, _formula_scope(self._entry),
            lambda what, message: self._report(path, field.line, _CODES[what], message),
        )
        if kind is not None and not declarations.is_integer(kind) and not isinstance(kind, kinds.Real):
            self._report(path, field.line, "R012", f"must be an integer, and is {kind}")
        clean, self._failed = not self._failed, self._failed or before
        if not clean:
            return None
        try:
            points = enumerate_points(discriminants(self._entry.signature, [node]))
        except TooManyPoints as error:
            self._report(path, field.line, "R012", f"{error.args[0]} discriminant points are too many")
            return None
        decisions = [(point, fold(node, point.values, point.present)) for point in points]
        for point, folded in decisions:
            if isinstance(folded, expr.Literal) and not (type(folded.value) is int and folded.value >= 0):
                self._report(path, field.line, "R014", f"is {folded.value!r} ({point}), not a finite non-negative integer")
        return Formula(tree=decide(decisions), integer=isinstance(kind, kinds.Dim), line=field.line)

    def _derived(self) -> Any:
        """Each input read and output written once; a mutated input both, on the branch where it is written."""
        signature = self._entry.signature
        conditions = [tensor.mutated.expr for tensor in signature.inputs.values() if tensor.mutated is not None]
        points = enumerate_points(discriminants(signature, conditions))
        decisions = []
        for point in points:
            read, written = [], []
            for tensor in signature.inputs.values():
                mutated = tensor.mutated is not None and fold(tensor.mutated.expr, point.values, point.present) == expr.Literal(True)
                if not (mutated and tensor.write_only):
                    read.append(tensor.name)
                if mutated:
                    written.append(tensor.name)
            decisions.append((point, Traffic(read=tuple(read), written=(*written, *signature.outputs))))
        return decide(decisions)


def _formula_scope(entry: Entry) -> kind_check.Scope:
    """Indices, parameters, lets and bytes(t); value lists of `forall` are not in a formula's reach."""
    found = scope(entry, roofline=True)
    lists = {
        name for name, kind in entry.signature.forall.items()
        if isinstance(kind, kinds.Seq) and not isinstance(kind, kinds.Shape)
    }
    return dataclasses.replace(found, names={name: kind for name, kind in found.names.items() if name not in lists})
