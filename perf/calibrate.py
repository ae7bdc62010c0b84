"""Measures the GPU it runs on and writes its profile.

Measures the bandwidth of four access mixes, the peak of each unit that has a theoretical figure in the base profile, and
the latency floor. It uses the bench's clock, cold caches and random data, and repeats until the result is stable. It
records clocks, power and temperature beside each number, and never changes them.

Exit status: 0 if a profile was written, 1 if no result could be trusted, 2 if a flag is wrong or there is no GPU.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence

from absl import flags

from tileops.perf.calibration import check, model
from tileops.perf.calibration import profile as calibrate_profile
from tileops.perf.roof import profiles
from tileops.proto import gpu_profile_pb2
from tileops.tools.cli import command, errors, gpu_driver, output, paths

_OUT = flags.DEFINE_string("out", "", "Profile to write. Default: a file named after the GPU, in the current folder.")
_BASE = flags.DEFINE_string(
    "base",
    "",
    "Profile with the theoretical values: a device name or a .textproto file. Default: the project's profile of this"
    " GPU.",
)
_QUICK = flags.DEFINE_bool("quick", False, "Try fewer variants in fewer rounds: one minute instead of four.")
_NO_GPU = (
    "there is no CUDA device here: a calibration measures the GPU that it runs on (//perf:calibrate_zip makes one file to"
    " copy to a GPU machine)"
)


def find_base(base: str, device_name: str) -> profiles.Profile:
    """Returns the profile whose theoretical values hold for the device.

    Raises:
      UserError: There is no such profile, it cannot be read, or it is another device's.
    """
    profile = profiles.find_profile(base) if base else profiles.select(profiles.load_profiles(), device_name)
    if profile is None:
        raise errors.UserError(
            f"no profile has the theoretical values of {device_name!r}: write one from its datasheet and name it with"
            " --base"
        )
    for warning in profile.warnings:
        command.say(warning)
    if not profile.matches(device_name):
        raise errors.UserError(
            f"--base is the profile of {profile.gpu!r}, but this device is {device_name!r}: its fractions would refer to"
            " another GPU's figures"
        )
    return profile


def find_out(out: str, device_name: str) -> pathlib.Path:
    """Returns the file to write.

    Raises:
      UserError: Its folder takes no file, or something other than a profile has its name.
    """
    name = out or re.sub(r"\W+", "_", device_name.strip().lower()) + ".textproto"
    path = paths.user_path(name).resolve()
    if path.exists() and not path.is_file():
        raise errors.UserError(f"--out={name}: cannot write {path}: it is no regular file")
    output.check(name, ("calibrate", "profile"))
    return path


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns its exit status."""
    del argv
    if _BASE.value:
        profiles.find_profile(_BASE.value)
    if _OUT.value:
        find_out(_OUT.value, "")
    if not gpu_driver.is_present():
        raise errors.UserError(_NO_GPU)

    import torch  # after what is known without it: it takes seconds

    from tileops.perf.calibration import session

    if not torch.cuda.is_available():
        raise errors.UserError(_NO_GPU)
    if torch.version.hip:
        raise errors.UserError(
            "AMD GPUs cannot be calibrated yet: the calibration's kernels are CUDA C++ with PTX; an AMD profile stays"
            " uncalibrated"
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
    return command.EXIT_OK


def _write(profile: gpu_profile_pb2.GpuProfile, out: pathlib.Path) -> None:
    try:
        calibrate_profile.write(profile, out)
    except output.OutputError as error:
        # A disk that filled up meanwhile must not lose minutes of measuring.
        print(calibrate_profile.to_text(profile))
        raise errors.UserError(f"{error}; the profile is on stdout") from error


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
