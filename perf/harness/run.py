"""The run itself: every selected row through a child process into the run file, whatever becomes of the child."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence

from tileops.ops.cases import WorkloadCase
from tileops.ops.op import Op
from tileops.perf.harness import pool as bench_pool
from tileops.perf.harness import queue as bench_queue
from tileops.perf.harness import records, roofs
from tileops.perf.harness import worker as bench_worker
from tileops.proto import benchmark_pb2

Record = benchmark_pb2.BenchmarkRecord
# Op, case and implementation: what identifies a record within a run.
Key = tuple[str, str, str]
# What the record of an implementation says that was named and does not serve the row.
DOES_NOT_SERVE = "does not serve this row"
# Outcomes that speak of a defect or an accident.
FAILED = frozenset({benchmark_pb2.STATUS_ERROR, benchmark_pb2.STATUS_TIMEOUT})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unit:
    """One implementation on one row.

    Attributes:
      op_class, case: the row.
      implementation: "" where the op has none.
      price: the row's record as priced on `meta`.
      skip: why it is not run; None where it is.
      is_named: whether the user asked for this implementation by name, and so hears where it does not serve a row.
    """

    op_class: type[Op]
    case: WorkloadCase
    implementation: str
    price: Record
    skip: str | None = None
    is_named: bool = False

    @property
    def key(self) -> Key:
        """What identifies its record within a run."""
        return self.op_class.ENTRY, self.case.case_id, self.implementation


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Worker:
    """A device and the children that work on it, one at a time.

    Attributes:
      device: "cuda:N" or "cpu".
      index: its ordinal within the run, from 0.
      pool: its children.
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
    """Run units, each on the first worker that is free: in order where there is one worker.

    Args:
      units: what to run; those of one op together share a child.
      workers: where. Each works for itself; all take from one queue.
      timeout_s: for each unit, from asking to its record. Seconds.
      begin: called with each unit that is handed to a worker.

    Yields:
      Each unit as it ends, with its record; None where its implementation does not serve the row and nobody named it.

    Raises:
      RunEndedError: what is left cannot be run, since files that ops come from were changed meanwhile.
    """
    queue = bench_queue.Queue(units)
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


def _failed(unit: Unit, worker: Worker, status: int, message: str) -> Record:
    record = records.new_record(unit.op_class, unit.case, unit.implementation)
    records.copy_price(unit.price, record)
    records.set_status(record, status, message)
    record.device_index = worker.index
    return record


def _outcome(unit: Unit, worker: Worker) -> Record | None:
    """The record of a unit whose worker has an answer, has died or is out of time."""
    try:
        payload = worker.pool.answer()
    except bench_pool.ChildTimeoutError as error:
        return _failed(unit, worker, benchmark_pb2.STATUS_TIMEOUT, str(error))
    except (bench_pool.ChildDiedError, bench_pool.TaskError) as error:
        return _failed(unit, worker, benchmark_pb2.STATUS_ERROR, str(error))
    if payload is None:
        return _failed(unit, worker, benchmark_pb2.STATUS_SKIPPED, DOES_NOT_SERVE) if unit.is_named else None
    record = Record.FromString(payload)
    records.refuse_impossible_time(record)
    if record.status != benchmark_pb2.STATUS_OK and not record.flops and not record.bytes:
        records.copy_price(unit.price, record)  # it failed before its first call could be priced
    roofs.refuse_unknown(record)
    return record
