"""Prices one benchmark record against a GPU profile: the roofline model itself.

    memory_time  = bytes / effective bandwidth
    compute_time = flops / effective peak of the unit that `roof_key` names
    sol_time     = max(memory_time, compute_time)
    efficiency   = sol_time / actual_time

A row that the model cannot price honestly stays blank, with a reason. Reasons
are looked for in this order, so that what is said first is what the user would
have to mend first: no_time and no_cupti speak of the measurement, no_profile of
the device, zero_bytes and no_roof of the op, uncalibrated of the profile.

The physics check stands beside all that: whatever has a time and a profile is
held against the theoretical ceilings, and a row that exceeds one is a formula
error.
"""

import math

from tileops.perf import profiles
from tileops.proto import benchmark_pb2
from tileops.proto import roofline_pb2

# Done: at this efficiency or above. The bandwidth ceiling is an envelope over
# access mixes and a kernel's own mix caps below it.
AT_CEILING_EFFICIENCY = 0.80
# Above the achievable ceiling by more than the spread of a measurement.
ANOMALY_EFFICIENCY = 1.05

_NANOSECONDS_PER_SECOND = 1e9

# Relative error that a handful of float operations may leave. Comparisons allow
# for it, so that a row exactly on a line in decimal numbers is read as on it.
_ROUNDING = 1e-12

# Outcomes whose time, if the record has one, is not the time of the row's work.
_FAILED_STATUSES = frozenset(
    (
        benchmark_pb2.STATUS_SKIPPED,
        benchmark_pb2.STATUS_ERROR,
        benchmark_pb2.STATUS_TIMEOUT,
    )
)


def price(
    record: benchmark_pb2.BenchmarkRecord, profile: profiles.Profile | None
) -> roofline_pb2.Row:
    """Returns what the record reads as against the profile.

    Args:
      record: One row of one implementation.
      profile: The profile of the device that was measured; None where there is
        none.
    """
    row = _unpriced_row(record)
    actual_time_s = actual_time(record)
    if actual_time_s is not None:
        row.actual_time_s = actual_time_s
        if record.timing.source == benchmark_pb2.TIMING_SOURCE_CUPTI:
            row.achieved_bytes_per_s = record.bytes / actual_time_s
            row.achieved_flops_per_s = record.flops / actual_time_s
        if profile is not None:
            row.breaches.extend(_breaches(record, actual_time_s, profile))
    row.blank_reason = _time_blank_reason(
        record, actual_time_s
    ) or _price_blank_reason(record, profile)
    if not row.blank_reason:
        _fill_sol_times(row, profile)
        row.efficiency = row.sol_time_s / actual_time_s
        row.headroom_s = actual_time_s - row.sol_time_s
    row.verdict = _verdict(row, profile)
    return row


def predict(
    record: benchmark_pb2.BenchmarkRecord, profile: profiles.Profile
) -> roofline_pb2.Row:
    """Returns the record's SOL time on the profile's device, and no measured time.

    It is a bound that any device's record can be asked for, not a measurement;
    the row says `no_time`, or why not even the bound can be given.
    """
    row = _unpriced_row(record)
    row.blank_reason = _price_blank_reason(record, profile)
    if not row.blank_reason:
        _fill_sol_times(row, profile)
        row.blank_reason = roofline_pb2.BLANK_REASON_NO_TIME
    row.verdict = roofline_pb2.VERDICT_BLANK
    return row


def actual_time(record: benchmark_pb2.BenchmarkRecord) -> float | None:
    """Returns the measured time of the record's work, by whatever clock.

    Returns:
      Seconds; None where the row did not succeed, or has no usable time.
    """
    timing = record.timing
    if record.status in _FAILED_STATUSES or not timing.HasField("device_busy_ns"):
        return None
    total_ns = timing.device_busy_ns + timing.excluded_copy_ns
    if not (math.isfinite(total_ns) and total_ns > 0):
        return None
    return total_ns / _NANOSECONDS_PER_SECOND


def _unpriced_row(record: benchmark_pb2.BenchmarkRecord) -> roofline_pb2.Row:
    row = roofline_pb2.Row(
        op=record.op,
        family=record.family,
        case_id=record.case_id,
        label=record.label,
        implementation=record.implementation,
        flops=record.flops,
        bytes=record.bytes,
        roof_key=record.roof_key,
        data_terms=record.data_terms,
        message=record.message,
    )
    if record.bytes > 0:
        row.arithmetic_intensity = record.flops / record.bytes
    return row


def _breaches(
    record: benchmark_pb2.BenchmarkRecord,
    actual_time_s: float,
    profile: profiles.Profile,
) -> list[roofline_pb2.Breach]:
    """Returns the theoretical ceilings that the record's implied rates exceed."""
    roofs = [("hbm", record.bytes, profile.bandwidth)]
    if record.roof_key in profile.units:
        roofs.append((record.roof_key, record.flops, profile.units[record.roof_key]))
    return [
        roofline_pb2.Breach(
            roof=name,
            implied_per_s=work / actual_time_s,
            theoretical_per_s=roof.theoretical_per_s,
        )
        for name, work, roof in roofs
        if _exceeds(work / actual_time_s, roof.theoretical_per_s)
    ]


def _time_blank_reason(
    record: benchmark_pb2.BenchmarkRecord, actual_time_s: float | None
) -> int:
    """Returns why the time cannot be priced; 0 where it can."""
    if record.status in _FAILED_STATUSES or not record.HasField("timing"):
        return roofline_pb2.BLANK_REASON_NO_TIME
    if record.timing.source != benchmark_pb2.TIMING_SOURCE_CUPTI:
        return roofline_pb2.BLANK_REASON_NO_CUPTI
    if actual_time_s is None:
        return roofline_pb2.BLANK_REASON_NO_TIME
    return roofline_pb2.BLANK_REASON_UNSPECIFIED


def _price_blank_reason(
    record: benchmark_pb2.BenchmarkRecord, profile: profiles.Profile | None
) -> int:
    """Returns why the record has no SOL time on the profile; 0 where it has."""
    if profile is None:
        return roofline_pb2.BLANK_REASON_NO_PROFILE
    if record.bytes == 0:
        return roofline_pb2.BLANK_REASON_ZERO_BYTES
    unit = profile.units.get(record.roof_key)
    if unit is None:
        return roofline_pb2.BLANK_REASON_NO_ROOF
    if unit.calibration is None or profile.bandwidth.calibration is None:
        return roofline_pb2.BLANK_REASON_UNCALIBRATED
    return roofline_pb2.BLANK_REASON_UNSPECIFIED


def _fill_sol_times(row: roofline_pb2.Row, profile: profiles.Profile) -> None:
    """Sets the SOL times and the bound of a row that `_price_blank_reason` passed."""
    row.memory_time_s = row.bytes / profile.bandwidth.effective_per_s
    row.compute_time_s = row.flops / profile.units[row.roof_key].effective_per_s
    row.sol_time_s = max(row.memory_time_s, row.compute_time_s)
    row.bound = (
        roofline_pb2.BOUND_COMPUTE
        if _exceeds(row.compute_time_s, row.memory_time_s)
        else roofline_pb2.BOUND_MEMORY
    )


def _verdict(row: roofline_pb2.Row, profile: profiles.Profile | None) -> int:
    """Returns the first verdict that holds, in the order of `Verdict`."""
    if row.breaches:
        return roofline_pb2.VERDICT_FORMULA_ERROR
    if row.blank_reason:
        return roofline_pb2.VERDICT_BLANK
    floor_s = profile.latency_floor_s
    # The larger of the two decides: both have to lie below the floor.
    slower_s = max(row.sol_time_s, row.actual_time_s)
    if floor_s is not None and _exceeds(floor_s, slower_s):
        return roofline_pb2.VERDICT_LATENCY_BOUND
    if _exceeds(row.efficiency, ANOMALY_EFFICIENCY):
        return roofline_pb2.VERDICT_ANOMALY
    if not _exceeds(AT_CEILING_EFFICIENCY, row.efficiency):
        return roofline_pb2.VERDICT_AT_CEILING
    return roofline_pb2.VERDICT_BELOW


def _exceeds(value: float, limit: float) -> bool:
    """Whether `value` is above `limit` by more than rounding."""
    return value > limit * (1 + _ROUNDING)
