"""The judgement on two times and two prices, its boundaries included."""

import math

import pytest

from tileops.perf.comparison import rows as compare_rows
from tileops.perf.roof import pricing
from tileops.proto import benchmark_pb2, roofline_pb2
from tileops.tests.report import builders

V = compare_rows.Verdict
CUPTI = benchmark_pb2.TIMING_SOURCE_CUPTI
EVENTS = benchmark_pb2.TIMING_SOURCE_CUDA_EVENTS
ERROR = benchmark_pb2.STATUS_ERROR


def timed(ns, spread=0.0, **fields):
    """A record with its percentiles at (1 -+ spread) of the median."""
    record = builders.record(ns=ns, **fields)
    record.timing.device_busy_p10_ns = ns * (1 - spread)
    record.timing.device_busy_p90_ns = ns * (1 + spread)
    return record


def compared(base, new, threshold=0.05):
    return compare_rows.compare(compare_rows.measured(base), compare_rows.measured(new), threshold)


def verdict(base, new, threshold=0.05):
    (row,) = compared([base], [new], threshold)
    return row.verdict


@pytest.mark.parametrize(
    "new_ns, expected",
    [
        (100_000, V.SAME),
        (105_000, V.SAME),  # On the threshold.
        (105_001, V.SLOWER),
        (100_000 / 1.05, V.SAME),
        (95_238, V.FASTER),
        (200_000, V.SLOWER),
        (1, V.FASTER),
    ],
)
def test_the_threshold_is_a_ratio_both_ways(new_ns, expected):
    assert verdict(timed(100_000), timed(new_ns)) == expected


@pytest.mark.parametrize(
    "base_spread, new_spread, expected",
    [
        (0.0, 0.0, V.SLOWER),
        (0.05, 0.04, V.SLOWER),  # 105 below 105.6
        (0.05, 0.05, V.AMBIGUOUS),  # 105 above 104.5
        (0.2, 0.0, V.AMBIGUOUS),
        (0.0, 0.2, V.AMBIGUOUS),
    ],
)
def test_spreads_that_meet_make_a_large_change_ambiguous(base_spread, new_spread, expected):
    base, new = timed(100_000, base_spread), timed(110_000, new_spread)
    assert verdict(base, new) == expected
    # The other way round it is faster, or as ambiguous.
    mirrored = V.FASTER if expected == V.SLOWER else expected
    assert verdict(new, base) == mirrored


def test_spreads_that_just_touch_meet():
    low, high = compare_rows.Time(1.0, 0.5, 1.25, CUPTI), compare_rows.Time(1.5, 1.25, 2.0, CUPTI)
    assert compare_rows.judge(low, high, 0.05) == compare_rows.judge(high, low, 0.05) == V.AMBIGUOUS
    apart = high._replace(low_s=1.375)
    assert compare_rows.judge(low, apart, 0.05) == V.SLOWER
    assert compare_rows.judge(apart, low, 0.05) == V.FASTER


def test_a_small_change_is_the_same_however_sharp_the_spread():
    assert verdict(timed(100_000, 1e-6), timed(104_000, 1e-6)) == V.SAME
    assert verdict(timed(100_000, 1e-6), timed(104_000, 1e-6), threshold=0.03) == V.SLOWER


def test_a_run_without_percentiles_has_no_spread_to_meet():
    assert verdict(builders.record(ns=100_000), builders.record(ns=110_000)) == V.SLOWER


def test_excluded_copies_are_part_of_the_time_and_its_spread():
    base, new = timed(100_000, copy_ns=100_000), timed(110_000, copy_ns=100_000)
    assert verdict(base, new) == V.SAME  # 200 to 210 us.
    assert verdict(timed(100_000), timed(100_000, copy_ns=10_000)) == V.SLOWER


def test_rows_of_one_run_alone_appear_and_vanish():
    rows = compared([timed(1, case_id="old")], [timed(1, case_id="new")])
    assert {row.case_id: row.verdict for row in rows} == {"old": V.VANISHED, "new": V.APPEARED}
    assert not compare_rows.has_regression(rows)


def test_a_row_that_lost_its_time_is_a_regression():
    failed = timed(90_000, status=ERROR, message="illegal memory access")
    (row,) = rows = compared([timed(100_000)], [failed])
    assert (row.verdict, row.reason) == (V.LOST, "illegal memory access")
    assert compare_rows.has_regression(rows)
    (row,) = rows = compared([failed], [timed(100_000)])
    assert row.verdict == V.GAINED and not compare_rows.has_regression(rows)
    (row,) = compared([failed], [failed])
    assert row.verdict == V.NOT_COMPARED


def test_times_of_two_clocks_are_not_compared():
    (row,) = compared([timed(1_000)], [timed(60_000, source=EVENTS)])
    assert row.verdict == V.NOT_COMPARED and row.ratio is None
    assert row.reason == "timed by CUPTI, then by CUDA_EVENTS"
    # Of one clock they are, whichever it is.
    assert verdict(timed(1_000, source=EVENTS), timed(60_000, source=EVENTS)) == V.SLOWER


@pytest.mark.parametrize("field, value", [("flops", 7), ("bytes", 8), ("roof_key", "tensor_core.fp8")])
def test_a_changed_price_is_told_apart_from_a_changed_time(field, value):
    base, new = timed(100_000), timed(100_000, **{field: value})
    (row,) = rows = compared([base], [new])
    assert row.verdict == V.SAME
    assert row.price_changes == {field: (getattr(base, field), value)}
    assert compare_rows.counts(rows)["price_changed"] == 1
    assert not compare_rows.has_regression(rows)


def test_means_are_geometric_and_by_family():
    base = [timed(100, case_id=str(i), family="ab"[i // 2]) for i in range(4)]
    new = [timed(ns, case_id=str(i), family="ab"[i // 2]) for i, ns in enumerate((200, 50, 400, 100))]
    rows = compared(base, new)
    a, b = compare_rows.families(rows)
    assert (a.family, a.rows) == ("a", 2) and a.ratio == pytest.approx(1.0)
    assert b.ratio == pytest.approx(2.0)
    assert compare_rows.overall(rows) == pytest.approx(math.sqrt(2))
    assert compare_rows.overall([]) is None


def test_the_gravest_and_the_largest_come_first():
    base = [timed(100, case_id=name) for name in ("a", "b", "c", "d", "e")]
    new = [
        timed(100, case_id="a"),
        timed(150, case_id="b"),
        timed(300, case_id="c"),
        timed(50, case_id="d"),
        timed(9, case_id="e", status=ERROR),
    ]
    assert [row.case_id for row in compared(base, new)] == ["e", "c", "b", "d", "a"]


def test_of_several_records_of_a_row_the_last_one_counts():
    assert verdict(timed(100), timed(100)) == V.SAME
    (row,) = compared([timed(100)], [timed(500), timed(100)])
    assert row.verdict == V.SAME


def test_clocks_and_statuses_of_a_newer_schema_are_told_by_number():
    (row,) = compared([timed(1_000)], [timed(60_000, source=9)])
    assert (row.verdict, row.reason) == (V.NOT_COMPARED, "timed by CUPTI, then by clock 9")
    (row,) = compared([timed(1_000)], [timed(1_000, status=9)])
    assert (row.verdict, row.reason) == (V.LOST, "its status, 9, is unknown to this program")


@pytest.mark.parametrize("threshold", [0.05, 0.1])
def test_a_change_of_exactly_the_threshold_is_never_beyond_it(threshold):
    for base_ns in range(20, 20_000, 20):
        new_ns = round(base_ns * (1 + threshold))
        base, new = builders.record(ns=base_ns), builders.record(ns=new_ns)
        if new_ns == base_ns * (100 + round(threshold * 100)) / 100:
            assert verdict(base, new, threshold) == V.SAME, base_ns
            assert verdict(new, base, threshold) == V.SAME, base_ns
            assert verdict(base, builders.record(ns=new_ns + base_ns / 1e9), threshold) == V.SLOWER


def test_ambiguous_rows_go_by_the_size_of_their_change_either_way():
    base = [timed(100, spread=0.9, case_id=name) for name in "abc"]
    new = [timed(ns, spread=0.9, case_id=name) for name, ns in zip("abc", (120, 50, 110))]
    rows = compared(base, new)
    assert {row.verdict for row in rows} == {V.AMBIGUOUS}
    assert [row.case_id for row in rows] == ["b", "a", "c"]


def test_a_ratio_beyond_the_range_of_floats_is_none():
    base = builders.record(ns=1e-12)
    (row,) = rows = compared([base], [builders.record(ns=1e300)])
    assert (row.verdict, row.ratio) == (V.SLOWER, None)
    assert compare_rows.overall(rows) is None
    (row,) = compared([builders.record(ns=1e300)], [base])
    assert row.verdict == V.FASTER and row.ratio > 0


def test_a_run_of_which_nothing_is_left_is_told_apart():
    gone = compared([timed(1)], [])
    assert compare_rows.has_nothing_left(gone)
    assert compare_rows.has_nothing_left(compared([timed(1)], [timed(1, case_id="b")]))
    assert not compare_rows.has_nothing_left(compared([timed(1)], [timed(1), timed(1, case_id="b")]))
    assert not compare_rows.has_nothing_left(compared([timed(1), timed(1, case_id="b")], [timed(1)]))
    assert not compare_rows.has_nothing_left(compared([], [timed(1)]))
    assert not compare_rows.has_nothing_left([])


@pytest.mark.requirement("1.2.29")
def test_a_latency_bound_row_that_got_slower_is_a_regression(tmp_path):
    base, new = (timed(ns, bytes=800_000) for ns in (4_000, 6_000))
    profile = builders.profile(tmp_path)
    assert {pricing.price(one, profile).verdict for one in (base, new)} == {roofline_pb2.VERDICT_LATENCY_BOUND}
    (row,) = rows = compared([base], [new])
    assert row.verdict == V.SLOWER and compare_rows.has_regression(rows)


@pytest.mark.requirement("4.7.7")
def test_other_data_terms_are_no_change(tmp_path):
    (row,) = rows = compared([timed(100_000, data_terms={"experts_hit": 7})], [timed(100_000)])
    assert (row.verdict, row.price_changes) == (V.SAME, {}) and not compare_rows.has_regression(rows)
