"""Outputs of a call: whether what an implementation returned is what the signature promises, and stand-ins for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tileops.ops import checks
from tileops.ops.checked_call import CheckedCall
from tileops.ops.dtypes import BY_NAME, NAMES
from tileops.ops.errors import OpCallError

if TYPE_CHECKING:
    from tileops.ops.op import Op


def check_outputs(
    call: CheckedCall, implementation: str, result: Any, names: tuple[str, ...], contiguous: tuple[str, ...] = ()
) -> None:
    """Compare what an implementation returned with what the signature promises.

    Args:
      call: the checked call, with the records of the outputs that it promises.
      implementation: who returned it, for the error.
      result: an output, or a tuple of outputs in signature order, None in the place of one that this call lacks.
      names: all outputs of the signature, in order.
      contiguous: outputs that must be contiguous.

    Raises:
      OpCallError: number, type, shape, dtype, device or storage of an output is not as declared.
    """
    returned = result if isinstance(result, tuple) else (result,)
    if len(returned) != len(names):
        raise OpCallError(
            f"{call.op}: implementation {implementation!r} returned {len(returned)} outputs, and the signature declares"
            f" {len(names)} ({', '.join(names)})"
        )
    outputs, device = call.outputs, call.device
    for name, tensor in zip(names, returned):  # noqa: B905  # as many, as just said
        record = outputs.get(name)
        if record is None:
            if tensor is not None:
                raise OpCallError(f"{call.op}: implementation {implementation!r} returned {name!r}, which this call lacks")
            continue
        try:
            is_declared = (
                tensor.shape == record[0] and NAMES.get(tensor.dtype) == record[1]
                and checks.device_name(tensor.device) == device
            )  # fmt: skip
        except AttributeError:
            raise OpCallError(
                f"{call.op}: implementation {implementation!r} returned a {type(tensor).__name__} for output {name!r}"
            ) from None
        if not is_declared:
            shape, dtype = checks.tensor_facts(call.op, name, tensor, "output")
            raise OpCallError(
                f"{call.op}: implementation {implementation!r} returned {name!r} as {dtype}{list(shape)} on"
                f" {tensor.device}, and the signature declares {record.dtype}{list(record.shape)} on {call.device}"
            )
        if call.aliases and tensor is not call.aliases.get(name, tensor):
            raise _storage_error(call.op, implementation, name, "the input that this call writes")
        if call.buffers and tensor is not call.buffers.get(name, tensor):
            raise _storage_error(call.op, implementation, name, "the buffer that was passed")
        if contiguous and name in contiguous:
            checks.check_contiguous(call.op, name, tensor)


def _storage_error(op: str, implementation: str, name: str, what: str) -> OpCallError:
    return OpCallError(f"{op}: implementation {implementation!r} returned {name!r} as a tensor of its own, not {what}")


def declared_outputs(op: Op, call: CheckedCall) -> Any:
    """What a call returns that runs nothing: tensors of the declared types on meta, single or as a tuple."""
    outputs = tuple(_declared_output(call, name) for name in op.OUTPUT_NAMES)
    return outputs[0] if len(outputs) == 1 else outputs


def _declared_output(call: CheckedCall, name: str) -> torch.Tensor | None:
    """Of the declared type, or the very storage that the output has to be."""
    if name not in call.outputs:
        return None
    for storage in (call.aliases, call.buffers):
        if name in storage:
            return storage[name]
    record = call.outputs[name]
    return torch.empty(record.shape, dtype=BY_NAME[record.dtype], device="meta")
