"""//perf:calibrate: measures the GPU it runs on and writes its profile.

Bandwidth of four access mixes, the peak of each unit that the base profile has a
theoretical figure for, and the latency floor: with the bench's own clock, on cold
caches and random data, repeated until stable. Clocks, power and temperature are
recorded beside each number and never changed.
"""

from __future__ import annotations

import pathlib
import re
import tempfile
from collections.abc import Sequence

from absl import app, flags

from tileops.perf.calibration import check, model
from tileops.perf.calibration import profile as calibrate_profile
from tileops.perf.roof import profiles
from tileops.proto import gpu_profile_pb2
from tileops.tools.cli import command, output, paths

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


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns its exit status."""
    del argv
    if _BASE.value:
        _named_base(_BASE.value)
    import torch  # after what is known without it: it takes seconds

    from tileops.perf.calibration import session

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
        outcomes, profile = session.calibrate(device, base.message, theoretical, _QUICK.value)
    except (model.CalibrationError, model.TrialError) as error:
        command.say(f"no profile written: {error}")
        return command.EXIT_FOUND
    for outcome in outcomes:
        print(session.line(outcome))
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
    print(f"latency floor: {profile.latency_floor_s * 1e6:.2f} us")
    for repeat in check.repeats(base.message, profile):
        print(f"repeated: {repeat}")
    if profile.provenance.agreement:
        print(profile.provenance.agreement)
    unstable = [o.quantity.name for o in outcomes if not o.stable]
    if unstable:
        command.say(f"not stable within the tolerance: {', '.join(unstable)}")


if __name__ == "__main__":
    command.run(main)
