"""What the meter asks of the clock, and a whole calibration of a device that is made up."""

import pytest
import torch

from tileops.perf.calibration import device as calibrate_device
from tileops.perf.calibration import kernels, matrix, plan, session
from tileops.perf.calibration import model as model
from tileops.perf.clock.activities import ClockError
from tileops.perf.clock.measurement import DeviceReading, Flush, Measurement, TimingSource
from tileops.perf.roof import profiles

_CPU = torch.device("cpu")
_DEVICE = plan.Device(
    name="NVIDIA H200",
    multiprocessors=132,
    threads_per_multiprocessor=2048,
    l2_bytes=60 * model.MIB,
    free_bytes=100 * model.GIB,
)


def _measurement(**changes):
    settings = {
        "source": TimingSource.CUPTI,
        "device_busy_ns": 2e6,
        "device_busy_p10_ns": 2e6,
        "device_busy_p90_ns": 2e6,
        "wall_ns": 3e6,
        "samples": 12,
        "activities": 1,
        "sample_ns": (),
        "warmup_calls": 3,
    }
    return Measurement(**{**settings, **changes})


@pytest.fixture(name="clock")
def _clock(monkeypatch):
    """A clock that gives what the test sets, and keeps what it was asked."""
    state = {"found": _measurement(), "asked": []}

    def measure(call, **settings):
        state["asked"].append(settings)
        if isinstance(state["found"], Exception):
            raise state["found"]
        return state["found"]

    monkeypatch.setattr(calibrate_device.clock, "measure", measure)
    monkeypatch.setattr(calibrate_device.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(matrix, "matrix_call", lambda trial, device: None)
    monkeypatch.setattr(kernels, "arithmetic_call", lambda trial, device: None)
    return state


_MATRIX = model.MatrixTrial(key="tensor_core.bf16", m=1000, n=1000, k=1000)


def _copy(mix):
    return model.BandwidthTrial(mix=mix, array_bytes=model.MIB, torch_copy=True)


@pytest.mark.requirement("5.1.2")
def test_a_rate_is_work_by_median_time(clock):
    reading = calibrate_device.Meter(_CPU, _DEVICE)(_MATRIX)
    assert reading.rate_per_s == pytest.approx(2e9 / 2e-3)
    assert reading.samples == 12


def test_writes_start_from_dirty_lines_and_pure_reads_from_clean_ones(clock):
    meter = calibrate_device.Meter(_CPU, _DEVICE)
    meter.reserve(model.MIB)
    for mix in ("COPY", "TRIAD", "READ", "WRITE"):
        meter(_copy(mix))
    flushes = [settings["flush"] for settings in clock["asked"]]
    assert flushes == [Flush.DIRTY, Flush.DIRTY, Flush.CLEAN, Flush.DIRTY]


def test_what_is_kept_up_is_measured_after_a_second(clock):
    meter = calibrate_device.Meter(_CPU, _DEVICE)
    meter(_MATRIX)
    meter.sustained(_MATRIX)
    short, long = (settings["budget"] for settings in clock["asked"])
    assert short.warmup_s < 0.1 and long.warmup_s >= 1


@pytest.mark.requirement("5.1.2")
def test_another_clock_sets_no_ceiling(clock):
    clock["found"] = _measurement(source=TimingSource.CUDA_EVENTS)
    with pytest.raises(model.CalibrationError, match="CUPTI"):
        calibrate_device.Meter(_CPU, _DEVICE)(_MATRIX)


def test_a_call_that_cannot_be_timed_is_one_trial_lost(clock):
    clock["found"] = ClockError("other device work")
    with pytest.raises(model.TrialError, match="other device work"):
        calibrate_device.Meter(_CPU, _DEVICE)(_MATRIX)


def test_bandwidth_needs_its_arrays(clock):
    with pytest.raises(model.CalibrationError, match="no arrays"):
        calibrate_device.Meter(_CPU, _DEVICE)(_copy("COPY"))


class FakeMeter:
    """A device with 4.5 TB/s, 60% of every unit's peak, and 1 us to start."""

    def __init__(self, device, facts):
        self._peaks = {key: roof.theoretical_per_s for key, roof in profiles.find_profile("NVIDIA H200").units.items()}

    def reserve(self, array_bytes):
        pass

    def release(self):
        pass

    def time(self, trial):
        return 1e-6 + trial.work / 4.5e12, 10

    def __call__(self, trial):
        if isinstance(trial, model.BandwidthTrial):
            rate = trial.work / self.time(trial)[0]
        elif trial.key == "tensor_core.fp8":
            raise model.TrialError("no fp8 here")
        else:
            rate = 0.6 * self._peaks[trial.key]
        return model.Reading(trial=trial, rate_per_s=rate, samples=10)

    def sustained(self, trial):
        return 0.5 * self._peaks[trial.key]

    def cross_check(self, trial):
        if isinstance(trial, model.BandwidthTrial):
            assert trial.torch_copy
            return 4.4e12
        if trial.key == "tensor_core.int8":
            raise model.TrialError("no library for int8 here")
        assert (trial.m, trial.n, trial.k) == (8192, 8192, 8192) and not trial.tile
        return 0.59 * self._peaks[trial.key]


@pytest.mark.requirement("5.1.2")
@pytest.mark.parametrize("quick", [False, True])
def test_a_whole_calibration(monkeypatch, quick):
    monkeypatch.setattr(calibrate_device, "Meter", FakeMeter)
    monkeypatch.setattr(calibrate_device, "describe", lambda device: _DEVICE)
    monkeypatch.setattr(session.device_state, "read", lambda device: DeviceReading())
    base = profiles.find_profile("NVIDIA H200")
    theoretical = {key: roof.theoretical_per_s for key, roof in base.units.items()}
    outcomes, profile = session.calibrate(_CPU, base.message, theoretical, quick)
    assert all(outcome.stable for outcome in outcomes)
    assert profile.hbm.calibration == pytest.approx(4.5 / 4.8, rel=1e-2)
    assert profile.latency_floor_s == pytest.approx(5e-6, rel=1e-3)
    units = {unit.key: unit for unit in profile.unit}
    assert units["tensor_core.bf16"].calibration == 0.6
    checked = {o.quantity.name: o.cross_check_per_s for o in outcomes if o.cross_check_per_s}
    assert set(checked) == {"hbm.COPY"} | {f"tensor_core.{kind}" for kind in ("bf16", "fp16", "tf32", "fp64")}
    assert "98.3% of the best" in units["tensor_core.bf16"].calibration_method
    assert profile.provenance.agreement.startswith("against the calibration of 2026-")
    # The base's own calibration of what could not be measured does not stay.
    assert not units["tensor_core.fp8"].HasField("calibration")
    assert ("--quick" in profile.provenance.tool) == quick
