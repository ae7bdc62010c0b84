"""Prices one benchmark record against a GPU profile: the roofline model itself.

    memory_time  = bytes / effective bandwidth
    compute_time = flops / effective peak of the unit that `roof_key` names
    sol_time     = max(memory_time, compute_time)
    efficiency   = sol_time / actual_time

A row that the model cannot price stays blank, with the first reason of this order:
no_time, no_cupti and warm_cache concern the measurement, no_profile the device,
zero_bytes and no_roof the op, uncalibrated the profile. The user has to correct the
first reason first.

The physics check is independent of the price: each row with a time and a profile is
compared with the theoretical ceilings at the highest clock that the device reports,
and a row that exceeds one is a formula error.
Data that may have been in the L2 when the call began, and fits in it, can be read
faster than the memory's bandwidth: such a row is only compared with its unit's peak.
"""

from typing import NamedTuple

from tileops.perf.roof import measured_time, profiles
from tileops.proto import benchmark_pb2, roofline_pb2

# A kernel is done at this efficiency or above. The bandwidth ceiling is an envelope over
# access mixes and a kernel's own mix caps below it.
AT_CEILING_EFFICIENCY = 0.80
# Above the achievable ceiling by more than the spread of a measurement.
ANOMALY_EFFICIENCY = 1.05

# Relative error that a handful of float operations may leave. Comparisons allow
# for it, so that a row whose decimal numbers are exactly on a line counts as on it.
_ROUNDING = 1e-12

_CUPTI = benchmark_pb2.TIMING_SOURCE_CUPTI


class Breach(NamedTuple):
    """A ceiling ("hbm" or a roof key) that an implied rate exceeds, and the theoretical figure that it comes from.

    Rates are bytes or FLOPs per second.
    """

    roof: str
    implied_per_s: float
    theoretical_per_s: float
    ceiling_per_s: float


class Readings(NamedTuple):
    """The fields of `roofline.Row` that pricing decides.

    Units are those of the proto; None is an absent reading, and the enums are
    numbers of `roofline_pb2`.
    """

    verdict: int
    blank_reason: int = roofline_pb2.BLANK_REASON_UNSPECIFIED
    bound: int = roofline_pb2.BOUND_UNSPECIFIED
    latency_bound: bool = False
    actual_time_s: float | None = None
    memory_time_s: float | None = None
    compute_time_s: float | None = None
    sol_time_s: float | None = None
    efficiency: float | None = None
    achieved_bytes_per_s: float | None = None
    achieved_flops_per_s: float | None = None
    arithmetic_intensity: float | None = None
    headroom_s: float | None = None
    breaches: tuple[Breach, ...] = ()


class _SolTimes(NamedTuple):
    """The times of the roofline model, in seconds, and which of them dominates."""

    memory_time_s: float | None = None
    compute_time_s: float | None = None
    sol_time_s: float | None = None
    bound: int = roofline_pb2.BOUND_UNSPECIFIED


_NO_SOL_TIMES = _SolTimes()


def read(record: benchmark_pb2.BenchmarkRecord, profile: profiles.Profile | None) -> Readings:
    """Returns the readings of a record: its price against the profile, and its verdict.

    Args:
      record: One row of one implementation.
      profile: The profile of the device that was measured; None if there is
        none.
    """
    # Fields are read once: a million records pass here.
    flops, traffic, roof_key = record.flops, record.bytes, record.roof_key
    unit = profile.units.get(roof_key) if profile is not None else None
    actual_time_s = measured_time.actual_time(record)
    l2_bytes = profile.l2_bytes if profile is not None else None
    is_warm = measured_time.is_warm(record, l2_bytes)
    blank_reason = _time_blank_reason(record, actual_time_s)
    if is_warm and not blank_reason:
        blank_reason = roofline_pb2.BLANK_REASON_WARM_CACHE
    achieved_bytes = achieved_flops = efficiency = headroom_s = None
    is_latency_bound = False
    breaches: tuple[Breach, ...] = ()
    if actual_time_s is not None:
        implied_bytes, implied_flops = traffic / actual_time_s, flops / actual_time_s
        if blank_reason != roofline_pb2.BLANK_REASON_NO_CUPTI:
            achieved_bytes, achieved_flops = implied_bytes, implied_flops
        if profile is not None:
            if not (is_warm and measured_time.fits_in_cache(record, l2_bytes)):
                breaches = _breach("hbm", implied_bytes, profile.bandwidth)
            if unit is not None:
                breaches += _breach(roof_key, implied_flops, unit)
    sol = _NO_SOL_TIMES
    verdict: int = roofline_pb2.VERDICT_BLANK
    blank_reason = blank_reason or _price_blank_reason(traffic, unit, profile)
    if not blank_reason:
        assert unit is not None and profile is not None and actual_time_s is not None
        sol = _sol_times(flops, traffic, unit, profile)
        assert sol.sol_time_s is not None
        efficiency = sol.sol_time_s / actual_time_s
        headroom_s = actual_time_s - sol.sol_time_s
        is_latency_bound = _is_latency_bound(sol.sol_time_s, actual_time_s, profile.latency_floor_s)
        verdict = _verdict(efficiency, is_latency_bound)
    if breaches:
        verdict = roofline_pb2.VERDICT_FORMULA_ERROR
    return Readings(
        verdict,
        blank_reason,
        sol.bound,
        is_latency_bound,
        actual_time_s,
        sol.memory_time_s,
        sol.compute_time_s,
        sol.sol_time_s,
        efficiency,
        achieved_bytes,
        achieved_flops,
        flops / traffic if traffic else None,
        headroom_s,
        breaches,
    )


def read_bound(record: benchmark_pb2.BenchmarkRecord, profile: profiles.Profile) -> Readings:
    """Returns the record's SOL time on the profile's device, and no measured time.

    It is a bound, not a measurement, and the record may be of any device. The blank
    reason is `no_time`, or why there is no bound.
    """
    flops, traffic = record.flops, record.bytes
    unit = profile.units.get(record.roof_key)
    blank_reason = _price_blank_reason(traffic, unit, profile)
    sol = _NO_SOL_TIMES
    if not blank_reason:
        assert unit is not None
        sol = _sol_times(flops, traffic, unit, profile)
        blank_reason = roofline_pb2.BLANK_REASON_NO_TIME
    return Readings(
        verdict=roofline_pb2.VERDICT_BLANK,
        blank_reason=blank_reason,
        arithmetic_intensity=flops / traffic if traffic else None,
        **sol._asdict(),
    )


def row_of(record: benchmark_pb2.BenchmarkRecord, readings: Readings) -> roofline_pb2.Row:
    """Returns the row of a report that a record and its readings make."""
    values = readings._asdict()
    breaches = values.pop("breaches")
    return roofline_pb2.Row(
        op=record.op,
        family=record.family,
        case_id=record.case_id,
        label=record.label,
        implementation=record.implementation,
        library=record.library,
        flops=record.flops,
        bytes=record.bytes,
        roof_key=record.roof_key,
        data_terms=record.data_terms,
        message=record.message,
        breaches=[roofline_pb2.Breach(**breach._asdict()) for breach in breaches],
        **values,
    )


def price(record: benchmark_pb2.BenchmarkRecord, profile: profiles.Profile | None) -> roofline_pb2.Row:
    """Returns the row that the record and the profile make: `read` as a message."""
    return row_of(record, read(record, profile))


def predict(record: benchmark_pb2.BenchmarkRecord, profile: profiles.Profile) -> roofline_pb2.Row:
    """Returns the row of the record's bound: `read_bound` as a message."""
    return row_of(record, read_bound(record, profile))


def _breach(name: str, implied_per_s: float, roof: profiles.Roof) -> tuple[Breach, ...]:
    """Returns the breach of a ceiling, if the implied rate exceeds it."""
    if not _exceeds(implied_per_s, roof.ceiling_per_s):
        return ()
    return (Breach(name, implied_per_s, roof.theoretical_per_s, roof.ceiling_per_s),)


def _time_blank_reason(record: benchmark_pb2.BenchmarkRecord, actual_time_s: float | None) -> int:
    """Returns why the time cannot be priced; 0 if it can."""
    if actual_time_s is None and (
        record.status not in measured_time.SUCCESSFUL_STATUSES or not record.HasField("timing")
    ):
        return roofline_pb2.BLANK_REASON_NO_TIME
    if record.timing.source != _CUPTI:
        return roofline_pb2.BLANK_REASON_NO_CUPTI
    if actual_time_s is None:
        return roofline_pb2.BLANK_REASON_NO_TIME
    return roofline_pb2.BLANK_REASON_UNSPECIFIED


def _price_blank_reason(traffic: int, unit: profiles.Roof | None, profile: profiles.Profile | None) -> int:
    """Returns why a record has no SOL time on the profile; 0 if it has.

    Args:
      traffic: Bytes that the record moves at least.
      unit: The roof of its key; None if the profile has none.
      profile: The profile; None if there is none.
    """
    if profile is None:
        return roofline_pb2.BLANK_REASON_NO_PROFILE
    if traffic == 0:
        return roofline_pb2.BLANK_REASON_ZERO_BYTES
    if unit is None:
        return roofline_pb2.BLANK_REASON_NO_ROOF
    if unit.calibration is None or profile.bandwidth.calibration is None:
        return roofline_pb2.BLANK_REASON_UNCALIBRATED
    return roofline_pb2.BLANK_REASON_UNSPECIFIED


def _sol_times(flops: int, traffic: int, unit: profiles.Roof, profile: profiles.Profile) -> _SolTimes:
    """Returns the times of a record that `_price_blank_reason` passed."""
    bytes_per_s, flops_per_s = profile.bandwidth.effective_per_s, unit.effective_per_s
    assert bytes_per_s is not None and flops_per_s is not None
    memory_time_s, compute_time_s = traffic / bytes_per_s, flops / flops_per_s
    if _exceeds(compute_time_s, memory_time_s):
        bound = roofline_pb2.BOUND_COMPUTE
    else:
        bound = roofline_pb2.BOUND_MEMORY
    return _SolTimes(memory_time_s, compute_time_s, max(memory_time_s, compute_time_s), bound)


def _is_latency_bound(sol_time_s: float, actual_time_s: float, floor_s: float | None) -> bool:
    """Returns whether both times lie below the latency floor: the larger of the two decides."""
    return floor_s is not None and _exceeds(floor_s, max(sol_time_s, actual_time_s))


def _verdict(efficiency: float, is_latency_bound: bool) -> int:
    """Returns the verdict on a possible, priced row: the first of `Verdict` that holds."""
    # An overestimate is reported however short the row.
    if _exceeds(efficiency, ANOMALY_EFFICIENCY):
        return roofline_pb2.VERDICT_ANOMALY
    if is_latency_bound:
        return roofline_pb2.VERDICT_LATENCY_BOUND
    if not _exceeds(AT_CEILING_EFFICIENCY, efficiency):
        return roofline_pb2.VERDICT_AT_CEILING
    return roofline_pb2.VERDICT_BELOW


def _exceeds(value: float, limit: float) -> bool:
    """Returns whether `value` is above `limit` by more than rounding."""
    return value > limit * (1 + _ROUNDING)
