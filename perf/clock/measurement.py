"""The types of a measurement: its clock, its budget, its result. No torch, no GPU."""

from __future__ import annotations

import dataclasses
import enum


class TimingSource(enum.Enum):
    """The clock of a time; names as in the run file. Only CUPTI times are priced."""

    CUPTI = "TIMING_SOURCE_CUPTI"
    CUDA_EVENTS = "TIMING_SOURCE_CUDA_EVENTS"
    HOST_CLOCK = "TIMING_SOURCE_HOST_CLOCK"


class Flush(enum.Enum):
    """How the cache is emptied of a call's data before each measured call; names as in the run file.

    DIRTY leaves written lines of a foreign buffer: each line that the call brings in first writes one back to memory.
    CLEAN leaves lines that were read: the call writes back none.
    MATCHED leaves the share of written lines that the call itself leaves: the call writes back as many lines of others
    as a later call writes back for it.
    """

    NONE = "CACHE_FLUSH_NONE"
    DIRTY = "CACHE_FLUSH_DIRTY"
    CLEAN = "CACHE_FLUSH_CLEAN"
    MATCHED = "CACHE_FLUSH_MATCHED"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """How long a row may take, in host time. Preparation and flushes count too.

    Attributes:
      warmup_s: calls are made for this long (at least `MIN_WARMUP` of them) before anything is recorded. Seconds.
      measure_s: samples are taken for this long, but at least `min_samples` and at most `max_samples`. Seconds.
      min_samples, max_samples: counts.
    """

    warmup_s: float = 0.05
    measure_s: float = 0.3
    min_samples: int = 10
    max_samples: int = 200

    def samples(self, seconds_per_call: float) -> int:
        """Returns how many calls fit, within the two bounds."""
        fitting = self.max_samples if seconds_per_call <= 0 else int(self.measure_s / seconds_per_call)
        return max(self.min_samples, min(self.max_samples, fitting))


MIN_WARMUP = 2
"""Calls made before anything is recorded, however short the budget. A count."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DeviceReading:
    """One reading of a device's sensors; None if the driver does not report the value.

    Attributes:
      sm_clock_mhz, memory_clock_mhz: MHz.
      temperature_c: degrees Celsius.
      power_state: for example "P0"; "" where not reported.
      power_w: watts.
      other_processes: processes with a context on the device besides this one. A count.
      throttle_reasons: why clocks are reduced, as the driver names it.
    """

    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    power_state: str = ""
    power_w: float | None = None
    other_processes: int | None = None
    throttle_reasons: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """Time of one call. Fields of the same name in the run file's `Timing` mean the same.

    Attributes:
      source: the clock.
      device_busy_ns, device_busy_p10_ns, device_busy_p90_ns: median and percentiles of the call's device-busy time (for
        the other two clocks: of what that clock read). Nanoseconds.
      excluded_copy_ns: device copies kept out of device_busy_ns. Always 0 here: every copy that a call launches counts
        as device-busy time, and what the harness copies is outside the window. Nanoseconds.
      wall_ns: median host time from the call's start to the end of its device work. Nanoseconds.
      samples: measured calls. A count.
      activities: device activities of one call; 0 if the clock does not see them. A count.
      sample_ns: device-busy time of each measured call, in order. Nanoseconds.
      warmup_calls: calls made before the first measured one. A count.
      activity_names: names of one call's device work, in launch order.
      doubts: why the median should not be trusted (bimodal, drifting); empty if it can be.
      flush: the flush before each measured call.
      flush_bytes: size of the buffer that the flush touched. Bytes.
      input_sets: sets of inputs that the calls took in turn; 1 for the same storage each time. A count.
      rotation_ns: median device-busy time of the call over sets of inputs in turn; None if it was not measured.
        Nanoseconds.
      written_share: of a MATCHED flush, the share of the lines it left that were written; from 0 to 1, else None.
      start, end: the device's sensors before and after; None on a CPU.
    """

    source: TimingSource
    device_busy_ns: float
    device_busy_p10_ns: float
    device_busy_p90_ns: float
    excluded_copy_ns: float = 0.0
    wall_ns: float
    samples: int
    activities: int
    sample_ns: tuple[float, ...]
    warmup_calls: int
    activity_names: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    flush: Flush = Flush.NONE
    flush_bytes: int = 0
    written_share: float | None = None
    input_sets: int = 1
    rotation_ns: float | None = None
    start: DeviceReading | None = None
    end: DeviceReading | None = None
