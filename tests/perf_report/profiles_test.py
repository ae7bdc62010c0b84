"""Profiles: what is refused, what is selected, and the project's own ones."""

import pytest

from tileops.perf import profiles
from tileops.tests.perf_report import builders


def test_effective_is_theoretical_times_calibration(tmp_path):
    profile = builders.profile(tmp_path)
    assert profile.bandwidth.effective_per_s == pytest.approx(8e11)
    assert profile.units["cuda_core.fp32"].effective_per_s == pytest.approx(5e12)
    assert profile.units["tensor_core.bf16"].effective_per_s is None
    assert profile.latency_floor_s == 10e-6


def test_the_valid_profile_has_no_defect():
    assert profiles.validate(builders.profile_message()) == []


DEFECTS = {
    "gpu missing": ('gpu: "Test GPU"', "", "gpu is missing"),
    "no bandwidth": (
        "theoretical_bytes_per_s: 1e12",
        "",
        "hbm.theoretical_bytes_per_s is missing",
    ),
    "bandwidth in GB/s": ("1e12", "4800", "in bytes per second it would lie"),
    "peak in TFLOPS": ("1e13", "67", "in FLOPs per second it would lie"),
    "undefined peak": ("1e13", "nan", "unit 'cuda_core.fp32' theoretical"),
    "no peak": (
        "theoretical_flops_per_s: 1e13",
        "",
        "unit 'cuda_core.fp32' has no theoretical_flops_per_s",
    ),
    "calibration above 1": (
        "calibration: 0.5",
        "calibration: 1.01",
        "is 1.01, not a fraction in (0, 1]",
    ),
    "calibration zero": ("calibration: 0.5", "calibration: 0", "is 0, not a fraction"),
    "calibration undefined": (
        "calibration: 0.5",
        "calibration: nan",
        "is nan, not a fraction",
    ),
    "mix above 1": (
        "fraction: 0.7",
        "fraction: 70",
        "hbm.mix COPY fraction is 70, not a fraction",
    ),
    "mix without fraction": ("fraction: 0.7", "", "hbm.mix COPY has no fraction"),
    "mix without kind": ("kind: COPY", "", "hbm.mix without a kind"),
    "mix twice": ("kind: COPY", "kind: READ", "two hbm.mix of one kind"),
    "no envelope": (
        "calibration: 0.8",
        "calibration: 0.75",
        "hbm.calibration is 0.75, not the largest fraction of its mixes, 0.8",
    ),
    "unknown key": ("cuda_core.fp32", "cuda_core.fp31", "is no roof key"),
    "key twice": (
        "tensor_core.bf16",
        "cuda_core.fp32",
        "two units have the key 'cuda_core.fp32'",
    ),
    "floor in microseconds": (
        "latency_floor_s: 10e-6",
        "latency_floor_s: 10",
        "in seconds it would lie",
    ),
    "no provenance": ('tool: "a tool"', "", "need provenance"),
    "no source": ('source: "a datasheet"', "", "theoretical figure and no source"),
}


@pytest.mark.parametrize("old, new, defect", DEFECTS.values(), ids=DEFECTS.keys())
def test_defects_are_refused(tmp_path, old, new, defect):
    assert old in builders.PROFILE_TEXT
    with pytest.raises(profiles.ProfileError) as error:
        builders.profile(tmp_path, builders.PROFILE_TEXT.replace(old, new))
    assert defect in str(error.value)
    assert "test_gpu.textproto" in str(error.value)


def test_every_defect_is_listed(tmp_path):
    text = builders.PROFILE_TEXT.replace("0.5", "5").replace("fraction: 0.7", "")
    with pytest.raises(profiles.ProfileError) as error:
        builders.profile(tmp_path, text)
    assert "is 5, not a fraction" in str(error.value)
    assert "COPY has no fraction" in str(error.value)


def test_a_syntax_error_names_file_and_line(tmp_path):
    with pytest.raises(profiles.ProfileError, match=r"test_gpu.textproto:2:.*no_such"):
        builders.profile(tmp_path, 'gpu: "a"\nno_such_field: 1')


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(profiles.ProfileError, match="cannot read profile .*nix"):
        profiles.load_profile(tmp_path / "nix.textproto")


@pytest.mark.parametrize(
    "device, matches",
    [
        ("Test GPU", True),
        ("test gpu", True),
        ("  Test   GPU ", True),
        ("Test GPU 8GB", True),
        ("Test GPU 8GB NVL", False),
        ("Test", False),
        ("Test GPU 80GB", False),
        ("", False),
    ],
)
def test_names_match_whole_but_for_case_and_spaces(tmp_path, device, matches):
    profile = builders.profile(tmp_path)
    found = profiles.select([profile], device)
    assert (found is profile) == matches


def test_an_ambiguous_name_is_an_error_that_lists_the_candidates(tmp_path):
    first = builders.profile(tmp_path)
    second = builders.profile(
        tmp_path, builders.PROFILE_TEXT.replace('"Test GPU"', '"Another GPU"')
    )
    assert profiles.select([first, second], "Another GPU") is second
    with pytest.raises(profiles.ProfileError, match="'Test GPU', 'Another GPU'"):
        profiles.select([first, second], "Test GPU 8GB")


def test_find_takes_a_file_a_stem_or_a_device_name(tmp_path, monkeypatch):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    builders.profile(tmp_path)
    assert profiles.find_profile("test_gpu.textproto").gpu == "Test GPU"
    assert profiles.find_profile("nvidia_h200").gpu == "NVIDIA H200"
    assert profiles.find_profile("nvidia h200").gpu == "NVIDIA H200"
    with pytest.raises(profiles.ProfileError, match="there are .*'NVIDIA H200'"):
        profiles.find_profile("NVIDIA H20")


def test_the_projects_profiles_are_valid_and_their_names_distinct():
    loaded = profiles.load_profiles()
    assert "NVIDIA H200" in [profile.gpu for profile in loaded]
    for profile in loaded:
        for name in (profile.gpu, *profile.message.alias):
            assert profiles.select(loaded, name) is profile


def test_the_h200_is_priced_dense():
    h200 = profiles.find_profile("nvidia_h200")
    assert h200.bandwidth.theoretical_per_s == 4.8e12
    assert h200.units["tensor_core.bf16"].theoretical_per_s == 989.5e12
    assert h200.units["tensor_core.fp8"].theoretical_per_s == 1979e12
    assert not profiles.select([h200], "NVIDIA H200 NVL")
