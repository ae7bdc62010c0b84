"""Workload cases in generated modules: the build has computed every shape, dtype and generator argument."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Generated:
    """How a metadata tensor is filled: generator `name` called with `args`; seeded ones draw a stream of their own.

    An argument is an integer, a tuple of integers, a word, or a mapping: an algebraic value with its `kind` and fields.
    """

    name: str
    args: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class TensorCase:
    """One input tensor of a case. `values` is None for data, which is filled at random."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: Generated | None = None


@dataclasses.dataclass(frozen=True)
class WorkloadCase:
    """One workload row with one dtype assignment.

    Attributes:
      case_id: label, dtypes that the case writes in `forall` order, dtype parameters that are not None, joined with "-";
        distinct within an entry.
      label: the row's label.
      params: construction parameters that the row writes; the rest take their defaults.
      indices: the indices that the row writes.
      dtypes: the dtype indices of this case.
      tensors: the input tensors that the case passes, in signature order; those left out are absent.
      input_bytes, output_bytes: sizes of what the case binds and returns, to judge what a machine can hold.
      branches: the branches of the entry's price that the case takes, as positions in the op's BRANCHES.
    """

    case_id: str
    label: str
    _: dataclasses.KW_ONLY
    params: dict[str, Any] = dataclasses.field(default_factory=dict)
    indices: dict[str, Any] = dataclasses.field(default_factory=dict)
    dtypes: dict[str, str] = dataclasses.field(default_factory=dict)
    tensors: tuple[TensorCase, ...] = ()
    input_bytes: int
    output_bytes: int
    branches: tuple[int, ...] = ()
