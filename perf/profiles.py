"""GPU profiles: loaded, validated, and selected by device name.

A profile (`profiles/*.textproto`, schema in `proto/gpu_profile.proto`) states
theoretical figures and calibration factors. What prices a row is their product,
computed here and stored nowhere.
"""

import dataclasses
import math
import os
import pathlib
from collections.abc import Iterable, Mapping

from google.protobuf import text_format

from tileops.perf import paths
from tileops.proto import gpu_profile_pb2

# Every key that an op's `roof_key()` may return.
ROOF_KEYS = frozenset(
    [f"cuda_core.{kind}" for kind in ("fp32", "fp64", "fp16", "bf16", "int32")]
    + [
        f"tensor_core.{kind}"
        for kind in ("bf16", "fp16", "tf32", "fp8", "int8", "fp64", "fp4", "int4")
    ]
)

# A figure outside of these was written in another unit (GB/s, TFLOPS).
_PLAUSIBLE_BYTES_PER_S = (1e10, 1e14)
_PLAUSIBLE_FLOPS_PER_S = (1e10, 1e18)
_PLAUSIBLE_LATENCY_FLOOR_S = (1e-7, 1e-3)
# hbm.calibration repeats the largest mix fraction; decimals may be rounded.
_ENVELOPE_TOLERANCE = 1e-6


class ProfileError(Exception):
    """A profile that cannot be used; the message says which and why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Roof:
    """One ceiling: bytes per second of the memory, FLOPs per second of a unit.

    Attributes:
      theoretical_per_s: The datasheet's figure.
      calibration: The measured fraction of it; None where not measured.
    """

    theoretical_per_s: float
    calibration: float | None

    @property
    def effective_per_s(self) -> float | None:
        """What is achievable; None where not measured."""
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
      latency_floor_s: Time under which launch overhead dominates; None where
        not measured. Seconds.
      message: The profile as it was read, with sources and provenance.
    """

    gpu: str
    names: frozenset[str]
    bandwidth: Roof
    units: Mapping[str, Roof]
    latency_floor_s: float | None
    message: gpu_profile_pb2.GpuProfile

    def matches(self, device_name: str) -> bool:
        """Whether the profile names this device: exactly, but for case and spaces."""
        return _normalized(device_name) in self.names


def load_profile(path: str | os.PathLike) -> Profile:
    """Reads and validates one profile.

    Raises:
      ProfileError: It cannot be read, or is not valid; the message lists every
        defect.
    """
    message = gpu_profile_pb2.GpuProfile()
    try:
        text_format.Parse(pathlib.Path(path).read_text(encoding="utf-8"), message)
    except OSError as error:
        raise ProfileError(f"cannot read profile {path}: {error.strerror}") from error
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ProfileError(f"profile {path}:{error}") from error
    defects = validate(message)
    if defects:
        raise ProfileError(f"profile {path}: " + "; ".join(defects))
    return _model(message)


def load_profiles() -> list[Profile]:
    """Reads the project's own profiles, in order of their file names."""
    return [load_profile(path) for path in _profile_files()]


def select(profiles: Iterable[Profile], device_name: str) -> Profile | None:
    """Returns the profile that names the device; None where there is none.

    Raises:
      ProfileError: Several do.
    """
    candidates = [profile for profile in profiles if profile.matches(device_name)]
    if len(candidates) > 1:
        names = ", ".join(repr(profile.gpu) for profile in candidates)
        raise ProfileError(
            f"several profiles name the device {device_name!r}: those of {names};"
            " remove the alias from all but one"
        )
    return candidates[0] if candidates else None


def find_profile(name_or_file: str) -> Profile:
    """Returns the profile that a user asked for.

    Args:
      name_or_file: A file, the name of one in profiles/ without its ending, or a
        device name.

    Raises:
      ProfileError: No such file and no such device.
    """
    path = paths.user_path(name_or_file)
    if name_or_file.endswith(".textproto") or path.is_file():
        return load_profile(path)
    for path in _profile_files():
        if path.stem == name_or_file:
            return load_profile(path)
    profiles = load_profiles()
    profile = select(profiles, name_or_file)
    if profile is None:
        known = ", ".join(repr(profile.gpu) for profile in profiles)
        raise ProfileError(
            f"no profile of that name: {name_or_file!r} (there are {known}; a file"
            " ends in .textproto)"
        )
    return profile


def validate(message: gpu_profile_pb2.GpuProfile) -> list[str]:
    """Returns every defect of a profile, in words; none for a valid one."""
    defects = []
    if not message.gpu.strip():
        defects.append("gpu is missing")
    measured = _check_memory(message, defects) + _check_units(message, defects)
    if message.HasField("latency_floor_s"):
        measured += 1
        _check_range(
            "latency_floor_s",
            message.latency_floor_s,
            _PLAUSIBLE_LATENCY_FLOOR_S,
            "seconds",
            defects,
        )
    provenance = message.provenance
    if measured and not (provenance.tool and provenance.date):
        defects.append(
            "measured values need provenance with the tool and the date of measurement"
        )
    return defects


def _profile_files() -> list[pathlib.Path]:
    return sorted(paths.data_path("profiles").glob("*.textproto"))


def _check_memory(message: gpu_profile_pb2.GpuProfile, defects: list[str]) -> int:
    """Checks `hbm`; returns how many measured factors it has."""
    hbm = message.hbm
    if not hbm.HasField("theoretical_bytes_per_s"):
        defects.append("hbm.theoretical_bytes_per_s is missing")
    else:
        _check_range(
            "hbm.theoretical_bytes_per_s",
            hbm.theoretical_bytes_per_s,
            _PLAUSIBLE_BYTES_PER_S,
            "bytes per second",
            defects,
        )
        _check_source("hbm", hbm.source, message, defects)
    _check_fraction("hbm.calibration", hbm, "calibration", defects)
    kinds = [mix.kind for mix in hbm.mix]
    if gpu_profile_pb2.ACCESS_KIND_UNSPECIFIED in kinds:
        defects.append("hbm.mix without a kind")
    if len(set(kinds)) < len(kinds):
        defects.append("two hbm.mix of one kind")
    for mix in hbm.mix:
        name = f"hbm.mix {gpu_profile_pb2.AccessKind.Name(mix.kind)}"
        if not mix.HasField("fraction"):
            defects.append(f"{name} has no fraction")
        _check_fraction(f"{name} fraction", mix, "fraction", defects)
    if hbm.mix:
        envelope = max(mix.fraction for mix in hbm.mix)
        if abs(hbm.calibration - envelope) > _ENVELOPE_TOLERANCE:
            defects.append(
                f"hbm.calibration is {hbm.calibration:g}, not the largest fraction of"
                f" its mixes, {envelope:g}"
            )
    return len(hbm.mix) + hbm.HasField("calibration")


def _check_units(message: gpu_profile_pb2.GpuProfile, defects: list[str]) -> int:
    """Checks `unit`; returns how many measured factors they have."""
    keys = [unit.key for unit in message.unit]
    for key in sorted({key for key in keys if keys.count(key) > 1}):
        defects.append(f"two units have the key {key!r}")
    for unit in message.unit:
        name = f"unit {unit.key!r}"
        if unit.key not in ROOF_KEYS:
            defects.append(
                f"{name} is no roof key; these are: {', '.join(sorted(ROOF_KEYS))}"
            )
        if not unit.HasField("theoretical_flops_per_s"):
            defects.append(f"{name} has no theoretical_flops_per_s")
        else:
            _check_range(
                f"{name} theoretical_flops_per_s",
                unit.theoretical_flops_per_s,
                _PLAUSIBLE_FLOPS_PER_S,
                "FLOPs per second",
                defects,
            )
            _check_source(name, unit.source, message, defects)
        _check_fraction(f"{name} calibration", unit, "calibration", defects)
    return sum(unit.HasField("calibration") for unit in message.unit)


def _check_fraction(name: str, message, field: str, defects: list[str]) -> None:
    if message.HasField(field):
        value = getattr(message, field)
        if not 0 < value <= 1:
            defects.append(f"{name} is {value:g}, not a fraction in (0, 1]")


def _check_range(
    name: str,
    value: float,
    plausible: tuple[float, float],
    unit: str,
    defects: list[str],
) -> None:
    low, high = plausible
    if not (math.isfinite(value) and low <= value <= high):
        defects.append(
            f"{name} is {value:g}; in {unit} it would lie between {low:g} and {high:g}"
        )


def _check_source(
    name: str, source: str, message: gpu_profile_pb2.GpuProfile, defects: list[str]
) -> None:
    if not (source or message.source):
        defects.append(f"{name} has a theoretical figure and no source")


def _model(message: gpu_profile_pb2.GpuProfile) -> Profile:
    """Returns the model of a valid message."""

    def roof(theoretical_per_s: float, part) -> Roof:
        measured = part.HasField("calibration")
        return Roof(theoretical_per_s, part.calibration if measured else None)

    return Profile(
        gpu=message.gpu,
        names=frozenset(_normalized(name) for name in (message.gpu, *message.alias)),
        bandwidth=roof(message.hbm.theoretical_bytes_per_s, message.hbm),
        units={
            unit.key: roof(unit.theoretical_flops_per_s, unit) for unit in message.unit
        },
        latency_floor_s=(
            message.latency_floor_s if message.HasField("latency_floor_s") else None
        ),
        message=message,
    )


def _normalized(name: str) -> str:
    return " ".join(name.split()).casefold()
