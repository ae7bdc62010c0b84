"""Emits `check()`: the checks of a call in the order of the inference plan. `check` returns the checked call.

Follows the plan of plan.py: each tree becomes one if / elif / else, each leaf a few checks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

from tileops.codegen.call_decisions import CallDecisions
from tileops.codegen.emit_split import emit_tree
from tileops.codegen.emit_steps import StepEmitter
from tileops.codegen.source_text import Lines, call, declared, literal, plain
from tileops.manifest.check import Checked
from tileops.manifest.language import expr
from tileops.manifest.language.invariants import expect
from tileops.manifest.model import Expression, Tensor
from tileops.manifest.plans.plan import Branch, Plan
from tileops.manifest.plans.plan_steps import SolveLet, Step
from tileops.manifest.plans.trees import Leaf, Tree, leaves

T = TypeVar("T")


def emit_check(checked: Checked, decided: CallDecisions, lines: Lines) -> None:
    """Appends the method `check` of one entry, which must have a plan."""
    _CheckEmitter(checked, decided, lines).emit()


class _CheckEmitter(StepEmitter):
    def __init__(self, checked: Checked, decided: CallDecisions, lines: Lines) -> None:
        super().__init__(checked, decided, lines)
        self._plan = expect(checked.plan, Plan)
        self._buffers = [name for name, tensor in self._signature.outputs.items() if tensor.buffer]
        self._heading = ""  # the last one in this branch
        self._said = ""  # the last one before a tree splits, which the branches do not repeat

    def emit(self) -> None:
        signature, lines = self._signature, self._lines
        # An input `out` follows optional ones here, and None is refused as of any input that every call has.
        arguments = [
            f"{name}=None" if tensor.may_be_absent or name == "out" else name
            for name, tensor in signature.inputs.items()
        ]
        arguments += ["out=None"] if self._buffers else []
        with lines.block(
            f"def check(self, {', '.join(arguments)}) -> _CheckedCall:"
            if arguments
            else "def check(self) -> _CheckedCall:"
        ):
            lines.add('"""Check a call against the signature and solve its indices; nothing runs."""')
            read = self._read()
            for name in signature.params:
                if name in signature.constants:
                    lines.add(f'{name} = self.constants["{name}"]')
                elif name in read:
                    lines.add(f'{name} = self.params["{name}"]')
            for tensor in signature.bound.values():
                if tensor.when is None:
                    self._guarded(tensor, self._facts(tensor, 4 * tensor.optional))
            self._device()
            self._body()
        lines.add("")

    def _body(self) -> None:
        """Emits the checks that follow the facts and the device of the inputs that every call has."""
        inputs = self._signature.inputs.values()
        for step in self._plan.deciding:
            self._tensor_step(step)
        self._rules(self._decided.restrictions)
        for tensor in self._signature.bound.values():
            if tensor.when is not None:
                self._conditional(tensor)
        for tree in self._decided.segments:
            self._tree(tree, self._branch, lambda branch: not branch.steps)
            self._said = self._heading if isinstance(tree, Leaf) else ""
        self._tree(self._decided.combinations, lambda _: self._combo_check(), lambda known: not known)
        self._rules(self._decided.rules)
        records = {
            name: self._record(name) for name, tree in self._decided.returned.items() if None not in leaves(tree)
        }
        for tensor in inputs:
            if tensor.mutated is not None:
                self._written(tensor)
        self._lines.add("# What this call binds, and what it promises to return.")
        self._bound()
        self._promised(records)
        held = [self._metadata(), *self._storage(records)]
        bound = [self._op, "self.params", "_indices", "_inputs", "_outputs", "_device"]
        self._lines.call("return _CheckedCall", [*bound, *held])

    def _tree(
        self, tree: Tree[T], leaf: Callable[[T], None], silent: Callable[[T], bool] = lambda value: False
    ) -> None:
        """Emits a decision tree."""
        emit_tree(tree, self._lines, leaf, lambda name: f"{name} is not None", silent)

    def _bindings(self, names: Sequence[str]) -> str:
        """Returns the source of the values that an error shows. An index that this call does not solve is left out."""
        if {*names} <= self._plan.solved.known | self._signature.params.keys():
            return super()._bindings(names)
        return f"_checks.bound({literal(tuple(names))}, _locals())"

    def _read(self) -> set[str]:
        """Returns the names that the checks read."""
        signature = self._signature
        read: set[str] = set()
        for node in (
            *(term for tensor in signature.tensors.values() for term in (tensor.shape.expr, tensor.dtype.expr)),
            *(tensor.when.expr for tensor in signature.tensors.values() if tensor.when is not None),
            *(tensor.mutated.expr for tensor in signature.inputs.values() if tensor.mutated is not None),
            *self._decided.aliased.values(),
            *(let.expr for let in signature.lets.values()),
            *(rule.expr for rule in signature.rules),
        ):
            read.update(expr.names(node))
        return read.union(*signature.combos[:1])

    def _device(self) -> None:
        bound = self._signature.bound
        if device := self._signature.device_param:
            self._lines.add(f'_device = _checks.given_device(self.params["{device}"])')
            return
        if not bound:
            self._lines.add("_device = _checks.device_name(_torch.get_default_device())")
            return
        pairs = [f'("{name}", {name})' for name in bound]
        laid = call("", [*pairs[:-1], pairs[-1] + "," * (len(pairs) == 1)], self._lines.room - 5)
        metadata = tuple(name for name, tensor in bound.items() if tensor.values is not None)
        on_cpu = tuple(name for name, tensor in bound.items() if tensor.on_cpu)
        arguments = [self._op, _text(laid)]
        arguments += [f"metadata={literal(metadata)}"] if metadata else []
        arguments += [f"on_cpu={literal(on_cpu)}"] if on_cpu else []
        self._lines.call("_device = _checks.call_device", arguments)

    def _guarded(self, tensor: Tensor, body: Sequence[str]) -> None:
        if tensor.optional:
            with self._lines.block(f"if {tensor.name} is not None:"):
                self._lines.add(*body)
        else:
            self._lines.add(*body)

    def _conditional(self, tensor: Tensor) -> None:
        """Emits the check that a conditional input is passed exactly if its condition holds."""
        when = expect(tensor.when, Expression)
        what = literal(tensor.name), literal(when.text)
        with self._lines.block(f"if {self._source(when.expr)}:"):
            self._refuse(f"if {tensor.name} is None", "presence_error", *what, "True")
            self._lines.add(*self._facts(tensor))
        self._refuse(f"elif {tensor.name} is not None", "presence_error", *what, "False")

    def _branch(self, branch: Branch) -> None:
        """The next steps of some points of one part."""
        shapes = dict(branch.shapes)
        before: Step | None = None
        self._heading = ""
        for step in branch.steps:
            if not isinstance(step, SolveLet) and getattr(before, "tensor", None) != step.tensor:
                self._head(self._signature.bound[step.tensor], shapes.get(step.tensor))
            self._step(step, before)
            before = step

    def _head(self, tensor: Tensor, shape: expr.ShapeTerm | None) -> None:
        """Emits a comment with the tensor's type, as far as it is decided here."""
        written = tensor.shape.text if shape is None else expr.to_source(shape)
        text = f"# {tensor.name}: {plain(declared(tensor.dtype.text, written))}"
        text = text if len(text) <= self._lines.room else f"# {tensor.name}"
        if self._heading or text != self._said:
            self._lines.add(text)
        self._heading = text

    def _combo_check(self) -> None:
        combos = self._signature.combos
        names = list(combos[0])
        allowed = literal(tuple(tuple(combo[name] for name in names) for combo in combos))
        found = "(" + ", ".join(names) + ("," if len(names) == 1 else "") + ")"
        self._refuse(f"if {found} not in {allowed}", "combo_error", literal(tuple(names)), found, allowed)

    def _step(self, step: Step, before: Step | None) -> None:
        if isinstance(step, SolveLet):
            self._let(step)
            return
        tensor = self._signature.bound[step.tensor]
        if tensor.optional and tensor.name not in self._plan.solvers:  # the branch of a solver has asked for it
            if getattr(before, "tensor", None) != step.tensor:
                self._lines.add(f"if {tensor.name} is not None:")
            self._lines.indent(1)
            self._tensor_step(step)
            self._lines.indent(-1)
        else:
            self._tensor_step(step)

    def _record(self, name: str) -> str:
        """Returns the source of an output's record. Emits shapes that differ between points, or need a check, first."""
        tensor, tree = self._signature.outputs[name], self._decided.returned[name]
        if isinstance(tree, Leaf):
            extent = self._extent(tensor, expect(tree.value, expr.ShapeTerm))
        else:
            extent = f"_{name}_shape"
            self._tree(tree, lambda shape: self._assigned(extent, tensor, expect(shape, expr.ShapeTerm)))
        return f"_TensorRecord({extent}, {self._source(tensor.dtype.expr)})"

    def _assigned(self, local: str, tensor: Tensor, shape: expr.ShapeTerm) -> None:
        extent = self._extent(tensor, shape)
        if extent != local:
            self._lines.add(f"{local} = {extent}")

    def _written(self, tensor: Tensor) -> None:
        """Emits the check that no two elements of a written input share storage."""
        where, may_lack = expect(tensor.mutated, Expression).expr, tensor.may_be_absent
        conditions = [f"{tensor.name} is not None"] if may_lack else []
        if where != expr.Literal(True):
            conditions.append(self._source(where, expr.COMPARISON if may_lack else 0))
        checking = f"_checks.check_written({self._op}, {literal(tensor.name)}, {tensor.name})"
        if not conditions:
            self._lines.add(checking)
            return
        with self._lines.block(f"if {' and '.join(conditions)}:"):
            self._lines.add(checking)

    def _bound(self) -> None:
        """Emits the inputs and indices that the call binds."""
        lines, bound = self._lines, self._signature.bound.values()
        always = [f'"{one.name}": {_input_record(one)}' for one in bound if not one.may_be_absent]
        lines.mapping("_inputs = ", always)
        for tensor in bound:
            if tensor.may_be_absent:
                with lines.block(f"if {tensor.name} is not None:"):
                    lines.add(f'_inputs["{tensor.name}"] = {_input_record(tensor)}')
        names = [*self._signature.forall, *self._signature.lets]
        known = [f'"{name}": {name}' for name in names if name in self._plan.solved.known]
        lines.mapping("_indices = ", known)
        for tree in self._decided.partly:
            self._tree(
                tree,
                lambda found: lines.add(*(f'_indices["{name}"] = {name}' for name in names if name in found)),
                lambda found: found.isdisjoint(names),
            )

    def _promised(self, records: dict[str, str]) -> None:
        """Emits the outputs of the call: first those that every call returns, then each other one on its branches."""
        lines, names = self._lines, [*self._decided.returned]
        first = next((at for at, name in enumerate(names) if name not in records), len(names))
        lines.mapping("_outputs = ", [f'"{name}": {records[name]}' for name in names[:first]])
        for name in names[first:]:
            if name in records:
                lines.add(f'_outputs["{name}"] = {records[name]}')
                continue
            tensor, tree = self._signature.outputs[name], self._decided.returned[name]
            shapes = {*leaves(tree)} - {None}
            if len(shapes) == 1:
                with lines.block(f"if {self._source(expect(tensor.when, Expression).expr)}:"):
                    self._output(tensor, *shapes)
                continue
            self._tree(tree, functools.partial(self._output, tensor), lambda shape: shape is None)

    def _output(self, tensor: Tensor, shape: expr.ShapeTerm | None) -> None:
        """Emits a conditional output on a branch that returns it."""
        extent = self._extent(tensor, expect(shape, expr.ShapeTerm))
        self._lines.add(f'_outputs["{tensor.name}"] = _TensorRecord({extent}, {self._source(tensor.dtype.expr)})')

    def _metadata(self) -> str:
        """Returns the source of the call's metadata tensors, and emits the local that holds them."""
        metadata = [tensor for tensor in self._signature.bound.values() if tensor.values is not None]
        if not metadata:
            return "{}"
        always = [f'"{tensor.name}": {tensor.name}' for tensor in metadata if not tensor.may_be_absent]
        self._lines.mapping("_metadata = ", always)
        for tensor in metadata:
            if tensor.may_be_absent:
                with self._lines.block(f"if {tensor.name} is not None:"):
                    self._lines.add(f'_metadata["{tensor.name}"] = {tensor.name}')
        return "_metadata"

    def _passed_buffers(self) -> dict[str, str]:
        """Returns the local of each buffer, and emits the code that assigns several buffers to their outputs."""
        if len(self._buffers) == 1:
            return {self._buffers[0]: "out"}
        passed = {name: f"_{name}_out" for name in self._buffers}
        arguments = [self._op, literal(tuple(self._buffers)), "out"]
        self._lines.call(f"{', '.join(passed.values())} = _checks.split_buffers", arguments)
        return passed

    def _storage(self, records: dict[str, str]) -> list[str]:
        """Returns the source of the tensors that outputs must be: written inputs, and buffers of the caller."""
        lines, outputs, conditions = self._lines, self._signature.outputs, self._decided.aliased
        if not conditions and not self._buffers:
            return []
        always, sometimes = [], []
        for name, where in conditions.items():
            if where == expr.Literal(True):
                always.append(f'"{name}": {outputs[name].alias}')
            else:
                sometimes.append((name, self._source(where)))
        if len(conditions) == len(sometimes) == 1:
            ((name, source),) = sometimes
            lines.add(f'_aliases = {{"{name}": {outputs[name].alias}}} if {source} else {{}}')
        else:
            lines.mapping("_aliases = ", always)
            for name, source in sometimes:
                with lines.block(f"if {source}:"):
                    lines.add(f'_aliases["{name}"] = {outputs[name].alias}')
        if not self._buffers:
            return ["_aliases"]
        lines.add("_buffers = {}")
        with lines.block("if out is not None:"):
            for name, passed in self._passed_buffers().items():
                arguments = [self._op, literal(name), passed, f'_outputs["{name}"]', "_device"]
                checking = f'_buffers["{name}"] = _checks.check_buffer'
                if name in records:
                    lines.call(checking, arguments)
                    continue
                with lines.block(f'if "{name}" in _outputs:'):
                    lines.call(checking, arguments)
                with lines.block("else:"):
                    lines.call("_checks.refuse_buffer", [self._op, literal(name), passed])
        return ["_aliases", "_buffers"]


def _input_record(tensor: Tensor) -> str:
    return f"_TensorRecord(_{tensor.name}_shape, _{tensor.name}_dtype)"


def _text(lines: list[str]) -> str:
    return "\n".join(lines)
