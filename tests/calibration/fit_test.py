"""The start-up fit recovers what is known and refuses what is no line."""

import math

import pytest

from tileops.perf.calibration import fit
from tileops.perf.calibration import model as model

_SIZES = [64 << 10 << step for step in range(9)]


def _line(t0_s: float, bytes_per_s: float) -> list[tuple[int, float]]:
    return [(size, t0_s + size / bytes_per_s) for size in _SIZES]


def test_recovers_start_up_and_rate():
    found = fit.fit_start_up(_line(1.1e-6, 4e12))
    assert found.t0_s == pytest.approx(1.1e-6, rel=1e-9)
    assert found.bytes_per_s == pytest.approx(4e12, rel=1e-9)
    assert found.worst_miss < 1e-9
    assert found.floor_s == pytest.approx(5.5e-6, rel=1e-9)


def test_short_copies_decide_the_intercept():
    # The longest copies are 20% slow: plain least squares would put the intercept
    # far below what every short copy shows.
    points = _line(1.1e-6, 4e12)
    points[-1] = (points[-1][0], points[-1][1] * 1.2)
    assert fit.fit_start_up(points).t0_s == pytest.approx(1.1e-6, rel=0.05)


@pytest.mark.parametrize("points", [[], _line(1e-6, 4e12)[:2], _line(1e-6, 4e12)[:1] * 9])
def test_needs_three_sizes(points):
    with pytest.raises(model.CalibrationError, match="at least 3 sizes"):
        fit.fit_start_up(points)


@pytest.mark.parametrize("seconds", [0.0, -1e-6, math.nan, math.inf])
def test_refuses_what_is_no_time(seconds):
    points = _line(1e-6, 4e12)
    points[3] = (points[3][0], seconds)
    with pytest.raises(model.CalibrationError, match="no measurement"):
        fit.fit_start_up(points)


def test_refuses_a_negative_start_up():
    with pytest.raises(model.CalibrationError, match="both should be positive"):
        fit.fit_start_up([(size, (size / 4e12) ** 1.5) for size in _SIZES])


def test_refuses_times_that_fall_with_size():
    with pytest.raises(model.CalibrationError, match="both should be positive"):
        fit.fit_start_up([(size, 1e-3 / size) for size in _SIZES])


def test_refuses_a_step():
    points = [(size, 1e-6 if size < 1 << 20 else 30e-6) for size in _SIZES]
    with pytest.raises(model.CalibrationError, match="not on a line"):
        fit.fit_start_up(points)
