"""Which unit a free worker runs next: one queue for all, in which a worker stays with its op while it can.

Rows are handed out whole, since the implementations of a row share its inputs and what the reference makes of them. A
worker goes on with the op that its child has loaded and compiled, then takes an op that nobody has begun, and at last
helps where most rows are left.
"""

from __future__ import annotations

import collections
from collections.abc import Hashable, Iterable
from typing import Generic, Protocol, TypeVar


class Unit(Protocol):
    """One implementation on one row."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Op, case and implementation."""


AnyUnit = TypeVar("AnyUnit", bound=Unit)


class Queue(Generic[AnyUnit]):
    """Units by op and row, in the given order."""

    def __init__(self, units: Iterable[AnyUnit]) -> None:
        """Group the units."""
        rows: dict[str, dict[str, collections.deque[AnyUnit]]] = {}
        for unit in units:
            op, case_id, _ = unit.key
            rows.setdefault(op, {}).setdefault(case_id, collections.deque()).append(unit)
        self._left = {op: collections.deque(of_op.values()) for op, of_op in rows.items()}
        self._begun: set[str] = set()
        self._op_of: dict[Hashable, str] = {}
        self._row_of: dict[Hashable, collections.deque[AnyUnit]] = {}

    def take(self, worker: Hashable) -> tuple[AnyUnit, bool] | None:
        """The worker's next unit and whether it is of another op than its last one; None where nothing is left."""
        is_other_op = False
        if not self._row_of.get(worker):
            op = self._next_op(worker)
            if op is None:
                return None
            is_other_op = op != self._op_of.get(worker)
            self._op_of[worker] = op
            self._begun.add(op)
            self._row_of[worker] = self._left[op].popleft()
        return self._row_of[worker].popleft(), is_other_op

    def _next_op(self, worker: Hashable) -> str | None:
        if self._left.get(self._op_of.get(worker)):
            return self._op_of[worker]
        fresh = next((op for op in self._left if op not in self._begun), None)
        if fresh is not None:
            return fresh
        op = max(self._left, key=lambda op: len(self._left[op]), default=None)
        return op if op is not None and self._left[op] else None
