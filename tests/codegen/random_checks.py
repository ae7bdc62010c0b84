"""Holds an emitted class against its entry's model: cases, calls, records, prices, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from tileops.ops import workloads
from tileops.ops.errors import OpError
from tileops.ops.op import Op
from tileops.tests.codegen import random_primitives as primitives
from tileops.tests.codegen import random_scope as sorts
from tileops.tests.codegen.random_calls import other_call, perturbed
from tileops.tests.codegen.random_draw import Draw
from tileops.tests.codegen.random_model import Model, RefusedError, Row, Tensor
from tileops.tests.codegen.random_params import DEVICE, Param
from tileops.tests.codegen.random_terms import Env, OutOfBoundsError
from tileops.tests.codegen.random_types import as_passed, as_recorded

Count = dict[str, int]


class MismatchError(Exception):
    """The emitted class and the model differ; the message says where."""


def same(what: str, found: Any, wanted: Any) -> None:
    """Raises MismatchError where two values differ."""
    if found != wanted or type(found) is not type(wanted):
        raise MismatchError(f"{what} is {found!r}, and the model says {wanted!r}")


def check_entry(model: Model, op_class: type[Op], draw: Draw, count: Count) -> None:
    """Every row's case, call and price, and calls nearby. Raises MismatchError."""
    mine = type(f"Mine{model.op}", (op_class,), {})
    checker = _Checker(model, mine, draw, count)
    try:
        same("the number of cases", len(op_class.CASES), len(model.rows))
        for row, case in zip(model.rows, op_class.CASES, strict=True):
            checker.case(row, case)
        for row in model.rows:
            checker.row(row, mine.CASES[model.rows.index(row)])
        checker.nearby()
    except MismatchError:
        raise
    except Exception as error:
        import traceback

        raise MismatchError(f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-4)}") from error


class _Checker:
    def __init__(self, model: Model, op_class: type[Op], draw: Draw, count: Count) -> None:
        self._model = model
        self._class = op_class
        self._draw = draw
        self._count = count
        self._env: Env | None = None
        op_class.register("honest", self._honest)

    def _counted(self, what: str) -> None:
        self._count[what] = self._count.get(what, 0) + 1

    # ---- what the class says of its rows

    def case(self, row: Row, case: Any) -> None:
        """The row's case as the generated module carries it."""
        model, env = self._model, row.env
        same("case id", case.case_id, row.case_id)
        same("dtypes of the case", case.dtypes, row.dtypes)
        for tensor in case.tensors:
            self._record(f"case tensor {tensor.name}", (tensor.shape, tensor.dtype), model.tensors[tensor.name], env)
        bound = [t.name for t in model.of_role("constant", "input") if env["present", t.name]]
        same("tensors of the case", sorted(tensor.name for tensor in case.tensors), sorted(bound))
        same("input bytes of the case", case.input_bytes, sum(env["bytes", name] for name in bound))
        outputs = [t.name for t in model.of_role("output") if env["present", t.name]]
        same("output bytes of the case", case.output_bytes, sum(env["bytes", name] for name in outputs))
        self._counted("cases compared")

    def _record(self, what: str, found: tuple[Any, str], tensor: Tensor, env: Env) -> None:
        same(what, found, (self._model.shape(tensor, env), tensor.dtype.of(env)))

    # ---- calls of rows

    def row(self, row: Row, case: Any) -> None:
        """The row's call on the CPU, with the tensors that the project builds, and on meta, with the model's own."""
        env = row.env
        params = {p.name: env[p.name] for p in self._model.params}
        built = workloads.build_inputs(self._class, case, "cpu")
        for name, tensor in built.items():
            wanted = self._model.tensors[name].generator
            if tensor is not None and wanted is not None and (contents := wanted[1](env)) is not None:
                same(f"contents of {name}", tensor.reshape(-1).tolist(), torch.tensor(contents).reshape(-1).tolist())
        op = workloads.construct(self._class, case)
        constants = dict(op.constants)
        self._env = env
        out = self._out(env)
        outputs = op(**built, **out)
        passed = env
        if "out" not in self._model.tensors:  # no input has this name
            passed = Env({**env, ("present", "out"): bool(out)}, env.lets)
        self.completed(op, passed, {**constants, **built}, outputs, "cpu")
        for name, tensor in built.items():
            if tensor is not None and self._model.tensors[name].generator is not None:
                same(f"recorded values of {name}", op.last_call.values(name).tolist(), tensor.tolist())
        tensors = self.tensors(env, "meta")
        op = self.construct(params, tensors)
        outputs = self.called(op, tensors)
        self.completed(op, env, tensors, outputs, self._device(tensors))
        self._counted("calls of rows")

    def _out(self, env: Env) -> dict[str, Any]:
        """At times the buffers that the entry lets a caller pass."""
        buffered = [t for t in self._model.of_role("output") if t.buffer]
        if not buffered or any(not env["present", t.name] for t in buffered) or self._draw.chance(50):
            return {}
        self._counted("calls with a passed buffer")
        made = [self._new(t, env, "cpu") for t in buffered]
        return {"out": made[0] if len(made) == 1 else tuple(made)}

    def _new(self, tensor: Tensor, env: Env, device: str) -> torch.Tensor:
        dtype = primitives.torch_dtype(tensor.dtype.of(env))
        return torch.empty(self._model.shape(tensor, env), dtype=dtype, device=device)

    def tensors(self, env: Env, device: str) -> dict[str, torch.Tensor | None]:
        """The bound tensors of a call as the model shapes them; None for an absent one."""
        found = {}
        for tensor in self._model.of_role("constant", "input"):
            home = "cpu" if tensor.on_cpu or (tensor.generator and self._draw.chance(50)) else device
            found[tensor.name] = self._new(tensor, env, home) if env["present", tensor.name] else None
        return found

    def _device(self, tensors: Mapping[str, torch.Tensor | None]) -> str:
        """Where the call is: where its data is, metadata deciding only where there is no data."""
        if DEVICE in self._env and self._env[DEVICE] is not None:
            return self._env[DEVICE]
        given = [(name, tensor.device.type) for name, tensor in tensors.items() if tensor is not None]
        bound = [(self._model.tensors[name], device) for name, device in given]
        data = [device for tensor, device in bound if not tensor.on_cpu and not tensor.generator]
        metadata = [device for tensor, device in bound if not tensor.on_cpu and tensor.generator]
        return (data + sorted(metadata, reverse=True) + ["cpu"])[0]  # of metadata alone, one on meta decides

    def construct(self, params: Mapping[str, Any], tensors: Mapping[str, Any]) -> Op:
        """The op for these parameters; dtypes as names or as torch has them, sequences as lists or tuples."""
        given = {}
        for param in self._model.params:
            value = params[param.name]
            if isinstance(value, tuple) and self._draw.chance(50):
                value = list(value)
            if isinstance(value, str) and _holds_dtype(param) and hasattr(torch, value) and self._draw.chance(50):
                value = primitives.torch_dtype(value)
            is_default = param.defaulted and _identical(params[param.name], param.default)
            if not (is_default and self._draw.chance(50)):
                given[param.name] = as_passed(value, self._model.sums)
        constants = {
            tensor.name: tensors.get(tensor.name)
            for tensor in self._model.of_role("constant")
            if tensor.presence is None or tensors.get(tensor.name) is not None
        }
        return self._class(**given, **constants)

    def called(self, op: Op, tensors: Mapping[str, Any]) -> Any:
        """What a call with these inputs returns: by position, and those by name that the entry declares so."""
        inputs = self._model.of_role("input")
        named = {tensor.name: tensors.get(tensor.name) for tensor in inputs if tensor.kw_only}
        return op(*(tensors.get(tensor.name) for tensor in inputs if not tensor.kw_only), **named)

    def _honest(self, op: Op, call: Any, *arguments: Any) -> Any:
        """Returns what the model promises: the aliased input, the passed buffer, or a new tensor."""
        outputs: list[Any] = []
        passed = dict(zip(call.buffers, arguments[len(self._model.of_role("input")) :], strict=True))
        given = dict(zip((t.name for t in self._model.of_role("input")), arguments, strict=False))
        for tensor in self._model.of_role("output"):
            if not self._env["present", tensor.name]:
                outputs.append(None)
            elif self._model.aliased(tensor, self._env):
                outputs.append(given[tensor.alias])
            else:
                outputs.append(passed.get(tensor.name, self._new(tensor, self._env, call.device)))
        return outputs[0] if len(outputs) == 1 else tuple(outputs) or None

    # ---- what a completed call leaves behind

    def completed(self, op: Op, env: Env, bound: Mapping[str, Any], outputs: Any, device: str) -> None:
        """What came back, what was recorded, and what it costs: by the model, and by the tensors' own sizes."""
        model, call = self._model, op.last_call
        if not model.of_role("output"):
            same("what an op without outputs returns", outputs, None)
            outputs = ()
        returned = outputs if isinstance(outputs, tuple) else (outputs,)
        named = dict(zip((t.name for t in model.of_role("output")), returned, strict=True))
        for tensor in model.of_role("output"):
            found = named[tensor.name]
            if found is None:
                same(f"presence of {tensor.name}", False, env["present", tensor.name])
                continue
            self._record(f"output {tensor.name}", (tuple(found.shape), primitives.dtype_name(found.dtype)), tensor, env)
            if model.aliased(tensor, env) and found is not bound[tensor.alias]:
                raise MismatchError(f"{tensor.name} is not the input {tensor.alias}")
            if not model.aliased(tensor, env):
                same(f"device of {tensor.name}", found.device.type, device)
        same("whether an implementation served the call", op.last_implementation != "", device != "meta")
        for param in (param for param in model.params if param.name != DEVICE):  # a run puts its own in its place
            same(f"recorded parameter {param.name}", call.params[param.name], as_recorded(env[param.name]))
        names = (*model.indices, *model.dtype_indices, *model.lets)
        known = {name for name in names if name in env and model.indices.get(name) != "Seq[Int]"}
        same("recorded indices", set(call.indices), known)
        for name in known:
            same(f"recorded {name}", call.indices[name], env[name])
        tensors = {**bound, **named}
        for tensor in model.tensors.values():
            same(f"recorded presence of {tensor.name}", call.present(tensor.name), env["present", tensor.name])
            if env["present", tensor.name]:
                record = call.tensors[tensor.name]
                self._record(f"recorded {tensor.name}", (record.shape, record.dtype), tensor, env)
                same(f"recorded bytes of {tensor.name}", record.bytes, env["bytes", tensor.name])
        self.priced(op, env, lambda name: tensors[name].numel() * tensors[name].element_size())

    def priced(self, op: Op, env: Env, size: Callable[[str], int]) -> None:
        """The emitted price, against the model's formulas and, where bytes are derived, a recount of the tensors."""
        model = self._model
        try:
            wanted = model.price(env)
        except OutOfBoundsError:
            return
        except RefusedError:
            self._refused("a formula without a price", op.eval_roofline)
            return
        same("the price", op.eval_roofline(), wanted)
        self._counted("prices compared")
        if model.bytes is None and not model.func:
            read, written = model.traffic(env, size)
            same("the bytes, recounted from the tensors", wanted[1], read + written)
            same("the bytes read, recounted from the tensors", op.eval_roofline_read_bytes(), read)
            self._counted("derived bytes recounted")

    def _refused(self, what: str, run: Callable[[], Any]) -> None:
        try:
            found = run()
        except OpError:
            self._counted(f"refused: {what}")
            return
        raise MismatchError(f"{what} was accepted: {found!r}")

    # ---- calls nearby

    def nearby(self) -> None:
        """Other calls of the same op: accepted and priced where the model accepts them, refused where it does not."""
        row = self._draw.choice(self._model.rows)
        params = {p.name: row.env[p.name] for p in self._model.params}
        self._env = row.env
        tensors = self.tensors(row.env, "meta")
        op = self.construct(params, tensors)
        self.called(op, tensors)
        for _ in range(3):
            shapes = {n: (tuple(t.shape), primitives.dtype_name(t.dtype)) for n, t in tensors.items() if t is not None}
            change = other_call if self._draw.chance(40) else perturbed
            self._nearby(op, params, change(self._model, row.env, shapes, self._draw))
        self._wrong_parameter(params, tensors)

    def _nearby(self, op: Op, params: Mapping[str, Any], found: dict[str, tuple[Any, str]] | None) -> None:
        if found is None:
            return
        if any(primitives.prod([max(size, 1) for size in shape]) > 10**6 for shape, _ in found.values()):
            return  # which no tiny call has
        constants = {t.name for t in self._model.of_role("constant")}
        fresh = any(op.constants.get(name) is not None or name in found for name in constants)
        before, price = op.last_call, self._price(op)
        try:
            env = self._model.solve(params, found)
        except OutOfBoundsError:
            return
        except RefusedError as error:
            env, reason = None, str(error)
        tensors = {}
        for name, (shape, dtype) in found.items():
            home = "cpu" if self._model.tensors[name].on_cpu else "meta"
            tensors[name] = torch.empty(shape, dtype=primitives.torch_dtype(dtype), device=home)

        def run() -> Any:
            nonlocal op
            if fresh:
                op = self.construct(params, tensors)
            return self.called(op, tensors)

        was = op
        if env is None:
            try:
                self._refused("a call that does not fit", run)
            except MismatchError as error:
                raise MismatchError(f"{error}; the model refuses it: {reason}; {found}") from None
            if was.last_call is not before or self._price(was) != price:
                raise MismatchError("a refused call moved last_call or its price")
            return
        self._env = env
        try:
            outputs = run()
        except OpError as error:
            raise MismatchError(f"a call that fits was refused: {error}; {found}") from None
        self.completed(op, env, {**op.constants, **tensors}, outputs, self._device(tensors))
        self._counted("other calls accepted")

    def _price(self, op: Op) -> Any:
        try:
            return op.eval_roofline()
        except OpError as error:
            return str(error)

    def _wrong_parameter(self, params: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
        wrong = [param for param in self._model.params if param.wrong is not Param.ANY]
        if not wrong:
            return
        param = self._draw.choice(wrong)
        constants = {t.name: tensors[t.name] for t in self._model.of_role("constant") if tensors[t.name] is not None}
        given = {**params, param.name: param.wrong, **constants}
        self._refused("a parameter of the wrong type", lambda: self._class(**given))


def _identical(value: Any, other: Any) -> bool:
    """Whether two values are equal and of one type: 0.0, 0 and False are three."""
    return type(value) is type(other) and value == other


def _holds_dtype(param: Param) -> bool:
    sort = param.sort.item if isinstance(param.sort, sorts.Maybe) else param.sort
    return isinstance(sort, sorts.DTypeName)
