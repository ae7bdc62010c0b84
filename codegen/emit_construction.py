"""Emits the checks of `__init__` beyond parameter types: what parameters and construction-time tensors decide."""

from __future__ import annotations

import contextlib

from tileops.codegen.emit_steps import StepEmitter
from tileops.codegen.source_text import Lines, literal
from tileops.manifest.check import Checked
from tileops.manifest.checks.obligations import decided_by_parameters, obliges
from tileops.manifest.language import expr, kinds
from tileops.manifest.model import Tensor
from tileops.manifest.plans import plan


def emit_construction(checked: Checked, lines: Lines) -> None:
    """Appends these checks to `__init__`, if there are any."""
    inside = Lines()
    inside.indent(3)
    _ConstructionEmitter(checked, inside).emit()
    found = inside.text().rstrip("\n")
    if found:
        lines.add("with _checks.construction():", *(line.removeprefix(" " * 8) for line in found.split("\n")))


class _ConstructionEmitter(StepEmitter):
    def emit(self) -> None:
        signature = self._signature
        for tensor in signature.constants.values():
            self._constant(tensor)
        lets, rules = decided_by_parameters(signature)
        known = {*signature.params, *lets}
        axes = [(tensor, found) for tensor in signature.tensors.values() if (found := self._obliged(tensor, known))]
        if lets or rules or axes:
            for name, param in signature.params.items():
                if name not in signature.constants and any(isinstance(one, kinds.Seq) for one in param.kind.options):
                    self._lines.add(f"{name} = _checks.plain({name})")
        for name in lets:
            self._let(plan.SolveLet(name, signature.lets[name].expr))
        self._rules(rules)
        for tensor, found in axes:
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
        with self._lines.block(f"if {name} is not None:") if tensor.may_be_absent else contextlib.nullcontext():
            self._lines.add(*self._facts(tensor))
            if allowed:
                test, what = f"if _{name}_dtype not in {literal(allowed)}", literal(tensor.dtype.text)
                self._refuse(test, "dtype_error", quoted, what, literal(allowed), f"_{name}_dtype")
            if isinstance(shape, expr.ShapeTerm) and not any(isinstance(axis, expr.Splice) for axis in shape.axes):
                test = f"if _len(_{name}_shape) != {len(shape.axes)}"
                self._refuse(test, "rank_error", quoted, literal(tensor.shape.text), f"_{name}_shape")

    def _obliged(self, tensor: Tensor, known: set[str]) -> tuple[expr.Expr, ...]:
        """Returns the axes that parameters decide and that may be negative, of a tensor that every call has."""
        shape = tensor.shape.expr
        if tensor.may_be_absent or not isinstance(shape, expr.ShapeTerm):
            return ()
        decided = (axis for axis in shape.axes if axis.free_names and known.issuperset(axis.free_names))
        return tuple(axis for axis in decided if obliges(self._entry, expr.ShapeTerm((axis,))))

    def _shapes(self) -> str:
        return "{}"
