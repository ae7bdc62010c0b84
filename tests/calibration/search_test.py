"""The search finds the best variant, repeats it, and says whether it stands."""

import itertools

import pytest

from tileops.perf.calibration import model as model
from tileops.perf.calibration import search


class FakeDevice:
    """A meter with a known rate for each trial, and a clock that measuring moves."""

    def __init__(self, rate, seconds=0.1):
        self.rate, self.seconds = rate, seconds
        self.now, self.measured = 0.0, []

    def __call__(self, trial):
        self.now += self.seconds
        self.measured.append(trial)
        rate = self.rate(trial)
        if rate is None:
            raise model.TrialError("not on this device")
        return model.Reading(trial=trial, rate_per_s=rate, samples=10)

    def clock(self):
        return self.now


def _quantity(**changes):
    settings = {
        "name": "tensor_core.bf16",
        "theoretical_per_s": 100.0,
        "sweep": tuple(model.MatrixTrial(key="tensor_core.bf16", m=m, n=1, k=1) for m in range(1, 9)),
        "finalists": 2,
        "tolerance": 0.01,
        "max_rounds": 6,
        "budget_s": 60.0,
    }
    return model.Quantity(**{**settings, **changes})


def _search(quantity, device):
    return search.search(quantity, device, clock=device.clock)


def test_the_best_variant_wins_and_is_repeated():
    device = FakeDevice(lambda trial: 50.0 - abs(trial.m - 5))
    outcome = _search(_quantity(), device)
    assert outcome.best.trial.m == 5 and outcome.fraction == 0.5
    assert outcome.stable and len(outcome.round_bests) == search.STABLE_ROUNDS
    assert {trial.m for trial in device.measured[8:]} <= {4, 5, 6}
    assert outcome.samples == 10 * len(device.measured)


def test_a_rate_that_wanders_is_called_unstable():
    wander = itertools.cycle([50.0, 40.0])
    device = FakeDevice(lambda trial: next(wander) + trial.m / 100)
    outcome = _search(_quantity(finalists=1), device)
    assert not outcome.stable
    assert len(outcome.round_bests) == 6
    assert outcome.spread == pytest.approx(0.2, rel=0.01)


def test_rounds_go_on_until_the_last_ones_agree():
    rates = itertools.chain([30.0] * 8, [30.0, 40.0, 50.0], itertools.repeat(50.0))
    outcome = _search(_quantity(finalists=1), FakeDevice(lambda trial: next(rates)))
    assert outcome.stable
    assert outcome.round_bests == (30.0, 40.0, 50.0, 50.0, 50.0)
    assert outcome.best.rate_per_s == 50.0


def test_a_freak_reading_that_no_round_repeats_does_not_count():
    device = FakeDevice(lambda trial: 94.0 if len(device.measured) == 2 else 70.0)
    outcome = _search(_quantity(), device)
    assert outcome.best.rate_per_s == 70.0 and outcome.stable
    assert [reading.rate_per_s for reading in outcome.unconfirmed] == [94.0]


def test_several_readings_above_what_the_rounds_reach_are_called_unstable():
    device = FakeDevice(lambda trial: 94.0 if len(device.measured) < 3 else 70.0)
    outcome = _search(_quantity(), device)
    assert outcome.best.rate_per_s == 70.0 and not outcome.stable
    assert len(outcome.unconfirmed) == 2 and outcome.spread == 0


@pytest.mark.parametrize(("sweep_rate", "best"), [(50.4, 50.4), (50.6, 50.0)])
def test_the_rounds_confirm_what_they_reach_within_the_tolerance(sweep_rate, best):
    device = FakeDevice(lambda trial: sweep_rate if len(device.measured) == 1 else 50.0)
    assert _search(_quantity(), device).best.rate_per_s == best


def test_rounds_that_disagree_give_the_best_of_the_last_ones():
    rates = itertools.chain([90.0] + [10.0] * 7, itertools.cycle([50.0, 40.0]))
    outcome = _search(_quantity(finalists=1), FakeDevice(lambda trial: next(rates)))
    assert not outcome.stable and outcome.best.rate_per_s in (40.0, 50.0)


def test_time_bounds_sweep_and_rounds():
    device = FakeDevice(lambda trial: 50.0, seconds=1.0)
    outcome = _search(_quantity(budget_s=8.0), device)
    assert device.now <= 10
    assert not outcome.stable
    # At most half of the time went to the sweep, so that rounds were left.
    assert len(outcome.round_bests) >= 1


def test_finalists_are_measured_at_every_size():
    sweep = tuple(model.BandwidthTrial(mix="COPY", array_bytes=1, block=256, unroll=unroll) for unroll in (1, 2, 4))
    quantity = _quantity(sweep=sweep, finalists=1, final_array_bytes=(1, 2, 4))
    device = FakeDevice(lambda trial: trial.unroll * 10 + trial.array_bytes)
    outcome = _search(quantity, device)
    assert outcome.best.trial.array_bytes == 4 and outcome.best.trial.unroll == 4
    assert {t.array_bytes for t in device.measured[3:]} == {1, 2, 4}


def test_variants_that_fail_are_named_and_left_out():
    device = FakeDevice(lambda trial: None if trial.m > 6 else float(trial.m))
    outcome = _search(_quantity(), device)
    assert outcome.best.trial.m == 6
    assert len(outcome.failures) == 2
    assert outcome.failures[0].startswith("7x1x1 TN") and "not on this" in outcome.failures[0]


def test_nothing_measured_is_an_error_with_the_reasons():
    with pytest.raises(search.NothingMeasured, match="tensor_core.bf16.*not on this"):
        _search(_quantity(), FakeDevice(lambda trial: None))


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_clock_that_gives_nonsense_is_an_error(rate):
    with pytest.raises(model.CalibrationError, match="the clock gave"):
        _search(_quantity(), FakeDevice(lambda trial: rate))
