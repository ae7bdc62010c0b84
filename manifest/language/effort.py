"""Bounded effort: checking an entry takes at most a fixed number of steps, so that no document makes it hang.

All code that walks, folds or evaluates expressions, makes points or fills tensors spends steps of about a microsecond.
An ordinary entry spends some thousands.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

MAX_STEPS = 400_000
# Steps for each later entry of a file in which one entry exhausted its effort: enough for an ordinary entry.
LEAST_STEPS = 20_000


class ExhaustedError(Exception):
    """The work takes more steps than its limit, which the message states."""


class Effort:
    """Counts the steps of a piece of work."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._left = limit

    def spend(self, steps: int = 1) -> None:
        """Counts steps. Raises ExhaustedError if none are left, and at every later call."""
        self._left -= steps
        if self._left < 0:
            raise ExhaustedError(f"takes more than {self.limit} steps to check; make it smaller or split it")

    def allow(self, steps: int) -> None:
        """Adds steps to those left, for work that has a bound of its own."""
        self._left += steps

    @property
    def spent(self) -> int:
        """Returns the steps counted so far, less those that `allow` added."""
        return self.limit - self._left

    @property
    def exhausted(self) -> bool:
        """Returns whether more steps were counted than the limit allows."""
        return self._left < 0


class _Unbounded(Effort):
    """Counts nothing: the effort in force outside every bound."""

    def __init__(self) -> None:
        super().__init__(0)

    def spend(self, steps: int = 1) -> None:
        """Counts nothing."""


_CURRENT: contextvars.ContextVar[Effort] = contextvars.ContextVar("effort", default=_Unbounded())  # noqa: B039 - counts nothing


def current() -> Effort:
    """Returns the effort in force, for loops that spend often."""
    return _CURRENT.get()


def spend(steps: int = 1) -> None:
    """Counts steps of the effort in force. Raises ExhaustedError."""
    _CURRENT.get().spend(steps)


@contextlib.contextmanager
def bounded(limit: int = MAX_STEPS) -> Iterator[Effort]:
    """Bounds all work inside to `limit` steps. Inside another bound, the outer bound stays in force."""
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
    """The effort of the entries of one file: the full effort for each, until one entry exhausts its own."""

    def __init__(self) -> None:
        self._limit = MAX_STEPS

    @contextlib.contextmanager
    def entry(self) -> Iterator[Effort]:
        """Bounds the checking of one entry of the file."""
        with bounded(self._limit) as made:
            yield made
        if made.exhausted:
            self._limit = LEAST_STEPS
