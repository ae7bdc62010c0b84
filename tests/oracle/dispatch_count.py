"""Counts the FLOPs of a PyTorch computation by watching its ATen operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from tileops.tests.oracle.primitive_flops import flops_of


class _Counter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.flops += flops_of(func, args, kwargs or {}, result)
        return result


def count_flops(function: Callable[..., Any], *args: Any) -> int:
    """FLOPs of `function(*args)` by the table of primitive counts.

    Raises:
      UnknownOperation: an operation of it has no row in the table.
    """
    counter = _Counter()
    with counter:
        function(*args)
    return counter.flops
