"""Completes the stages of a composite that a fused implementation served: its reference, followed on shapes alone."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tileops.ops.base import BaseOp
from tileops.ops.checked_call import CheckedCall, version
from tileops.ops.composite.shape_trace import Origin, Run, ShapeTrace
from tileops.ops.errors import OpError, OpNotAvailableError
from tileops.ops.outputs import as_tuple, declared_outputs
from tileops.ops.stages import Place, Recording, StageCalls, within


class Completion:
    """Finds, when it is first asked, which calls the stages of one composite's call would have made.

    The reference implementation runs on tensors of the call's shapes on meta, so that its sub-ops check their calls
    and compute nothing; what makes the metadata of a stage is then run for real (shape_trace.py). The call's metadata
    tensors are at hand. Its data tensors are not kept alive: one that is gone, or was written since, is stood in for.
    """

    def __init__(self, op: BaseOp, call: CheckedCall, inputs: tuple[Any, ...]) -> None:
        """Of a call that is about to run; `inputs` in signature order."""
        self._op, self._call = op._twin(), call
        self._completed = StageCalls(call.op, op.STAGES)
        self._buffers = tuple(call.buffers)
        self._device = "cpu" if call.device == "meta" else call.device
        self._data = {
            name: _Data(call.op, name, tensor, name in op.MUTATED_NAMES)
            for name, tensor in zip(op.INPUT_NAMES, inputs, strict=True)
            if tensor is not None and name not in call.metadata
        }

    def beside(self, completed: StageCalls) -> Completion:
        """This, for an implementation that made the calls `completed`."""
        self._completed = completed
        return self

    def __call__(self) -> StageCalls:
        """The calls by stage: the reference's, and in their place those that completed and are like them.

        An implementation that fuses, splits or repeats a stage has the reference's calls there, for what a call costs
        at least is no matter of who serves it.

        Raises:
          OpNotAvailableError: the op has no reference implementation, or it cannot be followed on shapes alone.
        """
        op, call = self._op, self._call
        names = op.implementation_names()
        if not names:
            raise OpNotAvailableError(
                f"{call.op}: its stages decide the price, and it has no reference implementation that could say which"
                " calls they make"
            )
        if call._served_by == names[0]:
            raise OpNotAvailableError(
                f"{call.op}: implementation {names[0]!r} is the reference, and no sub-op call completed in some of its"
                " stages; one that runs in another thread is seen in a copy of the caller's context alone"
                " (contextvars.copy_context().run)"
            )
        trace = ShapeTrace(self._device)
        recording = Recording(call.op, op.STAGES)
        try:
            with within(Place(recording, trace)), torch.no_grad(), trace.keeping_streams(), trace:
                self._follow(trace)
        except OpError:
            raise
        except Exception as error:  # the reference is anybody's code
            raise OpNotAvailableError(
                f"{call.op}: its stages decide the price, and its reference {names[0]!r} cannot be followed on shapes"
                f" alone: {type(error).__name__}: {error}"
            ) from error
        for name, calls in self._completed.items():
            if _alike(calls, recording.calls[name]):
                trace.drop(recording.calls[name])
                recording.calls[name] = calls
        with within(None), torch.no_grad(), trace.keeping_streams():
            trace.settle()
        return recording.calls

    def _follow(self, trace: ShapeTrace) -> None:
        op, call = self._op, self._call
        inputs = {name: self._shadow(trace, name) for name in op.INPUT_NAMES}
        buffers = tuple(trace.shadow(call.outputs[name], _Unwritten()) for name in self._buffers)
        checked = op.check(**inputs, **passed_as_out(op, buffers))
        reference(op)(op, checked, *inputs.values(), *buffers)

    def _shadow(self, trace: ShapeTrace, name: str) -> torch.Tensor | None:
        record = self._call.tensors.get(name)
        if record is None:
            return None
        is_on_cpu = name in self._op.CPU_NAMES
        if name in self._call.metadata:
            return self._call.metadata_tensor(name) if is_on_cpu else trace.shadow(record, _Metadata(self._call, name))
        return self._data[name].alive() if is_on_cpu else trace.shadow(record, self._data[name])


def _alike(completed: Sequence[CheckedCall], wanted: Sequence[CheckedCall]) -> bool:
    """Whether as many calls of the same ops bound tensors of the same shapes and dtypes."""
    return len(completed) == len(wanted) and all(
        one.op == other.op and dict(one.tensors) == dict(other.tensors)
        for one, other in zip(completed, wanted, strict=True)
    )


def reference(op: BaseOp) -> Callable[..., Any]:
    """The function of an op's first registered implementation."""
    return op.implementations()[0].function


def passed_as_out(op: BaseOp, buffers: tuple[Any, ...]) -> dict[str, Any]:
    """Output buffers as the keyword argument of a call; empty where there are none."""
    if not buffers:
        return {}
    return {"out": buffers if len(op.BUFFER_NAMES) > 1 else buffers[0]}


def on_trace(trace: ShapeTrace, op: BaseOp, call: CheckedCall, inputs: tuple[Any, ...]) -> Any:
    """A sub-op's call while the reference of a composite is followed on shapes: checked, not run.

    Returns:
      The outputs on meta, single or as a tuple; the trace knows that this call made them.
    """
    call.name_tensors(op._tensor_names)
    buffers = tuple(call.buffers.values())
    if op.STAGES and op.implementation_names():
        recording = Recording(call.op, op.STAGES)
        with within(Place(recording, trace)):
            result = reference(op)(op, call, *inputs, *buffers)
        call.set_stages(recording.calls)
    else:
        made = _Made(op, trace.origins(inputs))
        result = declared_outputs(op, call)
        outputs = as_tuple(result, op.OUTPUT_NAMES)
        for name, tensor in (*zip(op.INPUT_NAMES, inputs, strict=True), *zip(op.OUTPUT_NAMES, outputs, strict=True)):
            if name in op.MUTATED_NAMES or name in op.OUTPUT_NAMES:
                trace.remake(tensor, _Part(made, name), call.op)
    trace.defer(call)
    return result


class _Metadata(Origin):
    """A metadata tensor of the composite's own call."""

    def __init__(self, call: CheckedCall, name: str) -> None:
        self._call, self._name = call, name

    def evaluate(self, run: Run) -> torch.Tensor:
        """The tensor. Raises OpNotAvailableError where it does not hold the call's values (any more)."""
        return self._call.metadata_tensor(self._name).detach().to(run.device)


class _Data(Origin):
    """A data tensor of the composite's own call, which nobody keeps alive."""

    def __init__(self, op: str, name: str, tensor: torch.Tensor, is_mutated: bool) -> None:
        self._op, self._name = op, name
        self._shape, self._dtype = tuple(tensor.shape), tensor.dtype
        # A meta tensor has no values, those of one that the call writes are gone when the call has run, and an
        # inference tensor does not tell whether they are.
        self._has_values = tensor.device.type != "meta" and not is_mutated and not tensor.is_inference()
        self._tensor, self._version = weakref.ref(tensor), version(tensor)

    def evaluate(self, run: Run) -> torch.Tensor:
        """The tensor where it still is what the call bound, else a stand-in, which `run` notes."""
        tensor = self._tensor()
        if self._has_values and tensor is not None and version(tensor) == self._version:
            return tensor.detach().to(run.device)
        return run.stand_in(self._op, self._name, self._shape, self._dtype)

    def alive(self) -> torch.Tensor:
        """The tensor. Raises OpNotAvailableError where it is gone."""
        tensor = self._tensor()
        if tensor is None:
            raise OpNotAvailableError(
                f"{self._op}: its stages decide the price and need {self._name!r}, which was freed since the call"
            )
        return tensor


class _Unwritten(Origin):
    """An output buffer, of which an op reads nothing."""

    def evaluate(self, run: Run) -> torch.Tensor:
        """Raises OpNotAvailableError."""
        raise OpNotAvailableError("they come from an output buffer that nothing wrote")


class _Made:
    """A sub-op call that can be run for real, once a run."""

    def __init__(self, op: BaseOp, inputs: tuple[Any, ...]) -> None:
        self._op, self._inputs = op._twin(), inputs

    def results(self, run: Run) -> Mapping[str, torch.Tensor | None]:
        """Outputs and written inputs by name."""
        op = self._op
        inputs = dict(zip(op.INPUT_NAMES, (run.real(origin) for origin in self._inputs), strict=True))
        written = {name: inputs[name].clone() for name in op.MUTATED_NAMES if inputs[name] is not None}
        with within(None):
            result = op(**{**inputs, **written})  # without buffers: their old contents mean nothing
        outputs = as_tuple(result, op.OUTPUT_NAMES)
        return {**written, **dict(zip(op.OUTPUT_NAMES, outputs, strict=True))}


class _Part(Origin):
    """One output, or written input, of a sub-op call."""

    def __init__(self, made: _Made, name: str) -> None:
        self._made, self._name = made, name

    def evaluate(self, run: Run) -> torch.Tensor:
        """What the call makes of it."""
        return run.once(self._made, self._made.results)[self._name]
