"""Emits what prices the last call: `eval_roofline` and, where the signature settles it, the read half."""

from __future__ import annotations

import pathlib
from typing import Any

from tileops.codegen.analysis import Analysis, Formula, Traffic
from tileops.codegen.emit_check import emit_split, kind_of
from tileops.codegen.outside import Outside
from tileops.codegen.python_form import is_not_none, python_form
from tileops.codegen.source_text import Lines, assign, call, literal
from tileops.manifest import expr
from tileops.manifest.model import Entry
from tileops.manifest.points import Split


def emit_price(entry: Entry, analysis: Analysis, outside: Outside, lines: Lines) -> None:
    """Append the pricing methods of one entry."""
    _PriceEmitter(entry, analysis, outside, lines).emit()


class _PriceEmitter:
    def __init__(self, entry: Entry, analysis: Analysis, outside: Outside, lines: Lines) -> None:
        self._entry = entry
        self._analysis = analysis
        self._outside = outside
        self._lines = lines
        self._names = frozenset([*entry.signature.forall, *entry.signature.params, *entry.signature.lets])
        self._place = pathlib.PurePath(entry.file).name

    def emit(self) -> None:
        with self._lines.block("def eval_roofline(self) -> tuple[int, int]:"):
            self._lines.add('"""(flops, bytes) of the last completed call: the algorithm\'s minimum."""')
            if self._analysis.func:
                self._func()
            else:
                self._inline()
        if self._analysis.traffic is not None:
            self._lines.add("")
            with self._lines.block("def eval_roofline_read_bytes(self) -> int:"):
                self._lines.add('"""Bytes of the last call\'s price that are reads."""', "_call = self.last_call")
                self._parameters(_tree_tests(self._analysis.traffic))
                self._tree(self._analysis.traffic, lambda traffic: self._lines.add(f"return {_bytes_of(traffic.read)}"))

    def _func(self) -> None:
        path = self._analysis.func
        self._lines.add(f"# {self._place}:{self._analysis.func_line}: func")
        self._lines.add(*call(
            "return _checks.price_pair", [literal(self._entry.op), literal(path), f"{self._outside.function(path)}(self.last_call)"], self._lines.room,
        ))

    def _inline(self) -> None:
        analysis = self._analysis
        self._lines.add("_call = self.last_call")
        read = {name for formula in (analysis.flops, analysis.bytes) if formula for name in _tree_names(formula.tree)}
        self._parameters(read | _tree_tests(analysis.traffic) if analysis.traffic is not None else read)
        for name in (*self._entry.signature.forall, *self._entry.signature.lets):
            if name in read:
                self._lines.add(f'{name} = _call.indices["{name}"]')
        self._formula("flops", analysis.flops)
        if analysis.bytes is not None:
            self._formula("bytes", analysis.bytes)
            self._result("_bytes", analysis.bytes)
            return
        self._lines.add("# bytes: from the signature, each input read and each output written once")
        self._tree(
            analysis.traffic,
            lambda traffic: self._lines.add(f"_read = {_bytes_of(traffic.read)}", f"_written = {_bytes_of(traffic.written)}"),
        )
        self._result("_read + _written", None)

    def _parameters(self, read: set[str]) -> None:
        for name in self._entry.signature.params:
            if name in read:
                self._lines.add(f'{name} = _call.params["{name}"]')

    def _formula(self, name: str, formula: Formula) -> None:
        self._lines.add(f"# {self._place}:{formula.line}: {name}")
        local = f"_{name}"
        self._tree(
            formula.tree,
            lambda node: self._lines.add(*assign(local, python_form(node, self._names, self._present), self._lines.room)),
        )

    def _present(self, name: str) -> expr.Expr:
        """Presence of a tensor is what the checked call bound, that of a parameter whether it was given."""
        if name in self._entry.signature.tensors:
            return expr.Verbatim(f"_call.present({literal(name)})", expr.ATOM)
        return is_not_none(name)

    def _result(self, nbytes: str, formula: Formula | None) -> None:
        flops = self._price("flops", "_flops", self._analysis.flops)
        self._lines.add(f"return {flops}, {self._price('bytes', nbytes, formula)}")

    def _price(self, name: str, value: str, formula: Formula | None) -> str:
        """The value itself where its kind makes it a price, else the value checked."""
        if formula is None or formula.integer:
            return value
        return f'_checks.price("{self._entry.op}", "{name} ({self._place}:{formula.line})", {value})'

    def _tree(self, node: Any, leaf) -> None:
        if isinstance(node, Split):
            constructors = self._outside.constructors(kind_of(self._entry.signature, node.discriminant))
            emit_split(node, self._lines, constructors, lambda branch: self._tree(branch, leaf), lambda name: expr.to_source(self._present(name)))
        else:
            leaf(node)


def _bytes_of(names: tuple[str, ...]) -> str:
    return f"_call.bytes_of({', '.join(literal(name) for name in names)})"


def _tree_names(node: Any) -> set[str]:
    """Names that the leaves and tests of a formula's tree read."""
    if isinstance(node, Split):
        own = {node.discriminant.name}
        return own.union(*(_tree_names(branch) for _, branch in node.branches))
    return set(expr.names(node))


def _tree_tests(node: Split | Traffic) -> set[str]:
    """Parameters that the tests of a traffic tree read."""
    if not isinstance(node, Split):
        return set()
    return {node.discriminant.name}.union(*(_tree_tests(branch) for _, branch in node.branches))
