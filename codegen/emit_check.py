"""Emits `check()`: the call's checks in the order of its inference plan, ending in the checked call."""

from __future__ import annotations

from collections.abc import Sequence

from tileops.codegen.emit_split import emit_split, kind_of
from tileops.codegen.emit_steps import StepEmitter, may_be_absent
from tileops.codegen.outside import Outside
from tileops.codegen.source_text import Lines, call, declared, literal, mapping, plain
from tileops.manifest import expr, plan
from tileops.manifest.check import Checked
from tileops.manifest.model import Tensor
from tileops.manifest.obligations import decided_by_parameters
from tileops.manifest.points import Point, Split, decide, domain_restrictions
from tileops.manifest.presence import is_its_input
from tileops.manifest.shapes import shape_at


def emit_check(checked: Checked, outside: Outside, lines: Lines) -> None:
    """Append the method `check` of one entry."""
    CheckEmitter(checked, outside, lines).emit()

class CheckEmitter(StepEmitter):
    """Emits the method; a call's points are told apart as wholes, each branch ending in what it returns."""

    def __init__(self, checked: Checked, outside: Outside, lines: Lines) -> None:
        super().__init__(checked, lines)
        self._plans = checked.plans
        self._outside = outside
        restricting = domain_restrictions(self._signature)
        settled = decided_by_parameters(self._signature)[1]
        self._in_calls = [rule for rule in self._signature.rules if rule not in settled]
        self._restrictions = [rule for rule in self._in_calls if rule.expr in restricting]
        self._buffers = [name for name, tensor in self._signature.outputs.items() if tensor.buffer]

    def emit(self) -> None:
        signature, lines = self._signature, self._lines
        arguments = [f"{name}=None" if may_be_absent(tensor) else name for name, tensor in signature.inputs.items()]
        arguments += ["out=None"] if self._buffers else []
        with lines.block(f"def check(self, {', '.join(arguments)}) -> _CheckedCall:" if arguments else "def check(self) -> _CheckedCall:"):
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
        """All that follows once the inputs that every call has are known to be tensors of one device."""
        self._deciding_dtypes()
        self._rules(self._restrictions)
        self._tree(decide([(point, (point, made)) for point, made in self._plans]))

    def _deciding_dtypes(self) -> None:
        """Dtype indices on which the branch or a domain restriction depends, from a tensor that every call has."""
        signature = self._signature
        read = {*self._plans[0][0].values, *(name for rule in self._restrictions for name in expr.names(rule.expr))}
        decided = [name for name in signature.forall if name in read]
        for name in decided:
            tensor = plan.holder(signature, name)
            if tensor is not None:
                self._tensor_step(plan.SolveDType(tensor.name, name, signature.forall[name].values))

    def _read(self) -> set[str]:
        """Names that the checks read."""
        signature = self._signature
        read: set[str] = set()
        for node in (
            *(term for tensor in signature.tensors.values() for term in (tensor.shape.expr, tensor.dtype.expr)),
            *(tensor.when.expr for tensor in signature.tensors.values() if tensor.when is not None),
            *(tensor.mutated.expr for tensor in signature.inputs.values() if tensor.mutated is not None),
            *(where for output in signature.outputs.values() if (where := is_its_input(signature, output))),
            *(let.expr for let in signature.lets.values()),
            *(rule.expr for rule in signature.rules),
        ):
            read.update(expr.names(node))
        return read

    def _device(self) -> None:
        bound = self._signature.bound
        if not bound:
            self._lines.add('_device = _checks.device_name(_torch.get_default_device())')
            return
        pairs = [f'("{name}", {name})' for name in bound]
        laid = call("", [*pairs[:-1], pairs[-1] + "," * (len(pairs) == 1)], self._lines.room - 5)
        metadata = tuple(name for name, tensor in bound.items() if tensor.values is not None)
        on_cpu = tuple(name for name, tensor in bound.items() if tensor.on_cpu)
        arguments = [self._op, _text(laid)]
        arguments += [f"metadata={literal(metadata)}"] if metadata else []
        arguments += [f"on_cpu={literal(on_cpu)}"] if on_cpu else []
        self._lines.add(*call("_device = _checks.call_device", arguments, self._lines.room))

    def _guarded(self, tensor: Tensor, body: Sequence[str]) -> None:
        if tensor.optional:
            with self._lines.block(f"if {tensor.name} is not None:"):
                self._lines.add(*body)
        else:
            self._lines.add(*body)

    def _tree(self, node: Split | tuple[Point, plan.Plan]) -> None:
        if isinstance(node, Split):
            constructors = self._outside.constructors(kind_of(self._signature, node.discriminant))
            emit_split(node, self._lines, constructors, self._tree, lambda name: f"{name} is not None")
            return
        point, made = node
        for tensor in self._signature.inputs.values():
            if tensor.when is not None:
                self._conditional(tensor, plan.present_at(tensor, point))
        for position, step in enumerate(made.steps):
            before = made.steps[position - 1] if position else None
            if not isinstance(step, plan.SolveLet) and getattr(before, "tensor", None) != step.tensor:
                self._heading(self._signature.bound[step.tensor], point)
            self._step(step, before)
        self._combos(point)
        later = [plan.rule_at(self._signature, rule, point) for rule in self._in_calls if rule not in self._restrictions]
        self._rules([rule for rule in later if rule.expr != expr.Literal(True)])
        self._result(point)

    def _heading(self, tensor: Tensor, point: Point) -> None:
        """A comment that says what the checks below it are of: the tensor's type at the point, where it fits."""
        shape = expr.to_source(shape_at(self._signature, tensor, point))
        text = f"# {tensor.name}: {plain(declared(tensor.dtype.text, shape))}"
        self._lines.add(text if len(text) <= self._lines.room else f"# {tensor.name}")

    def _conditional(self, tensor: Tensor, present: bool) -> None:
        """An input with a shared presence tag: passed exactly where its condition holds."""
        with self._lines.block(f"if {tensor.name} is {'None' if present else 'not None'}:"):
            arguments = [self._op, literal(tensor.name), literal(tensor.when.text), str(present)]
            self._lines.add(*call("raise _checks.presence_error", arguments, self._lines.room))
        if present:
            self._lines.add(*self._facts(tensor))

    def _combos(self, point: Point) -> None:
        combos = self._signature.combos
        if not combos:
            return
        names = list(combos[0])
        if set(names) <= plan.known_at(self._signature, point):  # else a tensor that the combination is about is absent here
            self._combo_check()

    def _combo_check(self) -> None:
        combos = self._signature.combos
        names = list(combos[0])
        allowed = literal(tuple(tuple(combo[name] for name in names) for combo in combos))
        found = "(" + ", ".join(names) + ("," if len(names) == 1 else "") + ")"
        with self._lines.block(f"if {found} not in {allowed}:"):
            arguments = [self._op, literal(tuple(names)), found, allowed]
            self._lines.add(*call("raise _checks.combo_error", arguments, self._lines.room))

    def _step(self, step: plan.Step, before: plan.Step | None) -> None:
        if isinstance(step, plan.SolveLet):
            self._let(step)
            return
        tensor = self._signature.bound[step.tensor]
        if tensor.optional:
            if getattr(before, "tensor", None) != step.tensor:
                self._lines.add(f"if {tensor.name} is not None:")
            self._lines.indent(1)
            self._tensor_step(step)
            self._lines.indent(-1)
        else:
            self._tensor_step(step)

    def _result(self, point: Point) -> None:
        lines, signature = self._lines, self._signature
        extents = {}
        outputs_here = {name: t for name, t in signature.outputs.items() if plan.present_at(t, point)}
        for name, tensor in outputs_here.items():
            extents[name] = self._extent(tensor, shape_at(signature, tensor, point))
        here = [tensor for tensor in signature.bound.values() if plan.present_at(tensor, point)]
        required = [tensor for tensor in here if not tensor.optional]
        optional = [tensor for tensor in here if tensor.optional]
        for tensor in here:
            if tensor.mutated is not None:
                self._written(tensor, point.fold(tensor.mutated.expr), tensor.optional)
        lines.add("# What this call binds, and what it promises to return.")
        lines.add(*mapping("_inputs = ", _records(required), lines.room))
        for tensor in optional:
            with lines.block(f"if {tensor.name} is not None:"):
                lines.add(f'_inputs["{tensor.name}"] = {_record(tensor)}')
        known = plan.known_at(signature, point)
        indices = [name for name in (*signature.forall, *signature.lets) if name in known]
        outputs = [
            f'"{name}": _TensorRecord({extents[name]}, {self._source(tensor.dtype.expr)})'
            for name, tensor in outputs_here.items()
        ]
        lines.add(*mapping("_indices = ", [f'"{name}": {name}' for name in indices], lines.room))
        lines.add(*mapping("_outputs = ", outputs, lines.room))
        held = [self._metadata(here), *self._storage(outputs_here, extents, point)]
        bound = [self._op, "self.params", "_indices", "_inputs", "_outputs", "_device"]
        lines.add(*call("return _CheckedCall", [*bound, *held], lines.room))

    def _written(self, tensor: Tensor, where: expr.Expr, may_lack: bool) -> None:
        """An input that is written has its elements apart from one another."""
        checking = call("_checks.check_written", [self._op, literal(tensor.name), tensor.name], self._lines.room)
        conditions = [f"{tensor.name} is not None"] if may_lack else []
        if where == expr.Literal(False):
            return
        if where != expr.Literal(True):
            conditions.append(self._source(where, expr.COMPARISON if may_lack else 0))
        if not conditions:
            self._lines.add(*checking)
            return
        with self._lines.block(f"if {' and '.join(conditions)}:"):
            self._lines.add(*checking)

    def _passed_buffers(self) -> dict[str, str]:
        """The local that holds each buffer that the caller passed, which are told apart where there are several."""
        if len(self._buffers) == 1:
            return {self._buffers[0]: "out"}
        passed = {name: f"_{name}_out" for name in self._buffers}
        arguments = [self._op, literal(tuple(self._buffers)), "out"]
        self._lines.add(*call(f"{', '.join(passed.values())} = _checks.split_buffers", arguments, self._lines.room))
        return passed

    def _storage(self, outputs: dict[str, Tensor], extents: dict[str, str], point: Point) -> list[str]:
        """Source of the tensors that outputs have to be: inputs that are written, buffers that the caller passes."""
        aliases = [
            f'"{name}": {tensor.alias}' for name, tensor in outputs.items()
            if (where := is_its_input(self._signature, tensor)) and point.fold(where) == expr.Literal(True)
        ]  # fmt: skip
        lines = self._lines
        buffered = [name for name in outputs if name in self._buffers]
        if aliases or buffered:
            lines.add(f"_aliases = {{{', '.join(aliases)}}}")
        if not self._buffers:
            return ["_aliases"] if aliases else []
        if buffered:
            lines.add("_buffers = {}")
        with lines.block("if out is not None:"):
            passed = self._passed_buffers()
            for name in self._buffers:
                if name not in outputs:
                    lines.add(*call("_checks.refuse_buffer", [self._op, literal(name), passed[name]], lines.room))
                    continue
                record = f"_TensorRecord({extents[name]}, {self._source(outputs[name].dtype.expr)})"
                arguments = [self._op, literal(name), passed[name], record, "_device"]
                lines.add(*call(f'_buffers["{name}"] = _checks.check_buffer', arguments, lines.room))
        return ["_aliases", "_buffers"] if buffered else ["_aliases"] if aliases else []

    def _metadata(self, here: Sequence[Tensor]) -> str:
        """Source of the call's metadata tensors: none, or a local that holds them."""
        metadata = [tensor for tensor in here if tensor.values is not None]
        always = "{" + ", ".join(f'"{tensor.name}": {tensor.name}' for tensor in metadata if not tensor.optional) + "}"
        sometimes = [tensor for tensor in metadata if tensor.optional]
        if not metadata:
            return "{}"
        self._lines.add(f"_metadata = {always}")
        for tensor in sometimes:
            with self._lines.block(f"if {tensor.name} is not None:"):
                self._lines.add(f'_metadata["{tensor.name}"] = {tensor.name}')
        return "_metadata"


def _records(tensors: Sequence[Tensor]) -> list[str]:
    return [f'"{tensor.name}": {_record(tensor)}' for tensor in tensors]


def _record(tensor: Tensor) -> str:
    return f"_TensorRecord(_{tensor.name}_shape, _{tensor.name}_dtype)"


def _text(lines: list[str]) -> str:
    return "\n".join(lines)
