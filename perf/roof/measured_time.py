"""The measured time of a benchmark record, why it has no time, and whether its data was in the cache."""

import math

from tileops.proto import benchmark_pb2

_NANOSECONDS_PER_SECOND = 1e9

# No clock resolves this; rates of less time would leave the range of floats.
_LEAST_TIME_NS = 1e-12

# The largest last-level cache of any GPU that this project knows (AMD's MI300 series).
# Data above this size fits in no cache, whatever the profile leaves out. Bytes.
_LARGEST_CACHE_BYTES = 256 * 2**20

# Outcomes whose time is the time of the row's work. One that this program does not
# know, of a newer schema, may be another way to fail.
SUCCESSFUL_STATUSES = frozenset((benchmark_pb2.STATUS_UNSPECIFIED, benchmark_pb2.STATUS_OK))


def actual_time(record: benchmark_pb2.BenchmarkRecord) -> float | None:
    """Returns the measured time of the record's work, by whatever clock.

    Returns:
      Seconds; None if the row did not succeed, if its result was found wrong, or if its
      time is absent, negative or not a number.
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
    """Returns why a record has no actual time, if it does not say so itself.

    Returns:
      A sentence; "" if the record has a message, or no time was taken.
    """
    timing = record.timing
    if record.message:
        return ""
    if record.status not in benchmark_pb2.Status.values():
        return f"its status, {record.status}, is unknown to this program"
    if record.status not in SUCCESSFUL_STATUSES or not timing.HasField("device_busy_ns"):
        return ""
    if _is_wrong(record):
        return f"its result was checked and is wrong: {record.correctness.reason}"
    said = f"a device-busy time of {timing.device_busy_ns:g} ns"
    if timing.excluded_copy_ns:
        said += f" with copies of {timing.excluded_copy_ns:g} ns"
    return f"{said} cannot be a measured time"


def is_warm(record: benchmark_pb2.BenchmarkRecord, l2_bytes: int | None) -> bool:
    """Returns whether the record says that its data may have been in the L2 when a measured call began.

    A call without a flush finds the data of the call before it. A call after a clean flush
    need not write lines back. Calls that rotate input sets find cold caches, unless all sets
    fit in the L2 together. A record that does not say what came before its calls counts as
    cold.

    Args:
      record: One row of one implementation.
      l2_bytes: The device's last-level cache; None if unknown.
    """
    prepared = record.device_state.cache_preparation
    if prepared.flush == benchmark_pb2.CACHE_FLUSH_CLEAN:
        return True
    if prepared.flush != benchmark_pb2.CACHE_FLUSH_NONE:
        return False
    sets = prepared.input_sets
    return sets <= 1 or (l2_bytes is not None and sets * record.bytes <= l2_bytes)


def fits_in_cache(record: benchmark_pb2.BenchmarkRecord, l2_bytes: int | None) -> bool:
    """Returns whether all data of the record's call fits in the L2; in the largest one there is if `l2_bytes` is None."""
    return record.bytes <= (_LARGEST_CACHE_BYTES if l2_bytes is None else l2_bytes)


def _is_wrong(record: benchmark_pb2.BenchmarkRecord) -> bool:
    """Returns whether the record says, beside a success, that the result was compared and differs."""
    correctness = record.correctness
    return correctness.checked and bool(correctness.reason)
