"""Bounded effort: judging one entry takes at most so many steps, so that no document, however small, makes it hang.

Whatever walks expressions, folds them, evaluates them, makes points or fills tensors spends steps, each of them about a
microsecond of work. An ordinary entry spends some thousands.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

MAX_STEPS = 400_000
# What an entry may still take in a file whose effort another entry has used up: enough for an ordinary one.
LEAST_STEPS = 20_000


class ExhaustedError(Exception):
    """The work in hand takes more steps than it may; the message says how many that is."""


class Effort:
    """Steps that are left to a piece of work."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._left = limit

    def spend(self, steps: int = 1) -> None:
        """Count steps. Raises ExhaustedError where no more are left, from then on each time."""
        self._left -= steps
        if self._left < 0:
            raise ExhaustedError(
                f"takes more than {self.limit} steps to judge; no op needs it: make it smaller or split it"
            )

    def allow(self, steps: int) -> None:
        """Add to what is left: for work whose amount something else bounds."""
        self._left += steps

    @property
    def spent(self) -> int:
        """Steps counted so far, less what was allowed beyond the limit."""
        return self.limit - self._left

    @property
    def exhausted(self) -> bool:
        """Whether more was spent than there was."""
        return self._left < 0


class _Unbounded(Effort):
    """Outside every bound nothing is counted."""

    def __init__(self) -> None:
        super().__init__(0)

    def spend(self, steps: int = 1) -> None:
        """Count nothing."""


_CURRENT: contextvars.ContextVar[Effort] = contextvars.ContextVar("effort", default=_Unbounded())  # noqa: B039 - counts nothing


def current() -> Effort:
    """The effort in force: for loops that spend often."""
    return _CURRENT.get()


def spend(steps: int = 1) -> None:
    """Count steps of the effort in force. Raises ExhaustedError."""
    _CURRENT.get().spend(steps)


@contextlib.contextmanager
def bounded(limit: int = MAX_STEPS) -> Iterator[Effort]:
    """What runs inside takes at most `limit` steps together; inside another bound, that one stays in force."""
    outer = _CURRENT.get()
    if not isinstance(outer, _Unbounded):
        yield outer
        return
    made = Effort(limit)
    token = _CURRENT.set(made)
    try:
        yield made
    finally:
        _CURRENT.reset(token)


class FileEffort:
    """What the entries of one file may take: the full effort each, until one has used its own up."""

    def __init__(self) -> None:
        self._limit = MAX_STEPS

    @contextlib.contextmanager
    def entry(self) -> Iterator[Effort]:
        """Bound the judging of one entry of the file."""
        with bounded(self._limit) as made:
            yield made
        if made.exhausted:
            self._limit = LEAST_STEPS
