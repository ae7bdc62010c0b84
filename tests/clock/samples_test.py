"""Medians, percentiles and what makes them doubtful."""

import random

import pytest

from tileops.perf.clock.samples import summarize


def noisy(center, count, seed=1):
    stream = random.Random(seed)
    return [center * stream.uniform(0.98, 1.02) for _ in range(count)]


def test_order_statistics():
    found = summarize([float(value) for value in range(11)])
    assert (found.median, found.p10, found.p90, found.count) == (5.0, 1.0, 9.0, 11)


def test_one_sample_is_its_own_median():
    assert summarize([7.0]).median == 7.0


@pytest.mark.parametrize("samples", [[], [1.0, float("nan")], [float("inf")], [-1.0]])
def test_what_is_no_time_never_leaves(samples):
    with pytest.raises(ValueError):
        summarize(samples)


def test_a_steady_row_raises_no_doubt():
    assert summarize(noisy(40_000, 200)).doubts == ()


def test_a_few_outliers_raise_no_doubt():
    samples = noisy(40_000, 200)
    samples[17], samples[90], samples[180] = 90_000, 120_000, 70_000
    assert summarize(samples).doubts == ()


def test_two_modes_are_said():
    samples = [value for pair in zip(noisy(40_000, 50), noisy(55_000, 50, 2), strict=True) for value in pair]
    (doubt,) = summarize(samples).doubts
    assert doubt == "bimodal samples: near 39916 ns and near 55115 ns"


def test_a_drift_is_said():
    stream = random.Random(3)
    samples = [40_000 * (1 + at / 500) * stream.uniform(0.99, 1.01) for at in range(200)]
    assert [doubt for doubt in summarize(samples).doubts if doubt.startswith("drifting median")]


def test_steps_of_the_device_s_timer_are_no_modes():
    assert summarize([960.0, 1120.0] * 50).doubts == ()
