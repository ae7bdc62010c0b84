"""Runs units: each runs in a child process and gets a record, whatever happens to the child.

All workers take units from one queue. The queue hands out whole rows, since the implementations of a row share its
inputs and the reference's results. A worker stays with the op that its child has loaded and compiled. Then it takes an
op that no worker has begun. At last it helps with the op that has the most rows left.
"""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from tileops.perf.harness import pool as bench_pool
from tileops.perf.harness import records
from tileops.perf.harness import worker as bench_worker
from tileops.perf.harness.plan import Unit
from tileops.proto import benchmark_pb2

Record = benchmark_pb2.BenchmarkRecord


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Worker:
    """A device and its child processes, one at a time.

    Attributes:
      device: "cuda:N" or "cpu".
      index: position within the run, from 0.
      pool: its child processes.
    """

    device: str
    index: int
    pool: bench_pool.Pool


def run(
    units: Sequence[Unit],
    workers: Sequence[Worker],
    timeout_s: float,
    begin: Callable[[Unit], None] = lambda unit: None,
) -> Iterator[tuple[Unit, Record | None]]:
    """Runs units, each on the first free worker. One worker runs them in order.

    Args:
      units: what to run; units of one op that follow each other share a child.
      workers: the devices.
      timeout_s: time limit per unit. Seconds.
      begin: called with each unit when a worker starts it.

    Yields:
      Each unit as it ends, with its record; None if its implementation does not serve the row and the user did not name
      it.

    Raises:
      RunEndedError: the other units cannot run, since files that ops come from changed.
    """
    queue = Queue(units)
    busy: dict[bench_pool.Pool, tuple[Worker, Unit, float]] = {}
    while True:
        for worker in workers:
            while worker.pool not in busy and (taken := queue.take(worker)) is not None:
                unit, is_other_op = taken
                if unit.skip is not None:
                    yield unit, _failed(unit, worker, benchmark_pb2.STATUS_SKIPPED, unit.skip)
                    continue
                if is_other_op:
                    worker.pool.replace()
                begin(unit)
                try:
                    worker.pool.begin(_task(unit, worker), timeout_s)
                except bench_pool.ChildDiedError as error:
                    yield unit, _failed(unit, worker, benchmark_pb2.STATUS_ERROR, str(error))
                    continue
                busy[worker.pool] = worker, unit, time.monotonic()
        if not busy:
            return
        for pool in bench_pool.wait(list(busy)):
            worker, unit, began = busy.pop(pool)
            record = _outcome(unit, worker)
            if record is not None:
                record.device_index = worker.index
                record.harness_s = time.monotonic() - began
            yield unit, record


def _task(unit: Unit, worker: Worker) -> bench_worker.RunRow:
    return bench_worker.RunRow(
        op=unit.op_class.ENTRY, case_id=unit.case.case_id, implementation=unit.implementation, device=worker.device
    )


def _failed(unit: Unit, worker: Worker, status: benchmark_pb2.Status, message: str) -> Record:
    record = records.new_record(unit.op_class, unit.case, unit.implementation)
    records.copy_price(unit.price, record)
    records.set_status(record, status, message)
    record.device_index = worker.index
    return record


def _outcome(unit: Unit, worker: Worker) -> Record | None:
    """Returns the record of a unit whose child has answered, died or run out of time."""
    try:
        payload = worker.pool.answer()
    except bench_pool.ChildTimeoutError as error:
        return _failed(unit, worker, benchmark_pb2.STATUS_TIMEOUT, str(error))
    except (bench_pool.ChildDiedError, bench_pool.TaskError) as error:
        return _failed(unit, worker, benchmark_pb2.STATUS_ERROR, str(error))
    if payload is None:
        return _failed(unit, worker, benchmark_pb2.STATUS_SKIPPED, records.DOES_NOT_SERVE) if unit.is_named else None
    record = Record.FromString(payload)
    records.refuse_impossible_time(record)
    if record.status != benchmark_pb2.STATUS_OK and not record.flops and not record.bytes:
        records.copy_price(unit.price, record)  # it failed before its first call had a price
    records.refuse_unknown_roof(record)
    return record


# ---- the queue


class Queue:
    """Units by op and row, in the given order."""

    def __init__(self, units: Iterable[Unit]) -> None:
        """Groups the units."""
        rows: dict[str, dict[str, collections.deque[Unit]]] = {}
        for unit in units:
            op, case_id, _ = unit.key
            rows.setdefault(op, {}).setdefault(case_id, collections.deque()).append(unit)
        self._left = {op: collections.deque(of_op.values()) for op, of_op in rows.items()}
        self._begun: set[str] = set()
        self._op_of: dict[Hashable, str] = {}
        self._row_of: dict[Hashable, collections.deque[Unit]] = {}

    def take(self, worker: Hashable) -> tuple[Unit, bool] | None:
        """Returns the worker's next unit, and whether its op differs from the last unit's; None if nothing is left."""
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
        begun = self._op_of.get(worker)
        if begun is not None and self._left.get(begun):
            return begun
        fresh = next((op for op in self._left if op not in self._begun), None)
        op = fresh or max(self._left, key=lambda op: len(self._left[op]), default="")
        return op if self._left.get(op) else None
