"""Ops as operators of torch.library: what torch.compile, torch.export and fake tensors see of a call.

An eager call never passes through here. Where one is traced, it becomes one operator `tileops::<entry>`, with the
schema that codegen wrote from the signature and a fake kernel that returns the declared output types. It is registered
when a call of its entry is first traced, and goes with the entry's class.

An operator takes an instance's handle in place of its parameters: their text, which tells instances of other settings
apart wherever a compiled graph is kept by its text, and a number where several of equal settings live.
"""

from __future__ import annotations

import secrets
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from tileops.ops.base import BaseOp
from tileops.ops.checked_call import CheckedCall, NoValues, OnTheWay
from tileops.ops.dtypes import BY_NAME
from tileops.ops.errors import OpCallError, OpNotAvailableError
from tileops.ops.outputs import as_result, as_tuple

NAMESPACE = "tileops"

_INSTANCES: weakref.WeakValueDictionary[str, BaseOp] = weakref.WeakValueDictionary()
_OPERATORS: weakref.WeakKeyDictionary[type[BaseOp], tuple[Any, torch.library.Library]] = weakref.WeakKeyDictionary()
_LOCK = threading.RLock()
_PROCESS = secrets.token_hex(8)


def enroll(op: BaseOp) -> str:
    """The handle by which operators find a new instance."""
    settings = [*op.params.items(), *([] if op.target is None else [("target", op.target)])]
    text = f"{op.ENTRY}({', '.join(f'{name}={value!r}' for name, value in settings)})"
    if " at 0x" in text:  # an object that says its address, which another process may have too
        text += f" of process {_PROCESS}"
    with _LOCK:
        handle, number = text, 1
        while handle in _INSTANCES:
            number += 1
            handle = f"{text} #{number}"
        _INSTANCES[handle] = op
    return handle


def instance(handle: str) -> BaseOp:
    """The op of a handle. Raises OpNotAvailableError where it lives no more, or lived in another process."""
    op = _INSTANCES.get(handle)
    if op is None:
        raise OpNotAvailableError(f"a graph calls the op {handle}, but this process has no such op: construct it")
    return op


def call_in_graph(op: BaseOp, inputs: Sequence[Any], buffers: Sequence[Any]) -> Any:
    """A call as one operator. Traced itself: it holds nothing that tracers do not follow.

    Args:
      op: whose call it is.
      inputs: in signature order, None for an absent one.
      buffers: for the outputs that take one; all None where the caller passes none.
    """
    if len(buffers) < len(op.BUFFER_NAMES) and all(buffer is None for buffer in buffers):
        buffers = (None,) * len(op.BUFFER_NAMES)
    if torch.compiler.is_compiling():
        _let_into_graphs()
    return in_graph(op.handle, *inputs, *op.held_constants.values(), *buffers)


def _let_into_graphs() -> None:
    """Have TorchDynamo take calls of `in_graph` into its graphs as they are."""
    torch.compiler.allow_in_graph(in_graph)


# TorchDynamo runs a function with this mark for real when it comes by it. What sets the mark, and what the function
# calls, import TorchDynamo: seconds that a process which traces nothing should not pay when it imports ops.
_let_into_graphs._dynamo_marked_constant = True  # type: ignore[attr-defined]


def in_graph(handle: str, *tensors: torch.Tensor | None) -> Any:
    """One call as a part of a graph, without a look inside.

    Args:
      handle: of the op.
      tensors: inputs and construction-time tensors in signature order, then output buffers; None for absent ones.

    Returns:
      What the eager call returns: an output that is an input (or a buffer) is that very tensor.
    """
    op, call = _checked(handle, tensors)
    if torch.is_grad_enabled():
        refuse_gradients(op.ENTRY, tensors)
    returned = operator(type(op))(handle, *tensors)
    own = dict(zip(op.RETURNED_NAMES, returned if isinstance(returned, (tuple, list)) else (returned,)))
    outputs = tuple(_storage(call, name, own.get(name)) for name in op.OUTPUT_NAMES)
    return as_result(outputs)


def _checked(handle: str, tensors: tuple[Any, ...]) -> tuple[BaseOp, CheckedCall]:
    """The op of a handle, with the construction-time tensors that the graph has for it, and its checked call."""
    op = instance(handle)
    count = len(op.INPUT_NAMES)
    constants = dict(zip(op.constants, tensors[count:]))
    if any(constants[name] is not tensor for name, tensor in op.constants.items()):
        op = op._with_constants(constants)
    buffers = tensors[count + len(constants) :]
    if all(buffer is None for buffer in buffers):
        return op, op.check(*tensors[:count])
    return op, op.check(*tensors[:count], out=buffers[0] if len(op.BUFFER_NAMES) == 1 else buffers)


def _storage(call: CheckedCall, name: str, own: torch.Tensor | None) -> torch.Tensor | None:
    """What stands for the output `name` of a call, of which the operator returned `own`."""
    if name not in call.outputs:
        return None
    for storage in (call.aliases, call.buffers):
        if name in storage:
            return storage[name]
    return own


def refuse_gradients(op: str, tensors: Iterable[Any]) -> None:
    """Raises OpCallError where autograd would want a derivative: ops have none, and none is silently left out."""
    for tensor in tensors:
        if tensor is not None and tensor.requires_grad:
            raise OpCallError(
                f"{op}: a tensor of the call requires a gradient, but ops have no derivative: call it under"
                " torch.no_grad(), or pass tensor.detach()"
            )


def refuse_transforms(op: str, tensors: Iterable[Any]) -> None:
    """Raises OpCallError for what torch.func made: a batch of calls that looks like one, or a tensor with a tangent."""
    functorch = torch._C._functorch
    for tensor in tensors:
        if tensor is None:
            continue
        if functorch.is_batchedtensor(tensor):
            raise OpCallError(
                f"{op}: a tensor of the call is batched by torch.vmap, but ops cannot be: call it on the batch"
            )
        is_dual = forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None
        if is_dual or functorch.is_gradtrackingtensor(tensor):
            raise OpCallError(
                f"{op}: a tensor of the call carries a derivative, but ops have none: pass only its primal values"
            )


# ---- registration


def operator(op_class: type[BaseOp]) -> Any:
    """The operator of the entry that `op_class` implements; registered when first asked for.

    Raises:
      OpNotAvailableError: the class is no generated one's, so it has no schema.
    """
    entry = next((base for base in op_class.__mro__ if "SCHEMA" in vars(base)), None)
    if entry is None:
        raise OpNotAvailableError(f"{op_class.__name__} was not generated from a manifest: it has no operator schema")
    with _LOCK:
        if entry not in _OPERATORS:
            _OPERATORS[entry] = _register(entry)
        return _OPERATORS[entry][0]


def _register(entry: type[BaseOp]) -> tuple[Any, torch.library.Library]:
    namespace, name, number = getattr(torch.ops, NAMESPACE), entry.ENTRY, 1
    while hasattr(namespace, name):  # of another manifest's entry of this name
        number += 1
        name = f"{entry.ENTRY}_{number}"
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    library.define(f"{name}{entry.SCHEMA}", tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, _kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", _fake, lib=library)
    return getattr(namespace, name).default, library


def _kernel(handle: str, *tensors: torch.Tensor | None) -> Any:
    """Runs a call: checked, recorded, and returned as contiguous tensors of its own, as `_fake` promises."""
    op, call = _checked(handle, tensors)
    call.set_metadata({name: kept(tensor) for name, tensor in call.metadata.items()})
    device = call.device
    result = op._execute(call, tensors[: len(op.INPUT_NAMES)])
    outputs = dict(zip(op.OUTPUT_NAMES, as_tuple(result, op.OUTPUT_NAMES), strict=True))
    given = [tensor for tensor in tensors if tensor is not None]
    taken = {tensor.untyped_storage().data_ptr() for tensor in given if tensor.numel()}
    own = []
    for name in op.RETURNED_NAMES:
        tensor = outputs[name]
        if tensor is None or any(tensor is one for one in given):
            own.append(_placeholder(device))
            continue
        tensor = tensor.contiguous()
        if tensor.numel() and tensor.untyped_storage().data_ptr() in taken:
            tensor = tensor.clone()
        taken.add(tensor.untyped_storage().data_ptr())
        own.append(tensor)
    return _as_declared(own)


def _fake(handle: str, *tensors: torch.Tensor | None) -> Any:
    """Tensors of the declared types, contiguous."""
    op, call = _checked(handle, tensors)
    return _as_declared(
        [
            _placeholder(call.device)
            if record is None or name in call.aliases or name in call.buffers
            else torch.empty(record.shape, dtype=BY_NAME[record.dtype], device=call.device)
            for name, record in ((name, call.outputs.get(name)) for name in op.RETURNED_NAMES)
        ]
    )


def _placeholder(device: str) -> torch.Tensor:
    """Stands for an output that this call lacks, or that is an input: operators may return neither."""
    return torch.empty(0, dtype=torch.uint8, device=device)


def _as_declared(own: list[torch.Tensor]) -> Any:
    """Outputs as an operator returns them: one alone, or several, or nothing."""
    return own[0] if len(own) == 1 else tuple(own) if own else None


def kept(tensor: torch.Tensor) -> Any:
    """What the record of a call keeps of a metadata tensor whose later writes would go unseen, such as a graph's own.

    A copy on the device would not do: CUDA graphs insist on the memory that a graph allocates. This one is on its way
    to the CPU while the call runs.
    """
    if not tensor.is_cuda:
        return tensor.clone()
    if torch.cuda.is_current_stream_capturing():
        return NoValues("the call ran while a CUDA graph was captured, whose replays change them; price an eager call")
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(tensor.device))

    def arrived() -> torch.Tensor:
        event.synchronize()
        return copy

    return OnTheWay(arrived)
