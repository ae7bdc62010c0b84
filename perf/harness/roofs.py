"""Roofs that no GPU profile can rate: a record that names one cannot be read against any."""

from __future__ import annotations

from tileops.ops.roofs import ROOF_KEYS
from tileops.perf.harness import records
from tileops.proto import benchmark_pb2


def refuse_unknown(record: benchmark_pb2.BenchmarkRecord) -> None:
    """Make an error of a record whose roof key is none; an empty one stays: the op declares no roof."""
    if record.roof_key in ("", *ROOF_KEYS):
        return
    message = f"{record.op}: roof_key() gave {record.roof_key!r}, which is no roof; these are: {', '.join(ROOF_KEYS)}"
    record.roof_key = ""
    record.ClearField("timing")
    if record.status == benchmark_pb2.STATUS_OK:  # what failed has its reason already
        records.set_status(record, benchmark_pb2.STATUS_ERROR, message)
