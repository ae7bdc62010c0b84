"""What a call must give: the reference's results in higher precision, and how far off honest ones are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

from tileops.ops import workloads
from tileops.ops.cases import WorkloadCase
from tileops.ops.errors import OpError
from tileops.ops.op import Op
from tileops.perf import bench_noise
from tileops.perf.bench_inputs import Inputs


class WrongResultError(Exception):
    """An implementation's result is not the reference's; the message says which tensor and how far off."""


class NotFiniteError(WrongResultError):
    """The reference's own result is not finite: nothing can be compared with it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wanted:
    """One tensor as the reference computes it.

    Attributes:
      tensor: its values, in the reference's precision.
      noise: by how much an honest result is off in each of its blocks (bench_noise.py), in the tensor's dtype and unit;
        None where that could not be measured, and where the tensor holds no floating-point values.
    """

    tensor: torch.Tensor
    noise: torch.Tensor | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expected:
    """What a call must produce.

    Attributes:
      outputs: specified part of each output by name; None where the call has none.
      mutated: contents of the inputs that the op writes, after the call, by name.
      alias_pairs: (output, input) names that share storage in the reference, and may in other implementations.
    """

    outputs: dict[str, Wanted | None]
    mutated: dict[str, Wanted]
    alias_pairs: frozenset[tuple[str, str]]


def expect(op_class: type[Op], case: WorkloadCase, inputs: Inputs) -> Expected:
    """Run the reference on copies of `inputs`, in float32 (float64 where the inputs are float32) if it can be.

    Where the signature does not admit the higher precision the reference's function is called past the checks; where
    that fails too, or memory does not suffice, it runs in the inputs' own precision. A second run, as coarse as an
    implementation may be, says how large honest errors are.

    Raises:
      NotFiniteError: the reference's own result is not finite where it is specified.
      Exception: whatever the reference raises in the inputs' own precision.
    """
    device = next((tensor.device for tensor in inputs.values() if tensor is not None), torch.get_default_device())
    op = workloads.construct(op_class, case, target=op_class.implementation_names()[0], device=device)
    call = op.check(**inputs)
    is_fine = _has_floats(inputs, torch.float32)
    try:
        found = _run(op, call, _each(inputs, _raised(inputs)))
    except Exception as error:  # any: a reference need not support a precision that its op does not declare
        _forget(error)
        is_fine, found = False, _run(op, call, _each(inputs, torch.Tensor.clone))
    for name, tensor in {**found.outputs, **found.mutated}.items():
        if tensor is not None and tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise NotFiniteError(
                f"the reference's {name!r} is not finite on the row's own inputs, so nothing can be compared with it"
            )
    coarse = _coarse(op, call, inputs) if is_fine else None
    return Expected(
        outputs=_wanted(found.outputs, None if coarse is None else coarse.outputs),
        mutated=_wanted(found.mutated, None if coarse is None else coarse.mutated),
        alias_pairs=found.alias_pairs,
    )


def outputs_by_name(op: Op, returned: Any) -> dict[str, torch.Tensor | None]:
    """The result of a call by output name; None for an output that the call does not have."""
    return dict(zip(op.OUTPUT_NAMES, returned if isinstance(returned, tuple) else (returned,), strict=True))


def share_storage(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """Whether two tensors, both there and not empty, are in one storage."""
    if one is None or other is None or not one.numel() or not other.numel():
        return False
    return _address(one) == _address(other)


def _address(tensor: torch.Tensor) -> int:
    # By way of the classes: a storage is one object for all tensors in it, and takes attributes as they do.
    return torch.UntypedStorage.data_ptr(torch.Tensor.untyped_storage(tensor))


@dataclasses.dataclass(frozen=True)
class _Ran:
    outputs: dict[str, torch.Tensor | None]
    mutated: dict[str, torch.Tensor]
    alias_pairs: frozenset[tuple[str, str]]


def _run(op: Op, call: Any, inputs: Inputs) -> _Ran:
    """The reference's function on `inputs`, which it may write."""
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
        if share_storage(tensor, given)
    )
    specified = op.specified_outputs(call, tuple(outputs.values()))
    return _Ran(
        outputs=dict(zip(outputs, specified, strict=True)),
        mutated={name: inputs[name] for name in op.MUTATED_NAMES if inputs.get(name) is not None},
        alias_pairs=aliases,
    )


def _coarse(op: Op, call: Any, inputs: Inputs) -> _Ran | None:
    """The reference in the inputs' own precision; float32 ones as tensor cores read them where there is no lower.

    None where memory does not suffice for it beside the first run's results.
    """
    is_low = _has_low(inputs)

    def lowered(tensor: torch.Tensor) -> torch.Tensor:
        return bench_noise.as_tf32(tensor) if _is_float32(tensor) and not is_low else tensor.clone()

    try:
        return _run(op, call, _each(inputs, lowered))
    except (torch.OutOfMemoryError, MemoryError) as error:
        _forget(error)
        return None


def _wanted(
    fine: Mapping[str, torch.Tensor | None], coarse: Mapping[str, torch.Tensor | None] | None
) -> dict[str, Wanted | None]:
    def wanted(name: str, tensor: torch.Tensor) -> Wanted:
        if coarse is None or not tensor.is_floating_point():
            return Wanted(tensor=tensor)
        return Wanted(tensor=tensor, noise=bench_noise.between(coarse[name], tensor))

    return {name: None if tensor is None else wanted(name, tensor) for name, tensor in fine.items()}


def _each(inputs: Inputs, change: Any) -> Inputs:
    return {name: None if tensor is None else change(tensor) for name, tensor in inputs.items()}


def _raised(inputs: Inputs) -> Any:
    """To higher precision: 16- and 8-bit floats to float32; where the inputs have none, float32 to float64. Copies."""
    is_low = _has_low(inputs)

    def raised(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_floating_point() and tensor.itemsize < 4:
            return tensor.to(torch.float32)
        return tensor.to(torch.float64) if _is_float32(tensor) and not is_low else tensor.clone()

    return raised


def _has_low(inputs: Inputs) -> bool:
    return any(tensor is not None and tensor.is_floating_point() and tensor.itemsize < 4 for tensor in inputs.values())


def _is_float32(tensor: torch.Tensor) -> bool:
    return tensor.dtype == torch.float32


def _has_floats(inputs: Inputs, highest: torch.dtype) -> bool:
    """Whether some input has a higher precision than its own to be computed in."""
    return any(
        tensor is not None and tensor.is_floating_point() and tensor.itemsize <= highest.itemsize
        for tensor in inputs.values()
    )


def _forget(error: BaseException) -> None:
    if isinstance(error, torch.OutOfMemoryError):
        torch.cuda.empty_cache()
