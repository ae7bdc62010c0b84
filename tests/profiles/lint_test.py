"""The project's profiles keep the rules, and each rule finds the fault that it is for."""

import pytest

from tileops.perf.roof import profile_checks, profiles
from tileops.proto import gpu_profile_pb2
from tileops.tests.profiles import datasheets, rules

_PROFILES = {profile.gpu: profile.message for profile in profiles.load_profiles()}

# The GPUs that the project promises a profile of.
_PROMISED = """
Tesla V100-SXM2-32GB; Tesla T4; NVIDIA A10; NVIDIA A100-PCIE-40GB; NVIDIA A100 80GB PCIe; NVIDIA A100-SXM4-40GB;
NVIDIA A100-SXM4-80GB; NVIDIA RTX A6000; NVIDIA L4; NVIDIA L40S; NVIDIA H20; NVIDIA H100 PCIe; NVIDIA H100 80GB HBM3;
NVIDIA H100 NVL; NVIDIA H200; NVIDIA GH200 480GB; NVIDIA B200; NVIDIA GB200; NVIDIA GeForce RTX 3090;
NVIDIA GeForce RTX 4090; NVIDIA GeForce RTX 5090; AMD Instinct MI210; AMD Instinct MI250X; AMD Instinct MI300X;
AMD Instinct MI325X; AMD Instinct MI355X
"""


@pytest.mark.parametrize("gpu", [name.strip() for name in _PROMISED.split(";")])
def test_a_promised_gpu_has_a_profile_with_bandwidth_fp32_and_tensor_peaks(gpu):
    keys = {unit.key for unit in _PROFILES[gpu].unit}
    assert {"cuda_core.fp32", "tensor_core.fp16"} <= keys
    assert _PROFILES[gpu].hbm.theoretical_bytes_per_s


@pytest.mark.parametrize("gpu", sorted(_PROFILES))
def test_a_profile_keeps_the_rules(gpu):
    assert rules.lint(_PROFILES[gpu]) == []


def test_no_two_profiles_claim_a_name():
    assert rules.lint_names(_PROFILES.values()) == []


def test_figures_beside_unit_counts_are_excused_for_the_cut_down_part_alone():
    assert {"NVIDIA H20"} == profile_checks.CUT_DOWN


def _unit(profile, key):
    (unit,) = (unit for unit in profile.unit if unit.key == key)
    return unit


def _scale(factor, *kinds):
    """Returns a fault that multiplies these tensor figures."""

    def plant(profile):
        for kind in kinds:
            _unit(profile, f"tensor_core.{kind}").theoretical_flops_per_s *= factor

    return plant


def _without_clocks(factor):
    """Returns a fault that multiplies the tensor figures of a profile that does not state their clocks."""

    def plant(profile):
        for kind in _TENSOR:
            _unit(profile, f"tensor_core.{kind}").ClearField("clock_mhz")
        _scale(factor, *_TENSOR)(profile)

    return plant


def _set(field, value, key="hbm"):
    """Returns a fault that sets a field of the memory or of a unit."""

    def plant(profile):
        part = profile.hbm if key == "hbm" else _unit(profile, key)
        setattr(part, field, value)

    return plant


def _all(factor):
    """Returns a fault that multiplies every unit's figure."""

    def plant(profile):
        for unit in profile.unit:
            unit.theoretical_flops_per_s *= factor

    return plant


def _scale_unit(factor, *keys):
    def plant(profile):
        for key in keys:
            _unit(profile, key).theoretical_flops_per_s *= factor

    return plant


def _top(field, value):
    """Returns a fault that sets a field of the profile, or of its provenance."""

    def plant(profile):
        part = profile if hasattr(profile, field) else profile.provenance
        setattr(part, field, value)

    return plant


def _no_mixes(profile):
    del profile.hbm.mix[:]


def _copy_alone(profile):
    del profile.hbm.mix[1:]
    profile.hbm.calibration = profile.hbm.mix[0].fraction


_RATE = "theoretical_flops_per_s"
_SXM, _NVL, _A10, _B200 = "NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL", "NVIDIA A10", "NVIDIA B200"
_H200, _L4 = "NVIDIA H200", "NVIDIA L4"
_TENSOR = ("tf32", "bf16", "fp16", "fp8", "int8")

FAULTS = {
    "bandwidth in GB/s": (_SXM, _set("theoretical_bytes_per_s", 3350), "hbm.theoretical_bytes_per_s is 3350"),
    "bandwidth in bits": (_SXM, _set("theoretical_bytes_per_s", 26.8e12), "hbm is 2.68e+13, outside"),
    "peak in TFLOPS": (_SXM, _set(_RATE, 66.9, "cuda_core.fp32"), "in FLOPs per second it would lie"),
    "fp32 of the tensor cores": (_NVL, _set(_RATE, 417.5e12, "cuda_core.fp32"), "cuda_core.fp32 is 4.175e+14, outside"),
    "multiply-add counted as one": (_SXM, _set(_RATE, 33.45e12, "cuda_core.fp32"), "132 x 256 x 1980 MHz is 6.69"),
    "bf16 is not fp16": (_SXM, _set(_RATE, 800e12, "tensor_core.fp16"), "fp16 and tensor_core.bf16 differ"),
    "fp8 is not twice bf16": (_SXM, _set(_RATE, 989.4e12, "tensor_core.fp8"), "fp8 is 9.894e+14, not 2 x"),
    "tf32 is not half of bf16": (_SXM, _set(_RATE, 989.4e12, "tensor_core.tf32"), "tf32 is 9.894e+14, not 0.5 x"),
    "sparse, counts and clock known": (_SXM, _scale(2, *_TENSOR), "bf16 is 1.9788e+15; 132 x 4096 x 1830 MHz"),
    "sparse, counts known": (
        _A10,
        _scale(2, "tf32", "bf16", "fp16", "int8"),
        "bf16 is 2.5e+14, which implies 3391 MHz",
    ),
    "sparse, fp32 known": (_NVL, _scale(2, *_TENSOR), "bf16 is 1.671e+15, 1.74 times what its units would reach"),
    "another card's figures": (_B200, _scale(0.44, *_TENSOR), "bf16 is 9.9e+14, which implies 817 MHz"),
    "another clock": (_SXM, _set("clock_mhz", 1620, "tensor_core.bf16"), "bf16 is 9.894e+14; 132 x 4096 x 1620 MHz"),
    "a unit that is not there": (
        _A10,
        _set("key", "tensor_core.fp8", "tensor_core.int8"),
        "fp8: no known unit of 8.6 does",
    ),
    "no source": (_SXM, _set("source", "", "tensor_core.bf16"), "tensor_core.bf16 has no source of its own"),
    "no source of the bandwidth": (_SXM, _set("source", ""), "hbm has no source of its own"),
    "no condition": (_SXM, _set("condition", "", "cuda_core.fp32"), "cuda_core.fp32 has no condition"),
    "no basis": (_SXM, _set("basis", 0, "cuda_core.fp32"), "cuda_core.fp32 has no basis"),
    "no density": (_SXM, _set("condition", "SXM", "tensor_core.fp8"), "fp8's condition does not begin with 'dense'"),
    "sparse by its source": (_NVL, _set("source", "printed with sparsity", "tensor_core.fp8"), "was not halved"),
    "derived from nothing": (_SXM, _set("basis", gpu_profile_pb2.DERIVED), "hbm is derived, and its source shows"),
    "measured somehow": ("NVIDIA H200", _set("calibration_method", "", "tensor_core.bf16"), "does not say how"),
    # Just outside of each tolerance.
    "3.5% more than its counts": (_SXM, _scale_unit(1.035, "cuda_core.fp32"), "132 x 256 x 1980 MHz is 6.69"),
    "3.5% less than its counts": (_SXM, _scale_unit(0.965, "cuda_core.fp32"), "132 x 256 x 1980 MHz is 6.69"),
    "fp8 2.5% off twice bf16": (_SXM, _scale(1.025, "fp8"), "not 2 x tensor_core.bf16"),
    "tf32 2.5% off half of bf16": (_SXM, _scale(0.975, "tf32"), "not 0.5 x tensor_core.bf16"),
    "a fifth less than fp32's units": (_H200, _without_clocks(0.86), "bf16 is 8.5097e+14, 0.79 times what its units"),
    "more than fp32's units": (_H200, _without_clocks(1.14), "1.05 times what its units would reach"),
    "half, counts known": (_H200, _without_clocks(0.5), "bf16 is 4.9475e+14, which implies 915 MHz"),
    "fp32 at half": (_L4, _scale_unit(0.5, "cuda_core.fp32"), "fp32 is 1.515e+13, which implies 1020 MHz"),
    "a clock of no such part": (_SXM, _set("clock_mhz", 2100, "cuda_core.fp32"), "at 2100 MHz, not a clock of 9.0"),
    "a highest clock of no such part": (
        _H200,
        _top("max_clock_mhz", 3960),
        "max_clock_mhz is 3960, and no part of 9.0",
    ),
    "bandwidth in bits, small": (_L4, _set("theoretical_bytes_per_s", 2.4e12), "parts of 8.9 have 2.5e+11 to 1.1e"),
    "bandwidth in GiB": (_L4, _set("theoretical_bytes_per_s", 322.11e9), "hbm is 3.2211e+11, and 3e+11 in datasheets"),
    "everything twice, no anchor": (_NVL, _all(2), "fp32 is 1.2e+14, and 6e+13 in datasheets"),
    "a unit that no sheet prints": (_A10, _set("key", "cuda_core.fp64", "cuda_core.fp32"), "3.12e+13, and not there"),
    "other multiprocessors": (_SXM, _top("multiprocessors", 114), "multiprocessors is 114, and 132 in datasheets"),
    "a blank source": (_SXM, _set("source", " ", "tensor_core.bf16"), "tensor_core.bf16 has no source of its own"),
    "a blank condition": (_SXM, _set("condition", " ", "cuda_core.fp32"), "cuda_core.fp32 has no condition"),
    "a copy alone": (_H200, _copy_alone, "hbm.mix lacks TRIAD, READ, WRITE"),
    "no mixes": (_H200, _no_mixes, "hbm.mix lacks COPY, TRIAD, READ, WRITE"),
    "no driver": (_H200, _top("driver", ""), "provenance has no driver"),
    "no clocks": (_H200, _top("clocks", " "), "provenance has no clocks"),
    "no software": (_H200, _top("software", ""), "provenance has no software"),
    "no samples": (_H200, _top("samples", 0), "provenance has no samples"),
    "no date": (_H200, _top("date", "soon"), "the date of measurement, as in"),
    "a floor from nowhere": (_H200, _top("latency_floor_method", ""), "latency_floor_s does not say how"),
    "more than measured": ("NVIDIA H200", _set("calibration", 1.2, "tensor_core.bf16"), "is 1.2, not a fraction"),
}


@pytest.mark.parametrize(("gpu", "plant", "fault"), FAULTS.values(), ids=FAULTS.keys())
def test_a_planted_fault_is_found(gpu, plant, fault):
    profile = gpu_profile_pb2.GpuProfile()
    profile.CopyFrom(_PROFILES[gpu])
    plant(profile)
    assert fault in "; ".join(rules.lint(profile))


def test_faults_of_a_whole_profile_are_found():
    profile = gpu_profile_pb2.GpuProfile()
    profile.CopyFrom(_PROFILES[_SXM])
    profile.multiprocessors = 114
    assert "114 x 256 x 1980 MHz" in "; ".join(rules.lint(profile))
    profile.compute_capability = "9.9"
    assert "compute_capability '9.9': no operations" in "; ".join(rules.lint(profile))
    del profile.source[:]
    assert "no source: name the documents" in rules.lint(profile)


@pytest.mark.parametrize("gpu", sorted(_PROFILES))
@pytest.mark.parametrize("factor", [0.5, 0.9, 1.0737, 1.6, 2, 8])
def test_a_bandwidth_that_is_off_by_a_factor_is_found_on_every_card(gpu, factor):
    assert rules.lint(_with(gpu, lambda profile: _times(profile.hbm, "theoretical_bytes_per_s", factor)))


@pytest.mark.parametrize("gpu", sorted(_PROFILES))
@pytest.mark.parametrize("factor", [0.5, 0.6, 0.75, 1.3, 1.6, 2])
def test_peaks_that_are_off_by_a_factor_are_found_on_every_card(gpu, factor):
    for kind in ("tensor_core.", "cuda_core.fp32", ""):
        found = _with(gpu, lambda p, kind=kind: [_times(u, _RATE, factor) for u in p.unit if u.key.startswith(kind)])
        assert rules.lint(found)


@pytest.mark.parametrize("gpu", sorted(_PROFILES))
def test_figures_of_any_other_card_are_found(gpu):
    for other, figures in _PROFILES.items():
        found = _with(gpu, lambda profile: None)
        del found.unit[:]
        found.unit.extend(figures.unit)
        found.hbm.CopyFrom(figures.hbm)
        assert rules.lint(found) or _figures(found) == _figures(_PROFILES[gpu]), other


def test_every_profile_is_in_the_table_of_datasheets_and_nothing_else_is():
    assert set(datasheets.table()) == set(_PROFILES)


@pytest.mark.parametrize("of", ["PLAUSIBLE_CLOCK_MHZ", "PLAUSIBLE_BANDWIDTH"])
def test_each_architecture_has_its_ranges(of):
    bounds = getattr(profile_checks, of)
    assert set(bounds) == {key.removeprefix("GeForce ") for key in profile_checks.OPERATIONS}
    if of == "PLAUSIBLE_CLOCK_MHZ":
        assert all(high < 2 * low for low, high in bounds.values())
    assert all(high < 8 * low for low, high in bounds.values())


def _with(gpu, plant):
    profile = gpu_profile_pb2.GpuProfile()
    profile.CopyFrom(_PROFILES[gpu])
    plant(profile)
    return profile


def _times(part, field, factor):
    setattr(part, field, getattr(part, field) * factor)


def _figures(profile):
    rates = {unit.key: unit.theoretical_flops_per_s for unit in profile.unit}
    return profile.hbm.theoretical_bytes_per_s, rates


def test_a_name_claimed_twice_is_found_whatever_its_case_and_spaces():
    first = gpu_profile_pb2.GpuProfile(gpu="Some GPU")
    second = gpu_profile_pb2.GpuProfile(gpu="Other", alias=["some  gpu"])
    assert rules.lint_names([first, second]) == ["'some  gpu' of 'Other' names 'Some GPU' already"]
