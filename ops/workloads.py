"""From a workload case to the op and the tensors of one call."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tileops.manifest.language import generators
from tileops.ops.cases import TensorCase, WorkloadCase
from tileops.ops.dtypes import BY_NAME
from tileops.ops.op import Op
from tileops.ops.samples import DRAWN, Listed

# Integer data without a generator carries no meaning beyond its range; small values keep products representable.
_INT_LOW, _INT_HIGH = 0, 8


def construct(
    op_class: type[Op], case: WorkloadCase, target: str | None = None, device: torch.device | str = "cpu"
) -> Op:
    """The op that `case` describes, its construction-time tensors on `device`.

    Args:
      op_class, case: the op and one of its cases.
      target: name of the implementation; None lets each call choose.
      device: where the case's calls will be, whatever the case writes for the parameter that says so.
    """
    params = {**case.params, op_class.DEVICE_PARAM: str(device)} if op_class.DEVICE_PARAM else case.params
    constants: dict[str, Any] = _tensors(op_class, case, op_class.CONSTANT_NAMES, torch.device(device), 0)
    return op_class(**params, **constants, target=target)


def build_inputs(
    op_class: type[Op], case: WorkloadCase, device: torch.device | str, variant: int = 0
) -> dict[str, torch.Tensor | None]:
    """Contiguous, non-aliasing input tensors of a case by name, in signature order; absent ones are None.

    Data is random from a fixed seed that is each tensor's own: it depends on op, case, tensor and `variant` alone.
    Metadata tensors come from the entry's generators and never depend on `variant`, since they decide the price; on
    `meta` they are built on the CPU with their values.
    """
    return _tensors(op_class, case, op_class.INPUT_NAMES, torch.device(device), variant)


def calls_on(
    device: torch.device | str, inputs: Mapping[str, torch.Tensor | None]
) -> contextlib.AbstractContextManager:
    """While it is entered, calls with `inputs` are on `device`, also if none of the inputs is there to say so.

    A call on meta may have nothing but metadata tensors, which hold their values on the CPU.
    """
    here = torch.device(device).type
    is_said = any(tensor is not None and tensor.device.type == here for tensor in inputs.values())
    return contextlib.nullcontext() if is_said else torch.device(device)


def _tensors(
    op_class: type[Op], case: WorkloadCase, names: tuple[str, ...], device: torch.device, variant: int
) -> dict[str, torch.Tensor | None]:
    passed = {tensor.name: tensor for tensor in case.tensors}
    homes = {name: torch.device("cpu") if name in op_class.CPU_NAMES else device for name in names}
    return {
        name: _build(op_class, case, passed[name], homes[name], variant) if name in passed else None for name in names
    }


def _build(
    op_class: type[Op], case: WorkloadCase, tensor: TensorCase, device: torch.device, variant: int
) -> torch.Tensor:
    op, case_id, dtype = op_class.ENTRY, case.case_id, BY_NAME[tensor.dtype]
    if tensor.values is not None:
        array = generators.generate(
            tensor.values.name, tensor.values.args, generators.tensor_seed(op, case_id, tensor.name)
        )
        if tuple(array.shape) != tensor.shape:
            raise ValueError(
                f"{op}: case {case_id}: {tensor.values.name} fills {tensor.name!r} with shape {list(array.shape)}, but"
                f" the row's is {list(tensor.shape)}"
            )
        # A GPU call holds its metadata on the GPU; a meta call on the CPU, where it keeps its values.
        return torch.from_numpy(array).to(dtype).to("cpu" if device.type == "meta" else device)
    if device.type == "meta":
        return torch.empty(tensor.shape, dtype=dtype, device=device)
    stream = torch.Generator(device=device).manual_seed(generators.tensor_seed(op, case_id, tensor.name, variant))
    samples = op_class.SAMPLES.get(tensor.name)
    if isinstance(samples, DRAWN):
        if dtype.is_floating_point:
            return samples.draw(tensor.shape, dtype, stream, {**_defaults(op_class.__init__), **case.params}, variant)
    elif samples is not None:
        return _sampled(tensor.shape, dtype, device, stream, samples)
    return _random(tensor.shape, dtype, device, stream)


@functools.cache
def _defaults(init: Callable[..., Any]) -> Mapping[str, Any]:
    """Returns the parameters that an op takes if a row does not state them."""
    signature = inspect.signature(init)
    return {name: one.default for name, one in signature.parameters.items() if one.default is not one.empty}


def _sampled(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, stream: torch.Generator, samples: Listed
) -> torch.Tensor:
    """Values of an op's `SAMPLES`; whole ones where the dtype has no others, and none that it does not have."""
    if isinstance(samples, list):
        values = torch.tensor(samples, dtype=dtype, device=device)
        return values[torch.randint(len(samples), shape, generator=stream, device=device)]
    low, high = (samples.start, samples.stop) if isinstance(samples, range) else samples
    if dtype.is_floating_point and not isinstance(samples, range):
        return torch.empty(shape, dtype=dtype, device=device).uniform_(low, high, generator=stream)
    if not dtype.is_floating_point:
        lowest, highest = (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
        low, high = max(math.ceil(low), lowest), min(math.ceil(high), highest + 1)
    return torch.randint(low, high, shape, generator=stream, device=device, dtype=torch.int64).to(dtype)


def _random(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, stream: torch.Generator) -> Any:
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=stream, device=device, dtype=torch.uint8).bool()
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(_INT_LOW, _INT_HIGH, shape, generator=stream, device=device, dtype=torch.int64).to(dtype)
    if dtype.is_floating_point and dtype.itemsize == 1:  # float8 has no normal_ of its own
        return torch.randn(shape, generator=stream, device=device, dtype=torch.float32).to(dtype)
    return torch.randn(shape, generator=stream, device=device, dtype=dtype)
