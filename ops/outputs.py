"""Outputs of a call: whether what an implementation returned is what the signature promises, and stand-ins for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from tileops.ops import checks
from tileops.ops.base import BaseOp
from tileops.ops.checked_call import CheckedCall
from tileops.ops.dtypes import BY_NAME, NAMES
from tileops.ops.errors import OpCallError

_ANYWHERE = 4096  # an address that is not null


def _holders(tensor: torch.Tensor) -> int:
    """How many tensors and storage objects hold a tensor's storage."""
    return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)  # has no public name


_ALONE = _holders(torch.empty(0))  # of a tensor that shares its storage with none


def as_tuple(result: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Returns what an op returned as a tuple: of its outputs, or of the one output. An op without outputs returns None."""
    if result is None and not names:
        return ()
    return result if isinstance(result, tuple) else (result,)


def as_result(outputs: tuple[Any, ...]) -> Any:
    """Returns outputs as an op returns them: one alone, several as a tuple, and None if the op has none."""
    return outputs[0] if len(outputs) == 1 else outputs or None


def check_outputs(
    call: CheckedCall,
    implementation: str,
    result: Any,
    names: tuple[str, ...],
    contiguous: tuple[str, ...] = (),
    given: Iterable[Any] = (),
) -> None:
    """Compare what an implementation returned with what the signature promises.

    Args:
      call: the checked call, with the records of the outputs that it promises.
      implementation: who returned it, for the error.
      result: an output, or a tuple of outputs in signature order, None in the place of one that this call lacks.
      names: all outputs of the signature, in order.
      contiguous: outputs that must be contiguous.
      given: the tensors that the call read, whose storage is no output's unless the signature says so.

    Raises:
      OpCallError: number, type, shape, dtype, device or storage of an output is not as declared.
    """
    returned = as_tuple(result, names)
    if len(returned) != len(names):
        raise OpCallError(
            f"{call.op}: implementation {implementation!r} returned {len(returned)} outputs, but the signature declares"
            f" {len(names)}{' (' + ', '.join(names) + ')' if names else ': return None'}"
        )
    outputs, device = call.outputs, call.device
    aliases, buffers = call.aliases, call.buffers
    for name, tensor in zip(names, returned):  # noqa: B905  # as many, as just said
        record = outputs.get(name)
        if record is None:
            if tensor is not None:
                raise OpCallError(
                    f"{call.op}: implementation {implementation!r} returned {name!r}, which this call lacks"
                )
            continue
        try:
            is_declared = (
                tensor.shape == record[0]
                and NAMES.get(tensor.dtype) == record[1]
                and tensor.layout is torch.strided
                and checks.device_name(tensor.device) == device
            )
        except AttributeError:
            raise OpCallError(
                f"{call.op}: implementation {implementation!r} returned a {type(tensor).__name__} for output {name!r}"
            ) from None
        if not is_declared:
            shape, dtype = checks.tensor_facts(call.op, name, tensor, "output")
            raise OpCallError(
                f"{call.op}: implementation {implementation!r} returned {name!r} as {dtype}{list(shape)} on"
                f" {tensor.device}, but the signature declares {record.dtype}{list(record.shape)} on {call.device}"
            )
        if aliases and name in aliases:
            if tensor is not aliases[name]:
                raise _storage_error(call.op, implementation, name, "the input that this call writes")
        elif buffers and name in buffers:
            if tensor is not buffers[name]:
                raise _storage_error(call.op, implementation, name, "the buffer that was passed")
        # Asked cheaply first: nobody else holds the storage of a tensor that is new.
        elif (_holders(tensor) > _ALONE or id(tensor) in map(id, given)) and _shares_storage(tensor, given):
            raise OpCallError(
                f"{call.op}: implementation {implementation!r} returned {name!r} in the storage of an input, but the"
                " signature declares a tensor of its own: return a copy"
            )
        elif not (tensor.is_contiguous() or checks.lies_apart(tensor)):
            raise OpCallError(
                f"{call.op}: implementation {implementation!r} returned {name!r} with elements that share memory (strides"
                f" {list(tensor.stride())} for shape {list(tensor.shape)})"
            )
        if contiguous and name in contiguous:
            checks.check_contiguous(call.op, name, tensor)


def _shares_storage(tensor: torch.Tensor, given: Iterable[Any]) -> bool:
    own = tensor.untyped_storage()._cdata
    return tensor.numel() > 0 and any(own == one.untyped_storage()._cdata for one in given if one is not None)


def _storage_error(op: str, implementation: str, name: str, what: str) -> OpCallError:
    return OpCallError(f"{op}: implementation {implementation!r} returned {name!r} as a new tensor, not as {what}")


def check_apart(op: str, buffers: Mapping[str, torch.Tensor]) -> None:
    """Raises OpCallError where two of the buffers of a call, by output, have memory in common."""
    seen: list[tuple[str, torch.Tensor]] = []
    for name, buffer in buffers.items():
        for other_name, other in seen:
            if buffer.untyped_storage()._cdata == other.untyped_storage()._cdata and _overlap(buffer, other):
                raise OpCallError(f"{op}: the buffers for {other_name!r} and {name!r} share memory")
        seen.append((name, buffer))


def _overlap(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors of one storage have memory in common."""
    return bool(np.shares_memory(*(np.asarray(_Extent(tensor)) for tensor in (left, right))))


class _Extent:
    """Where in its storage a tensor lies, as NumPy asks for it; nothing is read."""

    def __init__(self, tensor: torch.Tensor) -> None:
        size = tensor.element_size()
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{size}",
            "data": (_ANYWHERE + tensor.storage_offset() * size, True),
            "shape": tuple(tensor.shape),
            "strides": tuple(stride * size for stride in tensor.stride()),
        }


def declared_outputs(op: BaseOp, call: CheckedCall) -> Any:
    """What a call returns that runs nothing: tensors of the declared types on meta, single or as a tuple."""
    return as_result(tuple(_declared_output(call, name) for name in op.OUTPUT_NAMES))


def _declared_output(call: CheckedCall, name: str) -> torch.Tensor | None:
    """Of the declared type, or the very storage that the output has to be."""
    if name not in call.outputs:
        return None
    for storage in (call.aliases, call.buffers):
        if name in storage:
            return storage[name]
    record = call.outputs[name]
    return torch.empty(record.shape, dtype=BY_NAME[record.dtype], device="meta")
