"""What generated call checks call: reading a tensor's facts, and the errors a call that does not fit ends in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from tileops.ops.checked_call import CheckedCall, TensorRecord
from tileops.ops.dtypes import NAMES, dtype_name
from tileops.ops.errors import OpCallError, OpConstructionError

# ---- construction parameters


def is_int(value: object) -> bool:
    """An int, which a bool is not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_float(value: object) -> bool:
    """A finite or infinite real number; ints stand for floats, bools do not."""
    return is_int(value) or isinstance(value, float)


def is_sequence(value: object) -> bool:
    """A list or tuple."""
    return isinstance(value, (list, tuple))


def is_int_sequence(value: object) -> bool:
    """A list or tuple of ints."""
    return is_sequence(value) and all(is_int(item) for item in value)


def is_bool_sequence(value: object) -> bool:
    """A list or tuple of bools."""
    return is_sequence(value) and all(isinstance(item, bool) for item in value)


def plain(value: Any) -> Any:
    """A parameter as a checked call holds it: sequences as tuples."""
    return tuple(value) if is_sequence(value) else value


def plain_dtype(value: Any) -> Any:
    """A dtype parameter as a checked call holds it: by name; anything else as it is, for its check to refuse."""
    return dtype_name(value) or value


def parameter_error(op: str, name: str, declared: str, found: Any) -> OpConstructionError:
    """A parameter is not of its declared type."""
    return OpConstructionError(f"{op}: parameter {name!r} is declared {declared}, and {found!r} was passed")


# ---- tensors of a call


def tensor_facts(op: str, name: str, tensor: Any) -> tuple[tuple[int, ...], str]:
    """Shape and dtype name of an input. Raises OpCallError where it is no tensor or of an unknown dtype."""
    try:
        return tuple(tensor.shape), NAMES[tensor.dtype]
    except AttributeError:
        raise OpCallError(f"{op}: input {name!r} must be a tensor, and a {type(tensor).__name__} was passed") from None
    except KeyError:
        raise OpCallError(f"{op}: input {name!r} has dtype {tensor.dtype}, which no manifest can declare") from None


def call_device(op: str, tensors: tuple[tuple[str, Any], ...], metadata: tuple[str, ...] = ()) -> str:
    """The one device of a call, as PyTorch writes it.

    Args:
      op: entry name, for the error.
      tensors: (name, tensor or None) of every input in signature order; at least one is a tensor.
      metadata: inputs that may hold their values on the CPU while the call is on meta.

    Raises:
      OpCallError: two inputs are on different devices.
    """
    first_name, first = "", None
    for name, tensor in tensors:
        if tensor is None or name in metadata:
            continue
        if first is None:
            first_name, first = name, tensor.device
        elif tensor.device != first:
            raise OpCallError(
                f"{op}: input {name!r} is on {tensor.device} and {first_name!r} on {first}; all tensors of a call live"
                " on one device"
            )
    for name, tensor in tensors:
        if tensor is None or name not in metadata:
            continue
        if first is None:
            first_name, first = name, tensor.device
        elif tensor.device != first and not (first.type == "meta" and tensor.device.type == "cpu"):
            raise OpCallError(
                f"{op}: input {name!r} is on {tensor.device} and {first_name!r} on {first}; all tensors of a call live"
                " on one device (metadata tensors of a call on meta may hold their values on the cpu)"
            )
    return str(first)


def rank_error(op: str, name: str, term: str, shape: tuple[int, ...]) -> OpCallError:
    """A tensor has too few or too many axes for its declared shape."""
    return OpCallError(f"{op}: {name!r} is declared {term}, and its shape {list(shape)} has {len(shape)} axes")


def axis_error(op: str, name: str, axis: int, term: str, expected: Any, shape: tuple[int, ...]) -> OpCallError:
    """An axis (or a run of axes from `axis`) is not what its term stands for in this call."""
    found = shape[axis] if isinstance(expected, int) else list(shape[axis:][: len(expected)])
    wanted = expected if isinstance(expected, int) else list(expected)
    return OpCallError(
        f"{op}: axis {axis} of {name!r} is declared {term!r}, which is {wanted} in this call, and {found} was found"
        f" (shape {list(shape)})"
    )


def unsolvable_error(op: str, name: str, axis: int, term: str, index: str, shape: tuple[int, ...]) -> OpCallError:
    """No value of `index` makes the declared term equal to the axis found."""
    return OpCallError(
        f"{op}: axis {axis} of {name!r} is declared {term!r}, and no {index} makes it {shape[axis]}"
        f" (shape {list(shape)})"
    )


def dtype_error(op: str, name: str, term: str, allowed: tuple[str, ...], found: str) -> OpCallError:
    """A tensor's dtype is not what its term stands for in this call."""
    return OpCallError(
        f"{op}: dtype of {name!r} is declared {term!r}, which is {' or '.join(allowed)} in this call, and {found} was"
        " found"
    )


def rule_error(op: str, rule: str, bindings: Mapping[str, Any]) -> OpCallError:
    """A shape rule does not hold."""
    values = ", ".join(f"{name} = {value}" for name, value in bindings.items())
    return OpCallError(f"{op}: the rule {rule!r} does not hold for this call ({values})")


def domain_error(op: str, what: str, error: Exception) -> OpCallError:
    """A primitive was called outside its domain by the declaration `what`."""
    return OpCallError(f"{op}: {what}: {error}")


def check_outputs(call: CheckedCall, implementation: str, result: Any) -> None:
    """Compare what an implementation returned with what the signature promises.

    Raises:
      OpCallError: number, type, shape, dtype or device of an output is not as declared.
    """
    promised = call.outputs
    returned = result if isinstance(result, tuple) else (result,)
    if len(returned) != len(promised):
        raise OpCallError(
            f"{call.op}: implementation {implementation!r} returned {len(returned)} outputs, and the signature declares"
            f" {len(promised)} ({', '.join(promised)})"
        )
    for (name, record), tensor in zip(promised.items(), returned, strict=True):
        shape, dtype = tensor_facts(call.op, name, tensor)
        if TensorRecord(shape, dtype) != record or str(tensor.device) != call.device:
            raise OpCallError(
                f"{call.op}: implementation {implementation!r} returned {name!r} as {dtype}{list(shape)} on"
                f" {tensor.device}, and the signature declares {record.dtype}{list(record.shape)} on {call.device}"
            )


def price(op: str, formula: str, value: Any) -> int:
    """A formula's result as the integer that it must be.

    Args:
      op: entry name.
      formula: what it is of and where it stands, for the error.
      value: what the formula gave.

    Raises:
      OpCallError: `value` is not a finite non-negative integer.
    """
    whole = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not whole or value < 0 or value != int(value):
        raise OpCallError(f"{op}: {formula} gave {value!r}, and a price is a finite non-negative integer")
    return int(value)


def price_pair(op: str, formula: str, value: Any) -> tuple[int, int]:
    """What a func formula gave, as (flops, bytes). Raises OpCallError where it is no pair of prices."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise OpCallError(f"{op}: {formula} gave {value!r}, and a formula gives (flops, bytes)")
    return price(op, f"flops of {formula}", value[0]), price(op, f"bytes of {formula}", value[1])
