"""Every combination of what a record and a profile may lack, and every order of lines.

`pricing_test.py` has a case for each rule; here the rules are crossed. What is
expected is looked up in the tables that the requirement gives, in their order.
"""

import itertools

import pytest

from tileops.perf.report import text as report_text
from tileops.perf.roof import pricing
from tileops.proto import benchmark_pb2
from tileops.tests.report import builders

STATUSES = list(benchmark_pb2.Status.values())
FAILED = {benchmark_pb2.STATUS_SKIPPED, benchmark_pb2.STATUS_ERROR, benchmark_pb2.STATUS_TIMEOUT}
SOURCES = list(benchmark_pb2.TimingSource.values())
CUPTI = benchmark_pb2.TIMING_SOURCE_CUPTI

# Possible, then impossible for the memory (1e12 bytes/s at most) and for the unit
# (1e13 and 1e14 FLOPs/s).
TIMES_NS = (None, 0.0, float("nan"), 100_000.0, 1.0)
UNITS = {  # By roof key: whether the profile has it, and whether it is calibrated.
    "cuda_core.fp32": (True, True),
    "tensor_core.bf16": (True, False),
    "tensor_core.int4": (False, False),
    "": (False, False),
}


@pytest.mark.requirement("1.2.27", "4.3.8")
@pytest.mark.parametrize("profile_text", [None, builders.PROFILE_TEXT, builders.NO_BANDWIDTH_CALIBRATION_TEXT])
def test_what_is_missing_decides_in_the_documented_order(tmp_path, profile_text):
    profile = None
    if profile_text:
        profile = builders.profile(tmp_path, profile_text)
    for status, source, ns, work, (roof_key, unit) in itertools.product(
        STATUSES, SOURCES, TIMES_NS, (0, 1_000_000), UNITS.items()
    ):
        record = builders.record(status=status, source=source, ns=ns, bytes=work, flops=5, roof_key=roof_key)
        has_unit, is_calibrated = unit
        usable = status not in FAILED and ns in (100_000.0, 1.0)
        reasons = [
            ("no_time", status in FAILED or ns is None),
            ("no_cupti", source != CUPTI),
            ("no_time", not usable),
            ("no_profile", profile is None),
            ("zero_bytes", work == 0),
            ("no_roof", not has_unit),
            ("uncalibrated", not is_calibrated or profile_text == builders.NO_BANDWIDTH_CALIBRATION_TEXT),
        ]
        reason = next((name for name, holds in reasons if holds), None)
        impossible = usable and profile is not None and ns == 1.0 and work > 0
        row = pricing.price(record, profile)
        assert report_text.enum_name(row, "blank_reason") == reason, record
        verdict = report_text.enum_name(row, "verdict")
        if impossible:
            assert verdict == "formula_error", record
        elif reason:
            assert verdict == "blank", record
        else:
            assert verdict not in ("formula_error", "blank"), record
        for reading in ("efficiency", "sol_time_s", "headroom_s"):
            assert row.HasField(reading) == (reason is None), record
        assert row.HasField("actual_time_s") == usable, record
        rates = usable and source == CUPTI
        assert row.HasField("achieved_bytes_per_s") == rates, record


# Just below, on and just above each line. Efficiency is SOL time over time, the
# floor is 10 us, and the theoretical ceiling is 1.25 of the effective one.
@pytest.mark.requirement("4.3.6")
@pytest.mark.parametrize("scale", [1.0, 0.001, 1e6])
def test_the_lines_hold_at_every_size(tmp_path, scale):
    text = builders.PROFILE_TEXT.replace("latency_floor_s: 10e-6", "")
    profile = builders.profile(tmp_path, text)
    work = round(64_000_000 * scale)
    for percent, verdict in [
        (79.999999, "below"),
        (80, "at_ceiling"),
        (80.000001, "at_ceiling"),
        (104.999999, "at_ceiling"),
        (105, "at_ceiling"),
        (105.000001, "anomaly"),
        (124.999999, "anomaly"),
        (125, "anomaly"),
        (125.000001, "formula_error"),
    ]:
        ns = work / 8e11 * 1e9 * 100 / percent
        row = pricing.price(builders.record(bytes=work, flops=1, ns=ns), profile)
        assert report_text.enum_name(row, "verdict") == verdict, (percent, scale)


@pytest.mark.parametrize("sol_us", [9.999999, 10, 10.000001])
@pytest.mark.parametrize("time_us", [9.999999, 10, 10.000001])
def test_both_times_have_to_be_below_the_floor(tmp_path, sol_us, time_us):
    # A profile for which a byte takes 1 ps, so that SOL times are exact.
    text = builders.PROFILE_TEXT.replace("1e12", "1.25e12")
    profile = builders.profile(tmp_path, text)
    record = builders.record(bytes=round(sol_us * 1e6), flops=1, ns=time_us * 1e3)
    verdict = report_text.enum_name(pricing.price(record, profile), "verdict")
    below = sol_us < 10 and time_us < 10
    assert verdict == ("latency_bound" if below else "at_ceiling")


def test_each_verdict_goes_before_those_behind_it(tmp_path):
    """One record moved down the order: what made the verdict is taken away."""
    profile = builders.profile(tmp_path)
    fields = dict(bytes=4_000_000, flops=1, ns=1_000, source=0)
    steps = [
        ({}, "formula_error"),  # Impossible, blank, under the floor, over 105%.
        ({"bytes": 900_000}, "blank"),
        ({"source": CUPTI}, "anomaly"),  # Under the floor, over 105%.
        ({"bytes": 800_000}, "latency_bound"),
        ({"bytes": 84_000_000, "ns": 100_000}, "at_ceiling"),
        ({"bytes": 63_000_000}, "below"),
    ]
    for change, verdict in steps:
        fields |= change
        row = pricing.price(builders.record(**fields), profile)
        assert report_text.enum_name(row, "verdict") == verdict


def test_a_time_that_no_clock_resolves_is_none_and_no_rate_is_infinite(tmp_path):
    profile = builders.profile(tmp_path)
    for ns in (5e-324, 1e-300, 9e-13):
        row = pricing.price(builders.record(ns=ns, bytes=2**64 - 1), profile)
        assert report_text.enum_name(row, "blank_reason") == "no_time"
    row = pricing.price(builders.record(ns=1e-12, bytes=2**64 - 1), profile)
    assert row.achieved_bytes_per_s < float("inf")
    assert report_text.enum_name(row, "verdict") == "formula_error"
