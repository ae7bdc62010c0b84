"""The time that a benchmark record measured, or why it measured none."""

import math

from tileops.proto import benchmark_pb2

_NANOSECONDS_PER_SECOND = 1e9

# No clock resolves this; rates of less time would leave the range of floats.
_LEAST_TIME_NS = 1e-12

# Outcomes whose time is the time of the row's work. One that this program does not
# know, of a newer schema, may be another way to fail.
SUCCESSFUL_STATUSES = frozenset(
    (benchmark_pb2.STATUS_UNSPECIFIED, benchmark_pb2.STATUS_OK)
)


def actual_time(record: benchmark_pb2.BenchmarkRecord) -> float | None:
    """Returns the measured time of the record's work, by whatever clock.

    Returns:
      Seconds; None where the row did not succeed or its result was found wrong, or
      where it has no usable time: none at all, or one of which a part is negative or
      no number.
    """
    timing = record.timing
    if record.status not in SUCCESSFUL_STATUSES or not timing.HasField("device_busy_ns"):
        return None
    if _is_wrong(record):
        return None
    busy_ns, copy_ns = timing.device_busy_ns, timing.excluded_copy_ns
    total_ns = busy_ns + copy_ns
    if busy_ns < 0 or copy_ns < 0 or not _LEAST_TIME_NS <= total_ns < math.inf:
        return None
    return total_ns / _NANOSECONDS_PER_SECOND


def defect(record: benchmark_pb2.BenchmarkRecord) -> str:
    """Returns why a record without an actual time has none, where it does not say so itself.

    Returns:
      A sentence; "" where the record has a message, or no time was taken.
    """
    timing = record.timing
    if record.message:
        return ""
    if record.status not in benchmark_pb2.Status.values():
        return f"its status, {record.status}, is none that this program knows"
    if record.status not in SUCCESSFUL_STATUSES or not timing.HasField("device_busy_ns"):
        return ""
    if _is_wrong(record):
        return f"its result was checked and is wrong: {record.correctness.reason}"
    said = f"a device-busy time of {timing.device_busy_ns:g} ns"
    if timing.excluded_copy_ns:
        said += f" with copies of {timing.excluded_copy_ns:g} ns"
    return f"{said} is no measured time"


def _is_wrong(record: benchmark_pb2.BenchmarkRecord) -> bool:
    """Whether the record says, beside a success, that the result was compared and differs."""
    correctness = record.correctness
    return correctness.checked and bool(correctness.reason)
