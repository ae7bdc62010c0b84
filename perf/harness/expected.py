"""What a call must return: the reference's results in higher precision, and how far off honest results are."""

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
from tileops.ops.outputs import as_tuple
from tileops.perf.harness import noise as bench_noise
from tileops.perf.harness.inputs import Inputs

_PRODUCT = "product"
# To learn how large honest errors are, the reference also runs on float32 and float64 inputs that are off by this many
# steps: half a step stands for one rounded operation per element, eight for a running sum of a thousand terms.
_MOVED_STEPS = {"elementwise": 0.5, "reduction": 8.0}
# A jump is a result in the inputs' own precision that is off by this many steps of its size, if at most this share of
# the elements is.
_JUMP_STEPS, _MOST_JUMPS = 1024.0, 1e-4


class WrongResultError(Exception):
    """The result of an implementation is wrong; the message says which tensor and how far off it is."""


class NotFiniteError(WrongResultError):
    """The reference's own result is all NaN, so nothing can be compared with it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wanted:
    """One tensor as the reference computes it.

    Attributes:
      tensor: its values, in the reference's precision.
      noise: how far an honest result is off (harness/noise.py), in the tensor's unit; None if it could not be measured
        or the tensor has no floating-point values.
      arithmetic: how rounding errors arise (`Op.ARITHMETIC`).
      allowed: how far the op's definition lets it be off (`Op.TOLERANCES`); 0 if it says nothing.
      jumps: elements with a second right value; None if there are none.
    """

    tensor: torch.Tensor
    noise: bench_noise.Noise | None = None
    arithmetic: str = "product"
    allowed: float = 0.0
    jumps: Jumps | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Jumps:
    """Elements with two right values: the reference's in higher precision, and in the inputs' own precision.

    An example: floor(a / b) in float16, for a quotient of 2.9999. float32 gives 2; float16 rounds to 3 first.

    Attributes:
      positions: in memory order; int64[n].
      values: the reference's in the inputs' own precision; [n].
    """

    positions: torch.Tensor
    values: torch.Tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expected:
    """What a call must return and write.

    Attributes:
      outputs: the specified part of each output by name; None for an output that the call does not have.
      mutated: inputs that the op writes, as they must be after the call, by name.
      alias_pairs: (output, input) names that share storage in the reference, and so may share it elsewhere.
      not_numbers: NaN elements of all floating-point tensors. A count.
    """

    outputs: dict[str, Wanted | None]
    mutated: dict[str, Wanted]
    alias_pairs: frozenset[tuple[str, str]]
    not_numbers: int = 0


def expect(op_class: type[Op], case: WorkloadCase, inputs: Inputs) -> Expected:
    """Runs the reference on copies of `inputs` in higher precision: 8- and 16-bit floats in float32, float32 in float64.

    Integers become float64 if all outputs are floating-point. If the signature does not admit the higher precision, the
    reference's function is called without the checks. If that fails or memory does not suffice, the reference runs in
    the inputs' own precision. Two more runs show how large honest errors are: one as coarse as an implementation may
    be, one on inputs that are a little off.

    Raises:
      NotFiniteError: the specified part of a floating-point result is all NaN.
      Exception: what the reference raises in the inputs' own precision.
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
    """Returns the result of a call by output name; None for an output that the call does not have."""
    return dict(zip(op.OUTPUT_NAMES, as_tuple(returned, op.OUTPUT_NAMES), strict=True))


def share_storage(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """Returns whether two tensors are present, not empty and in one storage."""
    if one is None or other is None or not one.numel() or not other.numel():
        return False
    return _address(one) == _address(other)


def _address(tensor: torch.Tensor) -> int:
    # Methods of the classes: user code may have hidden a method of the instance by an attribute.
    return torch.UntypedStorage.data_ptr(torch.Tensor.untyped_storage(tensor))


@dataclasses.dataclass(frozen=True)
class _Ran:
    outputs: dict[str, torch.Tensor | None]
    mutated: dict[str, torch.Tensor]
    alias_pairs: frozenset[tuple[str, str]]


def _run(op: Op, call: Any, inputs: Inputs) -> _Ran:
    """Runs the reference's function on `inputs`, which it may write."""
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
    """Returns how rounding errors of an op arise: as its class says, else by the unit that prices its FLOPs."""
    if op.ARITHMETIC:
        return op.ARITHMETIC
    twin = op._twin()
    twin._last.set(call)  # a roof may depend on the dtypes of the last call
    try:
        return _PRODUCT if twin.roof_key().startswith("tensor_core.") else "reduction"
    except KeyError:  # a dtype that no tensor core takes
        return "reduction"


def _not_numbers(name: str, tensor: torch.Tensor) -> int:
    """Returns how many elements are NaN. Raises NotFiniteError if all are."""
    flat = tensor.detach().reshape(-1)
    count = sum(
        int(flat[part].to(bench_noise.working_dtype(flat)).isnan().sum()) for part in bench_noise.chunks(flat.numel())
    )
    if count and count == flat.numel():
        raise NotFiniteError(
            f"the reference's {name!r} is all NaN on the row's own inputs, so nothing can be compared with it: give"
            " the op SAMPLES from its domain"
        )
    return count


def _coarse(op: Op, call: Any, inputs: Inputs, arithmetic: str) -> _Ran | None:
    """Runs the reference in the inputs' own precision; in tf32 for a product whose lowest precision is float32.

    Returns None if memory does not suffice beside the first run's results.
    """
    is_tf32 = arithmetic == _PRODUCT and not _has_low(inputs)

    def lowered(tensor: torch.Tensor) -> torch.Tensor:
        return bench_noise.as_tf32(tensor) if _is_float32(tensor) and is_tf32 else tensor.clone()

    return _run_beside(op, call, inputs, lowered)


def _moved(op: Op, call: Any, inputs: Inputs, arithmetic: str) -> _Ran | None:
    """Runs the reference in higher precision on floats that are a little off; None if memory does not suffice.

    16- and 8-bit floats are off by up to half a step. If there are none, wider floats are off by `_MOVED_STEPS`.
    """
    is_low = _has_low(inputs)
    seeds = itertools.count()  # a seed per input: equal errors of two summands could cancel

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        if is_low:
            return bench_noise.moved(tensor, seed=next(seeds)) if _is_low(tensor) else tensor.clone()
        return bench_noise.moved(tensor, next(seeds), _MOVED_STEPS[arithmetic]) if _is_wide(tensor) else tensor.clone()

    return _run_beside(op, call, inputs, moved)


def _run_beside(op: Op, call: Any, inputs: Inputs, change: Any) -> _Ran | None:
    """Runs the reference on changed copies of its inputs; returns None if memory does not suffice."""
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
    """Returns where a result in the inputs' own precision is far off; None if nowhere or in too many elements."""
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
    """Returns a function that copies a tensor into higher precision; None if there is no higher precision.

    It takes 8- and 16-bit floats to float32. If there are none, it takes float32 to float64. If there are no floats at
    all, it takes integers to float64.
    """
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
