"""Emits `check()` of an entry with many discriminant points: small branches for each part that is told apart."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tileops.codegen.emit_check import CheckEmitter
from tileops.codegen.emit_split import emit_split, kind_of
from tileops.codegen.emit_steps import may_be_absent
from tileops.codegen.outside import Outside
from tileops.codegen.source_text import Lines, call, literal, mapping
from tileops.manifest import expr, plan
from tileops.manifest.apart import Apart, Segment
from tileops.manifest.check import Checked
from tileops.manifest.domain import Domain
from tileops.manifest.model import Tensor
from tileops.manifest.points import Point, Split, decide
from tileops.manifest.presence import is_its_input
from tileops.manifest.shapes import shape_at


def emit_apart(checked: Checked, apart: Apart, outside: Outside, lines: Lines) -> None:
    """Append the method `check` of one entry whose plan is made part by part."""
    _ApartEmitter(checked, apart, outside, lines).emit()


class _ApartEmitter(CheckEmitter):
    def __init__(self, checked: Checked, apart: Apart, outside: Outside, lines: Lines) -> None:
        super().__init__(checked, outside, lines)
        self._apart = apart
        self._domain = Domain(self._signature)

    def _body(self) -> None:
        for step in self._apart.deciding:
            self._tensor_step(step)
        self._rules(self._restrictions)
        for tensor in self._signature.inputs.values():
            if tensor.when is not None:
                self._shared_tag(tensor)
        for segment in self._apart.segments:
            self._segment(segment)
        self._combinations()
        self._rules([rule for rule in self._in_calls if rule not in self._restrictions])
        for tensor in self._signature.inputs.values():
            if tensor.mutated is not None:
                self._written(tensor, tensor.mutated.expr, may_be_absent(tensor))
        self._bound()
        self._returned()
        held = [self._metadata_held(), *self._storage_held()]
        bound = [self._op, "self.params", "_indices", "_inputs", "_outputs", "_device"]
        self._lines.add(*call("return _CheckedCall", [*bound, *held], self._lines.room))

    def _bindings(self, names: Sequence[str]) -> str:
        """Those that this call bound: an index that some input solves is unknown where that is absent."""
        return f"_checks.bound({literal(tuple(names))}, _locals())"

    def _branches(
        self, decisions: Sequence[tuple[Point, Any]], leaf: Callable[[Any], None], silent: Callable[[Any], bool]
    ) -> None:
        """Emit what is decided at some points; nothing where that is silent everywhere."""
        self._decided(decide(list(decisions)), leaf, silent)

    def _decided(self, node: Any, leaf: Callable[[Any], None], silent: Callable[[Any], bool]) -> None:
        if isinstance(node, Split):
            constructors = self._outside.constructors(kind_of(self._signature, node.discriminant))
            emit_split(
                node, self._lines, constructors, lambda branch: self._decided(branch, leaf, silent),
                lambda name: f"{name} is not None", silent,
            )  # fmt: skip
        elif not silent(node):
            leaf(node)

    def _shared_tag(self, tensor: Tensor) -> None:
        """An input with a shared presence tag: passed exactly where its condition holds."""

        def refusal(present: bool) -> list[str]:
            arguments = [self._op, literal(tensor.name), literal(tensor.when.text), str(present)]
            return call("raise _checks.presence_error", arguments, self._lines.room)

        with self._lines.block(f"if {self._source(tensor.when.expr)}:"):
            with self._lines.block(f"if {tensor.name} is None:"):
                self._lines.add(*refusal(True))
            self._lines.add(*self._facts(tensor))
        with self._lines.block(f"elif {tensor.name} is not None:"):
            self._lines.add(*refusal(False))

    def _segment(self, segment: Segment) -> None:
        different: dict[int, int] = {}
        steps = []
        for _, found in segment.branches:
            if id(found) not in different:
                different[id(found)] = len(steps)
                steps.append(found)

        def leaf(at: int) -> None:
            for position, step in enumerate(steps[at]):
                self._step(step, steps[at][position - 1] if position else None)

        decisions = [(point, different[id(found)]) for point, found in segment.branches]
        self._branches(decisions, leaf, lambda at: not steps[at])

    def _combinations(self) -> None:
        """The dtype combinations, where the call knows all that they assign."""
        names = {name for combo in self._signature.combos[:1] for name in combo}
        if not names:
            return
        missing = names - self._apart.known
        part = next((part for part in self._apart.partly for _, found in part if missing & found), None)
        if part is None:
            if not missing:
                self._combo_check()
            return
        decisions = [(point, missing <= found) for point, found in part]
        self._branches(decisions, lambda _: self._combo_check(), lambda known: not known)

    def _bound(self) -> None:
        """What the call binds: indices and inputs."""
        lines, signature = self._lines, self._signature
        names = [*signature.forall, *signature.lets]
        known = [f'"{name}": {name}' for name in names if name in self._apart.known]
        lines.add(*mapping("_indices = ", known, lines.room))
        for part in self._apart.partly:
            self._branches(
                part, lambda found: lines.add(*(f'_indices["{name}"] = {name}' for name in names if name in found)),
                lambda found: not found.intersection(names),
            )  # fmt: skip
        bound = signature.bound.values()
        always = [f'"{one.name}": {_record(one)}' for one in bound if not may_be_absent(one)]
        lines.add(*mapping("_inputs = ", always, lines.room))
        for tensor in bound:
            if may_be_absent(tensor):
                with lines.block(f"if {tensor.name} is not None:"):
                    lines.add(f'_inputs["{tensor.name}"] = {_record(tensor)}')

    def _returned(self) -> None:
        """The outputs that the call promises, each by its own branches."""
        self._lines.add("_outputs = {}")
        for name, tensor in self._signature.outputs.items():
            decisions = []
            for point in self._domain.points(self._apart.terms[name]):
                found = None
                if plan.present_at(tensor, point):
                    found = shape_at(self._signature, tensor, point), point.fold(tensor.dtype.expr)
                decisions.append((point, found))
            emitted = functools.partial(self._output, tensor)
            self._branches(decisions, lambda found, emitted=emitted: emitted(*found), lambda found: found is None)

    def _output(self, tensor: Tensor, shape: expr.ShapeTerm, dtype: expr.Expr) -> None:
        extent = self._extent(tensor, shape)
        self._lines.add(f'_outputs["{tensor.name}"] = _TensorRecord({extent}, {self._source(dtype)})')

    def _metadata_held(self) -> str:
        """Source of the call's metadata tensors: none, or a local that holds them."""
        metadata = [tensor for tensor in self._signature.bound.values() if tensor.values is not None]
        if not metadata:
            return "{}"
        always = [f'"{tensor.name}": {tensor.name}' for tensor in metadata if not may_be_absent(tensor)]
        self._lines.add(*mapping("_metadata = ", always, self._lines.room))
        for tensor in metadata:
            if may_be_absent(tensor):
                with self._lines.block(f"if {tensor.name} is not None:"):
                    self._lines.add(f'_metadata["{tensor.name}"] = {tensor.name}')
        return "_metadata"

    def _storage_held(self) -> list[str]:
        """Source of the tensors that outputs have to be: inputs that are written, buffers that the caller passes."""
        lines, signature = self._lines, self._signature
        outputs = signature.outputs.items()
        conditions = {name: where for name, output in outputs if (where := is_its_input(signature, output))}
        if not conditions and not self._buffers:
            return []
        lines.add("_aliases = {}")
        for name, where in conditions.items():
            storage = f'_aliases["{name}"] = {signature.outputs[name].alias}'
            if where == expr.Literal(True):
                lines.add(storage)
                continue
            with lines.block(f"if {self._source(where)}:"):
                lines.add(storage)
        if not self._buffers:
            return ["_aliases"]
        lines.add("_buffers = {}")
        with lines.block("if out is not None:"):
            for name, passed in self._passed_buffers().items():
                with lines.block(f'if "{name}" in _outputs:'):
                    arguments = [self._op, literal(name), passed, f'_outputs["{name}"]', "_device"]
                    lines.add(*call(f'_buffers["{name}"] = _checks.check_buffer', arguments, lines.room))
                with lines.block("else:"):
                    lines.add(*call("_checks.refuse_buffer", [self._op, literal(name), passed], lines.room))
        return ["_aliases", "_buffers"]


def _record(tensor: Tensor) -> str:
    return f"_TensorRecord(_{tensor.name}_shape, _{tensor.name}_dtype)"
