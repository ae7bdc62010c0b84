"""The store of rows against the same written out plainly, and its memory."""

import pytest
from hypothesis import given, settings, strategies

from tileops.perf.report import store as report_store
from tileops.proto import roofline_pb2
from tileops.tests.report import report_benchmark

IMPOSSIBLE = roofline_pb2.VERDICT_FORMULA_ERROR

NAMES = strategies.sampled_from(["a", "b", "c", "\u00e9", ""])
FEW = strategies.sampled_from([-1.0, 0.0, 2.5, report_store.LAST])
ROWS = strategies.lists(
    strategies.tuples(
        strategies.tuples(NAMES, NAMES, NAMES),
        strategies.binary(max_size=5),
        strategies.sampled_from([IMPOSSIBLE, roofline_pb2.VERDICT_BELOW]),
        strategies.builds(
            report_store.Rank,
            strategies.integers(0, 2),
            strategies.sampled_from([0.0, 1.0, 7.0]),
            strategies.integers(0, 3),
        ),
        strategies.builds(report_store.Order, FEW, FEW, FEW),
    ),
    max_size=40,
)


def stored(rows):
    store = report_store.RowStore()
    for row in rows:
        store.put(*row)
    return store


def place(row):
    (op, case_id, implementation), _, _, _, order = row
    return order.reading, order.sol_time, op, case_id, order.time, implementation


@settings(max_examples=300, deadline=None)
@given(rows=ROWS)
def test_the_last_row_of_a_key_counts_and_rows_come_in_order(rows):
    with stored(rows) as store:
        expected = sorted({row[0]: row for row in rows}.values(), key=place)
        assert list(store.texts(best=False)) == [row[1] for row in expected]
        summary = store.summarize(best=False)
        assert summary.rows == store.count(best=False) == len(expected)
        assert summary.formula_error == sum(row[2] == IMPOSSIBLE for row in expected)


@settings(max_examples=300, deadline=None)
@given(rows=ROWS)
def test_the_best_of_each_case_and_every_formula_error_are_chosen(rows):
    chosen = []
    best = {}
    for row in {row[0]: row for row in rows}.values():
        (op, case_id, implementation), _, verdict, rank, _ = row
        if verdict == IMPOSSIBLE:
            chosen.append(row)
        else:
            best.setdefault((op, case_id), []).append(((*rank, implementation), row))
    chosen += [min(candidates)[1] for candidates in best.values()]
    with stored(rows) as store:
        texts = list(store.texts(best=True))
        assert store.count(best=True) == store.summarize(best=True).rows == len(chosen)
    assert texts == [row[1] for row in sorted(chosen, key=place)]


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_report_keeps_no_rows_in_memory(tmp_path, form):
    peaks = []
    for records in (1_000, 31_000):
        run = tmp_path / f"{records}.binpb"
        report_benchmark.write_run(run, records)
        flags = [f"--format={form}", "--implementation=all", f"--out={tmp_path}/report.{form}"]
        peaks.append(report_benchmark.cost(run, *flags).peak_bytes)
    # Some 300 bytes a row; one row as a message or a line of JSON takes 1,000.
    assert (peaks[1] - peaks[0]) / 30_000 < 500


def test_the_table_keeps_no_rows_beyond_those_that_it_shows(tmp_path):
    peaks = []
    for records in (3_000, 23_000):
        run = tmp_path / f"{records}.binpb"
        report_benchmark.write_run(run, records)
        flags = ["--implementation=all", "--top=all", f"--out={tmp_path}/report.txt"]
        peaks.append(report_benchmark.cost(run, *flags).peak_bytes)
    # A row as a message takes 1,000 bytes, and laid out in a table ten times that.
    assert (peaks[1] - peaks[0]) / 20_000 < 600
    assert "21000 more rows left out" in (tmp_path / "report.txt").read_text()
