"""Which lines a row's flush leaves in the cache: written and read ones in the shares of the op's own call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tileops.ops.op import Op
from tileops.perf.clock.measurement import Flush
from tileops.proto import benchmark_pb2


def of_row(op: Op, record: benchmark_pb2.BenchmarkRecord, written: Iterable[str]) -> dict[str, Any]:
    """`flush` and `written_share` for clock.measure.

    Args:
      op: has completed the row's call.
      record: holds that call's price.
      written: inputs that the call wrote.

    Returns:
      The matched flush with the share of lines that the call writes, of those that it touches; a dirty one, which never
      flatters, for an op that does not say how much of its bytes it reads.
    """
    if not record.HasField("read_bytes") or not record.bytes:
        return {"flush": Flush.DIRTY}
    touched, stored = touched_bytes(op, record, written), record.bytes - record.read_bytes
    return {"flush": Flush.MATCHED, "written_share": stored / touched if stored < touched else 1.0}


def touched_bytes(op: Op, record: benchmark_pb2.BenchmarkRecord, written: Iterable[str]) -> int:
    """What the call brings into the cache: what it reads and then writes in place is charged twice, and lies there once."""
    return max(record.bytes - op.last_call.bytes_of(*written), 0)
