"""Cases: the calls that an entry's workload rows describe, as plain data."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from tileops.manifest.language.dtypes import BITS


@dataclasses.dataclass(frozen=True, kw_only=True)
class CaseTensor:
    """A tensor of a case with its shape. `values` is (generator, arguments) of a metadata tensor, as plain data."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: tuple[str, tuple[Any, ...]] | None

    @property
    def bytes(self) -> int:
        """Returns the size in bytes."""
        return math.prod(self.shape) * BITS[self.dtype] // 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One call that a row describes.

    Attributes:
      written_params, written_indices: what the row writes.
      values: every parameter, index and let by name.
      present: presence of every tensor and Maybe.
      constants, inputs, outputs: the tensors, absent ones left out.
    """

    case_id: str
    label: str
    line: int
    written_params: dict[str, Any]
    written_indices: dict[str, Any]
    dtypes: dict[str, str]
    values: dict[str, Any]
    present: dict[str, bool]
    constants: tuple[CaseTensor, ...]
    inputs: tuple[CaseTensor, ...]
    outputs: tuple[CaseTensor, ...]
