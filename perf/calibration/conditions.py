"""Reads clocks, power and temperature during a measurement, and changes nothing."""

import statistics
import threading
from collections.abc import Callable, Sequence

from tileops.perf.clock.measurement import DeviceReading

# Often enough to see a power limit, rarely enough to cost nothing.
_INTERVAL_S = 0.1


class Watch:
    """Reads a device's sensors in the background while it works.

    As a context manager; `since(mark)` describes what was read after a mark.
    """

    def __init__(self, read: Callable[[], DeviceReading]):
        """Watches through `read`, which may be called from another thread."""
        self._read = read
        self._readings: list[DeviceReading] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *exc_info) -> None:
        self._stop.set()
        self._thread.join()

    def mark(self) -> int:
        """Returns a mark for `since`."""
        return len(self._readings)

    def since(self, mark: int) -> str:
        """Returns the readings after the mark in words; "" if there are none."""
        return describe(self._readings[mark:])

    def _run(self) -> None:
        while not self._stop.wait(_INTERVAL_S):
            self._readings.append(self._read())


def describe(readings: Sequence[DeviceReading]) -> str:
    """Returns the ranges of the readings on one line; absent sensors are left out.

    Returns:
      For example "SM 1755-1980 (median 1830) MHz, memory 3201 MHz, 412-699 W,
      48-61 C, sw_power_cap"; "" if nothing was read.
    """
    parts = []
    for prefix, values, unit in (
        ("SM ", [reading.sm_clock_mhz for reading in readings], "MHz"),
        ("memory ", [reading.memory_clock_mhz for reading in readings], "MHz"),
        ("", [reading.power_w for reading in readings], "W"),
        ("", [reading.temperature_c for reading in readings], "C"),
    ):
        known = [round(value) for value in values if value is not None]
        if known:
            low, high = min(known), max(known)
            span = f"{low}" if low == high else f"{low}-{high}"
            if low != high and prefix == "SM ":
                # The median shows what lasted; the ends may be momentary.
                span += f" (median {statistics.median_low(known)})"
            parts.append(f"{prefix}{span} {unit}")
    reasons = {reason for reading in readings for reason in reading.throttle_reasons}
    parts += sorted(reasons)
    others = max((reading.other_processes or 0 for reading in readings), default=0)
    if others:
        parts.append(f"{others} other process(es) on the device")
    return ", ".join(parts)
