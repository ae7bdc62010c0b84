"""Functions that generated call checks call: they read facts of tensors, and make the errors of calls that do not fit."""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import numbers
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

import torch

from tileops.manifest.foreign import roots
from tileops.ops.algebraic import Sum, UnreadableError
from tileops.ops.checked_call import TensorRecord
from tileops.ops.dtypes import NAMES, dtype_name
from tileops.ops.errors import OpCallError, OpConstructionError, OpFormulaError, OpNotAvailableError
from tileops.ops.foreign_formula import ForeignModule
from tileops.tools.cli import words

# What a primitive or an operator raises where a call leaves its domain.
DOMAIN_ERRORS = (ValueError, ArithmeticError, IndexError)

_STRIDED = torch.strided
_MAX_PRICE = 2**63 - 1  # what any reader of a record holds

# ---- construction parameters


def is_int(value: object) -> bool:
    """An int, which a bool is not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_float(value: object) -> bool:
    """A finite or infinite real number; ints stand for floats, bools do not."""
    return is_int(value) or isinstance(value, float)


def is_number(value: object) -> bool:
    """What PyTorch takes for a scalar: a real number, or a bool."""
    return is_float(value) or is_bool(value)


def is_bool(value: object) -> bool:
    """True or False."""
    return isinstance(value, bool)


def is_text(value: object) -> bool:
    """A string."""
    return isinstance(value, str)


def is_sequence(value: object) -> bool:
    """A list or tuple."""
    return isinstance(value, (list, tuple))


def is_int_sequence(value: object) -> bool:
    """A list or tuple of ints."""
    return isinstance(value, (list, tuple)) and all(is_int(item) for item in value)


def is_bool_sequence(value: object) -> bool:
    """A list or tuple of bools."""
    return isinstance(value, (list, tuple)) and all(isinstance(item, bool) for item in value)


def plain(value: Any) -> Any:
    """A parameter as a checked call holds it: sequences as tuples."""
    return tuple(map(plain, value)) if is_sequence(value) else value


def plain_dtype(value: Any) -> Any:
    """A dtype parameter as a checked call holds it: by name; anything else as it is, for its check to refuse."""
    return dtype_name(value) or value


def algebraic(op: str, name: str, value: Any, declared: Sum) -> Any:
    """An algebraic parameter as a checked call holds it; anything else as it is, for its check to refuse.

    Raises:
      OpConstructionError: its class cannot be imported.
    """
    try:
        return declared.read(value)
    except UnreadableError as error:
        raise OpConstructionError(f"{op}: parameter {name!r}: {value!r} was passed, and {error}") from None


def parameter_error(op: str, name: str, declared: str, found: Any) -> OpConstructionError:
    """A parameter is not of its declared type."""
    return OpConstructionError(f"{op}: parameter {name!r} is declared {declared}, but {found!r} was passed")


@contextlib.contextmanager
def construction() -> Iterator[None]:
    """What is refused inside is refused as a construction. Raises OpConstructionError."""
    try:
        yield
    except OpCallError as error:
        raise OpConstructionError(str(error)) from None


# ---- tensors of a call


@functools.cache
def device_name(device: Any) -> str:
    """A `torch.device` as PyTorch writes it; kept, for writing it takes longer than checking a tensor."""
    return str(device)


def tensor_facts(op: str, name: str, tensor: Any, role: str = "input") -> tuple[tuple[int, ...], str]:
    """Shape and dtype name of an input or output.

    Raises:
      OpCallError: it is no tensor, not laid out by strides (a sparse one holds, and moves, other bytes), or of an
        unknown dtype.
    """
    try:
        if tensor.layout is not _STRIDED:
            raise OpCallError(
                f"{op}: {role} {name!r} is laid out as {tensor.layout}, but ops take only strided tensors"
            )
        return tuple(tensor.shape), NAMES[tensor.dtype]
    except AttributeError:
        raise OpCallError(f"{op}: {role} {name!r} must be a tensor, but a {type(tensor).__name__} was passed") from None
    except KeyError:
        raise OpCallError(f"{op}: {role} {name!r} has dtype {tensor.dtype}, which no manifest can declare") from None


def call_device(
    op: str, tensors: tuple[tuple[str, Any], ...], metadata: tuple[str, ...] = (), on_cpu: tuple[str, ...] = ()
) -> str:
    """The one device of a call, as PyTorch writes it.

    Args:
      op: entry name, for the error.
      tensors: (name, tensor or None) of every input in signature order.
      metadata: inputs that may hold their values on the CPU while the call is on meta.
      on_cpu: inputs that live on the CPU wherever the call is.

    A call without a tensor but those on the CPU is where PyTorch puts new tensors. One whose only inputs are metadata on the
    CPU is on meta inside `with torch.device("meta")`, so that it is priced without an implementation.

    Raises:
      OpCallError: two inputs are on different devices, or one that must be on the CPU is not.
    """
    first_name, first = "", None
    later = []
    apart = metadata + on_cpu
    for name, tensor in tensors:
        if tensor is None:
            continue
        if apart and name in apart:
            later.append((name, tensor))
        elif first is None:
            first_name, first = name, tensor.device
        elif tensor.device != first:
            raise _device_error(op, name, tensor.device, first_name, first)
    if first is None:  # of metadata alone, a call with one on meta, or where new tensors are on meta, is a call on meta
        free = [(name, tensor.device) for name, tensor in later if name not in on_cpu]
        default = torch.get_default_device()
        if not free or default.type == "meta" and all(device.type == "cpu" for _, device in free):
            first_name, first = "the default device", default
        else:
            first_name, first = next((one for one in free if one[1].type == "meta"), free[0])
    for name, tensor in later:
        if name in on_cpu:
            if tensor.device.type != "cpu":
                raise OpCallError(
                    f"{op}: input {name!r} is on {tensor.device}, but must be on the cpu, whatever the device of the call"
                )
        elif tensor.device != first and not (first.type == "meta" and tensor.device.type == "cpu"):
            raise _device_error(op, name, tensor.device, first_name, first)
    return device_name(first)


def given_device(value: Any) -> str:
    """Where a call without tensors is, by its parameter `device`; None: where new tensors are."""
    return device_name(torch.get_default_device() if value is None else torch.device(value))


def check_device(op: str, name: str, declared: str, value: Any) -> None:
    """Raises OpConstructionError if a parameter that says where calls are is no device."""
    try:
        given_device(value)
    except (RuntimeError, TypeError) as error:
        said = str(error).partition("\n")[0]
        raise OpConstructionError(f"{parameter_error(op, name, declared, value)}, which is no device: {said}") from None


def _device_error(op: str, name: str, found: Any, first_name: str, first: Any) -> OpCallError:
    return OpCallError(
        f"{op}: input {name!r} is on {found} and {first_name!r} on {first}; all tensors of a call must be on one device"
        " (metadata tensors of a call on meta may hold their values on the cpu)"
    )


def check_contiguous(op: str, name: str, tensor: Any) -> None:
    """Raises OpCallError where a tensor that is declared contiguous is not."""
    if not tensor.is_contiguous():
        raise OpCallError(
            f"{op}: {name!r} is declared contiguous, but a tensor with strides {list(tensor.stride())} for shape"
            f" {list(tensor.shape)} was passed"
        )


def presence_error(op: str, name: str, condition: str, wanted: bool) -> OpCallError:
    """A tensor is passed where its condition does not hold, or missing where it does."""
    found = "None was passed" if wanted else "a tensor was passed"
    return OpCallError(
        f"{op}: input {name!r} must be given if and only if {condition!r} holds; it {'does' if wanted else 'does not'}, but {found}"
    )


def combo_error(
    op: str, names: tuple[str, ...], found: tuple[str | None, ...], allowed: tuple[tuple[str | None, ...], ...]
) -> OpCallError:
    """The dtypes of a call are no combination that the entry accepts."""
    shown = ", ".join(f"{name} = {dtype}" for name, dtype in zip(names, found, strict=True))
    options = "; ".join(", ".join(map(str, combo)) for combo in allowed)
    return OpCallError(f"{op}: {shown} is not an accepted combination of ({', '.join(names)}); accepted are: {options}")


def split_buffers(op: str, names: tuple[str, ...], out: Any) -> tuple[Any, ...]:
    """The buffers passed as `out`, one for each output that takes one."""
    if not isinstance(out, (tuple, list)) or len(out) != len(names):
        buffers = words.counted(len(names), "buffer")
        raise OpCallError(f"{op}: out must be a tuple of {buffers}, for {', '.join(names)}")
    for name, buffer in zip(names, out, strict=True):  # also of one that this call lacks
        if buffer is not None:
            tensor_facts(op, name, buffer, "the buffer for output")
    return tuple(out)


def check_buffer(op: str, name: str, buffer: Any, record: TensorRecord, device: str) -> Any:
    """The buffer, where it is what its output will be.

    Raises:
      OpCallError: its shape, dtype or device is not the output's, or its elements share memory.
    """
    shape, dtype = tensor_facts(op, name, buffer, "the buffer for output")
    if shape != record.shape or dtype != record.dtype or device_name(buffer.device) != device:
        raise OpCallError(
            f"{op}: the buffer for {name!r} is {dtype}{list(shape)} on {buffer.device}, but the output is"
            f" {record.dtype}{list(record.shape)} on {device}"
        )
    if not (buffer.is_contiguous() or lies_apart(buffer)):
        raise OpCallError(f"{op}: elements of the buffer for {name!r} share memory (strides {list(buffer.stride())})")
    return buffer


def check_written(op: str, name: str, tensor: Any) -> None:
    """Raises OpCallError where elements of an input that the call writes may share memory: a write of one would change
    others.
    """
    if not (tensor.is_contiguous() or lies_apart(tensor)):
        raise OpCallError(
            f"{op}: the call writes {name!r}, and its elements may share memory (strides {list(tensor.stride())} for shape"
            f" {list(tensor.shape)}); pass {name}.clone(memory_format=torch.contiguous_format)"
        )


def refuse_buffer(op: str, name: str, buffer: Any) -> None:
    """Raises OpCallError where a buffer is passed for an output that the call lacks."""
    if buffer is not None:
        raise OpCallError(f"{op}: a buffer for output {name!r} was passed, but this call has no such output: pass None")


def lies_apart(tensor: Any) -> bool:
    """Whether the strides alone say that no two elements of a tensor are in one place: each steps over all below it."""
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return False
            reach += stride * (size - 1)
    return True


def rank_error(op: str, name: str, term: str, shape: tuple[int, ...]) -> OpCallError:
    """A tensor has too few or too many axes for its declared shape."""
    axes = words.counted(len(shape), "axis", "axes")
    return OpCallError(f"{op}: {name!r} is declared {term}, and its shape {list(shape)} has {axes}")


def axis_error(op: str, name: str, axis: int, term: str, expected: Any, shape: tuple[int, ...]) -> OpCallError:
    """An axis (or a run of axes from `axis`) is not what its term stands for in this call."""
    found = list(shape[axis:][: len(expected)]) if isinstance(expected, (tuple, list)) else shape[axis]
    wanted = list(expected) if isinstance(expected, (tuple, list)) else expected
    return OpCallError(
        f"{op}: axis {axis} of {name!r} is declared {term!r}, which is {wanted} in this call, but {found} was found"
        f" (shape {list(shape)})"
    )


def check_extents(
    op: str, name: str, term: str, shape: tuple[int, ...], shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({})
) -> None:
    """Raises OpCallError where an output would have an axis of negative length, which its term alone does not rule out."""
    if any(size < 0 for size in shape):
        raise OpCallError(
            f"{op}: {name!r} is declared {term}, which is {list(shape)} in this call, but no axis may be negative{_shown(shapes)}"
        )


def unsolvable_error(op: str, name: str, axis: int, term: str, index: str, shape: tuple[int, ...]) -> OpCallError:
    """No value of `index` makes the declared term equal to the axis found."""
    return OpCallError(
        f"{op}: axis {axis} of {name!r} is declared {term!r}, and no {index} makes it {shape[axis]}"
        f" (shape {list(shape)})"
    )


def dtype_error(op: str, name: str, term: str, allowed: tuple[str, ...], found: str) -> OpCallError:
    """A tensor's dtype is not what its term stands for in this call."""
    meaning = "" if allowed == (term,) else f", which is {' or '.join(allowed)} in this call"
    return OpCallError(f"{op}: dtype of {name!r} is declared {term!r}{meaning}, but {found} was found")


def rule_error(
    op: str, rule: str, bindings: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({})
) -> OpCallError:
    """A shape rule does not hold, for what it reads and the shapes of the call's inputs."""
    values = ", ".join(f"{name} = {value}" for name, value in bindings.items())
    return OpCallError(f"{op}: the rule {rule!r} does not hold for this call ({values}){_shown(shapes)}")


def bound(names: tuple[str, ...], values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the names that have a value, with it."""
    return {name: values[name] for name in names if name in values}


def domain_error(
    op: str, what: str, error: Exception, shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({})
) -> OpCallError:
    """A primitive was called outside its domain by the declaration `what`."""
    return OpCallError(f"{op}: {what}: {error}{_shown(shapes)}")


def _shown(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return "".join(f"; {name!r} is {list(shape)}" for name, shape in shapes.items())


class _NoModule:
    """Stands for a module of formulas that cannot be imported."""

    def __init__(self, name: str, error: BaseException) -> None:
        self._error, self._why = error, f"{name} cannot be imported: {type(error).__name__}: {error}"
        self._name = name

    def __getattr__(self, name: str) -> Any:
        raise OpNotAvailableError(f"{self._name}.{name} cannot be used: {self._why}")

    def refuse(self, op: str, place: str) -> NoReturn:
        """Raises OpFormulaError, from what the import raised."""
        raise OpFormulaError(op, place, self._name, self._why) from self._error


def formula_module(name: str) -> Any:
    """The module of a formula, in an interpreter of its own where its package has a --root.

    A spec-only entry's may be yet to come: then its price alone is an error.
    """
    interpreter = roots.interpreter_of(name)
    if interpreter is not None:
        return ForeignModule(name, interpreter)
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # whatever it does on import; entries beside its own are not to suffer
        return _NoModule(name, error)


def require_formula(op: str, place: str, module: Any, name: str) -> None:
    """Raises OpFormulaError where a module of `formula_module` lacks the function that prices an implemented entry."""
    if isinstance(module, _NoModule):
        module.refuse(op, place)
    if isinstance(module, ForeignModule):
        if problem := module.problem(name):
            raise OpFormulaError(op, place, module.__name__, problem)
        return
    found = getattr(module, name, None)
    if found is None:
        raise OpFormulaError(op, place, module.__name__, f"{module.__name__} has no function {name!r}")
    if not callable(found):
        problem = f"{module.__name__}.{name} is no function but a {type(found).__name__}"
        raise OpFormulaError(op, place, module.__name__, problem)


def price(op: str, formula: str, value: Any) -> int:
    """A formula's result as the integer that it must be.

    Args:
      op: entry name.
      formula: which value the formula gives, and its place, for the error.
      value: what the formula gave: an integer, NumPy's included, or a float without a fraction.

    Raises:
      OpCallError: `value` is not a non-negative integer that a record holds.
    """
    is_number = isinstance(value, (numbers.Integral, float)) and not isinstance(value, bool)
    whole = is_number and math.isfinite(value)
    if not whole or value < 0 or value != int(value):
        raise OpCallError(f"{op}: {formula} gave {value!r}, but a price must be a finite non-negative integer")
    if value > _MAX_PRICE:
        raise OpCallError(f"{op}: {formula} gave {value!r}, but a price must be at most {_MAX_PRICE}")
    return int(value)


def price_error(op: str, formula: str, error: Exception) -> OpCallError:
    """A formula has no value for this call: it left a primitive's domain, divided by zero or passed a sequence's end."""
    return OpCallError(f"{op}: {formula} has no value for this call: {error}")


def price_pair(op: str, formula: str, value: Any) -> tuple[int, int]:
    """What a func formula gave, as (flops, bytes). Raises OpCallError where it is no pair of prices."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise OpCallError(f"{op}: {formula} gave {value!r}, but a formula must return (flops, bytes)")
    return price(op, f"flops of {formula}", value[0]), price(op, f"bytes of {formula}", value[1])
