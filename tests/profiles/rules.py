"""What the project's own profiles have to satisfy beyond being valid.

A figure copied from another card, a sparse one, one in another unit, or one that
counts a multiply-add as one operation reads as well as a right one. These rules
hold each figure against what the architecture does in a clock.
"""

from collections.abc import Iterable
import re

from tileops.perf import profile_checks
from tileops.proto import gpu_profile_pb2
from tileops.tests.profiles import datasheets

# Between datasheet figures and unit counts x clock.
_COUNTS_AGREE_WITHIN = 0.03
# Figures are rounded each on its own: twice 362.05 is printed as 733.
_MULTIPLES_AGREE_WITHIN = 0.02
# Boost clocks of an architecture's parts, MHz: each stated one, and the one that a
# figure implies where none is stated. A sparse figure implies twice such a clock, one
# that counts a multiply-add as one half of it: no range spans a factor of 2.
_PLAUSIBLE_CLOCK_MHZ = {
    "7.0": (1200, 1700),
    "7.5": (1350, 1900),
    "8.0": (1200, 1500),
    "8.6": (1300, 1950),
    "8.9": (1700, 2800),
    "9.0": (1400, 2050),
    "10.0": (1700, 2150),
    "12.0": (1900, 2900),
    "gfx90a": (1500, 1800),
    "gfx942": (1900, 2200),
    "gfx950": (2100, 2500),
}
# Where no source states a unit's clock, how its figure relates to fp32's, whose clock
# may be higher, as a share of how the units relate.
_PLAUSIBLE_SHARE_OF_FP32 = (0.8, 1.05)

# Bandwidth of an architecture's parts, bytes per second. A figure in bits is eight
# times one of these; within them, datasheets.tsv alone can tell.
_PLAUSIBLE_BANDWIDTH = {
    "7.0": (8.5e11, 1.2e12),
    "7.5": (3e11, 7e11),
    "8.0": (9e11, 2.1e12),
    "8.6": (4e11, 1.1e12),
    "8.9": (2.5e11, 1.1e12),
    "9.0": (1.9e12, 5e12),
    "10.0": (7e12, 8.2e12),
    "12.0": (4e11, 1.9e12),
    "gfx90a": (1.6e12, 3.3e12),
    "gfx942": (5e12, 6.2e12),
    "gfx950": (8e12, 8.2e12),
}

# FLOPs per second; a figure outside is in another unit, or of another unit.
_PLAUSIBLE = {
    "hbm": (1e11, 2e13),
    "cuda_core.fp32": (5e12, 2e14),
    "cuda_core.fp64": (5e11, 1e14),
    "cuda_core.fp16": (5e12, 4e14),
    "cuda_core.bf16": (5e12, 4e14),
    "cuda_core.int32": (2e12, 2e14),
    "tensor_core.fp64": (5e12, 3e14),
    "tensor_core.tf32": (2e13, 3e15),
    "tensor_core.bf16": (5e13, 5e15),
    "tensor_core.fp16": (5e13, 5e15),
    "tensor_core.fp8": (1e14, 1e16),
    "tensor_core.int8": (1e14, 1e16),
    "tensor_core.fp4": (1e15, 3e16),
}


def _tensor(tf32: int, fp16: int, fp8: int, int8: int, **more: int) -> dict[str, int]:
    counts = {"tf32": tf32, "bf16": fp16, "fp16": fp16, "fp8": fp8, "int8": int8, **more}
    return {f"tensor_core.{kind}": count for kind, count in counts.items() if count}


# Operations a clock and multiprocessor (AMD: compute unit), a multiply-add being
# two, dense, with fp32 accumulation, by compute capability: lanes and tensor
# instructions as the vendors' architecture papers count them. GeForce boards do
# half of their siblings' floating-point tensor rate.
_GEFORCE = "GeForce "
_OPERATIONS = {
    "7.0": {"cuda_core.fp32": 128, "cuda_core.fp64": 64, "tensor_core.fp16": 1024},
    "7.5": {"cuda_core.fp32": 128, "tensor_core.fp16": 1024, "tensor_core.int8": 2048},
    "8.0": {"cuda_core.fp32": 128, "cuda_core.fp64": 64, **_tensor(1024, 2048, 0, 4096, fp64=128)},
    "8.6": {"cuda_core.fp32": 256, **_tensor(512, 1024, 0, 2048)},
    _GEFORCE + "8.6": {"cuda_core.fp32": 256, **_tensor(256, 512, 0, 2048)},
    "8.9": {"cuda_core.fp32": 256, **_tensor(512, 1024, 2048, 2048)},
    _GEFORCE + "8.9": {"cuda_core.fp32": 256, **_tensor(256, 512, 1024, 2048)},
    "9.0": {
        "cuda_core.fp32": 256,
        "cuda_core.fp64": 128,
        "cuda_core.fp16": 512,
        "cuda_core.bf16": 512,
        "cuda_core.int32": 128,
        **_tensor(2048, 4096, 8192, 8192, fp64=256),
    },
    "10.0": {
        "cuda_core.fp32": 256,
        "cuda_core.fp64": 128,
        **_tensor(4096, 8192, 16384, 16384, fp64=128, fp4=32768),
    },
    _GEFORCE + "12.0": {"cuda_core.fp32": 256, **_tensor(256, 512, 1024, 2048, fp4=4096)},
    "gfx90a": {"cuda_core.fp32": 128, "cuda_core.fp64": 128, **_tensor(0, 1024, 0, 1024, fp64=256)},
    "gfx942": {
        "cuda_core.fp32": 256,
        "cuda_core.fp64": 128,
        **_tensor(1024, 2048, 4096, 4096, fp64=256),
    },
    "gfx950": {
        "cuda_core.fp32": 256,
        "cuda_core.fp64": 128,
        **_tensor(0, 4096, 8192, 8192, fp64=128, fp4=16384),
    },
}

# Parts with units switched off, whose figures relate to none of the counts above;
# nothing but their sources speaks for these figures.
CUT_DOWN = frozenset(("NVIDIA H20",))


def lint(profile: gpu_profile_pb2.GpuProfile) -> list[str]:
    """Returns every fault of a profile, in words."""
    faults = profile_checks.validate(profile)
    rates = {unit.key: unit.theoretical_flops_per_s for unit in profile.unit}
    faults += _magnitudes({"hbm": profile.hbm.theoretical_bytes_per_s, **rates})
    faults += _multiples(rates)
    faults += _counts(profile, rates)
    faults += _bandwidth(profile)
    faults += datasheets.differences(profile)
    for name, part in [("hbm", profile.hbm), *((unit.key, unit) for unit in profile.unit)]:
        faults += _provenance(name, part)
    faults += _calibration(profile)
    if not profile.source or not all(text.strip() for text in profile.source):
        faults.append("no source: name the documents")
    return faults


def lint_names(profiles: Iterable[gpu_profile_pb2.GpuProfile]) -> list[str]:
    """Returns every name that two profiles, or one twice, claim."""
    owners: dict[str, str] = {}
    faults = []
    for profile in profiles:
        for name in (profile.gpu, *profile.alias):
            normal = " ".join(name.split()).casefold()
            if normal in owners:
                faults.append(f"{name!r} of {profile.gpu!r} names {owners[normal]!r} already")
            owners[normal] = profile.gpu
    return faults


def _magnitudes(rates: dict[str, float]) -> list[str]:
    faults = []
    for name, rate in rates.items():
        low, high = _PLAUSIBLE.get(name, (0, 0))
        if not low <= rate <= high:
            faults.append(f"{name} is {rate:g}, outside of {low:g} to {high:g} a second")
    return faults


def _multiples(rates: dict[str, float]) -> list[str]:
    """Checks what follows from bf16's rate on every GPU that has these units."""
    faults = []
    bf16 = rates.get("tensor_core.bf16")
    if bf16 is None:
        return faults
    if rates.get("tensor_core.fp16") != bf16:
        faults.append("tensor_core.fp16 and tensor_core.bf16 differ; units of both do the same")
    for key, factor in (("tensor_core.fp8", 2), ("tensor_core.tf32", 0.5)):
        rate = rates.get(key, factor * bf16)
        if not _agree(rate, factor * bf16, _MULTIPLES_AGREE_WITHIN):
            faults.append(f"{key} is {rate:g}, not {factor} x tensor_core.bf16, {factor * bf16:g}")
    return faults


def _counts(profile: gpu_profile_pb2.GpuProfile, rates: dict[str, float]) -> list[str]:
    """Holds each figure against unit counts and clock, or what is known of these."""
    family = _GEFORCE if "GeForce" in profile.gpu else ""
    counts = _OPERATIONS.get(family + profile.compute_capability)
    if counts is None:
        return [
            f"compute_capability {profile.compute_capability!r}: no operations a clock are"
            " known of it; add them to the rules"
        ]
    clocks_mhz = _PLAUSIBLE_CLOCK_MHZ[profile.compute_capability]
    faults = []
    for unit in profile.unit:
        count, rate = counts.get(unit.key), unit.theoretical_flops_per_s
        if count is None:
            faults.append(f"{unit.key}: units of {profile.compute_capability} do no such thing")
        elif profile.multiprocessors and unit.clock_mhz:
            expected = profile.multiprocessors * unit.clock_mhz * 1e6 * count
            if not _agree(rate, expected, _COUNTS_AGREE_WITHIN):
                faults.append(
                    f"{unit.key} is {rate:g}; {profile.multiprocessors} x {count} x"
                    f" {unit.clock_mhz:g} MHz is {expected:g}"
                )
        elif profile.multiprocessors:
            clock_mhz = rate / (profile.multiprocessors * count) / 1e6
            if not _within(clock_mhz, clocks_mhz):
                faults.append(f"{unit.key} is {rate:g}, which implies {clock_mhz:.0f} MHz")
        if count is not None and unit.clock_mhz and not _within(unit.clock_mhz, clocks_mhz):
            faults.append(f"{unit.key} is at {unit.clock_mhz:g} MHz, no clock of {profile.compute_capability}")
        # Also where the multiprocessors are known: what more is known never checks less.
        if (
            count is not None
            and not unit.clock_mhz
            and profile.gpu not in CUT_DOWN
            and rates.get("cuda_core.fp32")
        ):
            share = rate / rates["cuda_core.fp32"] * counts["cuda_core.fp32"] / count
            if not _within(share, _PLAUSIBLE_SHARE_OF_FP32):
                faults.append(
                    f"{unit.key} is {rate:g}, {share:.2f} of what its units would do at"
                    " cuda_core.fp32's clock"
                )
    return faults


def _bandwidth(profile: gpu_profile_pb2.GpuProfile) -> list[str]:
    rate = profile.hbm.theoretical_bytes_per_s
    bounds = _PLAUSIBLE_BANDWIDTH.get(profile.compute_capability)
    if bounds is None or _within(rate, bounds):
        return []
    low, high = bounds
    return [f"hbm is {rate:g}; parts of {profile.compute_capability} have {low:g} to {high:g} bytes a second"]


def _calibration(profile: gpu_profile_pb2.GpuProfile) -> list[str]:
    """Checks that a measured profile says by what and how often it was measured."""
    if not profile.hbm.HasField("calibration"):
        return []
    provenance = profile.provenance
    faults = [
        f"provenance has no {field}: a calibration says by what it was made"
        for field in ("driver", "clocks", "software")
        if not getattr(provenance, field).strip()
    ]
    if not provenance.samples:
        faults.append("provenance has no samples")
    if profile.HasField("latency_floor_s") and not profile.latency_floor_method.strip():
        faults.append("latency_floor_s does not say how it was measured")
    return faults


def _provenance(name: str, part) -> list[str]:
    faults = []
    if not part.source.strip():
        faults.append(f"{name} has no source of its own")
    if not part.condition.strip():
        faults.append(f"{name} has no condition (SKU, clock, density)")
    if part.basis == gpu_profile_pb2.FIGURE_BASIS_UNSPECIFIED:
        faults.append(f"{name} has no basis")
    if part.basis == gpu_profile_pb2.DERIVED and not re.search(
        r"\d[ \w]* x \d|half|twice|times", part.source
    ):
        faults.append(f"{name} is derived, and its source shows no arithmetic: {part.source!r}")
    if "sparsity" in part.source and "halved" not in part.source:
        faults.append(f"{name}'s source prints a sparse figure, and was not halved")
    # fp64 has no sparse variant.
    if name.startswith("tensor_core.") and name != "tensor_core.fp64":
        if not part.condition.startswith("dense"):
            faults.append(f"{name}'s condition does not begin with 'dense'")
    if part.HasField("calibration") and not part.calibration_method.strip():
        faults.append(f"{name} is calibrated, and does not say how")
    return faults


def _agree(value: float, expected: float, tolerance: float) -> bool:
    return abs(value / expected - 1) <= tolerance


def _within(value: float, bounds: tuple[float, float]) -> bool:
    low, high = bounds
    return low <= value <= high
