"""Is what an implementation computed right? Comparison with the reference, which runs in higher precision."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from tileops.ops import workloads
from tileops.ops.cases import WorkloadCase
from tileops.ops.errors import OpError
from tileops.ops.op import Op
from tileops.perf.bench_inputs import Inputs

# Largest relative error ||out - ref|| / ||ref|| that passes, by dtype of the output. Rounding the result alone costs
# 2e-3 in bfloat16 and 3e-4 in float16, products of rounded operands a few times as much; float32 may be computed with
# tf32 operands (3e-4). Dtypes without an entry (integers, bool) must be equal.
TOLERANCE = {
    "float64": 1e-9,
    "float32": 1e-3,
    "float16": 4e-3,
    "bfloat16": 1.6e-2,
    "float8_e4m3fn": 1e-1,
    "float8_e5m2": 2e-1,
}
# A single element may be off by this many times the tolerance, relative to its own size plus the output's root mean
# square: an error in few elements hides in the norm.
_ELEMENT_FACTOR = 8.0
# Elements compared at a time, so that a large output needs no second one of twice its size. A count.
_CHUNK = 1 << 26
_POISON_BYTE = 0xFF  # a NaN in every float type, -1 in signed integers


class WrongResultError(Exception):
    """An implementation's result is not the reference's; the message says which tensor and how far off."""


class NotFiniteError(WrongResultError):
    """The reference's own result is not finite: nothing can be compared with it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expected:
    """What a call must produce.

    Attributes:
      outputs: specified part of each output by name, in the reference's precision; None where the call has none.
      mutated: contents of the inputs that the op writes, after the call, likewise.
      alias_pairs: (output, input) names that share storage in the reference, and may in other implementations.
    """

    outputs: dict[str, torch.Tensor | None]
    mutated: dict[str, torch.Tensor]
    alias_pairs: frozenset[tuple[str, str]]


def expect(op_class: type[Op], case: WorkloadCase, inputs: Inputs) -> Expected:
    """Run the reference on copies of `inputs`, in float32 (float64 where the inputs are float32) if it can be.

    Where the signature does not admit the higher precision the reference's function is called past the checks; where
    that fails too, or memory does not suffice, it runs in the inputs' own precision.

    Raises:
      NotFiniteError: the reference's own result is not finite where it is specified.
      Exception: whatever the reference raises in the inputs' own precision.
    """
    device = next((tensor.device for tensor in inputs.values() if tensor is not None), torch.get_default_device())
    op = workloads.construct(op_class, case, target=op_class.implementation_names()[0], device=device)
    call = op.check(**inputs)
    try:
        found = _run_reference(op, call, _upcast(inputs))
    except Exception as error:  # any: a reference need not support a precision that its op does not declare
        if isinstance(error, torch.OutOfMemoryError):
            torch.cuda.empty_cache()
        found = _run_reference(op, call, {name: _copy(tensor) for name, tensor in inputs.items()})
    for name, tensor in {**found.outputs, **found.mutated}.items():
        if tensor is not None and tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise NotFiniteError(
                f"the reference's {name!r} is not finite on the row's own inputs, so nothing can be compared with it"
            )
    return found


def check(op: Op, call: Any, inputs: Inputs, returned: Any, expected: Expected) -> float:
    """Compare what a call returned, and the inputs it wrote, with what was expected.

    Args:
      op: the op that made the call.
      call: its checked call.
      inputs: the tensors that the call was given, as the call left them.
      returned: the call's result.
      expected: of the same inputs.

    Returns:
      The largest relative error of a tensor; 0 where all are equal.

    Raises:
      WrongResultError: a tensor is wrong, is no plain tensor, or shares storage that the reference does not share.
    """
    outputs = outputs_by_name(op, returned)
    _check_storage(outputs, inputs, expected.alias_pairs)
    specified = dict(zip(outputs, op.specified_outputs(call, tuple(outputs.values())), strict=True))
    worst = 0.0
    for name, reference in expected.outputs.items():
        worst = max(worst, _check_tensor(f"output {name!r}", specified[name], reference))
    for name, reference in expected.mutated.items():
        worst = max(worst, _check_tensor(f"mutated input {name!r}", inputs[name], reference))
    return worst


def check_unwritten(op_class: type[Op], inputs: Inputs, pristine: Inputs) -> None:
    """Raises WrongResultError where an input changed that the op does not declare to write."""
    for name, tensor in inputs.items():
        if tensor is None or name in op_class.MUTATED_NAMES:
            continue
        if not torch.equal(_bits(tensor), _bits(pristine[name])):
            raise WrongResultError(f"input {name!r} was written, and the op declares to leave it alone")


def outputs_by_name(op: Op, returned: Any) -> dict[str, torch.Tensor | None]:
    """The result of a call by output name; None for an output that the call does not have."""
    return dict(zip(op.OUTPUT_NAMES, returned if isinstance(returned, tuple) else (returned,), strict=True))


def poison(call: Any, device: torch.device) -> None:
    """Fill free memory of the size of each output with NaN patterns, and free it again.

    The allocator hands the same blocks to the call that follows, so that an element which it never writes holds NaN
    instead of an earlier call's right result.
    """
    blocks = [
        torch.full((record.bytes,), _POISON_BYTE, dtype=torch.uint8, device=device) for record in call.outputs.values()
    ]
    del blocks


# ---- the reference


def _run_reference(op: Op, call: Any, inputs: Inputs) -> Expected:
    try:
        call = op.check(**inputs)
    except OpError:
        pass  # a precision that the signature does not admit: the function is called with what the checked call says
    returned = op.select(call).function(op, call, *inputs.values())
    outputs = outputs_by_name(op, returned)
    aliases = frozenset(
        (output, name)
        for output, tensor in outputs.items()
        for name, given in inputs.items()
        if _share(tensor, given)
    )
    specified = op.specified_outputs(call, tuple(outputs.values()))
    return Expected(
        outputs=dict(zip(outputs, specified, strict=True)),
        mutated={name: inputs[name] for name in op.MUTATED_NAMES if inputs.get(name) is not None},
        alias_pairs=aliases,
    )


def _upcast(inputs: Inputs) -> Inputs:
    """Copies in higher precision: 16- and 8-bit floats as float32; where the inputs have none, float32 as float64."""
    present = [tensor for tensor in inputs.values() if tensor is not None]
    is_low = any(tensor.is_floating_point() and tensor.itemsize < 4 for tensor in present)

    def raised(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_floating_point() and tensor.itemsize < 4:
            return tensor.to(torch.float32)
        if tensor.dtype == torch.float32 and not is_low:
            return tensor.to(torch.float64)
        return tensor.clone()

    return {name: None if tensor is None else raised(tensor) for name, tensor in inputs.items()}


def _copy(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return None if tensor is None else tensor.clone()


# ---- one tensor


def _check_tensor(what: str, found: torch.Tensor | None, reference: torch.Tensor | None) -> float:
    if found is None or reference is None:
        if found is reference:
            return 0.0
        raise WrongResultError(f"{what} is {_there(found)}, and the reference's {_there(reference)}")
    if found.shape != reference.shape:
        raise WrongResultError(
            f"{what} specifies shape {list(found.shape)}, and the reference's {list(reference.shape)}"
        )
    if found.numel() == 0:
        return 0.0
    tolerance = TOLERANCE.get(str(found.dtype).removeprefix("torch."))
    if tolerance is None:
        differing = int((found != reference).sum())
        if differing:
            raise WrongResultError(f"{what} differs from the reference in {differing} of {found.numel()} elements")
        return 0.0
    error, worst = relative_error(found, reference)
    if not error <= tolerance:
        raise WrongResultError(f"{what} has a relative error of {error:.3g}, and {tolerance:.3g} passes")
    if not worst <= _ELEMENT_FACTOR * tolerance:
        raise WrongResultError(
            f"{what} has an element off by {worst:.3g} of its own and the typical size, and"
            f" {_ELEMENT_FACTOR * tolerance:.3g} passes"
        )
    return error


def _there(tensor: torch.Tensor | None) -> str:
    return "absent" if tensor is None else "there"


def relative_error(found: torch.Tensor, reference: torch.Tensor) -> tuple[float, float]:
    """(||found - reference|| / ||reference||, largest |found - reference| / (|reference| + rms(reference))).

    Both are infinite where `found` holds a NaN or an infinity, and 0 where both tensors are all zero.
    """
    square_difference = square_reference = 0.0
    for given, wanted in _chunks(found, reference):
        if not bool(torch.isfinite(given).all()):
            return math.inf, math.inf
        square_difference += float((given - wanted).square().sum())
        square_reference += float(wanted.square().sum())
    if square_difference == 0.0:
        return 0.0, 0.0
    if square_reference == 0.0:
        return math.inf, math.inf
    rms = math.sqrt(square_reference / found.numel())
    worst = max(
        float(((given - wanted).abs() / (wanted.abs() + rms)).max()) for given, wanted in _chunks(found, reference)
    )
    return math.sqrt(square_difference / square_reference), worst


def _chunks(found: torch.Tensor, reference: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    given, wanted = found.detach().reshape(-1), reference.detach().reshape(-1)
    for start in range(0, given.numel(), _CHUNK):
        part = slice(start, start + _CHUNK)
        yield given[part].to(torch.float64), wanted[part].to(torch.float64)


def _check_storage(
    outputs: Mapping[str, torch.Tensor | None], inputs: Inputs, alias_pairs: frozenset[tuple[str, str]]
) -> None:
    names: Sequence[str] = list(outputs)
    for at, name in enumerate(names):
        tensor = outputs[name]
        if tensor is not None and type(tensor) is not torch.Tensor:
            raise WrongResultError(
                f"output {name!r} is a {type(tensor).__name__}, which may compute its contents later; a plain tensor is"
                " wanted"
            )
        for given_name, given in inputs.items():
            if (name, given_name) not in alias_pairs and _share(tensor, given):
                raise WrongResultError(f"output {name!r} shares the storage of input {given_name!r}")
        for other in names[:at]:
            if _share(tensor, outputs[other]):
                raise WrongResultError(f"outputs {other!r} and {name!r} share one storage")


def _share(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None or not one.numel() or not other.numel():
        return False
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8) if tensor.dim() else tensor.reshape(1).view(torch.uint8)
