"""The checked call: what a call bound, as plain Python values; the one thing that a roofline formula sees."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tileops.manifest.dtypes import BITS
from tileops.ops.errors import OpNotAvailableError

if TYPE_CHECKING:
    import numpy as np


_NOTHING: Mapping[str, Any] = MappingProxyType({})


class TensorRecord(NamedTuple):
    """Shape and dtype of one tensor that a call binds or returns.

    Attributes:
      shape: axis lengths, as PyTorch sees them.
      dtype: PyTorch's name of the element type, of the carrier for packed types.
    """

    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        """Size in bytes: prod(shape) * bits(dtype) / 8."""
        return math.prod(self.shape) * BITS[self.dtype] // 8


class TensorRecords(dict):
    """Records by tensor name; asking for an absent tensor is an error that names it."""

    def __missing__(self, name: str) -> TensorRecord:
        raise KeyError(f"tensor {name!r} is absent from this call; present are {', '.join(self)}")


class CheckedCall:
    """One call that passed its signature's checks. Formulas read it; nothing in it is a tensor library's object.

    Attributes:
      op: name of the manifest entry.
      params: construction parameters by name, dtypes as names, sequences as tuples.
      indices: the signature's indices and `let`s: an int, a tuple of ints for a Shape, a name for a DType.
      tensors: a TensorRecord per present tensor, inputs first, then outputs, in signature order.
      device: where the call ran, as PyTorch writes it ("cuda:0", "cpu", "meta").
      stages: for a composite, the checked calls that its sub-ops completed, by stage, in order.
      implementation: name of the implementation that served the call; "" where none ran (meta).
    """

    __slots__ = (
        "op", "params", "indices", "tensors", "device", "stages", "implementation", "outputs", "aliases", "buffers",
        "_metadata", "_versions",
    )

    def __init__(
        self,
        op: str,
        params: Mapping[str, Any],
        indices: Mapping[str, Any],
        inputs: Mapping[str, TensorRecord],
        outputs: Mapping[str, TensorRecord],
        device: str,
        metadata: Mapping[str, Any],
        aliases: Mapping[str, Any] = _NOTHING,
        buffers: Mapping[str, Any] = _NOTHING,
    ) -> None:
        """Of a call that passed its checks.

        Args:
          op, params, indices, device: as the attributes.
          inputs, outputs: the records of what is bound and of what the signature promises.
          metadata: the metadata tensors, by reference.
          aliases: the written input that an output is, by the output's name; let go of by `seal`.
          buffers: the storage that the caller passed for an output, by the output's name; let go of by `seal`.
        """
        self.op = op
        self.params = params
        self.indices = indices
        self.tensors = TensorRecords(inputs)
        self.tensors.update(outputs)
        self.outputs = outputs
        self.device = device
        self.aliases = aliases
        self.buffers = buffers
        self.stages: dict[str, list[CheckedCall]] = {}
        self.implementation = ""
        self._metadata = metadata
        self._versions: dict[str, int] = {}

    @property
    def dtypes(self) -> dict[str, str]:
        """Dtype name of every present tensor, by tensor name."""
        return {name: record.dtype for name, record in self.tensors.items()}

    def present(self, name: str) -> bool:
        """Whether the call passed (or returned) the tensor `name`."""
        return name in self.tensors

    def bytes_of(self, *names: str) -> int:
        """Bytes of the named tensors together; an absent one is charged nothing, a repeated one each time."""
        return sum(self.tensors[name].bytes for name in names if name in self.tensors)

    def seal(self) -> None:
        """Complete the record: let go of output storage, note the version of each metadata tensor.

        A later write to one makes its values no longer this call's.
        """
        self.aliases = self.buffers = _NOTHING
        if self._metadata:
            self._versions = {name: _version(tensor) for name, tensor in self._metadata.items()}

    def values(self, name: str) -> np.ndarray:
        """Contents of the metadata tensor `name`, copied from the device when asked for.

        Raises:
          KeyError: `name` is no metadata tensor of this call.
          OpNotAvailableError: the tensor is on meta and has no values, or was written since the call.
        """
        if name not in self._metadata:
            known = ", ".join(self._metadata) or "none"
            raise KeyError(f"{self.op}: {name!r} is no metadata tensor of this call; its metadata tensors: {known}")
        tensor = self._metadata[name]
        if tensor.device.type == "meta":
            raise OpNotAvailableError(
                f"{self.op}: the values of {name!r} decide the price, and this call bound it on meta, which holds none;"
                " pass it on the cpu with its values"
            )
        if name in self._versions and _version(tensor) != self._versions[name]:
            raise OpNotAvailableError(
                f"{self.op}: {name!r} was written after the call completed, so its values are no longer the call's"
            )
        return tensor.detach().cpu().numpy()


def _version(tensor: Any) -> int:
    """Write counter of a tensor; 0 for inference tensors, which track none."""
    return 0 if tensor.is_inference() else tensor._version
