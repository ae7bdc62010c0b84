"""Repricing: recorded times under today's prices, and what is said of it."""

from tileops.perf.comparison import reprice_join
from tileops.proto import benchmark_pb2
from tileops.tests.report import builders


def priced(**fields):
    return builders.record(ns=None, implementation="", **fields)


def test_times_stay_and_prices_are_todays():
    recorded = builders.record(flops=1, bytes=2, read_bytes=1, roof_key="a", data_terms={"x": 1}, ns=5.0)
    before = benchmark_pb2.BenchmarkRecord()
    before.CopyFrom(recorded)
    today = priced(flops=10, bytes=20, read_bytes=15, roof_key="b", data_terms={"y": 2})
    joined = reprice_join.join([recorded], [today])
    (record,) = joined.records
    assert (record.flops, record.bytes, record.read_bytes) == (10, 20, 15)
    assert record.roof_key == "b"
    assert dict(record.data_terms) == {"y": 2}
    assert record.timing == recorded.timing
    assert (record.implementation, record.status) == ("torch", recorded.status)
    assert recorded == before
    assert {change.field for change in joined.changes} == {"flops", "bytes", "read_bytes", "roof_key", "data_terms"}


def test_an_unchanged_price_gives_the_same_record():
    recorded = builders.record(read_bytes=3, data_terms={"x": 1})
    joined = reprice_join.join([recorded], [priced(read_bytes=3, data_terms={"x": 1})])
    assert joined.records == [recorded]
    assert reprice_join.describe(joined) == []


def test_read_bytes_that_are_no_longer_declared_are_absent():
    joined = reprice_join.join([builders.record(read_bytes=0)], [priced()])
    assert not joined.records[0].HasField("read_bytes")
    (change,) = joined.changes
    assert (change.recorded, change.today) == (0, None)


def test_every_implementation_is_repriced_and_told_once():
    recorded = [builders.record(implementation=name) for name in ("torch", "triton")]
    joined = reprice_join.join(recorded, [priced(flops=7), priced(flops=7)])
    assert [record.flops for record in joined.records] == [7, 7]
    assert len(joined.changes) == 1


def test_cases_that_vanished_appeared_or_fail_are_told():
    joined = reprice_join.join(
        [builders.record(case_id=name) for name in ("kept", "gone", "broken")],
        [
            priced(case_id="kept"),
            priced(case_id="new"),
            priced(case_id="broken", status=benchmark_pb2.STATUS_ERROR, message="no values on meta"),
        ],
    )
    assert [record.case_id for record in joined.records] == ["kept"]
    assert joined.vanished == [("SiLUFwdOp", "gone")]
    assert joined.appeared == [("SiLUFwdOp", "new")]
    assert joined.unpriced == [(("SiLUFwdOp", "broken"), "no values on meta")]
    text = "\n".join(reprice_join.describe(joined))
    assert "SiLUFwdOp: recorded, but not among today's workload rows; left out: gone" in text
    assert "1 workload row was not recorded: SiLUFwdOp new" in text
    assert "broken: cannot be priced today: no values on meta" in text


def test_changes_are_told_by_op_and_field_with_an_example():
    recorded = [builders.record(case_id=f"case-{i}", flops=10) for i in range(3)]
    joined = reprice_join.join(recorded, [priced(case_id=f"case-{i}", flops=20) for i in range(3)])
    assert reprice_join.describe(joined) == ["SiLUFwdOp: flops changed in 3 cases, for example case-0: 10 -> 20"]


def test_an_op_that_never_was_is_told_apart_from_a_row_that_went():
    recorded = [builders.record(op="NoSuchOp"), builders.record(case_id="gone"), builders.record(case_id="kept")]
    joined = reprice_join.join(recorded, [priced(case_id="kept")])
    assert joined.unknown == [("NoSuchOp", "a-float16")] and joined.vanished == [("SiLUFwdOp", "gone")]
    assert reprice_join.describe(joined) == [
        "SiLUFwdOp: recorded, but not among today's workload rows; left out: gone",
        "NoSuchOp: recorded, but not an op of this project; left out: a-float16",
    ]


def test_many_rows_of_which_there_is_nothing_to_say_are_counted():
    recorded = [builders.record(), *[builders.record(case_id=f"gone-{i}") for i in range(7)]]
    new = [priced(op=op, case_id=f"new-{i}") for op in ("AddFwdOp", "SumFwdOp") for i in range(3)]
    assert reprice_join.describe(reprice_join.join(recorded, [priced(), *new])) == [
        "SiLUFwdOp: recorded, but not among today's workload rows; left out: gone-0, gone-1, gone-2, gone-3, gone-4 and 2 more",
        "6 workload rows were not recorded, of 2 ops: AddFwdOp 3, SumFwdOp 3",
    ]


def test_where_nothing_is_priced_a_line_says_what_rows_are_known_by():
    joined = reprice_join.join([builders.record(case_id="test_silu")], [priced()])
    assert joined.records == []
    assert reprice_join.describe(joined)[-1].startswith(
        "no recorded row could be priced: rows are found by op and case id"
    )


def test_the_family_is_the_ops():
    (record,) = reprice_join.join([builders.record(family="")], [priced()]).records
    assert record.family == "elementwise"
