"""Stages of a composite: which sub-op calls complete while it runs, by the names of its entry's `composition`."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tileops.ops.errors import OpCallError

if TYPE_CHECKING:
    from tileops.ops.checked_call import CheckedCall


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of a composition, run by the op of entry `op` or by a kernel; an optional one may be left out."""

    name: str
    op: str = ""
    kernel: str = ""
    optional: bool = False


class StageCalls(dict):
    """Checked calls by stage, each stage's in the order in which they completed; empty for one that was left out.

    Holds the stages that an op runs. Asking for another name is a KeyError that says what there is.
    """

    def __init__(self, op: str, stages: Sequence[Stage]) -> None:
        """No calls yet, of the composite `op`."""
        super().__init__({stage.name: [] for stage in stages if stage.op})
        self._op = op
        self._kernels = {stage.name: stage.kernel for stage in stages if stage.kernel}

    def __missing__(self, name: str) -> list[CheckedCall]:
        if name in self._kernels:
            raise KeyError(
                f"{self._op}: stage {name!r} is run by the kernel {self._kernels[name]!r}; only ops make checked calls"
            )
        raise KeyError(f"{self._op} has no stage {name!r}; stages that an op runs: {', '.join(self) or 'none'}")


class Recording:
    """The sub-op calls that complete during one call of a composite."""

    def __init__(self, op: str, stages: Sequence[Stage]) -> None:
        """Of one call of the composite `op`."""
        self.op = op
        self.calls = StageCalls(op, stages)
        self._entries = {stage.name: stage.op for stage in stages if stage.op}

    def missing(self, optional: Sequence[str] = ()) -> list[str]:
        """Stages that an op runs of which no call has completed, those named in `optional` left out."""
        return [name for name, calls in self.calls.items() if not calls and name not in optional]

    def add(self, call: CheckedCall, name: str) -> None:
        """Note that a sub-op's call completed, in the stage `name`, or in the one stage of its op where that is "".

        Raises:
          OpCallError: the composition has no such stage, or several of that op and none is named.
        """
        if not name:
            found = [stage for stage, op in self._entries.items() if op == call.op]
            if len(found) != 1:
                there = f"its stages {' and '.join(found)} are" if found else f"none of its stages ({self._shown()}) is"
                mend = " name the one meant with `with stage(name):`" if found else " add one to `composition`"
                raise OpCallError(f"{self.op}: a sub-op {call.op} was called, but {there} of that op;{mend}")
            (name,) = found
        elif self._entries.get(name) != call.op:
            raise OpCallError(
                f"{self.op}: {call.op} was called as stage {name!r}, but the composition's stages are {self._shown()}"
            )
        self.calls[name].append(call)

    def _shown(self) -> str:
        return ", ".join(f"{name} ({op})" for name, op in self._entries.items()) or "none"


@dataclasses.dataclass(frozen=True)
class Place:
    """Where in a composite's call the running code is.

    Attributes:
      recording: of the composite.
      trace: what follows its reference on shapes alone; None while it runs.
      name: the stage that was named; "" where none is.
    """

    recording: Recording
    trace: Any = None
    name: str = ""


_PLACE: contextvars.ContextVar[Place | None] = contextvars.ContextVar("tileops_stage", default=None)

place = _PLACE.get  # of the running code; None outside of composites


@contextlib.contextmanager
def within(new: Place | None) -> Iterator[None]:
    """Inside, sub-op calls that complete belong to `new`; to nobody for None, as what an op calls inside is its own."""
    token = _PLACE.set(new)
    try:
        yield
    finally:
        _PLACE.reset(token)


@contextlib.contextmanager
def stage(name: str) -> Iterator[None]:
    """Inside, sub-op calls belong to the stage `name` of the composite that is running; needed where two share an op.

    Outside of a composite's call it changes nothing: implementations may be called past the checks.
    """
    here = _PLACE.get()
    with within(here and dataclasses.replace(here, name=name)):
        yield
