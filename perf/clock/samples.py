"""Statistics of one row's samples, and reasons to doubt their median."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

# Two groups of samples are two modes where the gap between them exceeds this fraction of the median and each holds at
# least this share of the samples. A GPU that changes clocks within a window moves by more; timer steps by far less.
_MODE_GAP = 0.15
_MODE_SHARE = 0.2
# The medians of the first and the last third of a window differ by no more than this fraction of the whole median.
_DRIFT = 0.1
# Below this many samples neither question has an answer.
_FEWEST_JUDGED = 10
# Steps of a device's timestamps: differences of this order say nothing. Nanoseconds.
_TIMER_STEP_NS = 200.0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Order statistics of a row's samples, in the samples' unit.

    Attributes:
      median, p10, p90: linear between the two nearest samples.
      count: number of samples.
      doubts: why the median should not be trusted; empty if it can be.
    """

    median: float
    p10: float
    p90: float
    count: int
    doubts: tuple[str, ...]


def summarize(samples: Sequence[float]) -> Summary:
    """Returns the summary of samples, given in the order they were taken. Nanoseconds.

    Raises:
      ValueError: there is no sample, or one is not a finite non-negative number.
    """
    if not samples:
        raise ValueError("no samples: nothing was measured")
    wrong = [sample for sample in samples if not (math.isfinite(sample) and sample >= 0)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} among the samples is no time")
    ordered = sorted(samples)
    median = quantile(ordered, 0.5)
    doubts = []
    if len(samples) >= _FEWEST_JUDGED:
        modes = _modes(ordered, median)
        if modes is not None:
            doubts.append(f"bimodal samples: near {modes[0]:.0f} ns and near {modes[1]:.0f} ns")
        third = len(samples) // 3
        first, last = _median(samples[:third]), _median(samples[-third:])
        # Of two modes, which one a third's median falls into is chance.
        if modes is None and abs(last - first) > max(_DRIFT * median, _TIMER_STEP_NS):
            doubts.append(f"drifting median: {first:.0f} ns in the first third, {last:.0f} ns in the last")
    return Summary(
        median=median, p10=quantile(ordered, 0.1), p90=quantile(ordered, 0.9), count=len(samples), doubts=tuple(doubts)
    )


def quantile(ordered: Sequence[float], fraction: float) -> float:
    """Returns the `fraction` quantile of sorted samples, linear between the two nearest."""
    at = fraction * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def _median(samples: Sequence[float]) -> float:
    return quantile(sorted(samples), 0.5)


def _modes(ordered: Sequence[float], median: float) -> tuple[float, float] | None:
    """Returns the medians of two modes if the widest gap between sorted neighbours separates two modes."""
    fewest = max(2, math.ceil(_MODE_SHARE * len(ordered)))
    splits = range(fewest, len(ordered) - fewest + 1)
    widest = max(splits, key=lambda at: ordered[at] - ordered[at - 1], default=None)
    if widest is None or ordered[widest] - ordered[widest - 1] <= max(_MODE_GAP * median, _TIMER_STEP_NS):
        return None
    return quantile(ordered[:widest], 0.5), quantile(ordered[widest:], 0.5)
