"""Start-up time of a device: the line through the times of small copies. No torch."""

import dataclasses
import math
from collections.abc import Sequence

from tileops.perf.calibration import model as model

# Five times the start-up time: at that duration start-up is a fifth of a kernel's
# time, so that even a perfect kernel ends at 80% of its ceiling.
START_UPS_IN_FLOOR = 5

# A fit that misses a point by more than this share says that the copies are not
# "a start-up and then a rate", whatever the cause, and its intercept means little.
_WORST_MISS = 0.35


@dataclasses.dataclass(frozen=True, kw_only=True)
class StartUp:
    """time = t0_s + traffic / bytes_per_s.

    Attributes:
      t0_s: Start-up time. Seconds.
      bytes_per_s: Rate of the small copies; it may exceed the memory's, since what
        they write stays in the cache. Bytes per second.
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

    Relative, since the sizes span orders of magnitude: plain least squares would
    let the longest copies decide an intercept that the shortest ones show best.

    Args:
      points: (bytes read plus bytes written, seconds) of each size.

    Raises:
      CalibrationError: Too few points, times that are none, or no start-up and
        rate that explain them.
    """
    if len({traffic for traffic, _ in points}) < 3:
        raise model.CalibrationError(f"the start-up time needs copies of at least 3 sizes, not {len(points)} points")
    for traffic, seconds in points:
        if not (traffic > 0 and math.isfinite(seconds) and seconds > 0):
            raise model.CalibrationError(f"a copy of {traffic} bytes in {seconds} s is no measurement")
    # Weighted normal equations of seconds = t0 + slope * traffic.
    weights = [1 / seconds**2 for _, seconds in points]
    total = sum(weights)
    mean_traffic = sum(w * x for w, (x, _) in zip(weights, points)) / total
    mean_seconds = sum(w * y for w, (_, y) in zip(weights, points)) / total
    covariance = sum(w * (x - mean_traffic) * (y - mean_seconds) for w, (x, y) in zip(weights, points))
    variance = sum(w * (x - mean_traffic) ** 2 for w, (x, _) in zip(weights, points))
    slope = covariance / variance
    t0_s = mean_seconds - slope * mean_traffic
    if slope <= 0 or t0_s <= 0:
        raise model.CalibrationError(
            f"the small copies' times give a start-up of {t0_s:.3g} s and a slope of"
            f" {slope:.3g} s a byte; both should be positive: {_written(points)}"
        )
    worst = max(abs(t0_s + slope * x - y) / y for x, y in points)
    if worst > _WORST_MISS:
        raise model.CalibrationError(
            f"the small copies' times are no line: the fit misses one by {worst:.0%}: {_written(points)}"
        )
    return StartUp(t0_s=t0_s, bytes_per_s=1 / slope, worst_miss=worst, points=len(points))


def _written(points: Sequence[tuple[int, float]]) -> str:
    return ", ".join(f"{traffic} B in {seconds * 1e6:.2f} us" for traffic, seconds in points)
