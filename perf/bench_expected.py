"""What a call must give: the reference's results in higher precision, and how far off honest ones are."""

from __future__ import annotations

import dataclasses
import itertools
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
      noise: by how much an honest result is off (bench_noise.py), in the tensor's unit; None where that could not be
        measured, and where the tensor holds no floating-point values.
    """

    tensor: torch.Tensor
    noise: bench_noise.Noise | None = None


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

    Integers are float64 where all outputs are floating-point. Where the signature does not admit the higher precision
    the reference's function is called past the checks; where that fails too, or memory does not suffice, it runs in the
    inputs' own precision. Further runs, one as coarse as an implementation may be and one on inputs that are half a
    step off, say how large honest errors are.

    Raises:
      NotFiniteError: the reference's own result is not finite where it is specified.
      Exception: whatever the reference raises in the inputs' own precision.
    """
    device = next((tensor.device for tensor in inputs.values() if tensor is not None), torch.get_default_device())
    op = workloads.construct(op_class, case, target=op_class.implementation_names()[0], device=device)
    call = op.check(**inputs)
    raised = _raised(op, call, inputs)
    is_fine = raised is not None
    try:
        found = _run(op, call, _each(inputs, raised or torch.Tensor.clone))
    except Exception as error:  # any: a reference need not support a precision that its op does not declare
        _forget(error)
        is_fine, found = False, _run(op, call, _each(inputs, torch.Tensor.clone))
    for name, tensor in {**found.outputs, **found.mutated}.items():
        if tensor is not None and tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise NotFiniteError(
                f"the reference's {name!r} is not finite on the row's own inputs, so nothing can be compared with it"
            )
    coarse = _coarse(op, call, inputs) if is_fine else None
    moved = _moved(op, call, inputs) if coarse is not None and _has_low(inputs) else coarse

    def wanted(kind: str) -> dict[str, Wanted | None]:
        return _wanted(*(None if run is None else getattr(run, kind) for run in (found, coarse, moved)))

    return Expected(outputs=wanted("outputs"), mutated=wanted("mutated"), alias_pairs=found.alias_pairs)


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

    return _run_beside(op, call, inputs, lowered)


def _moved(op: Op, call: Any, inputs: Inputs) -> _Ran | None:
    """The reference in float32 on 16- and 8-bit floats that are half a step off; None where memory does not suffice."""

    seeds = itertools.count()  # each input its own: equal shares of two summands would cancel with them

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        return bench_noise.moved(tensor, seed=next(seeds)) if _is_low(tensor) else tensor.clone()

    return _run_beside(op, call, inputs, moved)


def _run_beside(op: Op, call: Any, inputs: Inputs, change: Any) -> _Ran | None:
    """The reference on changed copies of its inputs; None where memory does not suffice beside an earlier result."""
    try:
        return _run(op, call, _each(inputs, change))
    except (torch.OutOfMemoryError, MemoryError) as error:
        _forget(error)
        return None


def _wanted(
    fine: Mapping[str, torch.Tensor | None],
    coarse: Mapping[str, torch.Tensor | None] | None,
    moved: Mapping[str, torch.Tensor | None] | None,
) -> dict[str, Wanted | None]:
    def wanted(name: str, tensor: torch.Tensor) -> Wanted:
        if coarse is None or not tensor.is_floating_point() or not tensor.numel():
            return Wanted(tensor=tensor)
        return Wanted(
            tensor=tensor,
            noise=bench_noise.measured(tensor, coarse[name], None if moved is None else moved[name]),
        )

    return {name: None if tensor is None else wanted(name, tensor) for name, tensor in fine.items()}


def _each(inputs: Inputs, change: Any) -> Inputs:
    return {name: None if tensor is None else change(tensor) for name, tensor in inputs.items()}


def _raised(op: Op, call: Any, inputs: Inputs) -> Any:
    """What copies a tensor into higher precision: 16- and 8-bit floats into float32, where there are none float32 into
    float64, and where there are no floats at all integers into float64. None where there is no higher precision."""
    is_low = _has_low(inputs)
    data = [tensor for name, tensor in inputs.items() if tensor is not None and name not in op.METADATA_NAMES]
    if not any(tensor.is_floating_point() for tensor in data):
        if not data or not all(getattr(torch, record.dtype).is_floating_point for record in call.outputs.values()):
            return None
        kept = {id(tensor) for name, tensor in inputs.items() if name in op.METADATA_NAMES}
        return lambda tensor: tensor.clone() if id(tensor) in kept else tensor.to(torch.float64)
    if not is_low and not any(map(_is_float32, data)):
        return None

    def raised(tensor: torch.Tensor) -> torch.Tensor:
        if _is_low(tensor):
            return tensor.to(torch.float32)
        return tensor.to(torch.float64) if _is_float32(tensor) and not is_low else tensor.clone()

    return raised


def _has_low(inputs: Inputs) -> bool:
    return any(tensor is not None and _is_low(tensor) for tensor in inputs.values())


def _is_low(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.itemsize < 4


def _is_float32(tensor: torch.Tensor) -> bool:
    return tensor.dtype == torch.float32


def _forget(error: BaseException) -> None:
    if isinstance(error, torch.OutOfMemoryError):
        torch.cuda.empty_cache()
