"""//perf:stability: how far two runs are apart, told by quantiles; what the harness took."""

import subprocess
import sys

import pytest

from tileops.perf import compare_rows
from tileops.perf import stability_rows
from tileops.tests.perf_report import builders


def _records(times_us, harness_s=0.5):
    return [
        builders.record(case_id=f"case-{at}", ns=us * 1e3, harness_s=harness_s + at)
        for at, us in enumerate(times_us)
    ]


def _differences(base, new, longer_than_us=10.0):
    known = [compare_rows.measured(_records(times)) for times in (base, new)]
    return stability_rows.differences(*known, longer_than_us / 1e6)


def test_rows_are_apart_by_the_difference_over_the_smaller_median_the_farthest_first():
    found = _differences([100.0, 100.0, 200.0], [101.0, 95.0, 200.0])
    assert [row.key[1] for row in found] == ["case-1", "case-0", "case-2"]
    assert [row.relative for row in found] == pytest.approx([5 / 95, 0.01, 0.0])


def test_a_row_counts_where_both_runs_have_a_long_enough_time_of_it():
    assert [row.key[1] for row in _differences([9.0, 50.0, 11.0, 30.0], [50.0, 9.0, 12.0])] == ["case-2"]


def test_quantiles_are_linear_between_neighbours_and_the_share_counts_the_limit_itself():
    wanted = {0.5: 2.0, 0.9: 2.8, 0.95: 2.9, 0.99: 2.98, 1.0: 3.0}
    assert stability_rows.quantiles([3.0, 1.0, 2.0]) == pytest.approx(wanted)
    assert stability_rows.quantiles([]) == {}
    rows = _differences([100.0, 100.0, 100.0, 100.0], [102.0, 101.0, 110.0, 100.0])
    assert stability_rows.share_within(rows, 0.02) == 0.75
    assert stability_rows.share_within([], 0.02) is None


def test_harness_times_are_of_records_that_were_run():
    records = [*_records([1.0, 2.0]), builders.record(ns=None, status=2)]
    assert stability_rows.harness_times(records) == {"": [0.5, 1.5], "torch": [0.5, 1.5]}


def run(tmp_path, *flags):
    done = subprocess.run(
        [sys.executable, "-m", "tileops.perf.stability", *flags],
        cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("share", "status"), [("0.95", 1), ("0.6", 0)])
def test_the_command_tells_the_distribution_and_fails_below_the_share_wanted(tmp_path, share, status):
    builders.write_run(tmp_path / "a.binpb", *_records([100.0, 100.0, 100.0, 5.0]))
    builders.write_run(tmp_path / "b.binpb", *_records([101.0, 100.0, 110.0, 9.0]))
    found, out, err = run(tmp_path, "--base=a.binpb", "--new=b.binpb", f"--share={share}", "--worst=1", "--within=0.05")
    assert (found, err) == (status, "")
    assert "3 rows longer than 10 us in both runs" in out and "66.7% within 5.0%" in out
    assert "difference of medians: median 1.00%, p90" in out and "max 10.00%" in out
    assert "  10.00%  SiluFwdOp case-2 torch: 100.00 us, then 110.00 us" in out
    assert "a.binpb: harness time of 4 torch: median 2.00 s" in out


def test_runs_that_agree_are_fine_and_runs_without_a_common_row_are_unusable(tmp_path):
    builders.write_run(tmp_path / "a.binpb", *_records([100.0, 200.0]))
    builders.write_run(tmp_path / "b.binpb", *_records([1.0, 2.0]))
    assert run(tmp_path, "--base=a.binpb", "--new=a.binpb")[0] == 0
    for flags, what in (
        (["--base=a.binpb", "--new=b.binpb"], "no row in common"),
        (["--base=a.binpb"], "--new names no run file"),
        (["--base=a.binpb", "--new=missing.binpb"], "missing.binpb"),
    ):
        status, out, err = run(tmp_path, *flags)
        assert (status, out) == (2, "") and what in err and len(err.splitlines()) == 1
