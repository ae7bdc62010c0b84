"""Input tensors of a row, which get new values before every call."""

from __future__ import annotations

import dataclasses

import torch

from tileops.ops import workloads
from tileops.ops.cases import WorkloadCase
from tileops.ops.op import Op

Inputs = dict[str, torch.Tensor | None]


class RowInputs:
    """One set of input tensors, filled in place with new values before every call.

    So an implementation that caches results by address returns wrong ones, and a cache by value never hits. Tensors that
    a generator fills (ids, offsets, lengths) decide the price and keep their values. If the op writes such a tensor, it
    is restored.

    Attributes:
      tensors: the inputs by name, in signature order; None for absent inputs. The bench never passes them to an
        implementation, which could hide a method by an attribute.
      lent: aliases of the tensors, for calls.
      variant: which values the tensors hold now.
      is_folded: whether floating-point data are absolute values. Random values have both signs, and some ops are not
        defined for both: a variance and the argument of a logarithm are not negative.
    """

    __slots__ = ("_device", "_op_class", "_pristine", "_varying", "is_folded", "lent", "tensors", "variant")

    def __init__(self, op_class: type[Op], case: WorkloadCase, device: torch.device) -> None:
        """Builds variant 0."""
        self._op_class, self._device = op_class, device
        fixed = {tensor.name for tensor in case.tensors if tensor.values is not None} | set(op_class.METADATA_NAMES)
        self._varying = dataclasses.replace(
            case, tensors=tuple(tensor for tensor in case.tensors if tensor.name not in fixed)
        )
        self.tensors: Inputs = workloads.build_inputs(op_class, case, device)
        self.lent: Inputs = self.lend()
        self.variant = 0
        self.is_folded = False
        # Only tensors that the op writes are restored: a checked call remembers metadata as unchanged.
        self._pristine = {
            name: torch.Tensor.clone(self.tensors[name])
            for name in fixed.intersection(op_class.MUTATED_NAMES)
            if self.tensors[name] is not None
        }

    def fill(self, variant: int) -> None:
        """Fills the tensors with the values of `variant`. A number always gives the same values."""
        fresh = workloads.build_inputs(self._op_class, self._varying, self._device, variant)
        for name, tensor in self.tensors.items():
            source = fresh[name] if fresh[name] is not None else self._pristine.get(name)
            if tensor is not None and source is not None:
                torch.Tensor.copy_(tensor, source)
                if self.is_folded and name not in self._pristine and torch.Tensor.is_floating_point(tensor):
                    torch.Tensor.abs_(tensor)
        self.variant = variant

    def lend(self) -> Inputs:
        """Returns new aliases, without attributes of earlier calls. They share the tensors' version counters."""
        self.lent = {
            name: None if tensor is None else torch.Tensor.detach(tensor) for name, tensor in self.tensors.items()
        }
        return self.lent

    def clone(self) -> Inputs:
        """Returns copies that share no storage with the tensors."""
        return {name: None if tensor is None else torch.Tensor.clone(tensor) for name, tensor in self.tensors.items()}
