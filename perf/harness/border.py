"""The border between the bench and untrusted code: what the bench takes from it, and what it keeps out of its reach.

Implementations are untrusted code. A tensor takes attributes like any Python object, and an attribute called `clone` or
`copy_` hides the method. So the bench lends and keeps aliases (RowInputs.lend, `taken`), calls methods of the class and
not of a tensor that an implementation had, and refuses a tensor with such an attribute.

The reference's results must survive calls of untrusted code. In a tensor of this process they would not be safe: a
kernel that writes past the end of its output can hit the tensor, and Python code can find it. So `Kept` stores tensors
in a sealed file in memory, with checksums. The file is not mapped while untrusted code runs, the system refuses every
write to a sealed file, and each reading is compared with the checksums taken when the tensors were made.
"""

from __future__ import annotations

import dataclasses
import fcntl
import math
import os
from collections.abc import Callable
from typing import Any

import torch

from tileops.ops.op import Op
from tileops.perf.harness.expected import WrongResultError, outputs_by_name
from tileops.perf.harness.inputs import Inputs


def taken(op: Op, returned: Any) -> tuple[torch.Tensor | None, ...]:
    """Returns aliases of a call's outputs, in the op's order; None for an output that the call does not have.

    Raises:
      WrongResultError: an output is no plain tensor, or has attributes that hide methods.
    """
    outputs = outputs_by_name(op, returned)
    for name, tensor in outputs.items():
        _check_plain(f"output {name!r}", tensor)
    return tuple(None if tensor is None else torch.Tensor.detach(tensor) for tensor in outputs.values())


def check_lent(lent: Inputs) -> None:
    """Raises WrongResultError if a tensor that a call was given is no longer plain, or hides its methods."""
    for name, tensor in lent.items():
        _check_plain(f"input {name!r}", tensor)


def copies(tensors: tuple[torch.Tensor | None, ...]) -> tuple[torch.Tensor | None, ...]:
    """Returns copies in storage of their own."""
    return tuple(None if tensor is None else torch.Tensor.clone(tensor) for tensor in tensors)


def _check_plain(what: str, tensor: torch.Tensor | None) -> None:
    if tensor is None:
        return
    if isinstance(tensor, torch.nn.Parameter):
        raise WrongResultError(
            f"{what} is a Parameter, which belongs to a module and asks for gradients; return a plain tensor, its"
            " detach()"
        )
    if type(tensor) is not torch.Tensor:
        raise WrongResultError(
            f"{what} is a {type(tensor).__name__}, which may compute its contents later; return a plain tensor"
        )
    # Other attributes hide nothing. PyTorch's compiler leaves some (torch._dynamo.mark_dynamic).
    if hiding := sorted(name for name in vars(tensor) if hasattr(torch.Tensor, name)):
        raise WrongResultError(f"{what} carries attributes that hide a tensor's own ({', '.join(hiding)}); remove them")


# ---- what is kept out of reach


_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
# Tensors begin at multiples of this, so that each can be viewed as any dtype. Bytes.
_ALIGNMENT = 64
# 8-byte words per step of a checksum, and so the number of weights. A count.
_WORDS = 1 << 18
_WORD = 2**64
_MULTIPLIER = 0x9E3779B97F4A7C15  # odd, with bits everywhere


class KeptError(Exception):
    """Kept tensors were changed; the message says how."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Part:
    """Where one tensor lies in the file, and what it was."""

    offset: int
    bytes: int
    dtype: torch.dtype
    shape: torch.Size
    device: torch.device
    checksum: int


class Kept:
    """A value whose tensors are in a sealed file; its other parts are kept as they are."""

    __slots__ = ("_file", "_identity", "_size", "_value")

    def __init__(self, value: Any) -> None:
        """Copies the tensors of `value`: a tensor, or dicts, tuples, lists and dataclasses that hold tensors."""
        self._size = 0
        tensors: list[tuple[_Part, torch.Tensor]] = []

        def place(tensor: torch.Tensor) -> _Part:
            part = _Part(
                offset=self._size,
                bytes=tensor.nbytes,
                dtype=tensor.dtype,
                shape=tensor.shape,
                device=tensor.device,
                checksum=checksum(tensor),
            )
            self._size += math.ceil(tensor.nbytes / _ALIGNMENT) * _ALIGNMENT
            tensors.append((part, tensor))
            return part

        self._value = _replaced(value, torch.Tensor, place)
        self._size += _ALIGNMENT  # an empty file cannot be mapped
        # Open as long as the value lives.
        self._file = open(  # noqa: SIM115
            os.memfd_create("tileops-kept", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "rb"
        )
        os.ftruncate(self._file.fileno(), self._size)
        mapped = self._mapped(shared=True)
        for part, tensor in tensors:
            mapped[part.offset : part.offset + part.bytes].copy_(_bytes(tensor))
        del mapped  # a file that is mapped for writing cannot be sealed
        fcntl.fcntl(self._file, fcntl.F_ADD_SEALS, _SEALS)
        self._identity = self._identify()

    def get(self) -> Any:
        """Returns the value, with its tensors read from the file to the devices that they came from.

        Raises:
          KeptError: the file was replaced, or a tensor in it changed.
        """
        self.check()
        mapped = self._mapped(shared=False)  # copy on write

        def read(part: _Part) -> torch.Tensor:
            tensor = mapped[part.offset : part.offset + part.bytes].view(part.dtype).view(part.shape).to(part.device)
            if checksum(tensor) != part.checksum:
                raise KeptError("a tensor has another checksum than when it was made")
            return tensor

        return _replaced(self._value, _Part, read)

    def check(self) -> None:
        """Raises KeptError if the file was replaced or is not sealed. Takes microseconds: it reads no tensor."""
        if self._identify() != self._identity:
            raise KeptError("the file of the kept tensors was replaced")

    def _identify(self) -> tuple[int, ...]:
        try:
            found = os.fstat(self._file.fileno())
            return found.st_dev, found.st_ino, found.st_size, fcntl.fcntl(self._file, fcntl.F_GET_SEALS)
        except (OSError, ValueError):  # closed, or a file of another kind
            return ()

    def _mapped(self, shared: bool) -> torch.Tensor:
        """Returns the file's contents [uint8]."""
        path = f"/proc/self/fd/{self._file.fileno()}"
        return torch.from_file(path, shared=shared, size=self._size, dtype=torch.uint8)


def checksum(tensor: torch.Tensor) -> int:
    """Returns a 64-bit checksum of a tensor's bytes in row-major order, the same on every device.

    Each word and its upper half are multiplied by a weight of their position. The checksum finds accidents and careless
    writes; code that knows the weights can evade it.
    """
    data = _bytes(tensor)
    whole = data.numel() // 8 * 8
    words, total = data[:whole].view(torch.int64), data.numel()
    weights = _weights(min(_WORDS, words.numel()), data.device)
    for start in range(0, words.numel(), _WORDS):
        part = words[start : start + _WORDS]
        factors = weights[: part.numel()]
        # The upper half by itself: in a product with a word, two changes of the highest bit would cancel.
        for term in (part, part >> 32):
            total = (total * _MULTIPLIER + int((term * factors).sum())) % _WORD
    return (total * _MULTIPLIER + int.from_bytes(bytes(data[whole:].tolist()), "little")) % _WORD


def _weights(count: int, device: torch.device) -> torch.Tensor:
    """Returns odd numbers without a pattern [count, int64], so that changes with a pattern do not cancel."""
    found = torch.arange(1, count + 1, device=device)
    for _ in range(2):
        found = found * (_MULTIPLIER - _WORD)
        found = found ^ (found >> 29)
    return found | 1


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor's bytes in row-major order [uint8], where a view as 8-byte words can begin."""
    flat = tensor.detach().reshape(-1)
    if flat.stride(0) != 1 or flat.data_ptr() % 8:
        flat = torch.empty(flat.shape, dtype=flat.dtype, device=flat.device).copy_(flat)
    return flat.view(torch.uint8)


def _replaced(value: Any, leaf: type, change: Callable[[Any], Any]) -> Any:
    """Returns `value` with each instance of `leaf` in it changed."""
    if isinstance(value, leaf):
        return change(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **{name: _replaced(one, leaf, change) for name, one in fields.items()})
    if isinstance(value, dict):
        return {name: _replaced(one, leaf, change) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_replaced(one, leaf, change) for one in value)
    return value
