"""Emits `eval_roofline` and, if the bytes follow from the signature, `eval_roofline_read_bytes`."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tileops.codegen.analysis import Analysis, Formula
from tileops.codegen.emit_split import emit_tree
from tileops.codegen.imports import Outside
from tileops.codegen.python_form import can_raise, is_not_none, python_form
from tileops.codegen.source_text import Lines, assign, literal
from tileops.manifest.language import expr, kinds
from tileops.manifest.language.invariants import expect
from tileops.manifest.model import Entry
from tileops.manifest.plans.trees import Leaf, Tree, leaves, project

T = TypeVar("T")


def emit_price(entry: Entry, analysis: Analysis, outside: Outside, lines: Lines) -> None:
    """Appends the pricing methods of one entry."""
    _PriceEmitter(entry, analysis, outside, lines).emit()


class _PriceEmitter:
    def __init__(self, entry: Entry, analysis: Analysis, outside: Outside, lines: Lines) -> None:
        self._entry = entry
        self._analysis = analysis
        self._outside = outside
        self._lines = lines
        self._names = frozenset([*entry.signature.forall, *entry.signature.params, *entry.signature.lets])
        self._place = pathlib.PurePath(entry.file).name
        self._bound: set[str] = set()
        # A branch may test a dtype before it tests whether the call has a tensor of that dtype.
        self._tested_early = {
            name for name in analysis.sometimes if isinstance(entry.signature.forall.get(name), kinds.DType)
        }

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
                self._read_bytes()

    def _reads(self) -> bool:
        """Returns whether some call reads a tensor."""
        return any(tree != Leaf(()) for tree in self._side("read"))

    def _read_bytes(self) -> None:
        if not self._reads():
            self._lines.add(f"return {_bytes_of(())}")
            return
        self._bind(set().union(*map(_tree_tests, self._analysis.traffic or ())))
        self._moved()
        self._lines.add("return _read")

    def _moved(self) -> None:
        """Emits `_read` and `_written`: what the call reads if it writes anything, and what it writes."""
        for side in ("read", "written"):
            self._charges(side, self._side(side))
        if self._reads():
            self._lines.add("_read = _read if _written else 0  # what writes nothing reads nothing")

    def _side(self, name: str) -> list[Tree[tuple[str, ...]]]:
        """Returns, for each tree of the traffic, the tensors that it charges as read or as written."""
        return [project(tree, lambda traffic: getattr(traffic, name)) for tree in self._analysis.traffic or ()]

    def _charges(self, side: str, found: Sequence[Tree[tuple[str, ...]]]) -> None:
        """Emits `_read` or `_written`, the sum over trees of that side."""
        self._sum(found, lambda names, by: self._lines.add(f"_{side} {by} {_bytes_of(names)}"), ())

    def _sum(self, trees: Sequence[Tree[T]], emit: Callable[[T, str], None], nothing: T) -> None:
        """Emits a sum over trees by `emit(leaf, operator)`: the first assigns, the others add all but `nothing`."""
        for tree in trees[:1]:
            self._tree(tree, lambda leaf: emit(leaf, "="))
        for tree in trees[1:]:
            self._tree(tree, lambda leaf: emit(leaf, "+="), lambda leaf: leaf == nothing)

    def _func(self) -> None:
        path = self._analysis.func
        self._lines.add(f"# {self._place}:{self._analysis.func_line}: func")
        self._lines.call(
            "return _checks.price_pair",
            [literal(self._entry.op), literal(path), f"{self._outside.function(path)}(self.last_call)"],
        )

    def _inline(self) -> None:
        analysis = self._analysis
        self._lines.add("_call = self.last_call")
        found = [tree for formula in (analysis.flops, analysis.bytes) if formula for tree in formula.trees]
        self._bound = set().union(*map(_tree_tests, (*found, *(analysis.traffic or ()))), *map(_common_names, found))
        self._bind(self._bound)
        self._formula("flops", expect(analysis.flops, Formula))
        if analysis.bytes is not None:
            self._formula("bytes", analysis.bytes)
            self._result("_bytes", analysis.bytes)
            return
        self._lines.add("# bytes: from the signature; what is read once each, then what is written")
        self._moved()
        self._result("_read + _written", None)

    def _bind(self, read: set[str]) -> None:
        """Emits locals for the parameters, indices and lets that are read."""
        signature = self._entry.signature
        for holder, names in (("params", signature.params), ("indices", (*signature.forall, *signature.lets))):
            for name in names:
                if name in read and name not in signature.constants:
                    item = f'.get("{name}")' if name in self._tested_early else f'["{name}"]'
                    self._lines.add(f"{name} = _call.{holder}{item}")

    def _formula(self, name: str, formula: Formula) -> None:
        self._lines.add(f"# {self._place}:{formula.line}: {name}")
        self._sum(formula.trees, lambda node, by: self._value(name, node, formula.line, by), expr.Literal(0))

    def _value(self, name: str, node: expr.Expr, line: int, by: str) -> None:
        """Emits `_flops = expression` or `_flops += expression`; an error in the expression names the formula."""
        self._bind(set(expr.names(node)) - self._bound)  # an index of a tensor that other branches lack
        form = python_form(node, self._names, self._present)
        if not can_raise(node):
            self._lines.add(*assign(f"_{name}", form, self._lines.room, by))
            return
        with self._lines.block("try:"):
            self._lines.add(*assign(f"_{name}", form, self._lines.room, by))
        with self._lines.block("except _checks.DOMAIN_ERRORS as _error:"):
            self._lines.add(
                f"raise _checks.price_error({literal(self._entry.op)}, {self._formula_name(name, line)}, _error)"
                " from None"
            )

    def _formula_name(self, name: str, line: int) -> str:
        return literal(f"{name} ({self._place}:{line})")

    def _present(self, name: str) -> expr.Expr:
        """Returns the source of a presence: of a tensor in the checked call, or of a parameter that is not None."""
        if name in self._entry.signature.tensors or name == "out":
            return expr.Verbatim(f"_call.present({literal(name)})", expr.ATOM)
        return is_not_none(name)

    def _result(self, nbytes: str, formula: Formula | None) -> None:
        flops = self._price("flops", "_flops", self._analysis.flops)
        self._lines.add(f"return {flops}, {self._price('bytes', nbytes, formula)}")

    def _price(self, name: str, value: str, formula: Formula | None) -> str:
        """Returns the source of a price: the value, checked unless its kind makes it a price."""
        if formula is None or formula.integer:
            return value
        return f"_checks.price({literal(self._entry.op)}, {self._formula_name(name, formula.line)}, {value})"

    def _tree(
        self, tree: Tree[T], leaf: Callable[[T], None], silent: Callable[[T], bool] = lambda value: False
    ) -> None:
        """Emits a tree by what its leaves emit; nothing if all leaves are silent."""
        emit_tree(tree, self._lines, leaf, lambda name: expr.to_source(self._present(name)), silent)


def _bytes_of(names: tuple[str, ...]) -> str:
    return f"_call.bytes_of({', '.join(literal(name) for name in names)})"


def _common_names(tree: Tree[expr.Expr]) -> set[str]:
    """Returns the names that every leaf of a formula's tree reads."""
    return set.intersection(*({*expr.names(node)} for node in leaves(tree)))


def _tree_tests(tree: Tree[Any]) -> set[str]:
    """Returns the parameters and dtype indices that the tests of a tree read."""
    if isinstance(tree, Leaf):
        return set()
    return {tree.discriminant.name}.union(*(_tree_tests(branch) for _, branch in tree.branches))
