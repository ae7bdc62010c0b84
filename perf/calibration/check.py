"""Compares a calibration with cross-checks and with the earlier calibration. No torch."""

import dataclasses
from collections.abc import Sequence

from tileops.perf.calibration import model
from tileops.proto import gpu_profile_pb2

# How far two calibrations of one model of GPU may differ. Ratios.
BANDWIDTH_REPEATS_WITHIN = 0.01
PEAKS_REPEAT_WITHIN = 0.02


def check_not_lower(outcomes: Sequence[model.Outcome]) -> None:
    """Raises CalibrationError if an outcome is below its cross-check, since a ceiling must not be too low.

    There is no tolerance. An example: torch's own copy reaches 4.2 TB/s between CUDA events, which include launch gaps
    that the bench's clock does not count. If the best variant of the search is at 4.1 TB/s, the search missed a better
    one. The message names every such outcome, both rates and likely causes.
    """
    lower = [
        f"{outcome.quantity.name}: {cross_check_in_words(outcome)}. Likely: another program used the device during the"
        " search, or the search missed a better variant; calibrate again on an idle device"
        for outcome in outcomes
        if outcome.cross_check_per_s is not None and not outcome.cross_check_per_s <= outcome.best.rate_per_s
    ]
    if lower:
        raise model.CalibrationError("; ".join(lower))


def cross_check_in_words(outcome: model.Outcome) -> str:
    """Returns what the outcome's cross-check reached; "" if the quantity has no cross-check."""
    if outcome.quantity.cross_check is None:
        return ""
    if outcome.cross_check_per_s is None:
        return f"NOT CROSS-CHECKED: {outcome.quantity.cross_check} could not be measured"
    share = outcome.cross_check_per_s / outcome.best.rate_per_s
    return (
        f"cross-check by CUDA events around calls back to back: {outcome.quantity.cross_check}"
        f" {outcome.tera(outcome.cross_check_per_s)}, {share:.1%} of the best"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Repeat:
    """One number of two calibrations.

    Attributes:
      name: "hbm.COPY" and so on, or a roof key.
      before, now: Fractions of the same theoretical figure.
    """

    name: str
    before: float
    now: float

    @property
    def change(self) -> float:
        """now / before - 1. A ratio."""
        return self.now / self.before - 1

    @property
    def within(self) -> float:
        """How far from 0 `change` may be. A ratio."""
        is_bandwidth = self.name.startswith("hbm.")
        return BANDWIDTH_REPEATS_WITHIN if is_bandwidth else PEAKS_REPEAT_WITHIN

    def __str__(self) -> str:
        verdict = "" if abs(self.change) <= self.within else f", MORE than {self.within:.0%}"
        return f"{self.name} {self.before:.4f} before, {self.now:.4f} now ({self.change:+.2%}{verdict})"


def repeats(before: gpu_profile_pb2.GpuProfile, now: gpu_profile_pb2.GpuProfile) -> list[Repeat]:
    """Returns the numbers that both calibrations have, in order of `now`."""
    earlier = _fractions(before)
    return [
        Repeat(name=name, before=earlier[name], now=fraction)
        for name, fraction in _fractions(now).items()
        if name in earlier
    ]


def spread_in_words(before: gpu_profile_pb2.GpuProfile, found: Sequence[Repeat]) -> str:
    """Returns how far two calibrations differ, on one line; "" if they share no number.

    Args:
      before: The earlier calibration.
      found: Its numbers beside the later one's.
    """
    parts = []
    for what, is_bandwidth in (("bandwidth", True), ("peaks", False)):
        of_kind = [r for r in found if r.name.startswith("hbm.") == is_bandwidth]
        if of_kind:
            worst = max(of_kind, key=lambda repeat: abs(repeat.change))
            parts.append(f"{what} within {abs(worst.change):.2%} ({worst.name} {worst.change:+.2%})")
    if not parts:
        return ""
    return f"against the calibration of {before.provenance.date}: {', '.join(parts)}"


def _fractions(profile: gpu_profile_pb2.GpuProfile) -> dict[str, float]:
    fractions = {f"hbm.{gpu_profile_pb2.AccessKind.Name(mix.kind)}": mix.fraction for mix in profile.hbm.mix}
    for unit in profile.unit:
        if unit.HasField("calibration"):
            fractions[unit.key] = unit.calibration
    return fractions
