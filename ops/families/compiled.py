"""Implementations by torch.compile: a plain function, compiled when a call of a new kind first needs it."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch


class Compiled:
    """`function` compiled for static shapes, one compilation a kind of call, kept for the life of the process.

    TorchDynamo counts recompilations per code object and, past its limit, runs the function uncompiled. Each kind of
    call therefore gets a copy of the code of its own: every row of a benchmark is compiled, however many there are.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """`function`: tensors and settings in, tensors out; traced without graph breaks."""
        self._function = function
        self._compiled: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *args: Any) -> Any:
        """Run the function compiled for the shapes, strides, dtypes and settings of `args`."""
        kind = tuple(_kind(arg) for arg in args)
        compiled = self._compiled.get(kind)
        if compiled is None:
            function = self._function
            own = types.FunctionType(function.__code__.replace(), function.__globals__, function.__name__)
            compiled = self._compiled[kind] = torch.compile(own, dynamic=False, fullgraph=True)
        return compiled(*args)


def _kind(arg: Any) -> Any:
    """What of an argument a compilation depends on."""
    if isinstance(arg, torch.Tensor):
        return tuple(arg.shape), arg.stride(), arg.dtype, arg.device
    return arg
