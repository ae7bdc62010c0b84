"""Runs a checked call: chooses the implementation, records the call, and passes traced calls to torch.library."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from tileops.ops import library, stages
from tileops.ops.base import BaseOp
from tileops.ops.checked_call import CheckedCall
from tileops.ops.composite import composites
from tileops.ops.errors import OpError
from tileops.ops.outputs import check_apart, check_outputs, declared_outputs
from tileops.ops.stages import Place, Recording

_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, type(None)})
_NOT_DISPATCHED = torch.Tensor.__torch_dispatch__
_active_modes = torch._C._len_torch_dispatch_stack  # has no public name
_transforms = torch._C._functorch.peek_interpreter_stack


def complete(op: BaseOp, call: CheckedCall, inputs: tuple[Any, ...]) -> Any:
    """Run a checked call and record it, or hand it to whatever traces it.

    Args:
      op: whose call it is.
      call: fits the op's signature.
      inputs: in signature order, None for an absent one.

    Returns:
      The output, or a tuple of outputs in signature order.

    Raises:
      OpCallError: a tensor requires a gradient, is batched by torch.vmap or carries a derivative, or an
        implementation's outputs are not as declared.
      OpNotAvailableError: no implementation serves the call.
    """
    here = stages.place()
    if here is not None and here.trace is not None:
        result = composites.on_trace(here.trace, op, call, inputs)
        call.seal()
        here.recording.add(call, here.name)
        return result
    tensors = (*inputs, *op.constants.values()) if op.CONSTANT_NAMES else inputs
    if torch.is_grad_enabled():
        library.refuse_gradients(op.ENTRY, (*tensors, *call.buffers.values()) if call.buffers else tensors)
    if _transforms() is not None or forward_ad._current_level >= 0:
        library.refuse_transforms(op.ENTRY, (*tensors, *call.buffers.values()))
    if _active_modes() or not (_PLAIN.issuperset(map(type, tensors)) or all(map(_is_plain, tensors))):
        return library.call_in_graph(op, inputs, tuple(call.buffers.get(name) for name in op.BUFFER_NAMES))
    return execute(op, call, inputs)


def _is_plain(tensor: Any) -> bool:
    """Whether PyTorch's own kernels serve a tensor; they do not serve fake ones, which outlive their mode."""
    return type(tensor) in _PLAIN or type(tensor).__torch_dispatch__ == _NOT_DISPATCHED


def execute(op: BaseOp, call: CheckedCall, inputs: tuple[Any, ...]) -> Any:
    """Run a checked call, check what comes back and record it; on any failure the previous record stands."""
    here = stages.place()
    call.name_tensors(op._tensor_names)
    if call.buffers and len(call.buffers) > 1:
        check_apart(op.ENTRY, call.buffers)
    if call.metadata:
        _hold_values(op, call)
    result = _run(op, call, inputs) if here is None and not op.STAGES else _run_in_stages(op, call, inputs)
    if op.MUTATED_NAMES or call.buffers:
        _note_writes(op, call, inputs)
    call.seal()
    if here is not None:
        here.recording.add(call, here.name)
    op._last.set(call)
    return result


def _hold_values(op: BaseOp, call: CheckedCall) -> None:
    """Have the record tell what metadata tensors hold now from what is written to them, by the call or later.

    Copies those that the call may write, and those of torch.inference_mode(), which count no writes.
    """
    for name, tensor in call.metadata.items():
        is_of_now = not isinstance(tensor, torch.Tensor) or tensor.is_meta  # a copy already, or without values
        if not is_of_now and (tensor.is_inference() or name in op.MUTATED_NAMES):
            call.set_metadata({**call.metadata, name: library.kept(tensor)})
    call.note_versions()


def _run(op: BaseOp, call: CheckedCall, inputs: tuple[Any, ...]) -> Any:
    if call.device == "meta":
        return declared_outputs(op, call)
    chosen = op.select(call)
    buffers = call.buffers.values() if call.buffers else ()
    try:
        result = chosen.function(op, call, *inputs, *buffers)
    except OpError:  # says itself what is wrong
        raise
    except Exception as error:
        error.add_note(_whose(op, chosen.name, inputs))
        raise
    given = (*inputs, *op.constants.values()) if op.CONSTANT_NAMES else inputs
    check_outputs(call, chosen.name, result, op.OUTPUT_NAMES, op.CONTIGUOUS_NAMES, given)
    call.set_served_by(chosen.name)
    return result


def _whose(op: BaseOp, name: str, inputs: tuple[Any, ...]) -> str:
    """Returns a note on an error that an implementation raised: no other is tried, so that nobody measures what they
    did not ask for.
    """
    laid_out = ", ".join(
        f"{tensor_name!r} is {str(one.dtype).removeprefix('torch.')}{list(one.shape)} with strides {list(one.stride())}"
        for tensor_name, one in zip(op.INPUT_NAMES, inputs, strict=True)
        if one is not None
    )
    others = ", ".join(repr(other) for other in op.implementation_names() if other != name)
    instead = f"; target= takes another implementation: {others}" if others else ""
    return f"{op.ENTRY}: implementation {name!r} raised this{' with ' + laid_out if laid_out else ''}{instead}"


def _run_in_stages(op: BaseOp, call: CheckedCall, inputs: tuple[Any, ...]) -> Any:
    """Run a composite's call, or a call within one: what an op calls inside belongs to it and to nobody else."""
    if not op.STAGES:
        with stages.within(None):
            return _run(op, call, inputs)
    recording = Recording(op.ENTRY, op.STAGES)
    completion = composites.Completion(op, call, inputs)  # before the call, which may write its inputs
    with stages.within(Place(recording)):
        result = _run(op, call, inputs)
    is_reference = call._served_by == next(iter(op.implementation_names()), None)
    optional = [stage.name for stage in op.STAGES if stage.optional]
    # The reference runs every stage that the call has; what any other implementation calls, the price does not hang on.
    is_complete = is_reference and not recording.missing(optional)
    call.set_stages(recording.calls if is_complete else completion.beside(recording.calls))
    return result


def _note_writes(op: BaseOp, call: CheckedCall, inputs: tuple[Any, ...]) -> None:
    """Count the write on each tensor that the call may have written: kernels write past PyTorch's own count."""
    written = [tensor for name, tensor in zip(op.INPUT_NAMES, inputs, strict=True) if name in op.MUTATED_NAMES]
    for tensor in (*written, *call.buffers.values()):
        if tensor is not None and tensor.device.type != "meta" and not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)
