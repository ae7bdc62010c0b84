"""Implementations of an op: functions `(op, call, *inputs) -> output or tuple of outputs`, by name, in order."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from tileops.ops.checked_call import CheckedCall

When = Callable[[CheckedCall], bool]
_MARK = "_tileops_implementation"
# A name stands in comma-separated flags, in CSV and in JUnit's property names.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
# What flags that take a name understand otherwise.
_RESERVED = frozenset({"all", "best"})


@dataclasses.dataclass(frozen=True)
class Implementation:
    """One way to compute an op; `when` says which checked calls it serves, None serves all.

    Raises:
      ValueError: a flag or a record cannot have the name.
    """

    name: str
    function: Callable[..., Any]
    when: When | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ValueError(
                f"{self.name!r} cannot name an implementation: a name has letters, digits, '_', and after the first"
                " character '.', '-' and '+'; choose another name"
            )
        if self.name in _RESERVED:
            raise ValueError(
                f"{self.name!r} cannot name an implementation: --implementation={self.name} has another meaning; choose"
                " another name"
            )

    def serves(self, call: CheckedCall) -> bool:
        """Whether this implementation can run `call`, judged before it runs."""
        return self.when is None or bool(self.when(call))


def implementation(name: str, when: When | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a method of an op class as the implementation `name`; the first marked is the reference."""

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        setattr(function, _MARK, Implementation(name, function, when))
        return function

    return mark


def marked(namespace: Mapping[str, Any]) -> list[Implementation]:
    """Implementations marked in a class body, in the order they stand there."""
    return [getattr(value, _MARK) for value in namespace.values() if hasattr(value, _MARK)]


def on_cuda(call: CheckedCall) -> bool:
    """A `when`: the call's tensors are on an NVIDIA (or ROCm) GPU."""
    return call.device.startswith("cuda")
