"""Emits `check()`: the call's checks in the order of its inference plan, ending in the checked call."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tileops.codegen.outside import Outside
from tileops.codegen.python_form import can_raise, is_not_none, python_form
from tileops.codegen.source_text import Lines, call, declared, literal, mapping, plain
from tileops.manifest import expr, kinds, plan
from tileops.manifest.adt import AdtValue
from tileops.manifest.check import Checked
from tileops.manifest.model import Expression, Signature, Tensor
from tileops.manifest.obligations import decided_by_parameters, obliges
from tileops.manifest.presence import is_its_input
from tileops.manifest.points import Discriminant, Point, Split, decide, domain_restrictions
from tileops.manifest.shapes import shape_at


def emit_check(checked: Checked, outside: Outside, lines: Lines) -> None:
    """Append the method `check` of one entry."""
    CheckEmitter(checked, outside, lines).emit()


class CheckEmitter:
    """Emits the method; a call's points are told apart as wholes, each branch ending in what it returns."""

    def __init__(self, checked: Checked, outside: Outside, lines: Lines) -> None:
        self._entry = checked.entry
        self._op = literal(checked.entry.op)
        self._place = pathlib.PurePath(checked.entry.file).name
        self._signature = checked.entry.signature
        self._plans = checked.plans
        self._lines = lines
        self._outside = outside
        self._names = frozenset([*self._signature.forall, *self._signature.params, *self._signature.lets])
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

    def _facts(self, tensor: Tensor, indent: int = 0) -> list[str]:
        name = tensor.name
        arguments = [self._op, literal(name), name]
        facts = call(f"_{name}_shape, _{name}_dtype = _checks.tensor_facts", arguments, self._lines.room - indent)
        if tensor.contiguous:
            facts.append(f"_checks.check_contiguous({self._op}, {literal(name)}, {name})")
        return facts

    def _read(self) -> set[str]:
        """Names that the checks read."""
        signature = self._signature
        read: set[str] = set()
        for node in (
            *(term for tensor in signature.tensors.values() for term in (tensor.shape.expr, tensor.dtype.expr)),
            *(tensor.when.expr for tensor in signature.tensors.values() if tensor.when is not None),
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

    # ---- steps of the plan

    def _step(self, step: plan.Step, before: plan.Step | None) -> None:
        if isinstance(step, plan.SolveLet):
            let = self._signature.lets[step.name]
            self._lines.add(f"# {self._place}:{let.line}: let {step.name}")
            self._evaluated(step.name, step.term, f"let {step.name} = {let.text}")
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

    def _tensor_step(self, step: plan.Step) -> None:
        name, lines = step.tensor, self._lines
        shape, dtype, quoted = f"_{name}_shape", f"_{name}_dtype", literal(name)
        if isinstance(step, plan.Rank):
            if step.open and step.least == plan.Offset(0):
                return  # any number of axes will do
            least = self._length(step.least)
            if any(map(can_raise, step.least.runs)):  # the runs are read here first: later uses have a value
                self._evaluated("_least", _axes_of(step.least), f"the shape of {name}, {step.term}")
                least = "_least"
            with lines.block(f"if _len({shape}) {'<' if step.open else '!='} {least}:"):
                lines.add(f"raise _checks.rank_error({self._op}, {quoted}, {literal(step.term)}, {shape})")
        elif isinstance(step, plan.SolveDType):
            lines.add(f"{step.index} = {dtype}")
            with lines.block(f"if {step.index} not in {literal(step.allowed)}:"):
                lines.add(*call("raise _checks.dtype_error", [self._op, quoted, literal(step.index), literal(step.allowed), dtype], lines.room))
        elif isinstance(step, plan.CheckDType):
            wanted = self._source(step.term)
            with lines.block(f"if {dtype} != {wanted}:"):
                term = literal(expr.to_source(step.term))
                lines.add(*call("raise _checks.dtype_error", [self._op, quoted, term, f"({wanted},)", dtype], lines.room))
        elif isinstance(step, plan.SolveAxis):
            self._solve_axis(step, shape, quoted)
        elif isinstance(step, plan.SolveRun):
            front, back = self._length(step.front), self._length(step.back)
            stop = "" if back == "0" else f" _len({shape}) - {_tight(back)}"
            run = f"{front}:" if not stop and front.isdigit() else f"{front} :{stop}"
            lines.add(f"{step.index} = {shape}" if front == "0" and not stop else f"{step.index} = {shape}[{run}]")
        elif isinstance(step, plan.CheckAxis):
            wanted = self._valued("_size", step.term, f"an axis of {name}, {expr.to_source(step.term)}")
            with lines.block(f"if {shape}[{self._at(step, shape)}] != {wanted}:"):
                self._axis_error(step, shape, quoted, expr.to_source(step.term), wanted)
        else:
            wanted, at = self._source(step.term, expr.SUM), self._position(step, shape)
            stop = "" if step.last else f" {at} + _len({wanted})"
            found = shape if at == "0" and step.last else f"{shape}[{at} :{stop}]"
            with lines.block(f"if {found} != {wanted}:"):
                self._axis_error(step, shape, quoted, f"*{expr.to_source(step.term)}", wanted)

    def _solve_axis(self, step: plan.SolveAxis, shape: str, quoted: str) -> None:
        lines, size = self._lines, f"{shape}[{self._at(step, shape)}]"
        if step.factor == 1 and step.offset == expr.Literal(0):
            lines.add(f"{step.index} = {size}")
            return
        offset = self._valued("_offset", step.offset, f"an axis of {step.tensor}, {expr.to_source(step.term)}", level=0)
        lines.add(f"{step.index} = _primitives.divided({size}, {step.factor}, {offset})")
        with lines.block(f"if {step.index} is None:"):
            term, index = literal(expr.to_source(step.term)), literal(step.index)
            arguments = [self._op, quoted, self._position(step, shape), term, index, shape]
            lines.add(*call("raise _checks.unsolvable_error", arguments, lines.room))

    def _axis_error(self, step: plan.CheckAxis | plan.CheckRun, shape: str, quoted: str, term: str, wanted: str) -> None:
        arguments = [self._op, quoted, self._position(step, shape), literal(term), wanted, shape]
        self._lines.add(*call("raise _checks.axis_error", arguments, self._lines.room))

    def _length(self, offset: plan.Offset) -> str:
        runs = [f"_len({self._source(run)})" for run in offset.runs]
        return " + ".join([str(offset.axes)] * (offset.axes > 0 or not runs) + runs)

    def _at(self, step: plan.SolveAxis | plan.CheckAxis, shape: str) -> str:
        """The subscript of an axis; a constant distance from the back is a negative one."""
        if step.from_back and not step.at.runs:
            return f"-{step.at.axes}"
        return self._position(step, shape)

    def _position(self, step: plan.SolveAxis | plan.CheckAxis | plan.CheckRun, shape: str) -> str:
        length = self._length(step.at)
        return f"_len({shape}) - {_tight(length)}" if step.from_back else length

    # ---- rules and result

    def _rules(self, rules: Sequence[Expression]) -> None:
        bound = [*self._signature.params, *(n for n in self._signature.forall), *self._signature.lets]
        for rule in rules:
            shown = [name for name in bound if name in expr.names(rule.expr)]
            bindings = "{" + ", ".join(f'"{name}": {name}' for name in shown) + "}"
            negated = self._source(expr.Unary("not", rule.expr))
            arguments = [self._op, literal(rule.text), bindings, self._shapes()]
            raising = call("raise _checks.rule_error", arguments, self._lines.room - 4)
            self._lines.add(f"# {self._place}:{rule.line}: shape rule")
            if can_raise(rule.expr):
                self._evaluated("_holds", rule.expr, f"the rule {rule.text}")
                negated = "not _holds"
            with self._lines.block(f"if {negated}:"):
                self._lines.add(*raising)

    def _evaluated(self, name: str, node: expr.Expr, what: str) -> None:
        """`name = node`, a primitive's refusal told as the declaration's."""
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
        """Source of the node's value where a comparison (or a looser place) takes it; a local where it may have none."""
        if not can_raise(node):
            return self._source(node, level)
        self._evaluated(local, node, what)
        return local

    def _shapes(self) -> str:
        """Source of the shapes that an error may show: those of the inputs that every call has."""
        always = [name for name, tensor in self._signature.inputs.items() if not may_be_absent(tensor)]
        return "{" + ", ".join(f'"{name}": _{name}_shape' for name in always) + "}"

    def _result(self, point: Point) -> None:
        lines, signature = self._lines, self._signature
        extents = {}
        outputs_here = {name: t for name, t in signature.outputs.items() if plan.present_at(t, point)}
        for name, tensor in outputs_here.items():
            extents[name] = self._extent(tensor, shape_at(signature, tensor, point))
        here = [tensor for tensor in signature.bound.values() if plan.present_at(tensor, point)]
        required = [tensor for tensor in here if not tensor.optional]
        optional = [tensor for tensor in here if tensor.optional]
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

    def _extent(self, tensor: Tensor, shape: expr.ShapeTerm) -> str:
        """Source of an output's extents, which are worked out and checked first where they may have no value or be negative."""
        name, value = tensor.name, _shape_tuple(shape)
        obliged = obliges(self._entry, shape)
        if not obliged and not can_raise(shape):
            return self._source(value)
        extent = f"_{name}_shape"
        if obliged:
            self._lines.add(f"# {name}: no axis may come out negative")
        self._evaluated(extent, value, f"the shape of {name}, {expr.to_source(shape)}")
        if obliged:
            arguments = [self._op, literal(name), literal(expr.to_source(shape)), extent, self._shapes()]
            self._lines.add(*call("_checks.check_extents", arguments, self._lines.room))
        return extent

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

    def _source(self, node: expr.Expr, level: int = 0) -> str:
        return expr.to_source(python_form(node, self._names, is_not_none), level)


def kind_of(signature: Signature, discriminant: Discriminant) -> kinds.Kind | None:
    """The kind of what a discriminant is the value of; None where that is no parameter."""
    param = signature.params.get(discriminant.name)
    return None if param is None else param.kind


def emit_split(
    split: Split, lines: Lines, constructors: Mapping[str, str], leaf: Callable[[Any], None], present_test: Callable[[str], str],
    silent: Callable[[Any], bool] = lambda leaf: False,
) -> None:
    """Emit a decision tree as if / elif / else over one discriminant after the other; a branch that emits nothing is left out.

    Args:
      split: the tree.
      lines: takes the code.
      constructors: how the module writes the constructors of an algebraic discriminant.
      leaf: emits a branch.
      present_test: Python that says whether a tensor or parameter is there.
      silent: whether a leaf emits nothing.
    """
    said = [(value, branch) for value, branch in split.branches if not _silent(branch, silent)]
    for position, (value, branch) in enumerate(said):
        last = position == len(said) - 1 and position > 0 and len(said) == len(split.branches)
        test = "else:" if last else f"{'elif' if position else 'if'} {_test(split.discriminant, value, constructors, present_test)}:"
        with lines.block(test):
            leaf(branch)


def _silent(node: Any, silent: Callable[[Any], bool]) -> bool:
    """Whether no leaf of a tree emits anything."""
    if isinstance(node, Split):
        return all(_silent(branch, silent) for _, branch in node.branches)
    return silent(node)


def _test(
    discriminant: Discriminant, value: object, constructors: Mapping[str, str], present_test: Callable[[str], str]
) -> str:
    """Python that says whether a discriminant has a value."""
    name = discriminant.name
    if discriminant.presence:
        test = present_test(name)
        if value:
            return test
        return test.replace(" is not None", " is None") if " is not None" in test else f"not {test}"
    if isinstance(value, AdtValue):
        tests = [f"_isinstance({name}, {constructors[value.kind]})"]
        for field, wanted in value.fields:
            own = f"{name}.{field}"
            tests.append((own if wanted else f"not {own}") if isinstance(wanted, bool) else f"{own} == {literal(wanted)}")
        return " and ".join(tests)
    if value is None:
        return f"{name} is None"
    if isinstance(value, bool) and None not in discriminant.values:
        return name if value else f"not {name}"
    return f"{name} is {value}" if isinstance(value, bool) else f"{name} == {literal(value)}"


def may_be_absent(tensor: Tensor) -> bool:
    """Whether a call may leave the input out."""
    return tensor.optional or tensor.when is not None


def _shape_tuple(shape: expr.ShapeTerm) -> expr.Expr:
    """A shape's axes as a tuple; one run of axes alone is the run itself."""
    if len(shape.axes) == 1 and isinstance(shape.axes[0], expr.Splice):
        return shape.axes[0].sequence
    return expr.Tuple(shape.axes)


def _axes_of(offset: plan.Offset) -> expr.Expr:
    """How many axes an offset stands for."""
    total: expr.Expr = expr.Literal(offset.axes)
    for run in offset.runs:
        total = expr.Binary("+", total, expr.Call("len", (run,)))
    return total


def _records(tensors: Sequence[Tensor]) -> list[str]:
    return [f'"{tensor.name}": {_record(tensor)}' for tensor in tensors]


def _record(tensor: Tensor) -> str:
    return f"_TensorRecord(_{tensor.name}_shape, _{tensor.name}_dtype)"


def _text(lines: list[str]) -> str:
    return "\n".join(lines)


def _tight(length: str) -> str:
    return f"({length})" if " " in length else length
