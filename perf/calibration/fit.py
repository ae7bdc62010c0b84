"""Start-up time of a device, from a line through the times of small copies. No torch.

An example: copies that move 64 KB in 2.02 us and 8 MB in 4 us lie on the line 2 us + traffic / (4 TB/s). The start-up
time is 2 us.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from tileops.perf.calibration import model

# The latency floor, in start-up times. At the floor, start-up is a fifth of a kernel's time, so that a perfect kernel
# reaches 80% of its ceiling.
START_UPS_IN_FLOOR = 5

# If the line misses a point by more than this share, the times are not "start-up plus traffic / rate", and the
# intercept means little.
_WORST_MISS = 0.35


@dataclasses.dataclass(frozen=True, kw_only=True)
class StartUp:
    """time = t0_s + traffic / bytes_per_s.

    Attributes:
      t0_s: Start-up time. Seconds.
      bytes_per_s: Rate of the small copies. It may exceed the memory's, since their writes stay in the cache. Bytes per
        second.
      worst_miss: Largest |fit - measured| / measured of a point. A ratio.
      points: How many points were fitted.
    """

    t0_s: float
    bytes_per_s: float
    worst_miss: float
    points: int

    @property
    def floor_s(self) -> float:
        """The latency floor of a profile. Seconds."""
        return START_UPS_IN_FLOOR * self.t0_s


def fit_start_up(points: Sequence[tuple[int, float]]) -> StartUp:
    """Fits t0 + traffic / bandwidth by least squares of the relative errors.

    The errors are relative, since the sizes span orders of magnitude: by absolute errors the longest copies would decide
    the intercept, which the shortest ones show best.

    Args:
      points: (bytes read plus bytes written, seconds) of each size.

    Raises:
      CalibrationError: There are too few points, a time is not positive, or no line fits the points.
    """
    if len({traffic for traffic, _ in points}) < 3:
        raise model.CalibrationError(f"the start-up time needs copies of at least 3 sizes, not {len(points)} points")
    for traffic, seconds in points:
        if not (traffic > 0 and math.isfinite(seconds) and seconds > 0):
            raise model.CalibrationError(f"a copy of {traffic} bytes in {seconds} s is no measurement")
    traffics, times = zip(*points)
    slope, t0_s = map(float, np.polyfit(traffics, times, 1, w=[1 / seconds for seconds in times]))
    if slope <= 0 or t0_s <= 0:
        raise model.CalibrationError(
            f"the small copies' times give a start-up of {t0_s:.3g} s and a slope of {slope:.3g} s per byte; both should"
            f" be positive: {_written(points)}"
        )
    worst = max(abs(t0_s + slope * x - y) / y for x, y in points)
    if worst > _WORST_MISS:
        raise model.CalibrationError(
            f"the small copies' times are not on a line: the fit misses one by {worst:.0%}: {_written(points)}"
        )
    return StartUp(t0_s=t0_s, bytes_per_s=1 / slope, worst_miss=worst, points=len(points))


def _written(points: Sequence[tuple[int, float]]) -> str:
    return ", ".join(f"{traffic} B in {seconds * 1e6:.2f} us" for traffic, seconds in points)
