"""GPU profiles: loaded, validated, and selected by device name.

A profile (`profiles/*.textproto`, schema in `proto/gpu_profile.proto`) states
theoretical figures and calibration factors. Rows are priced against their product, which
is computed here and stored nowhere.
"""

import dataclasses
import os
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence

from google.protobuf import text_format

from tileops.perf.roof import profile_checks
from tileops.proto import gpu_profile_pb2
from tileops.tools.cli import errors, nearest, paths


class ProfileError(errors.UserError):
    """A profile that cannot be used; the message says which profile and why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Roof:
    """One ceiling: bytes per second of the memory, FLOPs per second of a unit.

    Attributes:
      theoretical_per_s: The datasheet's figure.
      calibration: The measured fraction of it; None if not measured.
      ceiling_per_s: What nothing can exceed: the datasheet's figure, at the highest clock that the device reports.
    """

    theoretical_per_s: float
    calibration: float | None
    ceiling_per_s: float

    @property
    def effective_per_s(self) -> float | None:
        """Returns the achievable rate; None if it was not measured."""
        if self.calibration is None:
            return None
        return self.theoretical_per_s * self.calibration


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """A validated GPU profile.

    Attributes:
      gpu: Device name as the driver reports it.
      names: `gpu` and its aliases, normalized for comparison.
      bandwidth: Ceiling of the device memory. Bytes per second.
      units: Ceiling of each unit by roof key. FLOPs per second.
      latency_floor_s: Time under which launch overhead dominates; None if
        not measured. Seconds.
      l2_bytes: Last-level cache; None if the profile does not state it. Bytes.
      message: The profile as it was read, with sources and provenance.
      warnings: What is unlikely about its figures, in words; the command prints it.
    """

    gpu: str
    names: frozenset[str]
    bandwidth: Roof
    units: Mapping[str, Roof]
    latency_floor_s: float | None
    l2_bytes: int | None
    message: gpu_profile_pb2.GpuProfile
    warnings: tuple[str, ...] = ()

    def matches(self, device_name: str) -> bool:
        """Returns whether the profile names this device: exactly, but for case and spaces."""
        return _normalized(device_name) in self.names


def load_profile(path: str | os.PathLike) -> Profile:
    """Reads and validates one profile.

    Raises:
      ProfileError: It cannot be read, is not valid, or has figures that no GPU can
        have; the message lists every defect.
    """
    message = gpu_profile_pb2.GpuProfile()
    try:
        text_format.Parse(pathlib.Path(path).read_text(encoding="utf-8"), message)
    except OSError as error:
        raise ProfileError(f"cannot read profile {path}: {error.strerror}") from error
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ProfileError(f"profile {path}:{error}") from error
    if defects := profile_checks.validate(message):
        raise ProfileError(f"profile {path}: " + "; ".join(defects))
    return _model(message, _warnings(path, profile_checks.find(message)))


def _warnings(path: str | os.PathLike, findings: Sequence[profile_checks.Finding]) -> tuple[str, ...]:
    """Returns the findings as warnings that name the profile's file; raises ProfileError if one is impossible."""
    if impossible := [finding.text for finding in findings if finding.is_impossible]:
        raise ProfileError(f"profile {path}: " + "; ".join(impossible))
    return tuple(f"profile {path}: {finding.text}" for finding in findings)


def load_profiles() -> list[Profile]:
    """Reads the project's own profiles, in order of their file names."""
    return [load_profile(path) for path in _profile_files()]


def select(profiles: Iterable[Profile], device_name: str) -> Profile | None:
    """Returns the profile that names the device; None if there is none.

    Raises:
      ProfileError: Several do.
    """
    candidates = [profile for profile in profiles if profile.matches(device_name)]
    if len(candidates) > 1:
        names = ", ".join(repr(profile.gpu) for profile in candidates)
        raise ProfileError(
            f"several profiles name the device {device_name!r}: those of {names}; remove the alias from all but one"
        )
    return candidates[0] if candidates else None


def assume(profile: Profile, calibration: float) -> Profile:
    """Returns the profile with an assumed factor for each figure without a measured one.

    Args:
      profile: Not changed. What it has measured stays.
      calibration: A fraction of each theoretical figure, in (0, 1].

    Raises:
      ProfileError: `calibration` is not such a fraction.
    """
    if not 0 < calibration <= 1:
        raise ProfileError(
            f"{calibration:g} is not a fraction of a theoretical figure: give a number above 0 and at most 1"
        )

    if not _uncalibrated(profile.message):
        return profile

    def assumed(roof: Roof) -> Roof:
        if roof.calibration is not None:
            return roof
        return dataclasses.replace(roof, calibration=calibration)

    message = gpu_profile_pb2.GpuProfile()
    message.CopyFrom(profile.message)
    message.assumed_calibration = calibration
    return dataclasses.replace(
        profile,
        bandwidth=assumed(profile.bandwidth),
        units={key: assumed(roof) for key, roof in profile.units.items()},
        message=message,
    )


def assumption_in_words(message: gpu_profile_pb2.GpuProfile) -> str:
    """Returns what `assume` filled in, for the readers of a report; "" for nothing."""
    if not message.HasField("assumed_calibration"):
        return ""
    names = _uncalibrated(message)
    what = "every figure" if len(names) > len(message.unit) else ", ".join(names)
    words = (
        f"ASSUMED, not measured: {message.assumed_calibration:g} of the theoretical value"
        f" of {what}; readings against it are as rough as that guess"
    )
    if not message.HasField("latency_floor_s"):
        words += ", and without a latency floor no row is called latency bound"
    return words


def clock_headroom(message: gpu_profile_pb2.GpuProfile, clock_mhz: float) -> float:
    """Returns how much faster than at `clock_mhz` (0: not stated) a unit can be: a factor of at least 1.

    A datasheet may state a peak at a lower clock than the device runs at: an H200's tensor peaks at 1830 of 1980 MHz.
    """
    return max(message.max_clock_mhz / clock_mhz, 1.0) if clock_mhz else 1.0


def _uncalibrated(message: gpu_profile_pb2.GpuProfile) -> list[str]:
    """Returns "hbm" and the roof keys that have no measured factor."""
    hbm = [] if message.hbm.HasField("calibration") else ["hbm"]
    return hbm + [unit.key for unit in message.unit if not unit.HasField("calibration")]


def find_profile(name_or_file: str) -> Profile:
    """Returns the profile that a user asked for.

    Args:
      name_or_file: A file, the name of one in profiles/ without its ending, or a
        device name.

    Raises:
      ProfileError: No such file and no such device.
    """
    path = paths.user_path(name_or_file)
    if name_or_file.endswith(".textproto") or os.path.isfile(path):
        return _held_against_ours(load_profile(path), path)
    for path in _profile_files():
        if path.stem == name_or_file:
            return load_profile(path)
    profiles = load_profiles()
    profile = select(profiles, name_or_file)
    if profile is None:
        raise ProfileError(
            f"no profile of that name: {name_or_file!r} ({candidates(profiles, name_or_file)};"
            " a file ends in .textproto)"
        )
    return profile


def candidates(profiles: Iterable[Profile], name: str) -> str:
    """Returns which profiles a user may have meant: those that share a word, else the nearest names.

    For messages only: a profile that shares a word is never taken for the device.
    """
    words = set(_words(_normalized(name))) - {"nvidia", "amd"}
    sharing = [p for p in profiles if any(words & set(_words(each)) for each in p.names)]
    chosen = sharing if 0 < len(sharing) <= 8 else profiles
    return nearest.instead(name, [profile.gpu for profile in chosen], "ls profiles", written=repr)


def _profile_files() -> list[pathlib.Path]:
    return sorted(paths.data_path("profiles").glob("*.textproto"))


def _held_against_ours(profile: Profile, path: os.PathLike) -> Profile:
    """Returns a user's profile with a warning for each figure that is far from the project's figure of that device.

    Raises:
      ProfileError: A figure is impossible in the light of the project's.
    """
    known = select(load_profiles(), profile.gpu)
    if known is None:
        return profile
    found = _warnings(path, profile_checks.compare(profile.message, known.message))
    return dataclasses.replace(profile, warnings=profile.warnings + found)


def _model(message: gpu_profile_pb2.GpuProfile, warnings: tuple[str, ...] = ()) -> Profile:
    """Returns the model of a valid message."""

    def roof(theoretical_per_s: float, part, clock_mhz: float = 0.0) -> Roof:
        measured = part.HasField("calibration")
        ceiling_per_s = theoretical_per_s * clock_headroom(message, clock_mhz)
        return Roof(theoretical_per_s, part.calibration if measured else None, ceiling_per_s)

    return Profile(
        gpu=message.gpu,
        names=frozenset(_normalized(name) for name in (message.gpu, *message.alias)),
        bandwidth=roof(message.hbm.theoretical_bytes_per_s, message.hbm),
        units={unit.key: roof(unit.theoretical_flops_per_s, unit, unit.clock_mhz) for unit in message.unit},
        latency_floor_s=(message.latency_floor_s if message.HasField("latency_floor_s") else None),
        l2_bytes=message.l2_bytes if message.HasField("l2_bytes") else None,
        message=message,
        warnings=warnings,
    )


def _words(name: str) -> list[str]:
    return re.split(r"[\s-]+", name)


def _normalized(name: str) -> str:
    return " ".join(name.split()).casefold()
