"""What a call must give: the reference's results in higher precision, and how far off honest ones are."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import torch

from tileops.ops import workloads
from tileops.ops.cases import WorkloadCase
from tileops.ops.errors import OpError
from tileops.ops.op import Op
from tileops.perf.harness import noise as bench_noise
from tileops.perf.harness.inputs import Inputs

_PRODUCT = "product"
# How far off float32 and float64 inputs are of which the reference runs to learn what honest errors are: half a step
# for one operation on each; a running sum of some thousand terms in one thread is off by as much as a few steps of each
# term.
_MOVED_STEPS = {"elementwise": 0.5, "reduction": 8.0}
# A result in the inputs' own precision that is off by this many steps of its size jumps, if no more than this share
# does.
_JUMP_STEPS, _MOST_JUMPS = 1024.0, 1e-4


class WrongResultError(Exception):
    """An implementation's result is not the reference's; the message says which tensor and how far off."""


class NotFiniteError(WrongResultError):
    """The reference's own result is NaN throughout: nothing can be compared with it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wanted:
    """One tensor as the reference computes it.

    Attributes:
      tensor: its values, in the reference's precision.
      noise: by how much an honest result is off (harness/noise.py), in the tensor's unit; None where that could not be
        measured, and where the tensor holds no floating-point values.
      arithmetic: how its rounding errors come about (`Op.ARITHMETIC`).
      allowed: what the op's definition allows it to be off by (`Op.TOLERANCES`); 0 where it says nothing.
      jumps: where the reference in the inputs' own precision gives something else altogether, as the whole part of a
        quotient that rounding carries over a whole number; None where nowhere.
    """

    tensor: torch.Tensor
    noise: bench_noise.Noise | None = None
    arithmetic: str = "product"
    allowed: float = 0.0
    jumps: Jumps | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Jumps:
    """Elements at which both of two values are right: the reference's in higher precision and its own.

    Attributes:
      positions: in memory order; int64[n].
      values: what the reference gives in the inputs' own precision; [n].
    """

    positions: torch.Tensor
    values: torch.Tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expected:
    """What a call must produce.

    Attributes:
      outputs: specified part of each output by name; None where the call has none.
      mutated: contents of the inputs that the op writes and the call has, after the call, by name.
      alias_pairs: (output, input) names that share storage in the reference, and may in other implementations.
      not_numbers: elements, of all floating-point tensors, that are NaN. A count.
    """

    outputs: dict[str, Wanted | None]
    mutated: dict[str, Wanted]
    alias_pairs: frozenset[tuple[str, str]]
    not_numbers: int = 0


def expect(op_class: type[Op], case: WorkloadCase, inputs: Inputs) -> Expected:
    """Run the reference on copies of `inputs`, in float32 (float64 where the inputs are float32) if it can be.

    Integers are float64 where all outputs are floating-point. Where the signature does not admit the higher precision
    the reference's function is called past the checks; where that fails too, or memory does not suffice, it runs in the
    inputs' own precision. Further runs, one as coarse as an implementation may be and one on inputs that are a little
    off, say how large honest errors are.

    Raises:
      NotFiniteError: a floating-point result of the reference holds NaN alone where it is specified.
      Exception: whatever the reference raises in the inputs' own precision.
    """
    device = next((tensor.device for tensor in inputs.values() if tensor is not None), torch.get_default_device())
    op = workloads.construct(op_class, case, target=op_class.implementation_names()[0], device=device)
    call = op.check(**inputs)
    arithmetic = _arithmetic(op, call)
    raised = _raised(op, call, inputs)
    is_fine = raised is not None
    try:
        found = _run(op, call, _each(inputs, raised or torch.Tensor.clone))
    except Exception as error:  # any: a reference need not support a precision that its op does not declare
        _forget(error)
        is_fine, found = False, _run(op, call, _each(inputs, torch.Tensor.clone))
    not_numbers = 0
    for name, tensor in {**found.outputs, **found.mutated}.items():
        if tensor is not None and tensor.is_floating_point():
            not_numbers += _not_numbers(name, tensor)
    coarse = _coarse(op, call, inputs, arithmetic) if is_fine else None
    moved = coarse
    if coarse is not None and (_has_low(inputs) or arithmetic != _PRODUCT and any(map(_is_wide, _floats(inputs)))):
        moved = _moved(op, call, inputs, arithmetic)
    elif raised is None and arithmetic != _PRODUCT and any(map(_is_wide, _floats(inputs))):
        moved = coarse = _moved(op, call, inputs, arithmetic)  # float64 has no coarser run of its own

    def wanted(kind: str) -> dict[str, Wanted | None]:
        beside, off = (None if run is None else getattr(run, kind) for run in (coarse, moved))
        return _wanted(op, call, arithmetic, getattr(found, kind), beside, off)

    return Expected(
        outputs=wanted("outputs"),
        mutated={name: one for name, one in wanted("mutated").items() if one is not None},
        alias_pairs=found.alias_pairs,
        not_numbers=not_numbers,
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
    with contextlib.suppress(
        OpError
    ):  # a precision that the signature does not admit: `call` is what the function gets
        call = op.check(**inputs)
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


def _arithmetic(op: Op, call: Any) -> str:
    """How rounding errors of an op come about: what its class says, else what prices its FLOPs."""
    if op.ARITHMETIC:
        return op.ARITHMETIC
    twin = op._twin()
    twin._last.set(call)  # a roof may depend on the dtypes of the last call
    try:
        return _PRODUCT if twin.roof_key().startswith("tensor_core.") else "reduction"
    except KeyError:  # a dtype that no tensor core takes
        return "reduction"


def _not_numbers(name: str, tensor: torch.Tensor) -> int:
    """How many elements are NaN. Raises NotFiniteError where all are."""
    flat = tensor.detach().reshape(-1)
    count = sum(
        int(flat[part].to(bench_noise.working_dtype(flat)).isnan().sum()) for part in bench_noise.chunks(flat.numel())
    )
    if count and count == flat.numel():
        raise NotFiniteError(
            f"the reference's {name!r} is NaN throughout on the row's own inputs, so nothing can be compared with it"
        )
    return count


def _coarse(op: Op, call: Any, inputs: Inputs, arithmetic: str) -> _Ran | None:
    """Runs the reference in the inputs' own precision; in tf32 for a product whose lowest precision is float32.

    None where memory does not suffice for it beside the first run's results.
    """
    is_tf32 = arithmetic == _PRODUCT and not _has_low(inputs)

    def lowered(tensor: torch.Tensor) -> torch.Tensor:
        return bench_noise.as_tf32(tensor) if _is_float32(tensor) and is_tf32 else tensor.clone()

    return _run_beside(op, call, inputs, lowered)


def _moved(op: Op, call: Any, inputs: Inputs, arithmetic: str) -> _Ran | None:
    """The reference in higher precision on floats that are a little off; None where memory does not suffice.

    16- and 8-bit ones are off by up to half a step; if there are none, wider ones by `_MOVED_STEPS` of theirs.
    """
    is_low = _has_low(inputs)
    seeds = itertools.count()  # each input its own: equal shares of two summands would cancel with them

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        if is_low:
            return bench_noise.moved(tensor, seed=next(seeds)) if _is_low(tensor) else tensor.clone()
        return bench_noise.moved(tensor, next(seeds), _MOVED_STEPS[arithmetic]) if _is_wide(tensor) else tensor.clone()

    return _run_beside(op, call, inputs, moved)


def _run_beside(op: Op, call: Any, inputs: Inputs, change: Any) -> _Ran | None:
    """The reference on changed copies of its inputs; None where memory does not suffice beside an earlier result."""
    try:
        return _run(op, call, _each(inputs, change))
    except (torch.OutOfMemoryError, MemoryError) as error:
        _forget(error)
        return None


def _wanted(
    op: Op,
    call: Any,
    arithmetic: str,
    fine: Mapping[str, torch.Tensor | None],
    coarse: Mapping[str, torch.Tensor | None] | None,
    moved: Mapping[str, torch.Tensor | None] | None,
) -> dict[str, Wanted | None]:
    def wanted(name: str, tensor: torch.Tensor) -> Wanted:
        known = Wanted(tensor=tensor, arithmetic=arithmetic, allowed=op.TOLERANCES.get(name, 0.0))
        if coarse is None or not tensor.is_floating_point() or not tensor.numel():
            return known
        return dataclasses.replace(
            known,
            noise=bench_noise.measured(tensor, coarse[name], None if moved is None else moved[name]),
            jumps=None if arithmetic == _PRODUCT else _jumps(tensor, coarse[name]),
        )

    return {name: None if tensor is None else wanted(name, tensor) for name, tensor in fine.items()}


def _jumps(fine: torch.Tensor, coarse: torch.Tensor) -> Jumps | None:
    """Where a result in the inputs' own precision is far off; None where nowhere, and where it is far off too often."""
    one, other = fine.detach().reshape(-1), coarse.detach().reshape(-1)
    dtype, eps = bench_noise.working_dtype(fine), torch.finfo(coarse.dtype).eps
    positions = []
    for part in bench_noise.chunks(one.numel()):
        true, found = one[part].to(dtype), other[part].to(dtype)
        # NaN and infinities compare false: they are no jumps.
        is_far = found.sub(true).abs_() > torch.maximum(true.abs(), found.abs()).mul_(_JUMP_STEPS * eps).clamp_(min=eps)
        positions.append(torch.nonzero(is_far & found.isfinite()).reshape(-1).add_(part.start))
    where = torch.cat(positions)
    if not where.numel() or where.numel() > max(1, _MOST_JUMPS * one.numel()):
        return None
    return Jumps(positions=where, values=other[where].to(dtype))


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


def _floats(inputs: Inputs) -> list[torch.Tensor]:
    return [tensor for tensor in inputs.values() if tensor is not None and tensor.is_floating_point()]


def _is_wide(tensor: torch.Tensor) -> bool:
    return tensor.dtype in (torch.float32, torch.float64)


def _is_low(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.itemsize < 4


def _is_float32(tensor: torch.Tensor) -> bool:
    return tensor.dtype == torch.float32


def _forget(error: BaseException) -> None:
    if isinstance(error, torch.OutOfMemoryError):
        torch.cuda.empty_cache()
