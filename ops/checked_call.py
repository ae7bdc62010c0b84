"""The checked call: what a call bound, as plain Python values; the one thing that a roofline formula sees."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from tileops.manifest.language.dtypes import BITS
from tileops.ops.errors import OpNotAvailableError
from tileops.ops.stages import StageCalls

if TYPE_CHECKING:
    import numpy as np


_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NOT_IN_NUMPY = ("bfloat16", "float8")  # float32 holds each of their values exactly


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


class NoValues(NamedTuple):
    """Stands for a metadata tensor whose values are not to be had, and says why."""

    reason: str


class OnTheWay(NamedTuple):
    """Stands for a copy of a metadata tensor that the device is still making; `arrived` waits for it and returns it."""

    arrived: Callable[[], Any]


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
      inputs, outputs: a TensorRecord per present one, in signature order; construction-time tensors among the inputs.
      device: where the call runs, as PyTorch writes it ("cuda:0", "cpu", "meta").
      aliases, buffers: output storage, as of __init__.

    A completed call has no device, aliases or buffers, and does not say which implementation served it: no price may
    depend on them.
    """

    __slots__ = (
        "op",
        "params",
        "indices",
        "inputs",
        "outputs",
        "_device",
        "_aliases",
        "_buffers",
        "_served_by",
        "_tensors",
        "_names",
        "_metadata",
        "_versions",
        "_stages",
        "_is_lower_bound",
        "_is_out_passed",
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
          aliases: the written input that an output is, by the output's name.
          buffers: the storage that the caller passed for an output, by the output's name.
        """
        self.op = op
        self.params = params
        self.indices = indices
        self.inputs = inputs
        self.outputs = outputs
        self._device: str | None = device
        self._aliases: Mapping[str, Any] | None = aliases
        self._buffers: Mapping[str, Any] | None = buffers
        self._served_by = ""
        self._stages: StageCalls | Callable[[], StageCalls] | None = None
        self._tensors: Mapping[str, TensorRecord] | None = None
        self._names: frozenset[str] | None = None
        self._is_lower_bound = False  # a formula asked for stages, and no stage completed (foreign_formula.py)
        self._is_out_passed = bool(buffers)
        self._metadata = metadata
        self._versions: Mapping[str, int] = _NOTHING

    @property
    def tensors(self) -> Mapping[str, TensorRecord]:
        """A TensorRecord per present tensor, inputs first, then outputs, in signature order; read-only."""
        if self._tensors is None:  # made when first asked for: a call that nobody prices does without
            records = TensorRecords(self.inputs)
            records.update(self.outputs)
            self._tensors = MappingProxyType(records)
        return self._tensors

    @property
    def dtypes(self) -> dict[str, str]:
        """Dtype name of every present tensor, by tensor name."""
        return {name: record.dtype for name, record in self.tensors.items()}

    def present(self, name: str) -> bool:
        """Whether the call passed (or returned) the tensor `name`. Raises KeyError where the entry has none of it.

        Of an op whose results may be written to storage of the caller, `out` is that storage.
        """
        return name in self.tensors or (name == "out" and self._is_out_passed) or self._absent(name)

    def bytes_of(self, *names: str) -> int:
        """Bytes of the named tensors together; an absent one is charged nothing, a repeated one each time.

        Raises:
          KeyError: the entry has no tensor of a name.
        """
        return sum(self.tensors[name].bytes for name in names if self.present(name))

    def _absent(self, name: str) -> bool:
        if self._names is not None and name not in self._names:
            raise KeyError(f"{self.op} has no tensor {name!r}; present in this call are {', '.join(self.tensors)}")
        return False

    def name_tensors(self, names: frozenset[str]) -> None:
        """Say which tensors the entry has, absent ones included."""
        self._names = names

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata tensors of the call, by reference; `values` reads them."""
        return self._metadata

    @property
    def stages(self) -> StageCalls:
        """Of a composite, the checked calls that its sub-ops completed, by stage, each stage's in order.

        Where an implementation that calls no sub-ops served the call, the first look completes them (composites.py).

        Raises:
          OpNotAvailableError: they cannot be completed; the message says why.
        """
        if self._stages is None:
            return StageCalls(self.op, ())
        if not isinstance(self._stages, StageCalls):
            self._stages = self._stages()
        return self._stages

    def set_stages(self, stages: StageCalls | Callable[[], StageCalls]) -> None:
        """Say which calls the stages made, or what finds that out when it is first asked for."""
        self._stages = stages

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Have `values` read these tensors instead of those that were bound."""
        self._metadata = metadata

    def note_versions(self) -> None:
        """Note the version of each metadata tensor, before anything runs: one written since has no values of this call."""
        if self._metadata:
            self._versions = {name: version(tensor) for name, tensor in self._metadata.items()}

    def set_served_by(self, implementation: str) -> None:
        """Notes which implementation served the call, for the op alone."""
        self._served_by = implementation

    def seal(self) -> None:
        """Completes the record: lets go of output storage, and of the device, on which no price may depend."""
        self._device = self._aliases = self._buffers = None

    @property
    def device(self) -> str:
        """Where the call runs. Raises OpNotAvailableError once it completed."""
        return self._device if self._device is not None else self._refuse("device")

    @device.setter
    def device(self, device: str) -> None:
        self._device = device

    @property
    def aliases(self) -> Mapping[str, Any]:
        """As of __init__. Raises OpNotAvailableError once the call completed."""
        return self._aliases if self._aliases is not None else self._refuse("aliases")

    @property
    def buffers(self) -> Mapping[str, Any]:
        """As of __init__. Raises OpNotAvailableError once the call completed."""
        return self._buffers if self._buffers is not None else self._refuse("buffers")

    def _refuse(self, name: str) -> NoReturn:
        raise OpNotAvailableError(
            f"{self.op}: a completed call tells no {name}: its price must not depend on where it ran or who served it"
        )

    def metadata_tensor(self, name: str) -> Any:
        """The metadata tensor `name` itself, where it holds what it held in the call. Raises as `values` does."""
        if name not in self._metadata:
            known = ", ".join(self._metadata) or "none"
            raise KeyError(f"{self.op}: {name!r} is no metadata tensor of this call; its metadata tensors: {known}")
        tensor = self._metadata[name]
        if isinstance(tensor, OnTheWay):
            return tensor.arrived()
        if isinstance(tensor, NoValues):
            raise OpNotAvailableError(f"{self.op}: the values of {name!r} decide the price, and {tensor.reason}")
        if tensor.device.type == "meta":
            raise OpNotAvailableError(
                f"{self.op}: the values of {name!r} decide the price, and this call bound it on meta, which holds none;"
                " pass it on the cpu with its values"
            )
        if name in self._versions and version(tensor) != self._versions[name]:
            raise OpNotAvailableError(
                f"{self.op}: {name!r} was written after the call was checked, so its values are no longer the call's;"
                " price a call before its inputs are written again"
            )
        return tensor

    def values(self, name: str) -> np.ndarray:
        """Contents of the metadata tensor `name`, read-only, copied from the device when asked for.

        A tensor on the CPU is not copied; dtypes that NumPy lacks (bfloat16, float8) come as float32.

        Raises:
          KeyError: `name` is no metadata tensor of this call.
          OpNotAvailableError: the tensor is on meta and has no values, or was written since the call.
        """
        tensor = self.metadata_tensor(name)
        found = tensor.detach().cpu()
        array = (found.float() if self.tensors[name].dtype.startswith(_NOT_IN_NUMPY) else found).numpy()
        array.flags.writeable = False
        return array


def version(tensor: Any) -> int:
    """Write counter of a tensor; 0 for inference tensors, which count none, and for what is no tensor."""
    return 0 if isinstance(tensor, (NoValues, OnTheWay)) or tensor.is_inference() else tensor._version
