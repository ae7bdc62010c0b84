"""//perf:calibrate: measures the GPU it runs on and writes its profile.

Bandwidth of four access mixes, the peak of each unit that the base profile has a
theoretical figure for, and the latency floor: with the bench's own clock, on cold
caches and random data, repeated until stable. Clocks, power and temperature are
recorded beside each number and never changed.
"""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import platform
import re
import tempfile
import time
from collections.abc import Sequence

from absl import app, flags

from tileops.perf.roof import profiles
from tileops.proto import gpu_profile_pb2
from tileops.tools.cli import command, later, output, paths

# Imported when first used, since they import torch, or use what does.
torch = later.module("torch")
calibrate_check = later.module("tileops.perf.calibration.check")
calibrate_conditions = later.module("tileops.perf.calibration.conditions")
calibrate_device = later.module("tileops.perf.calibration.device")
calibrate_fit = later.module("tileops.perf.calibration.fit")
model = later.module("tileops.perf.calibration.model")
calibrate_plan = later.module("tileops.perf.calibration.plan")
calibrate_profile = later.module("tileops.perf.calibration.profile")
calibrate_search = later.module("tileops.perf.calibration.search")
device_state = later.module("tileops.perf.clock.device_state")

_OUT = flags.DEFINE_string(
    "out", "", "File to write the profile to; by default one named after the GPU, in your directory."
)
_BASE = flags.DEFINE_string(
    "base",
    "",
    "Profile with the theoretical values: a device name or a .textproto file; by"
    " default the project's profile of this GPU.",
)
_QUICK = flags.DEFINE_bool("quick", False, "Fewer variants and rounds: a minute instead of four.")

_VERSION = "1"


def find_base(base: str, device_name: str) -> profiles.Profile:
    """Returns the profile whose theoretical values hold for the device.

    Raises:
      UsageError: There is none, it cannot be read, or it is another device's.
    """
    try:
        profile = _named_base(base) if base else profiles.select(profiles.load_profiles(), device_name)
    except profiles.ProfileError as error:
        raise app.UsageError(str(error)) from error
    if profile is None:
        raise app.UsageError(
            f"no profile has the theoretical values of {device_name!r}: write one from"
            " its datasheet and name it by --base"
        )
    for warning in profile.warnings:
        command.say(warning)
    if not profile.matches(device_name):
        raise app.UsageError(
            f"--base is the profile of {profile.gpu!r}, but this device is"
            f" {device_name!r}: its fractions would be of another card's figures"
        )
    return profile


def _named_base(base: str) -> profiles.Profile:
    try:
        return profiles.find_profile(base)
    except profiles.ProfileError as error:
        raise app.UsageError(str(error)) from error


def find_out(out: str, device_name: str) -> pathlib.Path:
    """Returns the file to write, found writable before anything is measured.

    Raises:
      UsageError: Its directory is not there or takes no file, or it is no regular
        file itself.
    """
    name = re.sub(r"\W+", "_", device_name.strip().lower()) + ".textproto"
    path = paths.user_path(out or name).resolve()
    if path.exists() and not path.is_file():
        raise app.UsageError(f"--out: cannot write a file at {path}: there is something else")
    try:
        # As the profile will be: beside it first.
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise app.UsageError(f"--out: cannot write a file at {path}: {error.strerror}") from error
    return path


def calibrate(
    device: torch.device, base: gpu_profile_pb2.GpuProfile, theoretical: dict[str, float], quick: bool
) -> tuple[list[model.Outcome], gpu_profile_pb2.GpuProfile]:
    """Measures a device.

    Args:
      device: A CUDA device.
      base: Its profile with theoretical values.
      theoretical: Of its units, by roof key. Operations per second.
      quick: Whether to try less hard.

    Returns:
      What was measured, and the profile.

    Raises:
      CalibrationError: What was measured must not become a profile.
    """
    facts = calibrate_device.describe(device)
    effort = calibrate_plan.QUICK if quick else calibrate_plan.FULL
    meter = calibrate_device.Meter(device, facts)
    mixes = calibrate_plan.bandwidth(facts, base.hbm.theoretical_bytes_per_s, effort)
    units = calibrate_plan.peaks(facts, theoretical, effort)
    for key in theoretical:
        if not calibrate_plan.measurable(key):
            command.say(f"{key}: not measured, there is no method for it")
    outcomes = []
    with calibrate_conditions.Watch(lambda: device_state.read(device)) as watch:
        meter.reserve(max(size for mix in mixes for size in mix.final_array_bytes))
        # First, while the device is cool, what lasts a microsecond; it also pays
        # for the profiler's start.
        start_up = _measure_start_up(meter, quick)
        for quantity in mixes:
            outcomes.append(_measure(quantity, meter, watch))
        meter.release()
        for quantity in units:
            try:
                outcomes.append(_measure(quantity, meter, watch))
            except calibrate_search.NothingMeasured as error:
                command.say(f"{error}; the profile leaves its calibration out")
        clocks = watch.since(0)
    provenance = {
        "tool": f"//perf:calibrate {_VERSION}" + (" --quick" if quick else ""),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "driver": device_state.driver_version(),
        "clocks": f"as found, not set; {clocks}",
        "software": f"CUDA {torch.version.cuda}, torch {torch.__version__}, Python {platform.python_version()}",
    }
    return outcomes, calibrate_profile.merge(base, outcomes, start_up, provenance, facts.l2_bytes)


def _measure(
    quantity: model.Quantity, meter: calibrate_device.Meter, watch: calibrate_conditions.Watch
) -> model.Outcome:
    started, mark = time.monotonic(), watch.mark()
    outcome = calibrate_search.search(quantity, meter, conditions=lambda: watch.since(mark), report=command.say)
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
    command.say(f"{_line(outcome)}; {time.monotonic() - started:.0f} s")
    return outcome


def _measure_start_up(meter: calibrate_device.Meter, quick: bool) -> calibrate_fit.StartUp:
    fastest: dict[int, float] = {}
    for trial in calibrate_plan.start_up(quick):
        seconds, _ = meter.time(trial)
        fastest[trial.work] = min(seconds, fastest.get(trial.work, seconds))
    start_up = calibrate_fit.fit_start_up(sorted(fastest.items()))
    times = ", ".join(
        f"{model.written_size(traffic)} {seconds * 1e6:.2f} us" for traffic, seconds in sorted(fastest.items())
    )
    command.say(
        f"start-up {start_up.t0_s * 1e6:.3f} us and"
        f" {start_up.bytes_per_s / 1e12:.2f} TB/s, worst miss {start_up.worst_miss:.0%},"
        f" from small copies (read and written: time): {times}"
    )
    return start_up


def _line(outcome: model.Outcome) -> str:
    state = "stable" if outcome.stable else "NOT STABLE"
    parts = [
        f"{outcome.quantity.name}: {outcome.best.rate_per_s / 1e12:.4g} T{outcome.unit},"
        f" {outcome.fraction:.2%} of the theoretical ({outcome.best.trial})",
        f"{state}, {len(outcome.round_bests)} rounds, spread {outcome.spread:.2%}",
    ]
    parts.append(calibrate_profile.unconfirmed_in_words(outcome))
    if isinstance(outcome.best.trial, model.BandwidthTrial):
        parts.append(calibrate_profile.variants_in_words(outcome))
    parts.append(calibrate_check.cross_check_in_words(outcome))
    parts.append(outcome.conditions)
    if outcome.sustained_per_s is not None:
        parts.append(f"sustained {outcome.sustained_per_s / 1e12:.4g} T{outcome.unit}")
        parts.append(outcome.sustained_conditions)
    return "; ".join(part for part in parts if part)


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns its exit status."""
    del argv
    if _BASE.value:
        _named_base(_BASE.value)  # before torch is imported
    if not torch.cuda.is_available():
        raise app.UsageError(
            "no CUDA device here: a calibration measures the GPU that it runs on"
            " (//perf:calibrate_zip makes one file to take to it)"
        )
    if torch.version.hip:
        raise app.UsageError(
            "the calibration's kernels are CUDA C++ with PTX: there is no method for"
            " AMD GPUs yet; their profiles stay uncalibrated"
        )
    device = torch.device("cuda", torch.cuda.current_device())
    device_name = torch.cuda.get_device_name(device)
    base = find_base(_BASE.value, device_name)
    out = find_out(_OUT.value, device_name)
    command.say(f"measuring {device_name}, {'one minute' if _QUICK.value else 'four minutes'}")
    theoretical = {key: roof.theoretical_per_s for key, roof in base.units.items()}
    try:
        outcomes, profile = calibrate(device, base.message, theoretical, _QUICK.value)
    except (model.CalibrationError, model.TrialError) as error:
        command.say(f"no profile written: {error}")
        return command.EXIT_FOUND
    _tell(outcomes, profile, base)
    _write(profile, out)
    command.say(f"wrote {out}")
    return command.EXIT_OK


def _write(profile: gpu_profile_pb2.GpuProfile, out: pathlib.Path) -> None:
    try:
        calibrate_profile.write(profile, out)
    except output.OutputError as error:
        # Minutes of measuring are not lost to a disk that filled up meanwhile.
        print(calibrate_profile.to_text(profile))
        raise app.UsageError(f"{error}; the profile is on stdout") from error


def _tell(outcomes: Sequence[model.Outcome], profile: gpu_profile_pb2.GpuProfile, base: profiles.Profile) -> None:
    for outcome in outcomes:
        print(_line(outcome))
    print(f"latency floor: {profile.latency_floor_s * 1e6:.2f} us")
    for repeat in calibrate_check.repeats(base.message, profile):
        print(f"repeated: {repeat}")
    if profile.provenance.agreement:
        print(profile.provenance.agreement)
    unstable = [o.quantity.name for o in outcomes if not o.stable]
    if unstable:
        command.say(f"not stable within the tolerance: {', '.join(unstable)}")


if __name__ == "__main__":
    command.run(main)
