"""Searches for the best rate of a quantity, and says whether it is stable.

An example with a tolerance of 1%: the sweep measures 40 variants. The best four run again, round by round, until the
bests of three rounds (4.10, 4.11, 4.10 TB/s) agree within 1%. The best reading that all three reach again is 4.11. A
single reading of 4.30 in the sweep, which no round reaches, does not count.

The search calls the device through a function, so that tests need no device.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence

from tileops.perf.calibration import model

# Rounds whose bests must agree.
STABLE_ROUNDS = 3


class NothingMeasured(model.CalibrationError):
    """No trial of a quantity could be measured on this device."""


Measure = Callable[[model.Trial], model.Reading]


def spread_of(round_bests: Sequence[float]) -> float:
    """Returns (largest - smallest) / largest over the last rounds."""
    last = round_bests[-STABLE_ROUNDS:]
    return (max(last) - min(last)) / max(last)


def is_stable(round_bests: Sequence[float], tolerance: float) -> bool:
    """Returns whether the last rounds agree within `tolerance` (a fraction)."""
    return len(round_bests) >= STABLE_ROUNDS and spread_of(round_bests) <= tolerance


def finalists_of(quantity: model.Quantity, readings: Sequence[model.Reading]) -> list[model.Trial]:
    """Returns the trials that the rounds repeat: the best of the sweep, at every final size."""
    ranked = sorted(readings, key=lambda reading: -reading.rate_per_s)
    best = [reading.trial for reading in ranked[: quantity.finalists]]
    if not quantity.final_array_bytes:
        return best
    return [
        dataclasses.replace(trial, array_bytes=size)
        for trial in best
        if isinstance(trial, model.BandwidthTrial)  # other trials have no arrays
        for size in quantity.final_array_bytes
    ]


def confirmed_best(
    readings: Sequence[model.Reading], rounds: Sequence[Sequence[model.Reading]], tolerance: float
) -> tuple[model.Reading, tuple[model.Reading, ...]]:
    """Returns the best reading that every one of the last rounds reaches again, and the readings above it.

    A reading that is never reached again is no rate of the device, and would make every efficiency too low. If the last
    rounds disagree, their best reading counts; if there was no round, the best of all.

    Args:
      readings: All readings of a search.
      rounds: The readings of each round; empty if there was no round.
      tolerance: How far a round's best may be below a reading that it confirms. A fraction of the reading.
    """
    last = rounds[-STABLE_ROUNDS:]
    bests = [max(reading.rate_per_s for reading in found) for found in last]
    if is_stable(bests, tolerance):
        confirmed = [r for r in readings if r.rate_per_s * (1 - tolerance) <= min(bests)]
    else:
        confirmed = [reading for found in last for reading in found]
    best = max(confirmed or readings, key=lambda reading: reading.rate_per_s)
    return best, tuple(r for r in readings if r.rate_per_s > best.rate_per_s)


class _Log:
    """Readings and failures of one search."""

    def __init__(self, measure: Measure):
        self._measure = measure
        self.readings: list[model.Reading] = []
        self.failures: list[str] = []

    def try_all(self, trials: Sequence[model.Trial], until: Callable[[], bool]) -> list:
        """Measures trials until `until()` is true; returns the readings of this pass."""
        found = []
        for trial in trials:
            if until():
                break
            try:
                reading = self._measure(trial)
            except model.TrialError as error:
                self.failures.append(f"{trial}: {error}")
                continue
            if not reading.rate_per_s > 0 or reading.rate_per_s == float("inf"):
                raise model.CalibrationError(f"{trial}: the clock gave a rate of {reading.rate_per_s} per second")
            found.append(reading)
        self.readings += found
        return found


def search(
    quantity: model.Quantity,
    measure: Measure,
    *,
    conditions: Callable[[], str] = lambda: "",
    clock: Callable[[], float] = time.monotonic,
    report: Callable[[str], None] = lambda line: None,
) -> model.Outcome:
    """Measures a quantity's trials: a sweep, then rounds until the best is stable.

    Args:
      quantity: What to measure.
      measure: Measures one trial; raises `TrialError` if it cannot be measured.
      conditions: Describes the device's state during the search; called at its end.
      clock: Returns seconds; the quantity's budget limits the search.
      report: Gets progress lines.

    Returns:
      The outcome, which is unstable if rounds or time ran out first.

    Raises:
      NothingMeasured: No trial could be measured.
      CalibrationError: The clock gave a rate that is infinite or not positive.
    """
    started = clock()

    def over(share: float = 1.0) -> bool:
        return clock() - started > share * quantity.budget_s

    log = _Log(measure)
    # The sweep may take half of the time: only the rounds can confirm a result.
    sweep = log.try_all(quantity.sweep, lambda: over(0.5))
    if not sweep:
        reasons = "; ".join(log.failures) or "no time was left"
        raise NothingMeasured(f"{quantity.name}: nothing was measured: {reasons}")
    if len(sweep) + len(log.failures) < len(quantity.sweep):
        report(f"{quantity.name}: time for {len(sweep)} of {len(quantity.sweep)} variants only")
    finalists = finalists_of(quantity, sweep)
    round_bests: list[float] = []
    rounds: list[list[model.Reading]] = []
    while len(round_bests) < quantity.max_rounds and not over():
        found = log.try_all(finalists, over)
        if not found:
            break
        if len(found) < len(finalists) and over():
            # Time ran out in this round: its best is not comparable.
            break
        round_bests.append(max(reading.rate_per_s for reading in found))
        rounds.append(found)
        if is_stable(round_bests, quantity.tolerance):
            break
    best, unconfirmed = confirmed_best(log.readings, rounds, quantity.tolerance)
    return model.Outcome(
        quantity=quantity,
        best=best,
        unconfirmed=unconfirmed,
        readings=tuple(log.readings),
        round_bests=tuple(round_bests),
        spread=spread_of(round_bests) if round_bests else 1.0,
        # One reading above `best` is an outlier; several mean that the device slowed down.
        stable=is_stable(round_bests, quantity.tolerance) and len(unconfirmed) < 2,
        failures=tuple(log.failures),
        conditions=conditions(),
    )
