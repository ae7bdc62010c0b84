"""The project's profiles keep the rules, and each rule finds the fault that it is for."""

import pytest

from tileops.perf import profiles
from tileops.proto import gpu_profile_pb2
from tileops.tests.profiles import rules

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
    assert rules.CUT_DOWN == {"NVIDIA H20"}


def _unit(profile, key):
    (unit,) = (unit for unit in profile.unit if unit.key == key)
    return unit


def _scale(factor, *kinds):
    """Returns a fault that multiplies these tensor figures."""

    def plant(profile):
        for kind in kinds:
            _unit(profile, f"tensor_core.{kind}").theoretical_flops_per_s *= factor

    return plant


def _set(field, value, key="hbm"):
    """Returns a fault that sets a field of the memory or of a unit."""

    def plant(profile):
        part = profile.hbm if key == "hbm" else _unit(profile, key)
        setattr(part, field, value)

    return plant


_RATE = "theoretical_flops_per_s"
_SXM, _NVL, _A10, _B200 = "NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL", "NVIDIA A10", "NVIDIA B200"
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
    "sparse, counts known": (_A10, _scale(2, "tf32", "bf16", "fp16", "int8"), "bf16 is 2.5e+14, which implies 3391 MHz"),
    "sparse, fp32 known": (_NVL, _scale(2, *_TENSOR), "bf16 is 1.671e+15, 1.74 of what its units would do"),
    "another card's figures": (_B200, _scale(0.44, *_TENSOR), "bf16 is 9.9e+14, which implies 817 MHz"),
    "another clock": (_SXM, _set("clock_mhz", 1620, "tensor_core.bf16"), "bf16 is 9.894e+14; 132 x 4096 x 1620 MHz"),
    "a unit that is not there": (_A10, _set("key", "tensor_core.fp8", "tensor_core.int8"), "fp8: units of 8.6 do no such"),
    "no source": (_SXM, _set("source", "", "tensor_core.bf16"), "tensor_core.bf16 has no source of its own"),
    "no source of the bandwidth": (_SXM, _set("source", ""), "hbm has no source of its own"),
    "no condition": (_SXM, _set("condition", "", "cuda_core.fp32"), "cuda_core.fp32 has no condition"),
    "no basis": (_SXM, _set("basis", 0, "cuda_core.fp32"), "cuda_core.fp32 has no basis"),
    "no density": (_SXM, _set("condition", "SXM", "tensor_core.fp8"), "fp8's condition does not begin with 'dense'"),
    "sparse by its source": (_NVL, _set("source", "printed with sparsity", "tensor_core.fp8"), "was not halved"),
    "derived from nothing": (_SXM, _set("basis", gpu_profile_pb2.DERIVED), "hbm is derived, and its source shows"),
    "measured somehow": ("NVIDIA H200", _set("calibration_method", "", "tensor_core.bf16"), "does not say how"),
    "more than measured": ("NVIDIA H200", _set("calibration", 1.2, "tensor_core.bf16"), "is 1.2, not a fraction"),
}  # fmt: skip


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


def test_a_name_claimed_twice_is_found_whatever_its_case_and_spaces():
    first = gpu_profile_pb2.GpuProfile(gpu="Some GPU")
    second = gpu_profile_pb2.GpuProfile(gpu="Other", alias=["some  gpu"])
    assert rules.lint_names([first, second]) == ["'some  gpu' of 'Other' names 'Some GPU' already"]
