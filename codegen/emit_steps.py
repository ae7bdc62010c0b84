"""Emits the single checks of a call: a tensor's facts, one step of an inference plan, a rule, an output's extents."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from tileops.codegen.call_decisions import CallDecisions
from tileops.codegen.python_form import can_raise, is_not_none, python_form
from tileops.codegen.source_text import Lines, call, literal
from tileops.manifest.check import Checked
from tileops.manifest.language import expr
from tileops.manifest.model import Expression, Tensor
from tileops.manifest.plans import plan_steps


class StepEmitter:
    """Emits single checks of one entry. Subclasses decide their order."""

    def __init__(self, checked: Checked, decided: CallDecisions, lines: Lines) -> None:
        self._decided = decided
        self._op = literal(checked.entry.op)
        self._place = pathlib.PurePath(checked.entry.file).name
        self._signature = checked.entry.signature
        self._lines = lines
        self._names = frozenset([*self._signature.forall, *self._signature.params, *self._signature.lets])

    def _facts(self, tensor: Tensor, indent: int = 0) -> list[str]:
        name = tensor.name
        arguments = [self._op, literal(name), name]
        facts = call(f"_{name}_shape, _{name}_dtype = _checks.tensor_facts", arguments, self._lines.room - indent)
        if tensor.contiguous:
            facts.append(f"_checks.check_contiguous({self._op}, {literal(name)}, {name})")
        return facts

    def _refuse(self, test: str, error: str, *arguments: str) -> None:
        """Emits a test and, in its block, the raise of an error of ops/checks.py with the op and the arguments."""
        with self._lines.block(f"{test}:"):
            self._lines.call(f"raise _checks.{error}", [self._op, *arguments])

    def _let(self, step: plan_steps.SolveLet) -> None:
        let = self._signature.lets[step.name]
        self._lines.add(f"# {self._place}:{let.line}: let {step.name}")
        self._evaluated(step.name, step.term, f"let {step.name} = {let.text}")

    def _tensor_step(self, step: plan_steps.TensorStep) -> None:
        name, lines = step.tensor, self._lines
        shape, dtype, quoted = f"_{name}_shape", f"_{name}_dtype", literal(name)
        if isinstance(step, plan_steps.Rank):
            if step.open and step.least == plan_steps.Offset(0):
                return  # any number of axes will do
            least = self._length(step.least)
            if any(map(can_raise, step.least.runs)):  # the runs are read here first: later uses have a value
                self._evaluated("_least", _axes_of(step.least), f"the shape of {name}, {step.term}")
                least = "_least"
            test = f"if _len({shape}) {'<' if step.open else '!='} {least}"
            self._refuse(test, "rank_error", quoted, literal(step.term), shape)
        elif isinstance(step, plan_steps.SolveDType):
            lines.add(f"{step.index} = {dtype}")
            allowed = [*map(literal, step.allowed)] if len(step.allowed) > 1 else [f"{literal(step.allowed[0])},"]
            *head, last = call(f"if {step.index} not in ", allowed, lines.room - len(":"))
            lines.add(*head)
            self._refuse(last, "dtype_error", quoted, literal(step.index), literal(step.allowed), dtype)
        elif isinstance(step, plan_steps.CheckDType):
            wanted = self._source(step.term)
            term = literal(expr.to_source(step.term))
            self._refuse(f"if {dtype} != {wanted}", "dtype_error", quoted, term, f"({wanted},)", dtype)
        elif isinstance(step, plan_steps.SolveAxis):
            self._solve_axis(step, shape, quoted)
        elif isinstance(step, plan_steps.SolveRun):
            front, back = self._length(step.front), self._length(step.back)
            stop = "" if back == "0" else f" _len({shape}) - {_tight(back)}"
            run = f"{front}:" if not stop and front.isdigit() else f"{front} :{stop}"
            lines.add(f"{step.index} = {shape}" if front == "0" and not stop else f"{step.index} = {shape}[{run}]")
        elif isinstance(step, plan_steps.CheckAxis):
            wanted = self._valued("_size", step.term, f"an axis of {name}, {expr.to_source(step.term)}")
            test, term = f"if {shape}[{self._at(step, shape)}] != {wanted}", literal(expr.to_source(step.term))
            self._refuse(test, "axis_error", quoted, self._position(step, shape), term, wanted, shape)
        else:
            wanted, at = self._source(step.term, expr.SUM), self._position(step, shape)
            stop = "" if step.last else f" {at} + _len({wanted})"
            found = shape if at == "0" and step.last else f"{shape}[{at} :{stop}]"
            term = literal(f"*{expr.to_source(step.term)}")
            self._refuse(f"if {found} != {wanted}", "axis_error", quoted, at, term, wanted, shape)

    def _solve_axis(self, step: plan_steps.SolveAxis, shape: str, quoted: str) -> None:
        lines, size = self._lines, f"{shape}[{self._at(step, shape)}]"
        if step.factor == 1 and step.offset == expr.Literal(0):
            lines.add(f"{step.index} = {size}")
            return
        offset = self._valued("_offset", step.offset, f"an axis of {step.tensor}, {expr.to_source(step.term)}", level=0)
        lines.add(f"{step.index} = _primitives.divided({size}, {step.factor}, {offset})")
        term, index = literal(expr.to_source(step.term)), literal(step.index)
        place = self._position(step, shape)
        self._refuse(f"if {step.index} is None", "unsolvable_error", quoted, place, term, index, shape)

    def _length(self, offset: plan_steps.Offset) -> str:
        runs = [f"_len({self._source(run)})" for run in offset.runs]
        return " + ".join([str(offset.axes)] * (offset.axes > 0 or not runs) + runs)

    def _at(self, step: plan_steps.SolveAxis | plan_steps.CheckAxis, shape: str) -> str:
        """Returns the subscript of an axis, negative for a constant distance from the back."""
        if step.from_back and not step.at.runs:
            return f"-{step.at.axes}"
        return self._position(step, shape)

    def _position(self, step: plan_steps.SolveAxis | plan_steps.CheckAxis | plan_steps.CheckRun, shape: str) -> str:
        length = self._length(step.at)
        return f"_len({shape}) - {_tight(length)}" if step.from_back else length

    def _rules(self, rules: Sequence[Expression]) -> None:
        bound = [*self._signature.params, *(n for n in self._signature.forall), *self._signature.lets]
        for rule in rules:
            shown = [name for name in bound if name in expr.names(rule.expr)]
            negated = self._source(expr.Unary("not", rule.expr))
            self._lines.add(f"# {self._place}:{rule.line}: shape rule")
            if can_raise(rule.expr):
                self._evaluated("_holds", rule.expr, f"the rule {rule.text}")
                negated = "not _holds"
            self._refuse(f"if {negated}", "rule_error", literal(rule.text), self._bindings(shown), self._shapes())

    def _bindings(self, names: Sequence[str]) -> str:
        """Returns the source of the values that an error shows."""
        return "{" + ", ".join(f'"{name}": {name}' for name in names) + "}"

    def _extent(self, tensor: Tensor, shape: expr.ShapeTerm) -> str:
        """Returns the source of an output's extents; emits checks first if they may have no value or be negative."""
        name, value = tensor.name, _shape_tuple(shape)
        obliged = shape in self._decided.signed
        if not obliged and not can_raise(shape):
            return self._source(value)
        extent = f"_{name}_shape"
        if obliged:
            self._lines.add(f"# {name}: no axis may come out negative")
        self._evaluated(extent, value, f"the shape of {name}, {expr.to_source(shape)}")
        if obliged:
            arguments = [self._op, literal(name), literal(expr.to_source(shape)), extent, self._shapes()]
            self._lines.call("_checks.check_extents", arguments)
        return extent

    def _evaluated(self, name: str, node: expr.Expr, what: str) -> None:
        """Emits `name = node`. If a primitive refuses its arguments, the error names the declaration `what`."""
        if not can_raise(node):
            self._lines.add(f"{name} = {self._source(node)}")
            return
        with self._lines.block("try:"):
            self._lines.add(f"{name} = {self._source(node)}")
        with self._lines.block("except _checks.DOMAIN_ERRORS as _error:"):
            arguments = [self._op, literal(what), "_error", self._shapes()]
            raising = call("raise _checks.domain_error", arguments, self._lines.room - 10)
            self._lines.add(*raising[:-1], f"{raising[-1]} from None")

    def _valued(self, local: str, node: expr.Expr, what: str, level: int = expr.SUM) -> str:
        """Returns the source of the node's value for a comparison or a looser place; a local if it may have none."""
        if not can_raise(node):
            return self._source(node, level)
        self._evaluated(local, node, what)
        return local

    def _shapes(self) -> str:
        """Returns the source of the shapes that an error may show: of the inputs that every call has."""
        always = [name for name, tensor in self._signature.inputs.items() if not tensor.may_be_absent]
        return "{" + ", ".join(f'"{name}": _{name}_shape' for name in always) + "}"

    def _source(self, node: expr.Expr, level: int = 0) -> str:
        return expr.to_source(python_form(node, self._names, is_not_none), level)


def _shape_tuple(shape: expr.ShapeTerm) -> expr.Expr:
    """Returns a shape's axes as a tuple expression. For a single run of axes that is the run itself."""
    if len(shape.axes) == 1 and isinstance(shape.axes[0], expr.Splice):
        return shape.axes[0].sequence
    return expr.Tuple(shape.axes)


def _axes_of(offset: plan_steps.Offset) -> expr.Expr:
    """Returns the number of axes of an offset, as an expression."""
    total: expr.Expr = expr.Literal(offset.axes)
    for run in offset.runs:
        total = expr.Binary("+", total, expr.Call("len", (run,)))
    return total


def _tight(length: str) -> str:
    return f"({length})" if " " in length else length
