"""Profiles: what is refused, what is selected, and the project's own ones."""

import pytest

from tileops.perf.roof import profile_checks, profiles
from tileops.tests.report import builders


@pytest.mark.requirement("1.2.6", "1.2.7", "5.1.1")
def test_effective_is_theoretical_times_calibration(tmp_path):
    profile = builders.profile(tmp_path)
    assert profile.bandwidth.effective_per_s == pytest.approx(8e11)
    assert profile.units["cuda_core.fp32"].effective_per_s == pytest.approx(5e12)
    assert profile.units["tensor_core.bf16"].effective_per_s is None
    assert profile.latency_floor_s == 10e-6


def test_the_valid_profile_has_no_defect():
    assert profile_checks.validate(builders.profile_message()) == []


DEFECTS = {
    "gpu missing": ('gpu: "Test GPU"', "", "gpu is missing"),
    "no bandwidth": ("theoretical_bytes_per_s: 1e12", "", "hbm.theoretical_bytes_per_s is missing"),
    "bandwidth in GB/s": ("1e12", "4800", "in bytes per second it would lie"),
    "peak in TFLOPS": ("1e13", "67", "in FLOPs per second it would lie"),
    "undefined peak": ("1e13", "nan", "unit 'cuda_core.fp32' theoretical"),
    "no peak": ("theoretical_flops_per_s: 1e13", "", "unit 'cuda_core.fp32' has no theoretical_flops_per_s"),
    "calibration above 1": ("calibration: 0.5", "calibration: 1.01", "is 1.01, not a fraction in (0, 1]"),
    "calibration zero": ("calibration: 0.5", "calibration: 0", "is 0, not a fraction"),
    "calibration undefined": ("calibration: 0.5", "calibration: nan", "is nan, not a fraction"),
    "mix above 1": ("fraction: 0.7", "fraction: 70", "hbm.mix COPY fraction is 70, not a fraction"),
    "mix without fraction": ("fraction: 0.7", "", "hbm.mix COPY has no fraction"),
    "mix without kind": ("kind: COPY", "", "hbm.mix without a kind"),
    "mix twice": ("kind: COPY", "kind: READ", "two hbm.mix of one kind"),
    "no envelope": (
        "calibration: 0.8",
        "calibration: 0.75",
        "hbm.calibration is 0.75, not the largest fraction of its mixes, 0.8",
    ),
    "an envelope over three mixes": ("mix { kind: WRITE fraction: 0.6 }", "", "hbm.mix lacks WRITE"),
    "an envelope over no mix": (
        """mix { kind: COPY fraction: 0.7 }
      mix { kind: READ fraction: 0.8 }
      mix { kind: TRIAD fraction: 0.65 }
      mix { kind: WRITE fraction: 0.6 }""",
        "",
        "hbm.mix lacks COPY, TRIAD, READ, WRITE",
    ),
    "a date that is none": ('date: "2026-01-01"', 'date: "soon"', "the date of measurement, as in"),
    "a date of another form": ('date: "2026-01-01"', 'date: "20260101"', "the date of measurement, as in"),
    "a blank tool": ('tool: "a tool"', 'tool: " "', "need provenance"),
    "a blank source": ('source: "a datasheet"', 'source: " "', "theoretical figure and no source"),
    "unknown key": ("cuda_core.fp32", "cuda_core.fp31", "is no roof key"),
    "key twice": ("tensor_core.bf16", "cuda_core.fp32", "two units have the key 'cuda_core.fp32'"),
    "floor in microseconds": ("latency_floor_s: 10e-6", "latency_floor_s: 10", "in seconds it would lie"),
    "no provenance": ('tool: "a tool"', "", "need provenance"),
    "an assumption in a file": (
        "latency_floor_s: 10e-6",
        "assumed_calibration: 0.9",
        "assumed_calibration belongs to a report",
    ),
    "a clock that is no number": (
        "calibration: 0.5",
        "clock_mhz: nan",
        "unit 'cuda_core.fp32' clock_mhz is nan; in MHz it would",
    ),
    "a negative clock": ("calibration: 0.5", "clock_mhz: -5", "unit 'cuda_core.fp32' clock_mhz is -5; in MHz it would"),
    "a highest clock in GHz": (
        "latency_floor_s: 10e-6",
        "max_clock_mhz: 1.98",
        "max_clock_mhz is 1.98; in MHz it would",
    ),
    "a highest clock far above the clock of a peak": (
        "latency_floor_s: 10e-6",
        'max_clock_mhz: 1980 max_clock_source: "d"'
        ' unit { key: "tensor_core.fp8" theoretical_flops_per_s: 1e14 clock_mhz: 1000 source: "d" }',
        "more than 1.5 times as high",
    ),
    "a highest clock without a source": ("latency_floor_s: 10e-6", "max_clock_mhz: 1980", "no max_clock_source"),
    "no multiprocessor": ("latency_floor_s: 10e-6", "multiprocessors: 0", "multiprocessors is 0; give the count"),
    "an infinite bandwidth": ("1e12", "inf", "hbm.theoretical_bytes_per_s is inf; in bytes per second"),
    "a negative floor": ("10e-6", "-10e-6", "latency_floor_s is -1e-05; in seconds it would"),
    "a suffix of the architecture": ('"1.0"', '"9.0a"', "compute_capability is '9.0a'; write it as \"9.0\""),
    "a compiler's architecture": ('"1.0"', '"sm_90"', "compute_capability is 'sm_90'; write it as \"9.0\""),
    "no source": ('source: "a datasheet"', "", "theoretical figure and no source"),
}


@pytest.mark.requirement("5.1.5")
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


@pytest.mark.requirement("5.1.4")
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
    second = builders.profile(tmp_path, builders.PROFILE_TEXT.replace('"Test GPU"', '"Another GPU"'))
    assert profiles.select([first, second], "Another GPU") is second
    with pytest.raises(profiles.ProfileError, match="'Test GPU', 'Another GPU'"):
        profiles.select([first, second], "Test GPU 8GB")


def test_find_takes_a_file_a_stem_or_a_device_name(tmp_path, monkeypatch):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    builders.profile(tmp_path)
    assert profiles.find_profile("test_gpu.textproto").gpu == "Test GPU"
    assert profiles.find_profile("nvidia_h200").gpu == "NVIDIA H200"
    assert profiles.find_profile("nvidia h200").gpu == "NVIDIA H200"


def test_an_unknown_name_lists_the_profiles_that_share_a_word_with_it():
    with pytest.raises(profiles.ProfileError) as error:
        profiles.find_profile("H200")
    assert "(there are: 'NVIDIA H200', 'NVIDIA H200 NVL';" in str(error.value)
    with pytest.raises(
        profiles.ProfileError,
        match="the nearest are '[^']+', '[^']+', '[^']+'; ls profiles lists all [0-9]+; a file ends",
    ):
        profiles.find_profile("H20O")


def test_the_projects_profiles_are_valid_and_their_names_distinct():
    loaded = profiles.load_profiles()
    assert "NVIDIA H200" in [profile.gpu for profile in loaded]
    for profile in loaded:
        for name in (profile.gpu, *profile.message.alias):
            assert profiles.select(loaded, name) is profile


@pytest.mark.requirement("1.4.2")
def test_the_h200_is_priced_dense():
    h200 = profiles.find_profile("nvidia_h200")
    assert h200.bandwidth.theoretical_per_s == 4.8e12
    assert h200.units["tensor_core.bf16"].theoretical_per_s == 989.5e12
    assert h200.units["tensor_core.fp8"].theoretical_per_s == 1979e12
    # Stated at 1830 MHz; the device reports up to 1980 MHz.
    assert h200.units["tensor_core.bf16"].ceiling_per_s == pytest.approx(989.5e12 * 1980 / 1830)
    assert h200.units["cuda_core.fp32"].ceiling_per_s == 67e12
    assert h200.bandwidth.ceiling_per_s == 4.8e12
    assert not profiles.select([h200], "NVIDIA H200 NVL")


@pytest.mark.requirement("4.3.2", "5.1.4")
@pytest.mark.parametrize(
    ("device", "gpu"),
    [
        ("NVIDIA H20", "NVIDIA H20"),
        ("NVIDIA H200", "NVIDIA H200"),
        ("NVIDIA H200 NVL", "NVIDIA H200 NVL"),
        ("NVIDIA GH200 480GB", "NVIDIA GH200 480GB"),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe"),
        ("nvidia h100 80GB  HBM3", "NVIDIA H100 80GB HBM3"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
        ("A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"),
        ("NVIDIA A10", "NVIDIA A10"),
        ("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB"),
        ("NVIDIA L40S", "NVIDIA L40S"),
        ("NVIDIA GB200", "NVIDIA GB200"),
        ("AMD Instinct MI300X", "AMD Instinct MI300X"),
        # Parts of their own, with names that contain or are contained in one above.
        ("NVIDIA H2", None),
        ("NVIDIA H20-3e", None),
        ("NVIDIA H100", None),
        ("NVIDIA A10G", None),
        ("NVIDIA A100", None),
        ("NVIDIA L40", None),
        ("NVIDIA B20", None),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("Tesla V100-PCIE-16GB", None),
        ("AMD Instinct MI250X / MI250", None),
        ("AMD Instinct MI300", None),
    ],
)
def test_a_device_gets_the_profile_of_its_own_name_and_no_other(device, gpu):
    found = profiles.select(profiles.load_profiles(), device)
    assert (found.gpu if found else None) == gpu


def test_an_assumed_factor_fills_in_what_was_not_measured_and_nothing_else(tmp_path):
    measured = builders.profile(tmp_path)
    assumed = profiles.assume(measured, 0.9)
    assert assumed.bandwidth == measured.bandwidth
    assert assumed.units["cuda_core.fp32"] == measured.units["cuda_core.fp32"]
    assert assumed.units["tensor_core.bf16"].effective_per_s == pytest.approx(9e13)
    assert measured.units["tensor_core.bf16"].calibration is None
    words = profiles.assumption_in_words(assumed.message)
    assert words.startswith("ASSUMED, not measured: 0.9 of the theoretical value of tensor_core.bf16;")
    assert "latency" not in words and profiles.assumption_in_words(measured.message) == ""


def test_an_assumption_names_what_an_uncalibrated_profile_lacks():
    h100 = profiles.find_profile("nvidia_h100_sxm")
    words = profiles.assumption_in_words(profiles.assume(h100, 0.8).message)
    assert "0.8 of the theoretical value of every figure" in words
    assert "no row is called latency bound" in words


def test_nothing_is_assumed_of_a_profile_that_is_wholly_measured(tmp_path):
    text = builders.PROFILE_TEXT.replace("1e14", "1e14 calibration: 0.5")
    measured = builders.profile(tmp_path, text)
    assert profiles.assume(measured, 0.9) is measured


@pytest.mark.parametrize("fraction", [0, -0.5, 1.01, 85, float("nan")])
def test_an_assumed_factor_has_to_be_a_fraction(tmp_path, fraction):
    with pytest.raises(profiles.ProfileError, match="not a fraction"):
        profiles.assume(builders.profile(tmp_path), fraction)


# A user's profile: the H100 PCIe's figures, as its datasheet has them, dense.
_USERS = {
    "cuda_core.fp32": 51e12,
    "tensor_core.tf32": 378e12,
    "tensor_core.bf16": 756e12,
    "tensor_core.fp16": 756e12,
    "tensor_core.fp8": 1513e12,
    "tensor_core.int8": 1513e12,
}


def users_text(figures, gpu="Our own card", more='compute_capability: "9.0"', bandwidth=2e12):
    """Returns the text of a profile that a user wrote, of these figures beside the dense ones."""
    units = "".join(
        f'unit {{ key: "{key}" theoretical_flops_per_s: {rate} source: "a sheet" }}\n'
        for key, rate in (_USERS | figures).items()
    )
    hbm = f'hbm {{ theoretical_bytes_per_s: {bandwidth} source: "a sheet" }}'
    return f'gpu: "{gpu}"\n{more}\n{hbm}\n{units}'


def _sparse(*kinds):
    return {f"tensor_core.{kind}": _USERS[f"tensor_core.{kind}"] * 2 for kind in kinds}


IMPOSSIBLE = {
    "sparse bf16": (
        _sparse("bf16"),
        "",
        "tensor_core.bf16 is 1.512e+15, twice tensor_core.fp16, 7.56e+14: a figure with sparsity; give the dense one",
    ),
    "sparse bf16, architecture known": (
        _sparse("bf16"),
        'compute_capability: "9.0"',
        "twice tensor_core.fp16, 7.56e+14",
    ),
    "sparse fp16": (
        _sparse("fp16"),
        'compute_capability: "9.0"',
        "tensor_core.fp16 is 1.512e+15, twice tensor_core.bf16, 7.56e+14: a figure with sparsity, or of fp16 accumulation",
    ),
    "all sparse": (
        _sparse("tf32", "bf16", "fp16", "fp8", "int8"),
        'compute_capability: "9.0"',
        "tensor_core.int8 is 3.026e+15, 1.85 times what its units would reach at cuda_core.fp32's clock: a figure with sparsity;",
    ),
    "all sparse, counts known": (
        _sparse("tf32", "bf16", "fp16", "fp8", "int8"),
        'compute_capability: "9.0" multiprocessors: 114',
        "tensor_core.bf16 is 1.512e+15, which implies 3238 MHz; clocks of its architecture are 1400 to 2050 MHz: a figure with sp",
    ),
    "sparse fp8": (
        _sparse("fp8"),
        'compute_capability: "9.0"',
        "fp8 is 3.026e+15, not 2 x tensor_core.bf16, 1.512e+15: a fig",
    ),
    "bandwidth in bits": (
        None,
        'compute_capability: "9.0"',
        "hbm is 1.6e+13; parts of 9.0 have 1.9e+12 to 5e+12 bytes per s",
    ),
}


@pytest.mark.parametrize("figures, more, told", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_figures_that_no_gpu_has_are_refused_with_the_remedy(tmp_path, figures, more, told):
    path = tmp_path / "mine.textproto"
    path.write_text(users_text(figures or {}, more=more, bandwidth=2e12 if figures else 16e12))
    with pytest.raises(profiles.ProfileError) as error:
        profiles.find_profile(str(path))
    assert told in str(error.value) and f"profile {path}: " in str(error.value)


UNLIKELY = {
    "fp16 twice bf16, of whatever architecture": (_sparse("fp16"), "", "twice tensor_core.bf16, 7.56e+14"),
    "16 bits that differ": (
        {"tensor_core.bf16": 800e12},
        "",
        "differ, 7.56e+14 and 8e+14, though the same units compute both",
    ),
    "fp8 as fast as bf16, architecture unknown": (
        {"tensor_core.fp8": 756e12},
        "",
        "tensor_core.fp8 is 7.56e+14, not 2 x tensor_core.bf16, 1.512e+15: tensor_core.bf16 is a figure with sparsity;",
    ),
    "a unit that is not there": (
        {"tensor_core.fp4": 3e15},
        'compute_capability: "9.0"',
        "fp4: no known unit of 9.0 does this",
    ),
    "much less than its units": (
        {"cuda_core.fp32": 66.9e12},
        'compute_capability: "9.0"',
        "tensor_core.bf16 is 7.56e+14, 0.71 times what its units",
    ),
    "another unit": ({"cuda_core.fp64": 4e11}, "", "cuda_core.fp64 is 4e+11, outside of 5e+11 to 1e+14"),
}


@pytest.mark.parametrize("figures, more, told", UNLIKELY.values(), ids=UNLIKELY)
def test_unlikely_figures_are_loaded_with_a_warning(tmp_path, figures, more, told):
    path = tmp_path / "mine.textproto"
    path.write_text(users_text(figures, more=more))
    warnings = profiles.find_profile(str(path)).warnings
    assert told in "; ".join(warnings) and all(warning.startswith(f"profile {path}: ") for warning in warnings)


@pytest.mark.parametrize(
    "more",
    ['compute_capability: "9.0"', 'compute_capability: "9.0" multiprocessors: 114', 'compute_capability: "11.7"'],
)
def test_dense_figures_are_loaded_without_a_word(tmp_path, more):
    (tmp_path / "mine.textproto").write_text(users_text({}, more=more))
    assert profiles.load_profile(tmp_path / "mine.textproto").warnings == ()


def test_words_of_sparsity_are_a_warning(tmp_path):
    for field in ('source: "a sheet, with sparsity"', 'source: "a sheet" condition: "2:4 sparse"'):
        text = users_text({}).replace('source: "a sheet" }', field + " }", 3)
        (tmp_path / "mine.textproto").write_text(text)
        assert any("give the dense one" in each for each in profiles.load_profile(tmp_path / "mine.textproto").warnings)


def test_a_device_that_the_project_knows_is_held_against_its_own_profile(tmp_path):
    # Sparse throughout, and nothing that would tell so by itself.
    text = users_text(_sparse("tf32", "bf16", "fp16", "fp8", "int8"), gpu="NVIDIA H100 PCIe", more="")
    path = tmp_path / "mine.textproto"
    path.write_text(text)
    with pytest.raises(profiles.ProfileError, match="bf16 is 1.512e.15, and 7.56.*a figure with sparsity"):
        profiles.find_profile(str(path))
    path.write_text(text.replace("NVIDIA H100 PCIe", "A card of ours"))
    (warning,) = profiles.find_profile(str(path)).warnings
    assert "compute_capability is missing, so peaks with sparsity may pass" in warning
    # Less than known is unlikely, and not impossible.
    path.write_text(users_text({"cuda_core.fp32": 25e12}, gpu="NVIDIA H100 PCIe", more=""))
    assert any("cuda_core.fp32 is 2.5e+13, and 5.1" in each for each in profiles.find_profile(str(path)).warnings)


def test_the_projects_own_profiles_bring_no_warning():
    assert [profile.warnings for profile in profiles.load_profiles()] == [()] * len(profiles.load_profiles())


@pytest.mark.requirement("5.1.3")
@pytest.mark.parametrize("field", ["effective_bytes_per_s: 8e11", "effective_flops_per_s: 5e12", "effective: 0.8"])
def test_a_profile_has_no_place_for_an_effective_value(tmp_path, field):
    for found in ("calibration: 0.8", "calibration: 0.5"):
        with pytest.raises(profiles.ProfileError, match="has no field named"):
            builders.profile(tmp_path, builders.PROFILE_TEXT.replace(found, f"{found} {field}"))
