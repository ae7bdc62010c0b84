"""What every GPU profile has to satisfy, whoever wrote it."""

import datetime
import math

from tileops.proto import gpu_profile_pb2

# Every key that an op's `roof_key()` may return.
ROOF_KEYS = frozenset(
    [f"cuda_core.{kind}" for kind in ("fp32", "fp64", "fp16", "bf16", "int32")]
    + [f"tensor_core.{kind}" for kind in ("bf16", "fp16", "tf32", "fp8", "int8", "fp64", "fp4", "int4")]
)

# A figure outside of these was written in another unit (GB/s, TFLOPS).
_PLAUSIBLE_BYTES_PER_S = (1e10, 1e14)
_PLAUSIBLE_FLOPS_PER_S = (1e10, 1e18)
_PLAUSIBLE_LATENCY_FLOOR_S = (1e-7, 1e-3)
_PLAUSIBLE_L2_BYTES = (2**20, 2**30)
# hbm.calibration repeats the largest mix fraction; decimals may be rounded.
_ENVELOPE_TOLERANCE = 1e-6


def validate(message: gpu_profile_pb2.GpuProfile) -> list[str]:
    """Returns every defect of a profile, in words; none for a valid one."""
    defects = []
    if not message.gpu.strip():
        defects.append("gpu is missing")
    if message.HasField("assumed_calibration"):
        defects.append("assumed_calibration belongs to a report: give --assume_calibration to it")
    measured = _check_memory(message, defects) + _check_units(message, defects)
    if message.HasField("latency_floor_s"):
        measured += 1
        _check_range("latency_floor_s", message.latency_floor_s, _PLAUSIBLE_LATENCY_FLOOR_S, "seconds", defects)
    if message.HasField("l2_bytes"):
        _check_range("l2_bytes", message.l2_bytes, _PLAUSIBLE_L2_BYTES, "bytes", defects)
    provenance = message.provenance
    if measured and not (provenance.tool.strip() and _is_date(provenance.date)):
        defects.append("measured values need provenance with the tool and the date of measurement, as in 2026-01-31")
    return defects


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
    if hbm.mix or hbm.HasField("calibration"):
        # An envelope over some of the mixes is a ceiling that the others may exceed.
        wanted = gpu_profile_pb2.AccessKind.keys()[1:]
        missing = [name for name in wanted if gpu_profile_pb2.AccessKind.Value(name) not in kinds]
        if missing:
            defects.append(f"hbm.calibration is an envelope over all access mixes; hbm.mix lacks {', '.join(missing)}")
    if hbm.mix:
        envelope = max(mix.fraction for mix in hbm.mix)
        if abs(hbm.calibration - envelope) > _ENVELOPE_TOLERANCE:
            defects.append(
                f"hbm.calibration is {hbm.calibration:g}, not the largest fraction of its mixes, {envelope:g}"
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
            defects.append(f"{name} is no roof key; these are: {', '.join(sorted(ROOF_KEYS))}")
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


def _is_date(text: str) -> bool:
    """Whether a text is a date as the proto writes it, YYYY-MM-DD."""
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _check_fraction(name: str, message, field: str, defects: list[str]) -> None:
    if message.HasField(field):
        value = getattr(message, field)
        if not 0 < value <= 1:
            defects.append(f"{name} is {value:g}, not a fraction in (0, 1]")


def _check_range(name: str, value: float, plausible: tuple[float, float], unit: str, defects: list[str]) -> None:
    low, high = plausible
    if not (math.isfinite(value) and low <= value <= high):
        defects.append(f"{name} is {value:g}; in {unit} it would lie between {low:g} and {high:g}")


def _check_source(name: str, source: str, message: gpu_profile_pb2.GpuProfile, defects: list[str]) -> None:
    if not (source.strip() or any(text.strip() for text in message.source)):
        defects.append(f"{name} has a theoretical figure and no source")
