"""What the project's own profiles have to satisfy beyond what every loaded profile does.

`profile_checks` holds figures against each other and the architecture wherever a
profile is loaded. Here its warnings count as faults, too, each figure stands in the
table of datasheets, and each says where it comes from.
"""

import re
from collections.abc import Iterable

from tileops.perf.roof import profile_checks
from tileops.proto import gpu_profile_pb2
from tileops.tests.profiles import datasheets


def lint(profile: gpu_profile_pb2.GpuProfile) -> list[str]:
    """Returns every fault of a profile, in words."""
    faults = profile_checks.validate(profile)
    faults += [finding.text for finding in profile_checks.find(profile)]
    faults += _gaps(profile)
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


def _gaps(profile: gpu_profile_pb2.GpuProfile) -> list[str]:
    """Returns what leaves a figure of the project's own unchecked, and 16-bit peaks that are not one figure."""
    faults = []
    capability = profile.compute_capability
    family = profile_checks.GEFORCE if "GeForce" in profile.gpu else ""
    if family + capability not in profile_checks.OPERATIONS:
        faults.append(
            f"compute_capability {capability!r}: no operations a clock are known of it; add them to the rules"
        )
    rates = {unit.key: unit.theoretical_flops_per_s for unit in profile.unit}
    faults += [
        f"{key} has no range of plausible figures; add it to the rules"
        for key in rates
        if key not in profile_checks.PLAUSIBLE
    ]
    bf16 = rates.get("tensor_core.bf16")
    if bf16 is not None and rates.get("tensor_core.fp16") != bf16:
        faults.append("tensor_core.fp16 and tensor_core.bf16 are not the same figure")
    return faults


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
    if part.basis == gpu_profile_pb2.DERIVED and not re.search(r"\d[ \w]* x \d|half|twice|times", part.source):
        faults.append(f"{name} is derived, and its source shows no arithmetic: {part.source!r}")
    # fp64 has no sparse variant.
    if name.startswith("tensor_core.") and name != "tensor_core.fp64":
        if not part.condition.startswith("dense"):
            faults.append(f"{name}'s condition does not begin with 'dense'")
    if part.HasField("calibration") and not part.calibration_method.strip():
        faults.append(f"{name} is calibrated, and does not say how")
    return faults
