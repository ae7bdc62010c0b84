"""The whole decision table of pricing, its boundaries included.

The profile's figures (builders.py): effective 8e11 bytes/s and 5e12 fp32 FLOPs/s,
theoretical 1e12 and 1e13, latency floor 10 us.
"""

import pytest

from tileops.perf.report import text
from tileops.perf.roof import pricing
from tileops.proto import benchmark_pb2
from tileops.tests.report import builders

CUPTI = benchmark_pb2.TIMING_SOURCE_CUPTI
EVENTS = benchmark_pb2.TIMING_SOURCE_CUDA_EVENTS
HOST = benchmark_pb2.TIMING_SOURCE_HOST_CLOCK


@pytest.fixture
def profile(tmp_path):
    return builders.profile(tmp_path)


def verdict(row):
    return text.enum_name(row, "verdict")


def blank_reason(row):
    return text.enum_name(row, "blank_reason")


def bound(row):
    return text.enum_name(row, "bound")


@pytest.mark.requirement("1.2.1", "1.2.2", "1.2.4", "1.2.6", "1.2.8", "4.3.3")
def test_readings_of_a_memory_bound_row(profile):
    row = pricing.price(builders.record(bytes=40_000_000, flops=1_000_000, ns=90_000, copy_ns=10_000), profile)
    assert row.actual_time_s == pytest.approx(100e-6)  # Excluded copies added back.
    assert row.memory_time_s == pytest.approx(50e-6)
    assert row.compute_time_s == pytest.approx(0.2e-6)
    assert row.sol_time_s == row.memory_time_s
    assert row.efficiency == pytest.approx(0.5)
    assert row.headroom_s == pytest.approx(50e-6)
    assert bound(row) == "memory"
    assert row.achieved_bytes_per_s == pytest.approx(4e11)
    assert row.achieved_flops_per_s == pytest.approx(1e10)
    assert row.arithmetic_intensity == pytest.approx(1 / 40)
    assert verdict(row) == "below"
    assert blank_reason(row) is None


@pytest.mark.requirement("1.2.3", "1.2.9", "1.2.10")
@pytest.mark.parametrize(
    "flops, expected",
    [
        (250_000_000, "memory"),  # 50 us of either: a tie is memory.
        (250_000_001, "compute"),
        (249_999_999, "memory"),
        (0, "memory"),
    ],
)
def test_bound_is_the_dominating_term_and_a_tie_is_memory(profile, flops, expected):
    row = pricing.price(builders.record(bytes=40_000_000, flops=flops), profile)
    assert bound(row) == expected
    assert row.sol_time_s == max(row.memory_time_s, row.compute_time_s)


# SOL time 80 us: 64e6 bytes at 8e11 bytes/s. The theoretical ceiling is reached
# at 64 us.
@pytest.mark.requirement("1.2.30", "4.3.6", "4.3.9")
@pytest.mark.parametrize(
    "ns, expected",
    [
        (100_000, "at_ceiling"),  # Exactly 80%.
        (100_001, "below"),
        (99_999, "at_ceiling"),
        (80_000, "at_ceiling"),  # 100%.
        (76_190.5, "at_ceiling"),  # A hair under 105%.
        (76_190.4, "anomaly"),
        (64_000, "anomaly"),  # Exactly the theoretical rate: possible.
        (63_999, "formula_error"),
    ],
)
def test_verdict_lines(profile, ns, expected):
    row = pricing.price(builders.record(bytes=64_000_000, flops=1, ns=ns), profile)
    assert verdict(row) == expected


def test_exactly_105_percent_is_no_anomaly(profile):
    # SOL 84 us against 80 us.
    row = pricing.price(builders.record(bytes=67_200_000, flops=1, ns=80_000), profile)
    assert row.efficiency == pytest.approx(1.05)
    assert verdict(row) == "at_ceiling"


@pytest.mark.parametrize(
    "sol_us, actual_us, expected",
    [
        (1.0, 9.999, "latency_bound"),
        (1.0, 10.0, "below"),  # On the floor is not below it.
        (9.0, 9.9, "latency_bound"),
        (9.99, 10.01, "at_ceiling"),
        (9.0, 8.5, "anomaly"),  # Goes before the latency.
    ],
)
@pytest.mark.requirement("4.3.7")
def test_latency_bound_needs_both_times_below_the_floor(profile, sol_us, actual_us, expected):
    row = pricing.price(builders.record(bytes=round(sol_us * 800_000), flops=1, ns=actual_us * 1e3), profile)
    assert verdict(row) == expected
    assert row.HasField("efficiency")


@pytest.mark.requirement("1.2.28")
@pytest.mark.parametrize(
    "fields, expected, is_labelled",
    [
        ({"bytes": 10_000_000, "ns": 5_000}, "formula_error", False),  # SOL time 12.5 us.
        ({"bytes": 7_200_000, "ns": 5_000}, "formula_error", True),  # SOL time 9 us.
        ({"bytes": 7_200_000, "ns": 5_000, "source": EVENTS}, "formula_error", False),
        ({"bytes": 7_200_000, "ns": 8_000}, "anomaly", True),
        ({"bytes": 7_200_000, "ns": 9_500}, "latency_bound", True),
        ({"bytes": 7_200_000, "ns": 10_000}, "at_ceiling", False),
        ({"bytes": 7_200_000, "ns": 20_000}, "below", False),
        ({"bytes": 0, "ns": 5_000}, "blank", False),  # No price, so nobody knows.
    ],
)
def test_latency_bound_is_a_label_beside_every_verdict(profile, fields, expected, is_labelled):
    row = pricing.price(builders.record(flops=1, **fields), profile)
    assert (verdict(row), row.latency_bound) == (expected, is_labelled)


def test_sol_time_on_the_floor_is_not_latency_bound(profile):
    row = pricing.price(builders.record(bytes=8_000_000, flops=1, ns=9_900), profile)
    assert row.sol_time_s == pytest.approx(10e-6)
    assert verdict(row) == "at_ceiling"


def test_without_a_floor_no_row_is_latency_bound(tmp_path):
    profile = builders.profile(tmp_path, builders.PROFILE_TEXT.replace("latency_floor_s: 10e-6", ""))
    row = pricing.price(builders.record(bytes=800_000, ns=9_000), profile)
    assert verdict(row) == "below"


BLANKS = {
    "no timing": (dict(ns=None), "no_time"),
    "skipped": (dict(ns=None, status=benchmark_pb2.STATUS_SKIPPED), "no_time"),
    "failed, with a time": (dict(status=benchmark_pb2.STATUS_ERROR), "no_time"),
    "timed out, with a time": (dict(status=benchmark_pb2.STATUS_TIMEOUT), "no_time"),
    "zero time": (dict(ns=0.0), "no_time"),
    "negative time": (dict(ns=-5.0), "no_time"),
    "infinite time": (dict(ns=float("inf")), "no_time"),
    "undefined time": (dict(ns=float("nan")), "no_time"),
    "CUDA events": (dict(source=EVENTS), "no_cupti"),
    "host clock": (dict(source=HOST), "no_cupti"),
    "clock not named": (dict(source=benchmark_pb2.TIMING_SOURCE_UNSPECIFIED), "no_cupti"),
    "no bytes": (dict(bytes=0), "zero_bytes"),
    "no roof key": (dict(roof_key=""), "no_roof"),
    "unit not in the profile": (dict(roof_key="cuda_core.int32"), "no_roof"),
    "unit not calibrated": (dict(roof_key="tensor_core.bf16"), "uncalibrated"),
    # Two reasons: the first of the documented order.
    "CUDA events, no bytes": (dict(source=EVENTS, bytes=0), "no_cupti"),
    "host clock, failed": (dict(source=HOST, status=benchmark_pb2.STATUS_ERROR), "no_time"),
    "no bytes, no roof key": (dict(bytes=0, roof_key=""), "zero_bytes"),
    "no time, no bytes": (dict(ns=None, bytes=0), "no_time"),
}


@pytest.mark.requirement("1.2.24", "1.2.25", "1.2.27")
@pytest.mark.parametrize("fields, reason", BLANKS.values(), ids=BLANKS.keys())
def test_blank_rows_say_why_and_have_no_reading(profile, fields, reason):
    row = pricing.price(builders.record(**fields), profile)
    assert verdict(row) == "blank"
    assert blank_reason(row) == reason
    assert bound(row) is None
    for reading in ("efficiency", "sol_time_s", "memory_time_s", "headroom_s"):
        assert not row.HasField(reading)


def test_a_time_by_another_clock_is_shown_and_gives_no_rate(profile):
    row = pricing.price(builders.record(source=EVENTS), profile)
    assert row.actual_time_s == pytest.approx(100e-6)
    assert not row.HasField("achieved_bytes_per_s")


@pytest.mark.requirement("1.2.26")
def test_no_profile_leaves_the_rates_that_need_none():
    row = pricing.price(builders.record(), None)
    assert blank_reason(row) == "no_profile"
    assert row.HasField("achieved_bytes_per_s")


@pytest.mark.parametrize(
    "fields, reason", [(dict(source=HOST), "no_cupti"), (dict(ns=None), "no_time"), (dict(bytes=0), "no_profile")]
)
def test_what_the_measurement_lacks_is_said_before_the_missing_profile(fields, reason):
    assert blank_reason(pricing.price(builders.record(**fields), None)) == reason


def test_uncalibrated_bandwidth(tmp_path):
    profile = builders.profile(tmp_path, builders.NO_BANDWIDTH_CALIBRATION_TEXT)
    row = pricing.price(builders.record(), profile)
    assert blank_reason(row) == "uncalibrated"


# 200e6 bytes in 100 us: twice the theoretical bandwidth.
@pytest.mark.requirement("4.3.8", "4.3.9")
@pytest.mark.parametrize(
    "fields, reason",
    [
        (dict(), None),
        (dict(source=EVENTS), "no_cupti"),
        (dict(roof_key=""), "no_roof"),
        (dict(roof_key="tensor_core.bf16"), "uncalibrated"),
    ],
)
def test_physics_check_reads_every_row_with_a_time_and_a_profile(profile, fields, reason):
    row = pricing.price(builders.record(bytes=200_000_000, **fields), profile)
    assert verdict(row) == "formula_error"
    assert blank_reason(row) == reason
    assert row.HasField("efficiency") == (reason is None)
    (breach,) = row.breaches
    assert breach.roof == "hbm"
    assert breach.implied_per_s == pytest.approx(2e12)
    assert breach.theoretical_per_s == 1e12


@pytest.mark.requirement("4.3.10", "5.1.6")
@pytest.mark.parametrize(
    "clocks, flops, expected",
    [
        # 1e14 FLOPs/s are stated at 1830 MHz, and the device reports up to 1980 MHz: 1.0819...e14.
        (("1830", "1980"), 10_819_000_000, None),
        (("1830", "1980"), 10_820_000_000, pytest.approx(1e14 * 1980 / 1830)),
        (("1830", None), 10_001_000_000, 1e14),
        ((None, "1980"), 10_001_000_000, 1e14),
        (("1980", "1830"), 10_001_000_000, 1e14),  # A lower clock takes nothing off a stated figure.
        (("1980", "1830"), 9_999_000_000, None),
    ],
)
def test_a_rate_above_a_datasheet_is_possible_up_to_the_highest_clock(tmp_path, clocks, flops, expected):
    stated, highest = clocks
    text = builders.PROFILE_TEXT
    if stated:
        text = text.replace("theoretical_flops_per_s: 1e14", f"theoretical_flops_per_s: 1e14 clock_mhz: {stated}")
    if highest:
        text += f'max_clock_mhz: {highest} max_clock_source: "the driver"'
    record = builders.record(flops=flops, roof_key="tensor_core.bf16", bytes=1_000)  # In 100 us.
    row = pricing.price(record, builders.profile(tmp_path, text))
    if expected is None:
        assert not row.breaches
    else:
        (breach,) = row.breaches
        assert (verdict(row), breach.ceiling_per_s, breach.theoretical_per_s) == ("formula_error", expected, 1e14)


@pytest.mark.requirement("5.1.1")
def test_the_highest_clock_changes_no_efficiency(profile, tmp_path):
    text = builders.PROFILE_TEXT.replace(
        "theoretical_flops_per_s: 1e13", "theoretical_flops_per_s: 1e13 clock_mhz: 1830"
    )
    faster = builders.profile(tmp_path, text + 'max_clock_mhz: 1980 max_clock_source: "the driver"')
    record = builders.record(flops=400_000_000, bytes=1_000)
    assert pricing.price(record, faster) == pricing.price(record, profile)


def test_physics_check_of_the_unit_needs_no_calibration(profile):
    record = builders.record(flops=10**10 + 10**6, roof_key="tensor_core.bf16", bytes=0)
    row = pricing.price(record, profile)
    assert [breach.roof for breach in row.breaches] == ["tensor_core.bf16"]
    assert verdict(row) == "formula_error"
    assert blank_reason(row) == "zero_bytes"


@pytest.mark.requirement("4.3.9")
def test_physics_check_names_every_ceiling(profile):
    record = builders.record(flops=10**10, bytes=10**9)
    row = pricing.price(record, profile)
    assert [breach.roof for breach in row.breaches] == ["hbm", "cuda_core.fp32"]


def test_physics_check_goes_before_latency_bound(profile):
    row = pricing.price(builders.record(bytes=2_000_000, ns=1_000), profile)
    assert verdict(row) == "formula_error"


def test_physics_check_needs_a_time_and_a_profile(profile):
    impossible = dict(bytes=200_000_000)
    assert verdict(pricing.price(builders.record(**impossible), None)) == "blank"
    assert verdict(pricing.price(builders.record(ns=None, **impossible), profile)) == "blank"


NONE, CLEAN = benchmark_pb2.CACHE_FLUSH_NONE, benchmark_pb2.CACHE_FLUSH_CLEAN
L2 = 40_000_000


def with_flush(flush, sets=0, **fields):
    """Returns a record whose calls came after such a flush, over so many input sets."""
    record = builders.record(**fields)
    record.device_state.cache_preparation.flush = flush
    record.device_state.cache_preparation.input_sets = sets
    return record


# 40e6 bytes in 20 us: twice the theoretical bandwidth; in 100 us: 40% of it.
@pytest.mark.parametrize(
    "flush, sets, size, ns, expected",
    [
        (NONE, 1, L2, 20_000, ("blank", "warm_cache")),
        (NONE, 0, L2, 20_000, ("blank", "warm_cache")),
        (CLEAN, 1, L2, 20_000, ("blank", "warm_cache")),
        (NONE, 1, L2, 100_000, ("blank", "warm_cache")),
        (CLEAN, 1, L2, 100_000, ("blank", "warm_cache")),
        # No cache holds it all.
        (NONE, 1, L2 + 1, 20_000, ("formula_error", "warm_cache")),
        (CLEAN, 1, L2 + 1, 20_000, ("formula_error", "warm_cache")),
        (NONE, 1, L2 + 1, 100_000, ("blank", "warm_cache")),
        # Sets in turn: what is left of one has to last until its next turn.
        (NONE, 4, L2 // 4, 5_000, ("blank", "warm_cache")),
        (NONE, 4, L2 // 4 + 1, 5_000, ("formula_error", None)),
        (NONE, 4, L2, 100_000, ("below", None)),
        # A clean flush came before: sets in turn or not, written lines may stay.
        (CLEAN, 4, L2 // 4, 5_000, ("blank", "warm_cache")),
        # Cold caches, or nothing said of them.
        (benchmark_pb2.CACHE_FLUSH_DIRTY, 1, L2, 20_000, ("formula_error", None)),
        (benchmark_pb2.CACHE_FLUSH_MATCHED, 1, L2, 20_000, ("formula_error", None)),
        (benchmark_pb2.CACHE_FLUSH_UNSPECIFIED, 1, L2, 20_000, ("formula_error", None)),
        (benchmark_pb2.CACHE_FLUSH_MATCHED, 1, L2, 100_000, ("below", None)),
    ],
)
def test_data_of_a_warm_cache_is_blank_and_may_beat_the_memory_if_it_fits(tmp_path, flush, sets, size, ns, expected):
    profile = builders.profile(tmp_path, builders.PROFILE_TEXT + f"l2_bytes: {L2}")
    row = pricing.price(with_flush(flush, sets, bytes=size, flops=1, ns=ns), profile)
    assert (verdict(row), blank_reason(row)) == expected
    assert row.HasField("efficiency") == (expected[1] is None)


def test_no_cache_makes_a_unit_faster(tmp_path):
    profile = builders.profile(tmp_path, builders.PROFILE_TEXT + f"l2_bytes: {L2}")
    row = pricing.price(with_flush(NONE, bytes=L2, flops=10**10, ns=20_000), profile)
    assert [breach.roof for breach in row.breaches] == ["cuda_core.fp32"]
    assert (verdict(row), blank_reason(row)) == ("formula_error", "warm_cache")


@pytest.mark.parametrize("size, expected", [(256 * 2**20, "blank"), (256 * 2**20 + 1, "formula_error")])
def test_a_profile_without_its_cache_leaves_the_largest_that_there_is(profile, size, expected):
    row = pricing.price(with_flush(NONE, bytes=size, flops=1, ns=20_000), profile)
    assert (verdict(row), blank_reason(row)) == (expected, "warm_cache")


def test_sets_in_turn_are_cold_where_nobody_knows_the_cache(profile):
    assert blank_reason(pricing.price(with_flush(NONE, 2, bytes=1000), profile)) is None


@pytest.mark.parametrize(
    "fields, reason",
    [
        (dict(), "warm_cache"),
        (dict(source=EVENTS), "no_cupti"),
        (dict(ns=None), "no_time"),
        (dict(bytes=0), "warm_cache"),
    ],
)
def test_a_warm_cache_is_of_the_measurement(fields, reason):
    assert blank_reason(pricing.price(with_flush(NONE, **fields), None)) == reason


@pytest.mark.parametrize("source", [EVENTS, HOST])
def test_a_warm_cache_excuses_other_clocks_too(profile, source):
    record = with_flush(NONE, bytes=200_000_000, flops=1, source=source)
    assert (verdict(pricing.price(record, profile)), blank_reason(pricing.price(record, profile))) == (
        "blank",
        "no_cupti",
    )


def test_predict_gives_the_bound_and_no_time(profile):
    row = pricing.predict(builders.record(bytes=64_000_000), profile)
    assert row.sol_time_s == pytest.approx(80e-6)
    assert bound(row) == "memory"
    assert (verdict(row), blank_reason(row)) == ("blank", "no_time")
    for reading in ("actual_time_s", "efficiency", "headroom_s"):
        assert not row.HasField(reading)


def test_predict_says_why_there_is_no_bound(profile):
    row = pricing.predict(builders.record(roof_key="tensor_core.bf16"), profile)
    assert blank_reason(row) == "uncalibrated"
    assert not row.HasField("sol_time_s")


def test_pricing_carries_what_the_record_says(profile):
    record = builders.record(label="a", message="why", data_terms={"active_experts": 7})
    row = pricing.price(record, profile)
    assert dict(row.data_terms) == {"active_experts": 7}
    assert (row.label, row.message, row.family) == ("a", "why", "elementwise")


@pytest.mark.requirement("1.2.7", "1.4.10")
@pytest.mark.parametrize(
    "roof_key, peak, expected", [("cuda_core.fp32", 5e12, "formula_error"), ("tensor_core.bf16", 5e13, "below")]
)
def test_the_unit_that_the_roof_key_names_gives_the_peak(tmp_path, roof_key, peak, expected):
    """3e9 FLOPs in 100 us are 3e13 per second: possible for the tensor cores, and impossible for the others."""
    profile = builders.profile(tmp_path, builders.PROFILE_TEXT.replace("1e14", "1e14 calibration: 0.5"))
    row = pricing.price(builders.record(flops=3 * 10**9, bytes=1_000, roof_key=roof_key), profile)
    assert row.compute_time_s == pytest.approx(3e9 / peak)
    assert verdict(row) == expected


@pytest.mark.requirement("4.7.7")
@pytest.mark.parametrize("ns", [None, 1_000, 6_000, 48_000, 100_000])
def test_no_reading_depends_on_data_terms(profile, ns):
    plain = pricing.price(builders.record(ns=ns), profile)
    told = pricing.price(builders.record(ns=ns, data_terms={"experts_hit": 7}), profile)
    assert dict(told.data_terms) == {"experts_hit": 7}
    told.data_terms.clear()
    assert told == plain
