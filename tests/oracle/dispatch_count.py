"""Counts the FLOPs of a PyTorch computation by watching its ATen operations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from tileops.tests.oracle.primitive_flops import FUNCTIONS, flops_of, flops_of_function


@dataclasses.dataclass
class Tally:
    """What has been counted.

    Attributes:
      flops: in all.
      operations: what was called, in order: ATen names, and rows of functions that are counted as a whole.
    """

    flops: int = 0
    operations: list[str] = dataclasses.field(default_factory=list)


class _Operations(TorchDispatchMode):
    def __init__(self, tally: Tally) -> None:
        super().__init__()
        self._tally = tally

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._tally.flops += flops_of(func, args, kwargs or {}, result)
        self._tally.operations.append(func._schema.name.partition("::")[2])
        return result


class _Functions(TorchFunctionMode):
    """Counts functions that PyTorch takes apart as the whole that they are, and leaves the rest to the operations."""

    def __init__(self, tally: Tally) -> None:
        super().__init__()
        self._tally = tally

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func not in FUNCTIONS:
            return func(*args, **(kwargs or {}))
        with _disable_current_modes():  # what it is made of is no part of the count
            result = func(*args, **(kwargs or {}))
        self._tally.flops += flops_of_function(func, args, result)
        self._tally.operations.append(FUNCTIONS[func])
        return result


def tally(function: Callable[..., Any], *args: Any) -> Tally:
    """The FLOPs of `function(*args)` by the table of primitive counts, and what it called.

    Raises:
      UnknownOperation: an operation of it has no row in the table.
    """
    found = Tally()
    with _Operations(found), _Functions(found):
        function(*args)
    return found


def count_flops(function: Callable[..., Any], *args: Any) -> int:
    """The FLOPs alone; raises as `tally` does."""
    return tally(function, *args).flops
