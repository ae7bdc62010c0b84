"""Emits the checks of `__init__` beyond parameter types: what parameters and construction-time tensors decide."""

from __future__ import annotations

import contextlib
import functools

from tileops.codegen.call_decisions import CallDecisions
from tileops.codegen.emit_split import emit_tree
from tileops.codegen.emit_steps import StepEmitter
from tileops.codegen.source_text import Lines, literal
from tileops.manifest.check import Checked
from tileops.manifest.language import expr, kinds
from tileops.manifest.model import Tensor
from tileops.manifest.plans import plan_steps


def emit_construction(checked: Checked, decided: CallDecisions, lines: Lines) -> None:
    """Appends these checks to `__init__`, if there are any."""
    inside = Lines()
    inside.indent(3)
    _ConstructionEmitter(checked, decided, inside).emit()
    found = inside.text().rstrip("\n")
    if found:
        lines.add("with _checks.construction():", *(line.removeprefix(" " * 8) for line in found.split("\n")))


class _ConstructionEmitter(StepEmitter):
    def emit(self) -> None:
        signature = self._signature
        for tensor in signature.constants.values():
            self._constant(tensor)
        lets, rules, axes = self._decided.settled_lets, self._decided.settled_rules, self._decided.settled_axes
        if lets or rules or axes:
            for name, param in signature.params.items():
                if name not in signature.constants and any(isinstance(one, kinds.Seq) for one in param.kind.options):
                    self._lines.add(f"{name} = _checks.plain({name})")
        for name in lets:
            self._let(plan_steps.SolveLet(name, signature.lets[name].expr))
        self._rules(rules)
        for name, tree in axes.items():
            emit_tree(
                tree,
                self._lines,
                functools.partial(self._axes, signature.tensors[name]),
                lambda param: f"{param} is not None",
                lambda found: not found,
            )

    def _axes(self, tensor: Tensor, found: tuple[expr.Expr, ...]) -> None:
        """Emits the check that axes are at least 0."""
        self._evaluated("_axes", expr.Tuple(found), f"the shape of {tensor.name}, {tensor.shape.text}")
        arguments = [self._op, literal(tensor.name), literal(tensor.shape.text), "_axes"]
        self._lines.call("_checks.check_extents", arguments)

    def _constant(self, tensor: Tensor) -> None:
        """Emits checks of a construction-time tensor's dtype and rank, as far as no call decides them."""
        term, shape = tensor.dtype.expr, tensor.shape.expr
        index = self._signature.forall.get(term.id) if isinstance(term, expr.Name) else None
        allowed: tuple[str, ...] = ()
        if isinstance(index, kinds.DType):
            allowed = index.values
        elif isinstance(term, expr.Name) and term.id in kinds.ALL_DTYPES.values:
            allowed = (term.id,)
        name, quoted = tensor.name, literal(tensor.name)
        when = tensor.when
        if when is not None and {*when.expr.free_names} <= self._signature.params.keys():
            condition = quoted, literal(when.text)
            with self._lines.block(f"if {self._source(when.expr)}:"):
                self._refuse(f"if {name} is None", "presence_error", *condition, "True")
            self._refuse(f"elif {name} is not None", "presence_error", *condition, "False")
        with self._lines.block(f"if {name} is not None:") if tensor.may_be_absent else contextlib.nullcontext():
            self._lines.add(*self._facts(tensor))
            if allowed:
                test, what = f"if _{name}_dtype not in {literal(allowed)}", literal(tensor.dtype.text)
                self._refuse(test, "dtype_error", quoted, what, literal(allowed), f"_{name}_dtype")
            if isinstance(shape, expr.ShapeTerm) and not any(isinstance(axis, expr.Splice) for axis in shape.axes):
                test = f"if _len(_{name}_shape) != {len(shape.axes)}"
                self._refuse(test, "rank_error", quoted, literal(tensor.shape.text), f"_{name}_shape")

    def _shapes(self) -> str:
        return "{}"
