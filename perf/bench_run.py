"""The run itself: every selected row through a child process into the run file, whatever becomes of the child."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from tileops.ops.cases import WorkloadCase
from tileops.ops.op import Op
from tileops.perf import bench_pool, bench_records, bench_worker
from tileops.proto import benchmark_pb2

Record = benchmark_pb2.BenchmarkRecord
# Op, case and implementation: what identifies a record within a run.
Key = tuple[str, str, str]
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


def run(
    units: Sequence[Unit], pool: bench_pool.Pool, device: str, timeout_s: float
) -> Iterator[tuple[Unit, Record | None]]:
    """Run units in order.

    Args:
      units: what to run; those of one op together share a child.
      pool: where.
      device: "cuda:N" or "cpu".
      timeout_s: for each unit, from asking to its record. Seconds.

    Yields:
      Each unit with its record; None where its implementation does not serve the row and nobody named it.
    """
    op = None
    for unit in units:
        if unit.skip is None and op is not unit.op_class:
            pool.replace()
            op = unit.op_class
        yield unit, _outcome(unit, pool, device, timeout_s)


def summary(records: Sequence[Record]) -> list[str]:
    """What a person wants to know of a run at its end: why rows were skipped, by reason, and what failed."""
    lines = []
    skipped: dict[tuple[str, str], list[tuple[Record, str]]] = {}
    for record in records:
        if record.status == benchmark_pb2.STATUS_SKIPPED:
            reason, _, detail = record.message.partition(": ")
            amount, _, rule = detail.rpartition("; ")
            skipped.setdefault((reason, rule), []).append((record, f" ({amount})" if amount else ""))
    for (reason, rule), found in skipped.items():
        lines.append(f"skipped {len(found)}, {reason}: {rule}".rstrip())
        ops: dict[str, dict[str, None]] = {}
        for record, amount in found:
            ops.setdefault(record.op, {})[record.case_id + amount] = None
        lines.extend(f"  {op}: {', '.join(cases)}" for op, cases in ops.items())
    for record in records:
        if record.status in FAILED:
            what = benchmark_pb2.Status.Name(record.status).removeprefix("STATUS_").lower()
            who = f" {record.implementation}" if record.implementation else ""
            lines.append(f"{what}: {record.op} {record.case_id}{who}: {record.message}")
    return lines


def _outcome(unit: Unit, pool: bench_pool.Pool, device: str, timeout_s: float) -> Record | None:
    def failed(status: int, message: str) -> Record:
        record = bench_records.new_record(unit.op_class, unit.case, unit.implementation)
        bench_records.copy_price(unit.price, record)
        bench_records.set_status(record, status, message)
        return record

    if unit.skip is not None:
        return failed(benchmark_pb2.STATUS_SKIPPED, unit.skip)
    task = bench_worker.RunRow(
        op=unit.op_class.ENTRY, case_id=unit.case.case_id, implementation=unit.implementation, device=device
    )
    try:
        payload = pool.ask(task, timeout_s)
    except bench_pool.ChildTimeoutError as error:
        return failed(benchmark_pb2.STATUS_TIMEOUT, str(error))
    except (bench_pool.ChildDiedError, bench_pool.TaskError) as error:
        return failed(benchmark_pb2.STATUS_ERROR, str(error))
    if payload is None:
        return failed(benchmark_pb2.STATUS_SKIPPED, "does not serve this row") if unit.is_named else None
    record = Record.FromString(payload)
    if record.status != benchmark_pb2.STATUS_OK and not record.flops and not record.bytes:
        bench_records.copy_price(unit.price, record)  # it failed before its first call could be priced
    return record
