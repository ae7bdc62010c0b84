"""Measures every quantity of a GPU, and makes its profile."""

from __future__ import annotations

import dataclasses
import datetime
import platform
import time

import torch

from tileops.perf.calibration import conditions, fit, model, plan, search
from tileops.perf.calibration import device as calibrate_device
from tileops.perf.calibration import profile as calibrate_profile
from tileops.perf.clock import device_state
from tileops.proto import gpu_profile_pb2
from tileops.tools.cli import command

_VERSION = "1"


def calibrate(
    device: torch.device, base: gpu_profile_pb2.GpuProfile, theoretical: dict[str, float], quick: bool
) -> tuple[list[model.Outcome], gpu_profile_pb2.GpuProfile]:
    """Measures a device.

    Args:
      device: A CUDA device.
      base: Its profile with theoretical values.
      theoretical: Peak of each unit by roof key. Operations per second.
      quick: Whether to try fewer variants and rounds.

    Returns:
      The outcomes and the profile.

    Raises:
      CalibrationError: The outcomes must not become a profile.
    """
    facts = calibrate_device.describe(device)
    effort = plan.QUICK if quick else plan.FULL
    meter = calibrate_device.Meter(device, facts)
    mixes = plan.bandwidth(facts, base.hbm.theoretical_bytes_per_s, effort)
    units = plan.peaks(facts, theoretical, effort)
    for key in theoretical:
        if not plan.measurable(key):
            command.say(f"{key}: not measured, there is no method for it")
    outcomes = []
    with conditions.Watch(lambda: device_state.read(device)) as watch:
        meter.reserve(max(size for mix in mixes for size in mix.final_array_bytes))
        # The start-up time comes first, while the device is cool. This also pays for the profiler's start.
        start_up = _measure_start_up(meter, quick)
        for quantity in mixes:
            outcomes.append(_measure(quantity, meter, watch))
        meter.release()
        for quantity in units:
            try:
                outcomes.append(_measure(quantity, meter, watch))
            except search.NothingMeasured as error:
                command.say(f"{error}; the profile leaves its calibration out")
        clocks = watch.since(0)
    provenance = {
        "tool": f"//perf:calibrate {_VERSION}" + (" --quick" if quick else ""),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "driver": device_state.driver_version(),
        "clocks": f"as found, not set; {clocks}",
        "software": f"CUDA {torch.version.cuda}, torch {torch.__version__}, Python {platform.python_version()}",
    }
    max_clock_mhz = device_state.max_sm_clock_mhz(device)
    return outcomes, calibrate_profile.merge(base, outcomes, start_up, provenance, facts.l2_bytes, max_clock_mhz)


def _measure(quantity: model.Quantity, meter: calibrate_device.Meter, watch: conditions.Watch) -> model.Outcome:
    started, mark = time.monotonic(), watch.mark()
    outcome = search.search(quantity, meter, conditions=lambda: watch.since(mark), report=command.say)
    if not isinstance(outcome.best.trial, model.BandwidthTrial):
        mark = watch.mark()
        sustained_per_s = meter.sustained(outcome.best.trial)
        outcome = dataclasses.replace(outcome, sustained_per_s=sustained_per_s, sustained_conditions=watch.since(mark))
    if quantity.cross_check is not None:
        try:
            cross_check_per_s = meter.cross_check(quantity.cross_check)
            outcome = dataclasses.replace(outcome, cross_check_per_s=cross_check_per_s)
        except model.TrialError as error:
            command.say(f"{quantity.name}: no cross-check: {quantity.cross_check}: {error}")
    for failure in outcome.failures:
        command.say(f"{quantity.name}: left out: {failure}")
    command.say(f"{line(outcome)}; {time.monotonic() - started:.0f} s")
    return outcome


def _measure_start_up(meter: calibrate_device.Meter, quick: bool) -> fit.StartUp:
    fastest: dict[int, float] = {}
    for trial in plan.start_up(quick):
        seconds, _ = meter.time(trial)
        fastest[trial.work] = min(seconds, fastest.get(trial.work, seconds))
    start_up = fit.fit_start_up(sorted(fastest.items()))
    times = ", ".join(
        f"{model.written_size(traffic)} {seconds * 1e6:.2f} us" for traffic, seconds in sorted(fastest.items())
    )
    command.say(
        f"start-up {start_up.t0_s * 1e6:.3f} us and {start_up.bytes_per_s / 1e12:.2f} TB/s, worst miss"
        f" {start_up.worst_miss:.0%}, from small copies (read and written: time): {times}"
    )
    return start_up


def line(outcome: model.Outcome) -> str:
    """Returns what was measured of one quantity, in words, on one line."""
    return calibrate_profile.in_words(
        outcome,
        f"{outcome.quantity.name}: {outcome.tera(outcome.best.rate_per_s)}, {outcome.fraction:.2%} of the theoretical"
        f" ({outcome.best.trial})",
        f"{'stable' if outcome.stable else 'NOT STABLE'}, {len(outcome.round_bests)} rounds, spread {outcome.spread:.2%}",
        sustained="sustained {}",
    )
