"""//perf:stability: how far two runs are apart, told by quantiles; what the harness took."""

import subprocess
import sys

import pytest

from tileops.perf.comparison import rows as compare_rows
from tileops.perf.comparison import stability_rows
from tileops.perf.runs import writer as run_writer
from tileops.proto import benchmark_pb2
from tileops.tests.report import builders


def _records(times_us, harness_s=0.5):
    return [
        builders.record(case_id=f"case-{at}", ns=us * 1e3, harness_s=harness_s + at) for at, us in enumerate(times_us)
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
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    return done.returncode, done.stdout, done.stderr


def _write(path, times_us, *, started_s=1_000, **environment):
    """A run of rows that took these times; `environment` sets fields of its header's."""
    header = builders.header(started_s=started_s)
    for field, value in environment.items():
        setattr(header.environment, field, value)
    with run_writer.RunWriter(path, header) as writer:
        for record in _records(times_us):
            writer.write(record)


@pytest.mark.parametrize(("share", "status"), [("0.95", 1), ("0.6", 0)])
def test_the_command_tells_the_distribution_and_fails_below_the_share_wanted(tmp_path, share, status):
    _write(tmp_path / "a.binpb", [100.0, 100.0, 100.0, 5.0])
    _write(tmp_path / "b.binpb", [101.0, 100.0, 110.0, 9.0], started_s=2_000, hostname_hash="another")
    found, out, err = run(tmp_path, "--base=a.binpb", "--new=b.binpb", f"--share={share}", "--worst=1", "--within=5%")
    assert (found, err) == (status, "")
    assert "note:" not in out
    assert "3 rows longer than 10 us in both runs" in out and "66.7% within 5.0%" in out
    assert "difference of medians: median 1.00%, p90" in out and "max 10.00%" in out
    assert "  10.00%  SiLUFwdOp case-2 torch: 100.00 us, then 110.00 us" in out
    assert "a.binpb: harness time of 4 torch: median 2.00 s" in out


def test_runs_without_a_common_row_and_files_that_are_none_are_unusable(tmp_path):
    _write(tmp_path / "a.binpb", [100.0, 200.0])
    _write(tmp_path / "b.binpb", [1.0, 2.0], started_s=2_000)
    for flags, what in (
        (["--base=a.binpb", "--new=b.binpb"], "no row has a time longer than 10 us in both runs"),
        (["--base=a.binpb"], "--new is required"),
        (["--base=a.binpb", "--new=missing.binpb"], "missing.binpb"),
    ):
        status, out, err = run(tmp_path, *flags)
        assert (status, out) == (2, "") and what in err and len(err.splitlines()) == 1


def test_a_run_tells_nothing_of_itself_under_whatever_name(tmp_path):
    _write(tmp_path / "a.binpb", [100.0, 200.0])
    (tmp_path / "link.binpb").symlink_to("a.binpb")
    (tmp_path / "copy.binpb").write_bytes((tmp_path / "a.binpb").read_bytes())
    _write(tmp_path / "renamed.binpb", [100.0, 200.0], started_s=2_000)  # another run id, every time the same
    for other, how in (
        ("a.binpb", "one file"),
        ("link.binpb", "one file"),
        ("copy.binpb", "of one run, run-1000"),
        ("renamed.binpb", "the same in every digit"),
    ):
        for more in ([], ["--allow_unlike"]):
            status, out, err = run(tmp_path, "--base=a.binpb", f"--new={other}", *more)
            assert (
                (status, out) == (2, "") and f"are {how}: name two different runs" in err and len(err.splitlines()) == 1
            )


@pytest.mark.parametrize(
    ("difference", "what"),
    [
        ({"device_name": "Other GPU"}, "device_name is 'Test GPU' in a.binpb and 'Other GPU' in b.binpb"),
        ({"project_revision": "later"}, "project_revision is 'abc' in a.binpb and 'later' in b.binpb"),
        ({"project_dirty": True}, "project_dirty is False in a.binpb and True in b.binpb"),
        ({"driver_version": "9"}, "driver_version is '1.2' in a.binpb and '9' in b.binpb"),
    ],
)
def test_runs_of_other_things_are_compared_on_demand_alone_and_the_output_says_so(tmp_path, difference, what):
    _write(tmp_path / "a.binpb", [100.0, 200.0])
    _write(tmp_path / "b.binpb", [100.1, 200.1], started_s=2_000, **difference)
    status, out, err = run(tmp_path, "--base=a.binpb", "--new=b.binpb")
    assert (status, out) == (2, "") and what in err and "--allow_unlike" in err and len(err.splitlines()) == 2
    status, out, err = run(tmp_path, "--base=a.binpb", "--new=b.binpb", "--allow_unlike")
    assert (status, err) == (0, "") and f"note: {what}\n" in out


def test_a_host_clock_tells_nothing_of_device_busy_times(tmp_path):
    for name, started_s in (("a.binpb", 1_000), ("b.binpb", 2_000)):
        times = [builders.record(ns=1e5 + started_s, source=benchmark_pb2.TIMING_SOURCE_HOST_CLOCK)]
        builders.write_run(tmp_path / name, *times, started_s=started_s)
    status, out, err = run(tmp_path, "--base=a.binpb", "--new=b.binpb")
    assert (status, out) == (2, "") and "a.binpb has times of the clock host_clock" in err
    assert run(tmp_path, "--base=a.binpb", "--new=b.binpb", "--allow_unlike")[0] == 0


def test_other_plugins_are_another_thing(tmp_path):
    for name, started_s, content in (("a.binpb", 1_000, "1"), ("b.binpb", 2_000, "2")):
        header = builders.header(started_s=started_s)
        header.plugins.add(name="mine.py").sources["mine.py"] = content
        with run_writer.RunWriter(tmp_path / name, header) as writer:
            writer.write(builders.record(ns=1e5 + started_s))
    status, _, err = run(tmp_path, "--base=a.binpb", "--new=b.binpb")
    assert status == 2 and "mine.py is not the same (its mine.py)" in err


def test_sources_that_nobody_can_name_are_said(tmp_path):
    _write(tmp_path / "a.binpb", [100.0], project_dirty=True)
    _write(tmp_path / "b.binpb", [100.1], started_s=2_000, project_dirty=True)
    status, out, _ = run(tmp_path, "--base=a.binpb", "--new=b.binpb")
    assert status == 0 and "note: the sources of b.binpb differed from the revision" in out
