"""What is wrong with a GPU profile: its form, and figures that contradict each other or their architecture.

`validate` lists defects of form, `find` what the figures say of each other. A figure that was copied from another card,
that is sparse, that is in another unit or that counts a multiply-add as one operation looks as good as a right one.

Example: bf16 is 1513e12 beside fp16 at 756e12. The same units compute both, so one of the two figures includes sparsity,
and every efficiency against it would be half of the true one.

A profile with a figure that no GPU can reach is refused. A figure that no known GPU has brings a warning.
"""

import datetime
import re
from collections.abc import Iterator
from typing import NamedTuple

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
_PLAUSIBLE_MHZ = (100, 10_000)
# What the rules know an architecture by; "9.0a" or "sm_90" would silence them.
_CAPABILITY = re.compile(r"[0-9]+\.[0-9]|gfx[0-9a-f]+")
# hbm.calibration repeats the largest mix fraction; decimals may be rounded.
_ENVELOPE_TOLERANCE = 1e-6

# Between datasheet figures and unit counts x clock.
_COUNTS_AGREE_WITHIN = 0.03
# Figures are rounded each on its own: twice 362.05 is printed as 733.
_MULTIPLES_AGREE_WITHIN = 0.02
# Figures that should be equal and are farther apart than this differ in kind: one of them
# includes sparsity, or counts a multiply-add as one operation. A ratio.
_ANOTHER_KIND = 1.9
# Within this of a factor of 2, the factor names its cause.
_TWICE = (1.9, 2.1)

# Boost clocks of an architecture's parts, MHz: stated, or implied by a figure. A sparse
# figure implies twice such a clock, and a figure that counts a multiply-add as one operation
# half of it: no range spans a factor of 2.
PLAUSIBLE_CLOCK_MHZ = {
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
# No part's clock exceeds its architecture's highest by more: overclocked boards reach
# less. A ratio.
_CLOCK_HEADROOM = 1.1
# A driver's highest clock may be above every boost clock (a GeForce RTX 4090 reports 3105
# MHz), but not by more. A ratio.
_MAX_CLOCK_HEADROOM = 1.25
# A datasheet states peaks at a boost clock, never far below the highest: a ratio above this is a slip of a digit, and
# would raise the ceiling of the physics check with it.
_MAX_CLOCK_RATIO = 1.5
# Where no source states a unit's clock, how its figure relates to fp32's, whose clock
# may be higher, as a share of how the units relate.
_PLAUSIBLE_SHARE_OF_FP32 = (0.8, 1.05)
# A sparse figure is above: twice the least plausible share.
_POSSIBLE_SHARE_OF_FP32 = 1.5

# Bandwidth of an architecture's parts, bytes per second. A figure in bits is eight
# times one of these; a smaller error only a datasheet can show.
PLAUSIBLE_BANDWIDTH = {
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
# More than so many times the fastest memory of an architecture is another unit.
_POSSIBLE_BANDWIDTH = 2

# FLOPs per second; a figure outside is in another unit, or of another unit.
PLAUSIBLE = {
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


# Operations per clock and multiprocessor (AMD: compute unit), a multiply-add being
# two, dense, with fp32 accumulation, by compute capability: lanes and tensor
# instructions as the vendors' architecture papers count them. GeForce boards do
# half of their siblings' floating-point tensor rate.
GEFORCE = "GeForce "
OPERATIONS = {
    "7.0": {"cuda_core.fp32": 128, "cuda_core.fp64": 64, "tensor_core.fp16": 1024},
    "7.5": {"cuda_core.fp32": 128, "tensor_core.fp16": 1024, "tensor_core.int8": 2048},
    "8.0": {"cuda_core.fp32": 128, "cuda_core.fp64": 64, **_tensor(1024, 2048, 0, 4096, fp64=128)},
    "8.6": {"cuda_core.fp32": 256, **_tensor(512, 1024, 0, 2048)},
    GEFORCE + "8.6": {"cuda_core.fp32": 256, **_tensor(256, 512, 0, 2048)},
    "8.9": {"cuda_core.fp32": 256, **_tensor(512, 1024, 2048, 2048)},
    GEFORCE + "8.9": {"cuda_core.fp32": 256, **_tensor(256, 512, 1024, 2048)},
    "9.0": {
        "cuda_core.fp32": 256,
        "cuda_core.fp64": 128,
        "cuda_core.fp16": 512,
        "cuda_core.bf16": 512,
        "cuda_core.int32": 128,
        **_tensor(2048, 4096, 8192, 8192, fp64=256),
    },
    "10.0": {"cuda_core.fp32": 256, "cuda_core.fp64": 128, **_tensor(4096, 8192, 16384, 16384, fp64=128, fp4=32768)},
    GEFORCE + "12.0": {"cuda_core.fp32": 256, **_tensor(256, 512, 1024, 2048, fp4=4096)},
    "gfx90a": {"cuda_core.fp32": 128, "cuda_core.fp64": 128, **_tensor(0, 1024, 0, 1024, fp64=256)},
    "gfx942": {"cuda_core.fp32": 256, "cuda_core.fp64": 128, **_tensor(1024, 2048, 4096, 4096, fp64=256)},
    "gfx950": {"cuda_core.fp32": 256, "cuda_core.fp64": 128, **_tensor(0, 4096, 8192, 8192, fp64=128, fp4=16384)},
}

# Parts with units switched off, whose figures follow from none of the counts above:
# only their sources support these figures.
CUT_DOWN = frozenset(("NVIDIA H20",))


def validate(message: gpu_profile_pb2.GpuProfile) -> list[str]:
    """Returns every defect of a profile, in words; none for a valid one."""
    measured = [message.HasField("latency_floor_s"), message.hbm.HasField("calibration"), *message.hbm.mix]
    measured += [unit.HasField("calibration") for unit in message.unit]
    return [*_device_defects(message, any(measured)), *_memory_defects(message), *_unit_defects(message)]


def _device_defects(message: gpu_profile_pb2.GpuProfile, is_measured: bool) -> Iterator[str]:
    if not message.gpu.strip():
        yield "gpu is missing"
    capability = message.compute_capability
    if capability and not _CAPABILITY.fullmatch(capability):
        yield (
            f'compute_capability is {capability!r}; write it as "9.0" (NVIDIA: major and minor version, nothing else)'
            ' or "gfx942" (AMD)'
        )
    if message.HasField("multiprocessors") and not message.multiprocessors:
        yield "multiprocessors is 0; give the count, or leave it out"
    if message.HasField("assumed_calibration"):
        yield "assumed_calibration belongs to a report: remove it here, and give --assume_calibration to the command"
    if message.HasField("latency_floor_s"):
        yield from _outside("latency_floor_s", message.latency_floor_s, _PLAUSIBLE_LATENCY_FLOOR_S, "seconds")
    if message.HasField("max_clock_mhz"):
        yield from _outside("max_clock_mhz", message.max_clock_mhz, _PLAUSIBLE_MHZ, "MHz")
        if not message.max_clock_source.strip():
            yield "max_clock_mhz has no max_clock_source: say which device or document states it"
        for unit in message.unit:
            if unit.clock_mhz > 0 and message.max_clock_mhz > unit.clock_mhz * _MAX_CLOCK_RATIO:
                yield (
                    f"{unit.key} is stated at {unit.clock_mhz:g} MHz, and max_clock_mhz is {message.max_clock_mhz:g}: more"
                    f" than {_MAX_CLOCK_RATIO:g} times as high; one of the two is wrong"
                )
    if message.HasField("l2_bytes"):
        yield from _outside("l2_bytes", message.l2_bytes, _PLAUSIBLE_L2_BYTES, "bytes")
    provenance = message.provenance
    if is_measured and not (provenance.tool.strip() and _is_date(provenance.date)):
        yield "measured values need provenance with the tool and the date of measurement, as in 2026-01-31"


def _memory_defects(message: gpu_profile_pb2.GpuProfile) -> Iterator[str]:
    hbm = message.hbm
    if hbm.HasField("theoretical_bytes_per_s"):
        rate = hbm.theoretical_bytes_per_s
        yield from _outside("hbm.theoretical_bytes_per_s", rate, _PLAUSIBLE_BYTES_PER_S, "bytes per second")
        yield from _unsourced("hbm", hbm.source, message)
    else:
        yield "hbm.theoretical_bytes_per_s is missing"
    yield from _no_fraction("hbm.calibration", hbm, "calibration")
    kinds = [mix.kind for mix in hbm.mix]
    if gpu_profile_pb2.ACCESS_KIND_UNSPECIFIED in kinds:
        yield "hbm.mix without a kind"
    if len(set(kinds)) < len(kinds):
        yield "two hbm.mix of one kind"
    for mix in hbm.mix:
        name = f"hbm.mix {gpu_profile_pb2.AccessKind.Name(mix.kind)}"
        if not mix.HasField("fraction"):
            yield f"{name} has no fraction"
        yield from _no_fraction(f"{name} fraction", mix, "fraction")
    if hbm.mix or hbm.HasField("calibration"):
        # An envelope over some of the mixes is a ceiling that the others may exceed.
        wanted = gpu_profile_pb2.AccessKind.items()[1:]
        missing = [name for name, kind in wanted if kind not in kinds]
        if missing:
            yield f"hbm.calibration is an envelope over all access mixes; hbm.mix lacks {', '.join(missing)}"
    if hbm.mix:
        envelope = max(mix.fraction for mix in hbm.mix)
        if abs(hbm.calibration - envelope) > _ENVELOPE_TOLERANCE:
            yield f"hbm.calibration is {hbm.calibration:g}, not the largest fraction of its mixes, {envelope:g}"


def _unit_defects(message: gpu_profile_pb2.GpuProfile) -> Iterator[str]:
    keys = [unit.key for unit in message.unit]
    for key in sorted({key for key in keys if keys.count(key) > 1}):
        yield f"two units have the key {key!r}"
    for unit in message.unit:
        name = f"unit {unit.key!r}"
        if unit.key not in ROOF_KEYS:
            yield f"{name} is no roof key; these are: {', '.join(sorted(ROOF_KEYS))}"
        if unit.HasField("theoretical_flops_per_s"):
            rate = unit.theoretical_flops_per_s
            yield from _outside(f"{name} theoretical_flops_per_s", rate, _PLAUSIBLE_FLOPS_PER_S, "FLOPs per second")
            yield from _unsourced(name, unit.source, message)
        else:
            yield f"{name} has no theoretical_flops_per_s"
        if unit.HasField("clock_mhz"):
            yield from _outside(f"{name} clock_mhz", unit.clock_mhz, _PLAUSIBLE_MHZ, "MHz")
        yield from _no_fraction(f"{name} calibration", unit, "calibration")


def _is_date(text: str) -> bool:
    """Returns whether a text is a date as the proto writes it, YYYY-MM-DD."""
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _no_fraction(name: str, message, field: str) -> Iterator[str]:
    if message.HasField(field) and not 0 < getattr(message, field) <= 1:
        yield f"{name} is {getattr(message, field):g}, not a fraction in (0, 1]"


def _outside(name: str, value: float, plausible: tuple[float, float], unit: str) -> Iterator[str]:
    if not _within(value, plausible):  # nan is within no range
        low, high = plausible
        yield f"{name} is {value:g}; in {unit} it would lie between {low:g} and {high:g}"


def _unsourced(name: str, source: str, message: gpu_profile_pb2.GpuProfile) -> Iterator[str]:
    if not (source.strip() or any(text.strip() for text in message.source)):
        yield f"{name} has a theoretical figure and no source"


class Finding(NamedTuple):
    """A figure that contradicts another one or the architecture.

    Attributes:
      text: What is wrong, and what to do.
      is_impossible: Whether no GPU can reach it; if not, no known GPU does.
    """

    text: str
    is_impossible: bool


def find(profile: gpu_profile_pb2.GpuProfile) -> list[Finding]:
    """Returns which theoretical figures of a profile are impossible or unlikely.

    Args:
      profile: One without a defect (`profile_checks.validate`).
    """
    rates = {unit.key: unit.theoretical_flops_per_s for unit in profile.unit}
    return [
        *_magnitudes({"hbm": profile.hbm.theoretical_bytes_per_s, **rates}),
        *_multiples(rates, _counts(profile)),
        *_clocks(profile, rates),
        *_bandwidth(profile),
        *_sources(profile),
        *_unknown_architecture(profile),
    ]


def compare(profile: gpu_profile_pb2.GpuProfile, known: gpu_profile_pb2.GpuProfile) -> list[Finding]:
    """Returns which figures of a user's profile are far from those of the project's profile of the same device.

    A tensor peak of twice the known one is impossible: it includes sparsity.
    """
    ours, theirs = (
        {"hbm": each.hbm.theoretical_bytes_per_s, **{unit.key: unit.theoretical_flops_per_s for unit in each.unit}}
        for each in (known, profile)
    )
    found = []
    for key, rate in theirs.items():
        if key in ours and _is_another_kind(ratio := rate / ours[key]):
            text = f"{key} is {rate:g}, and {ours[key]:g} in the project's profile of {known.gpu!r}"
            found.append(Finding(text + _cause(key, ratio), key.startswith("tensor_core.") and ratio > 1))
    return found


def _unknown_architecture(profile: gpu_profile_pb2.GpuProfile) -> list[Finding]:
    """Returns a warning if nothing could tell that every tensor peak of the profile includes sparsity."""
    if profile.compute_capability or not any(unit.key.startswith("tensor_core.") for unit in profile.unit):
        return []
    text = "compute_capability is missing, so peaks with sparsity may pass as dense ones; add it"
    return [Finding(text, False)]


def _cause(key: str, ratio: float) -> str:
    """Returns why a figure is probably off by this factor, and what to do."""
    low, high = _TWICE
    if key.startswith("tensor_core.") and low <= ratio <= high:
        return ": a figure with sparsity; give the dense one"
    if key != "hbm" and low <= 1 / ratio <= high:
        return ": a figure that counts a multiply-add as one operation; count it as two"
    return "; give the figure of this product's own datasheet, dense, in FLOPs or bytes per second"


def _magnitudes(rates: dict[str, float]) -> list[Finding]:
    found = []
    for name, rate in rates.items():
        low, high = PLAUSIBLE.get(name, (0.0, float("inf")))
        if not low <= rate <= high:
            text = f"{name} is {rate:g}, outside of {low:g} to {high:g} per second, the range of all known GPUs"
            found.append(Finding(text + "; check its unit (FLOPs or bytes per second) and its key", False))
    return found


def _multiples(rates: dict[str, float], counts: dict[str, int] | None) -> list[Finding]:
    """Compares peaks with the multiple of bf16's peak that they are on every GPU."""
    bf16 = rates.get("tensor_core.bf16")
    if bf16 is None:
        return []
    found = []
    if "tensor_core.fp16" in rates:
        found += _sixteen_bits(bf16, rates["tensor_core.fp16"], counts is not None)
    for key, factor in (("tensor_core.fp8", 2), ("tensor_core.tf32", 0.5)):
        rate = rates.get(key, factor * bf16)
        if _agree(rate, factor * bf16, _MULTIPLES_AGREE_WITHIN):
            continue
        ratio = rate / (factor * bf16)
        # Below, the figure that it is held against is probably the sparse one.
        cause = _cause(key, ratio) if ratio > 1 else _cause("tensor_core.bf16", 1 / ratio)
        whose = "" if ratio > 1 or "sparsity" not in cause else ": tensor_core.bf16 is" + cause[1:]
        text = f"{key} is {rate:g}, not {factor} x tensor_core.bf16, {factor * bf16:g}{whose or cause}"
        found.append(Finding(text, counts is not None and _is_another_kind(ratio)))
    return found


def _sixteen_bits(bf16: float, fp16: float, is_known: bool) -> list[Finding]:
    """Compares the two 16-bit peaks: the same units compute both."""
    if _agree(fp16, bf16, _MULTIPLES_AGREE_WITHIN):
        return []
    key, larger, other, smaller = "bf16", bf16, "fp16", fp16
    if fp16 > bf16:
        key, larger, other, smaller = other, smaller, key, larger
    ratio = larger / smaller
    if _TWICE[0] <= ratio <= _TWICE[1]:
        what = "a figure with sparsity" + (", or of fp16 accumulation" if key == "fp16" else "")
        text = f"tensor_core.{key} is {larger:g}, twice tensor_core.{other}, {smaller:g}: {what}; give the dense one"
        text += ", accumulated in fp32" if key == "fp16" else ""
    else:
        text = (
            f"tensor_core.fp16 and tensor_core.bf16 differ, {fp16:g} and {bf16:g}, though the same units compute both: give"
            " the dense figure of each, from this product's own datasheet"
        )
    # On some older parts bf16 has half of fp16's rate; on no part does it have more.
    return [Finding(text, _is_another_kind(ratio) and (is_known or key == "bf16"))]


def _counts(profile: gpu_profile_pb2.GpuProfile) -> dict[str, int] | None:
    """Returns the operations per clock of the profile's architecture; None if they are not known."""
    family = GEFORCE if "GeForce" in profile.gpu else ""
    return OPERATIONS.get(family + profile.compute_capability)


def _clocks(profile: gpu_profile_pb2.GpuProfile, rates: dict[str, float]) -> list[Finding]:
    """Compares each figure with unit counts and clock, or with fp32's figure if these are missing."""
    counts = _counts(profile)
    if counts is None:
        return []
    clocks_mhz = PLAUSIBLE_CLOCK_MHZ[profile.compute_capability]
    found = []
    if profile.max_clock_mhz > clocks_mhz[1] * _MAX_CLOCK_HEADROOM:
        text = (
            f"max_clock_mhz is {profile.max_clock_mhz:g}, and no part of {profile.compute_capability} reports more than"
        )
        found.append(
            Finding(f"{text} {clocks_mhz[1] * _MAX_CLOCK_HEADROOM:.0f}; give the highest SM clock in MHz", True)
        )
    for unit in profile.unit:
        count, rate = counts.get(unit.key), unit.theoretical_flops_per_s
        if count is None:
            text = f"{unit.key}: no known unit of {profile.compute_capability} does this"
            found.append(Finding(f"{text}; leave it out, or correct compute_capability", False))
            continue
        if profile.multiprocessors:
            found += _of_counts(unit, rate, profile.multiprocessors, count, clocks_mhz)
        if unit.clock_mhz and not _within(unit.clock_mhz, clocks_mhz):
            text = f"{unit.key} is at {unit.clock_mhz:g} MHz, not a clock of {profile.compute_capability}"
            found.append(Finding(f"{text}, {clocks_mhz[0]} to {clocks_mhz[1]}; give the boost clock in MHz", False))
        # Also if the multiprocessors are known: a profile that says more must not be checked less.
        if not unit.clock_mhz and profile.gpu not in CUT_DOWN and rates.get("cuda_core.fp32"):
            share = rate / rates["cuda_core.fp32"] * counts["cuda_core.fp32"] / count
            if not _within(share, _PLAUSIBLE_SHARE_OF_FP32):
                text = f"{unit.key} is {rate:g}, {share:.2f} times what its units would reach at cuda_core.fp32's clock"
                found.append(Finding(text + _share_cause(unit.key, share), share > _POSSIBLE_SHARE_OF_FP32))
    return found


def _of_counts(unit, rate: float, multiprocessors: int, count: int, clocks_mhz: tuple[int, int]) -> list[Finding]:
    """Compares a figure with what the multiprocessors reach at its clock, or at any clock of the architecture."""
    if unit.clock_mhz:
        expected = multiprocessors * unit.clock_mhz * 1e6 * count
        if _agree(rate, expected, _COUNTS_AGREE_WITHIN):
            return []
        text = f"{unit.key} is {rate:g}; {multiprocessors} x {count} x {unit.clock_mhz:g} MHz is {expected:g}"
        return [Finding(text + _cause(unit.key, rate / expected), rate / expected >= _ANOTHER_KIND)]
    clock_mhz = rate / (multiprocessors * count) / 1e6
    if _within(clock_mhz, clocks_mhz):
        return []
    low, high = clocks_mhz
    text = (
        f"{unit.key} is {rate:g}, which implies {clock_mhz:.0f} MHz; clocks of its architecture are {low} to {high} MHz"
    )
    cause = _cause(unit.key, 2 if clock_mhz > high else 0.5)
    return [Finding(text + cause, clock_mhz > high * _CLOCK_HEADROOM)]


def _share_cause(key: str, share: float) -> str:
    low, high = _PLAUSIBLE_SHARE_OF_FP32
    if 2 * low <= share <= 2 * high:
        return _cause(key, 2)
    return _cause(key, share)


def _bandwidth(profile: gpu_profile_pb2.GpuProfile) -> list[Finding]:
    rate = profile.hbm.theoretical_bytes_per_s
    bounds = PLAUSIBLE_BANDWIDTH.get(profile.compute_capability)
    if bounds is None or _within(rate, bounds):
        return []
    low, high = bounds
    text = (
        f"hbm is {rate:g}; parts of {profile.compute_capability} have {low:g} to {high:g} bytes per second: give bytes,"
        " not bits or GiB, of this product"
    )
    return [Finding(text, rate > _POSSIBLE_BANDWIDTH * high)]


def _sources(profile: gpu_profile_pb2.GpuProfile) -> list[Finding]:
    """Finds figures whose own words call them sparse."""
    found = []
    for unit in profile.unit:
        if "sparsity" in unit.source and "halved" not in unit.source:
            text = f"{unit.key}'s source prints a sparse figure, and it was not halved"
            found.append(Finding(f"{text}; give the dense one, and say 'halved'", False))
        if "spars" in unit.condition.lower() and "dense" not in unit.condition.lower():
            text = f"{unit.key} is a sparse figure by its condition, {unit.condition!r}"
            found.append(Finding(f"{text}; give the dense one", False))
    return found


def _is_another_kind(ratio: float) -> bool:
    return not 1 / _ANOTHER_KIND < ratio < _ANOTHER_KIND


def _agree(value: float, expected: float, tolerance: float) -> bool:
    return abs(value / expected - 1) <= tolerance


def _within(value: float, bounds: tuple[float, float]) -> bool:
    low, high = bounds
    return low <= value <= high
