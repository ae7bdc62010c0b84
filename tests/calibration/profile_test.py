"""Merging into a base profile, refusing what is impossible, and writing."""

import dataclasses
import os

import pytest
from google.protobuf import text_format

from tileops.perf.calibration import fit
from tileops.perf.calibration import model as model
from tileops.perf.calibration import profile as calibrate_profile
from tileops.perf.roof import profiles
from tileops.proto import gpu_profile_pb2
from tileops.tools.cli import output

PROVENANCE = {"tool": "test", "date": "2026-01-31", "driver": "1.2", "clocks": "as found"}
START_UP = fit.StartUp(t0_s=1.1234e-6, bytes_per_s=4e12, worst_miss=0.1, points=9)

BASE = """
gpu: "Some GPU" alias: "Another name" compute_capability: "9.0"
hbm {
  theoretical_bytes_per_s: 4.8e12 calibration: 0.5 mix { kind: COPY fraction: 0.5 }
  source: "a sheet" doubt: "a doubt"
}
unit { key: "cuda_core.fp32" theoretical_flops_per_s: 67e12 source: "a sheet" }
unit { key: "tensor_core.bf16" theoretical_flops_per_s: 989.5e12 calibration: 0.1 calibration_method: "old" }
unit { key: "tensor_core.fp8" theoretical_flops_per_s: 1979e12 calibration: 0.2 calibration_method: "old" }
latency_floor_s: 1e-5
source: "a sheet"
note: "a note, with the maker's \\"quotes\\", a backslash \\\\' and enough words to fill more than one line"
provenance { tool: "old" date: "2020-01-01" software: "old" }
"""


def _base():
    return text_format.Parse(BASE, gpu_profile_pb2.GpuProfile())


def _outcome(name, fraction, theoretical=100.0, stable=True, conditions="700 W"):
    if name.startswith("hbm."):
        trial = model.BandwidthTrial(mix=name[4:], array_bytes=model.GIB, block=256, unroll=4)
    else:
        trial = model.MatrixTrial(key=name, m=8, n=8, k=8)
    quantity = model.Quantity(
        name=name,
        theoretical_per_s=theoretical,
        sweep=(trial,),
        finalists=1,
        tolerance=0.01,
        max_rounds=3,
        budget_s=1.0,
    )
    best = model.Reading(trial=trial, rate_per_s=fraction * theoretical, samples=20)
    slower = dataclasses.replace(best, rate_per_s=best.rate_per_s / 2)
    return model.Outcome(
        quantity=quantity,
        best=best,
        readings=(slower, best, slower)[: 2 if name == "hbm.READ" else 3],
        round_bests=(1.0, 1.0, 1.0),
        spread=0.001 if stable else 0.2,
        stable=stable,
        conditions=conditions,
    )


def _outcomes(**fractions):
    values = {"COPY": 0.891234, "TRIAD": 0.9, "READ": 0.93456, "WRITE": 0.88, **fractions}
    return [_outcome(f"hbm.{mix}", value) for mix, value in values.items()]


def _merge(outcomes):
    return calibrate_profile.merge(_base(), outcomes, START_UP, PROVENANCE, l2_bytes=60 * 2**20, max_clock_mhz=1980)


@pytest.mark.requirement("5.1.5", "5.1.7")
def test_the_envelope_is_the_largest_mix_and_each_is_kept():
    merged = _merge(_outcomes())
    fractions = {gpu_profile_pb2.AccessKind.Name(m.kind): m.fraction for m in merged.hbm.mix}
    assert fractions == {"COPY": 0.8912, "TRIAD": 0.9, "READ": 0.9346, "WRITE": 0.88}
    assert merged.hbm.calibration == 0.9346


def test_theoretical_values_and_words_stay():
    merged, base = _merge(_outcomes()), _base()
    assert merged.hbm.theoretical_bytes_per_s == 4.8e12
    assert [u.theoretical_flops_per_s for u in merged.unit] == [67e12, 989.5e12, 1979e12]
    assert list(merged.alias) == list(base.alias) and list(merged.note) == list(base.note)
    assert merged.hbm.source == "a sheet" and merged.hbm.doubt == "a doubt"
    assert merged.l2_bytes == 60 * 2**20
    assert (merged.max_clock_mhz, merged.max_clock_source) == (1980, "NVML of the calibrated device, driver 1.2")


def test_an_older_calibration_does_not_survive_unmeasured():
    merged = _merge(_outcomes() + [_outcome("tensor_core.bf16", 0.8)])
    fp32, bf16, fp8 = merged.unit
    assert bf16.calibration == 0.8 and "8x8x8 TN" in bf16.calibration_method
    assert not fp32.HasField("calibration")
    assert not fp8.HasField("calibration") and not fp8.calibration_method
    assert merged.provenance.tool == "test" and not merged.provenance.software
    assert merged.provenance.samples == 40


def test_the_floor_is_five_start_ups():
    merged = _merge(_outcomes())
    assert merged.latency_floor_s == 5.62e-6
    assert "t0 = 1.123 us" in merged.latency_floor_method


def test_methods_name_conditions_and_stability():
    merged = _merge(_outcomes() + [_outcome("tensor_core.bf16", 0.8, stable=False)])
    assert "NOT STABLE" in merged.unit[1].calibration_method
    assert "700 W" in merged.unit[1].calibration_method
    assert "NOT STABLE" not in merged.hbm.calibration_method


def test_each_width_and_size_stands_beside_the_envelope():
    copy = _outcome("hbm.COPY", 0.9, theoretical=4.8e12)
    trials = [
        model.BandwidthTrial(mix="COPY", array_bytes=size, width=width, block=256, unroll=4)
        for size, width in ((model.GIB, 16), (2 * model.GIB, 8), (model.GIB, 8))
    ]
    readings = [
        model.Reading(trial=trial, rate_per_s=rate, samples=10) for trial, rate in zip(trials, (4.1e12, 4.3e12, 4.2e12))
    ]
    copy = dataclasses.replace(copy, readings=tuple(readings), best=readings[1])
    method = _merge([copy] + _outcomes()[1:]).hbm.calibration_method
    assert "best in TB/s of 8-byte accesses 4.3, 16-byte accesses 4.1; of arrays of 2 GiB 4.3, 1 GiB 4.2" in method


def test_an_outcome_below_its_cross_check_is_no_profile():
    bf16 = _outcome("tensor_core.bf16", 0.8, theoretical=989.5e12)
    quantity = dataclasses.replace(bf16.quantity, cross_check=bf16.best.trial)
    bf16 = dataclasses.replace(bf16, quantity=quantity)
    slower = dataclasses.replace(bf16, cross_check_per_s=790e12)
    method = _merge(_outcomes() + [slower]).unit[1].calibration_method
    assert "CUDA events around calls back to back: 8x8x8 TN, through torch 790 TFLOP/s, 99.8% of the best" in method
    for rate, said in ((799e12, "799 TFLOP/s, 100.9%"), (791.7e12, "791.7 TFLOP/s, 100.0%"), (float("nan"), "nan")):
        with pytest.raises(model.CalibrationError, match=f"tensor_core.bf16: .* {said}"):
            _merge(_outcomes() + [dataclasses.replace(bf16, cross_check_per_s=rate)])


def test_a_cross_check_that_could_not_be_made_is_told():
    bf16 = _outcome("tensor_core.bf16", 0.8, theoretical=989.5e12)
    assert "CROSS" not in _merge(_outcomes() + [bf16]).unit[1].calibration_method
    wanted = dataclasses.replace(bf16, quantity=dataclasses.replace(bf16.quantity, cross_check=bf16.best.trial))
    method = _merge(_outcomes() + [wanted]).unit[1].calibration_method
    assert "NOT CROSS-CHECKED: 8x8x8 TN, through torch could not be measured" in method


def test_readings_that_were_not_reached_again_are_told():
    bf16 = _outcome("tensor_core.bf16", 0.8, theoretical=989.5e12)
    above = (dataclasses.replace(bf16.best, rate_per_s=940e12),)
    method = _merge(_outcomes() + [dataclasses.replace(bf16, unconfirmed=above)]).unit[1].calibration_method
    assert "1 reading(s) up to 940 TFLOP/s (8x8x8 TN, through torch) were not reached again and do not count" in method
    unstable = dataclasses.replace(bf16, unconfirmed=above * 2, stable=False, spread=0.001)
    method = _merge(_outcomes() + [unstable]).unit[1].calibration_method
    assert "NOT STABLE: 2 readings lie above what the last rounds reach again" in method


def test_what_is_kept_up_stands_beside_the_peak():
    outcome = dataclasses.replace(
        _outcome("tensor_core.bf16", 0.8, theoretical=989.5e12),
        sustained_per_s=740e12,
        sustained_conditions="SM 1500 MHz",
    )
    method = _merge(_outcomes() + [outcome]).unit[1].calibration_method
    assert "791.6 TFLOP/s" in method and "740 TFLOP/s when it goes on for seconds; SM 1500 MHz" in method


def test_a_rate_above_the_theoretical_one_is_refused_with_both_and_a_cause():
    outcomes = _outcomes() + [_outcome("tensor_core.bf16", 1.02, theoretical=989.5e12)]
    with pytest.raises(model.CalibrationError) as error:
        _merge(outcomes)
    text = str(error.value)
    assert "tensor_core.bf16: measured 1009 TFLOP/s" in text
    assert "theoretical 989.5 TFLOP/s" in text
    assert "lower clock" in text and "700 W" in text


def test_a_bandwidth_above_the_theoretical_one_suspects_the_cache():
    outcomes = _outcomes()[:3] + [_outcome("hbm.WRITE", 1.1, theoretical=4.8e12)]
    with pytest.raises(model.CalibrationError, match=r"hbm\.WRITE: measured 5\.28 TB/s.*4\.8 TB/s.*cache"):
        _merge(outcomes)


def test_a_missing_mix_is_refused():
    with pytest.raises(model.CalibrationError, match="missing: WRITE"):
        _merge(_outcomes()[:3])


def test_a_unit_without_a_place_in_the_base_is_refused():
    with pytest.raises(model.CalibrationError, match=r"'Some GPU' has no tensor_core\.int8"):
        _merge(_outcomes() + [_outcome("tensor_core.int8", 0.5)])


def test_no_date_is_no_valid_profile():
    with pytest.raises(model.CalibrationError, match="not valid.*provenance"):
        calibrate_profile.merge(_base(), _outcomes(), START_UP, {"tool": "test"}, 2**25, None)


def test_the_base_is_not_changed():
    base = _base()
    calibrate_profile.merge(base, _outcomes(), START_UP, PROVENANCE, 2**25, None)
    assert base == _base()


def test_what_is_written_reads_back_and_is_valid(tmp_path):
    merged = _merge(_outcomes() + [_outcome("tensor_core.bf16", 0.8)])
    path = tmp_path / "some.textproto"
    calibrate_profile.write(merged, path)
    assert profiles.load_profile(path).message == merged
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# proto-file: proto/gpu_profile.proto\n")
    assert "theoretical_flops_per_s: 9.895e+14" in text
    assert "\\'s" not in text and max(map(len, text.splitlines())) < 100
    assert os.listdir(tmp_path) == ["some.textproto"]


def test_a_figure_that_would_lose_digits_is_refused():
    merged = _merge(_outcomes())
    merged.unit[0].theoretical_flops_per_s = 66908160000001.0
    with pytest.raises(model.CalibrationError, match="12 significant digits"):
        calibrate_profile.to_text(merged)


def test_a_link_stays_a_link_and_its_target_is_written(tmp_path):
    target, link = tmp_path / "target.textproto", tmp_path / "link.textproto"
    target.write_text("before")
    link.symlink_to(target)
    calibrate_profile.write(_merge(_outcomes()), link)
    assert link.is_symlink() and profiles.load_profile(target).gpu == "Some GPU"


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "some.textproto"
    path.write_text("before")

    def refuse(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output.pathlib.Path, "replace", refuse)
    with pytest.raises(output.OutputError, match="No space"):
        calibrate_profile.write(_merge(_outcomes()), path)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["some.textproto"]
