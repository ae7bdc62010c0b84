"""Selection over runs: the newest record, the best implementation, the order."""

import pytest

from tileops.perf.report import rows as report_rows
from tileops.perf.report import runs as report_runs
from tileops.perf.runs import former, reader
from tileops.perf.runs import writer as run_writer
from tileops.proto import benchmark_pb2, roofline_pb2
from tileops.tests.report import builders

BEST = report_runs.BEST
ERROR = benchmark_pb2.STATUS_ERROR
EVENTS = benchmark_pb2.TIMING_SOURCE_CUDA_EVENTS


@pytest.fixture
def profile(tmp_path):
    return builders.profile(tmp_path)


def report(tmp_path, profile, *records, **query):
    path = builders.write_run(tmp_path / "run.binpb", *records)
    return builders.report([path], profile, **query)


def best(tmp_path, profile, *records):
    return report(tmp_path, profile, *records, implementation=BEST).rows


def test_the_newest_record_of_a_case_and_implementation_counts(tmp_path, profile):
    old = builders.write_run(
        tmp_path / "z-old.binpb",
        builders.record(ns=1_000),
        builders.record(ns=2_000, implementation="triton"),
        started_s=1_000,
    )
    new = builders.write_run(tmp_path / "a-new.binpb", builders.record(ns=3_000), started_s=2_000)
    for order in ([old, new], [new, old]):
        made = builders.report(order, profile)
        times = {row.implementation: row.actual_time_s for row in made.rows}
        assert times == {"torch": 3e-6, "triton": 2e-6}
        assert [run.file for run in made.runs] == [path.name for path in order]
        readers = [reader.read_run(path) for path in order]
        assert report_runs.newest_run(readers).path == new
        newest = report_runs.newest_records(readers)
        assert {r.implementation: r.timing.device_busy_ns for r in newest} == {"torch": 3_000, "triton": 2_000}


def test_the_best_is_ours_unless_libraries_are_asked_for(tmp_path, profile):
    possible = builders.POSSIBLE
    path = builders.write_run(
        tmp_path / "run.binpb",
        builders.record(implementation="torch", ns=100_000, **possible),
        builders.record(implementation="triton", ns=90_000, **possible),
        builders.record(implementation="liger", library="liger", ns=50_000, **possible),
        builders.record(implementation="quack", library="quack", ns=60_000, **possible),
        builders.record(case_id="b", implementation="torch", ns=None, status=ERROR),
        builders.record(case_id="b", implementation="liger", library="liger", ns=40_000, **possible),
        builders.record(case_id="b", implementation="quack", library="quack", ns=None, status=ERROR),
        builders.record(case_id="c", implementation="liger", library="liger", ns=70_000, **possible),
    )

    def chosen(*libraries):
        made = builders.report([path], profile, implementation=BEST, libraries=libraries)
        found = {row.case_id: (row.implementation, row.library) for row in made.rows}
        assert len(found) == len(made.rows) == made.summary.rows
        return found, made.outcomes.errors

    assert chosen() == ({"a-float16": ("triton", ""), "b": ("torch", "")}, 1)
    liger = dict.fromkeys(("a-float16", "b", "c"), ("liger", "liger"))
    assert chosen("liger") == (liger, 1)
    assert chosen("quack") == (dict.fromkeys(("a-float16", "b"), ("quack", "quack")), 2)
    assert chosen("all") == (liger, 2)
    every = builders.report([path], profile).rows
    assert sorted(row.library for row in every) == ["", "", "", "liger", "liger", "liger", "quack", "quack"]


def test_an_impossible_time_of_a_library_is_a_formula_error_all_the_same(tmp_path, profile):
    made = report(
        tmp_path,
        profile,
        builders.record(implementation="torch", ns=100_000, **builders.POSSIBLE),
        builders.record(implementation="liger", library="liger", ns=1_000, **builders.POSSIBLE),
        implementation=BEST,
    )
    assert [row.implementation for row in made.rows if row.verdict == roofline_pb2.VERDICT_FORMULA_ERROR] == ["liger"]
    assert made.health == roofline_pb2.HEALTH_FAILED and made.summary.rows == 2


def test_a_library_that_no_record_has_is_refused_and_a_run_of_libraries_alone_says_what_to_do(tmp_path, profile):
    path = builders.write_run(
        tmp_path / "run.binpb", builders.record(implementation="liger", library="liger", **builders.POSSIBLE)
    )
    with pytest.raises(report_runs.NothingSelectedError, match="--baselines=quack: .* they have records of liger"):
        builders.report([path], profile, implementation=BEST, libraries=["quack"])
    with pytest.raises(report_runs.NothingSelectedError, match="only libraries have records here: --baselines=all"):
        builders.report([path], profile, implementation=BEST)


def test_several_runs_give_each_row_its_course_oldest_first(tmp_path, profile):
    def write(name, started_s, *records):
        return builders.write_run(tmp_path / name, *records, started_s=started_s)

    runs = [
        write("b.binpb", 2_000, builders.record(ns=200, status=ERROR), builders.record(ns=300)),
        write("a.binpb", 1_000, builders.record(ns=100)),
        write("c.binpb", 3_000, builders.record(ns=None), builders.record(case_id="x")),
    ]
    rows = {row.case_id: row for row in builders.report(runs, profile).rows}
    course = [(point.run, point.actual_time_s) for point in rows["a-float16"].history]
    # Of one run the later record; a record without a time adds none.
    assert course == [(1, pytest.approx(1e-7)), (0, pytest.approx(3e-7))]
    assert [point.run for point in rows["x"].history] == [2]
    assert not builders.report(runs[:1], profile).rows[0].history


def test_of_one_run_the_later_record_counts(tmp_path, profile):
    (row,) = report(tmp_path, profile, builders.record(ns=1, status=ERROR), builders.record(ns=2)).rows
    assert row.actual_time_s == 2e-9
    (row,) = report(tmp_path, profile, builders.record(ns=1), builders.record(ns=2, status=ERROR)).rows
    assert not row.HasField("actual_time_s")


def test_runs_of_several_devices_are_refused(tmp_path):
    first = builders.write_run(tmp_path / "a.binpb", builders.record())
    second = builders.write_run(tmp_path / "b.binpb", builders.record(), device="Other GPU")
    with pytest.raises(report_runs.MixedDevicesError, match="Test GPU.*Other GPU"):
        builders.report([first, second], None)


def test_globs_select_ops_and_families(tmp_path, profile):
    records = [
        builders.record(op="SiLUFwdOp"),
        builders.record(op="GEMMFwdOp", family="gemm"),
        builders.record(op="AddFwdOp"),
    ]

    def ops(**globs):
        return [row.op for row in report(tmp_path, profile, *records, **globs).rows]

    assert ops() == ["AddFwdOp", "GEMMFwdOp", "SiLUFwdOp"]
    assert ops(ops=["SiLU*", "Add*"]) == ["AddFwdOp", "SiLUFwdOp"]
    assert ops(families=["ge*"]) == ["GEMMFwdOp"]
    with pytest.raises(report_runs.NothingSelectedError):
        ops(ops=["silu*"])


def test_a_row_that_left_the_workload_says_so_unless_the_run_has_its_own_manifest(tmp_path, profile, monkeypatch):
    monkeypatch.setattr(former, "load", lambda: frozenset({("SiLUFwdOp", "old")}))
    records = [builders.record(case_id="old", message="a doubt"), builders.record(case_id="old", op="OtherFwdOp")]
    found = report(tmp_path, profile, *records, builders.record(case_id="new")).rows
    notes = {(row.op, row.case_id): row.message for row in found}
    assert notes == {
        ("SiLUFwdOp", "old"): "a doubt; no longer a workload row",
        ("OtherFwdOp", "old"): "",
        ("SiLUFwdOp", "new"): "",
    }
    header = builders.header()
    header.plugins.add(name="--spec_dir=mine")
    with run_writer.RunWriter(tmp_path / "own.binpb", header) as writer:
        writer.write(records[0])
    (row,) = builders.report([tmp_path / "own.binpb"], profile).rows
    assert row.message == "a doubt"


def test_best_is_the_fastest_correct_implementation(tmp_path, profile):
    (row,) = best(
        tmp_path,
        profile,
        builders.record(implementation="torch", ns=300_000),
        builders.record(implementation="triton", ns=200_000),
        builders.record(implementation="wrong", ns=100_000, status=ERROR),
        builders.record(implementation="events", ns=150_000, source=EVENTS),
    )
    assert row.implementation == "triton"


def test_a_time_of_warm_caches_is_chosen_after_one_of_cold_ones(tmp_path, profile):
    warm = builders.record(implementation="warm", ns=100_000)
    warm.device_state.cache_preparation.flush = benchmark_pb2.CACHE_FLUSH_NONE
    (row,) = best(tmp_path, profile, warm, builders.record(implementation="cold", ns=200_000))
    assert row.implementation == "cold"
    (row,) = best(tmp_path, profile, warm)
    assert (row.implementation, row.blank_reason) == ("warm", roofline_pb2.BLANK_REASON_WARM_CACHE)


def test_best_counts_excluded_copies(tmp_path, profile):
    (row,) = best(
        tmp_path,
        profile,
        builders.record(implementation="copies", ns=200_000, copy_ns=200_000),
        builders.record(implementation="plain", ns=300_000),
    )
    assert row.implementation == "plain"


def test_best_of_what_has_no_time_is_one_that_says_why(tmp_path, profile):
    (row,) = best(
        tmp_path,
        profile,
        builders.record(implementation="a", ns=None),
        builders.record(implementation="b", ns=None, status=ERROR, message="crashed"),
        builders.record(implementation="c", ns=None, message="skipped"),
    )
    assert row.message == "skipped"


@pytest.mark.requirement("1.2.30")
def test_an_impossible_time_is_reported_and_never_the_best(tmp_path, profile):
    rows = best(
        tmp_path,
        profile,
        builders.record(implementation="torch", ns=100_000),
        builders.record(implementation="impossible", ns=1_000),
    )
    assert {row.implementation: row.verdict for row in rows} == {
        "torch": roofline_pb2.VERDICT_BELOW,
        "impossible": roofline_pb2.VERDICT_FORMULA_ERROR,
    }


def test_one_implementation_by_name(tmp_path, profile):
    records = [builders.record(implementation=name) for name in ("torch", "triton")]
    (row,) = report(tmp_path, profile, *records, implementation="triton").rows
    assert row.implementation == "triton"


def test_predictions_are_one_a_case_and_prefer_a_priced_record(tmp_path, profile):
    records = [
        builders.record(implementation="failed", ns=None, bytes=0, message="crashed"),
        builders.record(implementation="liger", library="liger"),
        builders.record(implementation="other", ns=None, bytes=0),
    ]

    def predicted(**query):
        return report(tmp_path, profile, *records, is_prediction=True, **query).rows

    (row,) = predicted(implementation=BEST)
    assert (row.implementation, row.library, row.message) == ("", "", "")
    assert row.HasField("sol_time_s")
    assert len(predicted()) == 3


def sorted_cases(tmp_path, profile, key):
    made = report(
        tmp_path,
        profile,
        builders.record(case_id="blank", ns=None),
        builders.record(case_id="large", ns=900_000, bytes=640_000_000),  # 100 us left
        builders.record(case_id="slow", ns=400_000, bytes=40_000_000),  # 350 us left
        builders.record(case_id="done", ns=50_000, bytes=40_000_000),
        sort=key,
    )
    return [row.case_id for row in made.rows]


@pytest.mark.parametrize(
    "key, expected",
    [
        ("headroom", ["slow", "large", "done", "blank"]),
        ("time", ["large", "slow", "done", "blank"]),
        ("efficiency", ["slow", "large", "done", "blank"]),
        ("op", ["blank", "done", "large", "slow"]),
    ],
)
def test_order(tmp_path, profile, key, expected):
    assert sorted_cases(tmp_path, profile, key) == expected


@pytest.mark.requirement("4.3.3", "4.3.5")
def test_summary_and_health(tmp_path, profile):
    records = [
        builders.record(case_id="below"),
        builders.record(case_id="ceiling", bytes=72_000_000),
        builders.record(case_id="floor", ns=5_000, bytes=8_000),
        builders.record(case_id="anomaly", bytes=95_000_000),
        builders.record(case_id="blank", ns=None),
    ]
    summary = report(tmp_path, profile, *records).summary
    assert summary == roofline_pb2.Summary(rows=5, below=1, at_ceiling=1, latency_bound=1, anomaly=1, blank=1)
    assert report_rows.health(summary) == roofline_pb2.HEALTH_OK
    summary.formula_error = 1
    assert report_rows.health(summary) == roofline_pb2.HEALTH_FAILED


def test_summaries_carry_environment_and_problems(tmp_path):
    path = builders.write_run(tmp_path / "run.binpb", builders.record())
    path.write_bytes(path.read_bytes()[:-1])
    (summary,) = builders.report([path], None).runs
    assert (summary.device_name, summary.driver_version) == (builders.DEVICE, "1.2")
    assert summary.started_at == "1970-01-01T00:16:40Z"
    assert (summary.records, summary.interrupted) == (1, True)
    assert len(summary.problems) == 2


def test_a_time_that_is_none_is_blank_and_says_why(tmp_path, profile):
    (row,) = report(tmp_path, profile, builders.record(ns=1_000_000, copy_ns=-999_000)).rows
    assert (row.verdict, row.blank_reason) == (roofline_pb2.VERDICT_BLANK, roofline_pb2.BLANK_REASON_NO_TIME)
    assert row.message == "a device-busy time of 1e+06 ns with copies of -999000 ns cannot be a measured time"
    (row,) = report(tmp_path, profile, builders.record(status=9)).rows
    assert row.blank_reason == roofline_pb2.BLANK_REASON_NO_TIME and "status, 9" in row.message


def write(tmp_path, name, started_s, *records, **fields):
    return builders.write_run(tmp_path / name, *records, started_s=started_s, **fields)


def test_the_newest_run_prices_a_case_whatever_its_implementations_are_called(tmp_path, profile):
    old = write(tmp_path, "old", 1_000, builders.record(implementation="a", bytes=40_000_000))
    new = write(
        tmp_path,
        "new",
        2_000,
        builders.record(implementation="z", bytes=80_000_000),
        builders.record(implementation="b", ns=None, bytes=0, status=ERROR),
    )
    for order in ([old, new], [new, old]):
        (row,) = builders.report(order, profile, implementation=BEST, is_prediction=True).rows
        assert row.sol_time_s == pytest.approx(100e-6)


def test_a_course_is_of_the_newest_clock_alone(tmp_path, profile):
    runs = [
        write(tmp_path, "1", 1, builders.record(ns=100)),
        write(tmp_path, "2", 2, builders.record(ns=300, source=EVENTS)),
    ]
    (row,) = builders.report(runs, profile).rows
    assert [point.run for point in row.history] == [1]
    runs.append(write(tmp_path, "3", 3, builders.record(ns=110)))
    (row,) = builders.report(runs, profile).rows
    assert [point.run for point in row.history] == [0, 2]


def test_a_time_that_its_run_took_back_is_not_in_the_course(tmp_path, profile):
    runs = [
        write(tmp_path, "1", 1, builders.record(ns=100)),
        write(tmp_path, "2", 2, builders.record(ns=150), builders.record(ns=150, status=ERROR)),
    ]
    (row,) = builders.report(runs, profile).rows
    assert row.blank_reason == roofline_pb2.BLANK_REASON_NO_TIME
    assert [point.run for point in row.history] == [0]


def test_a_run_without_a_start_is_newer_than_those_before_it_and_says_so(tmp_path, profile):
    dated = write(tmp_path, "dated", 2_000, builders.record(ns=100_000))
    older = write(tmp_path, "older", 1_000, builders.record(ns=150_000))
    undated = tmp_path / "undated"
    header = builders.header()
    header.ClearField("started_at")
    with run_writer.RunWriter(undated, header) as writer:
        writer.write(builders.record(ns=200_000))
    for order, time_us in (([dated, undated], 200), ([undated, dated], 100), ([dated, older, undated], 200)):
        made = builders.report(order, profile)
        assert made.rows[0].actual_time_s == pytest.approx(time_us * 1e-6)
        (run,) = [run for run in made.runs if run.file == "undated"]
        assert run.problems == ["does not say when it began: it counts as newer than the runs named before it"]
    assert not builders.report([undated], profile).runs[0].problems


def test_a_run_that_lost_its_header_leaves_the_others_priced(tmp_path, profile):
    good = write(tmp_path, "good", 1_000, builders.record(), builders.record(case_id="b"))
    lost = write(tmp_path, "lost", 2_000, builders.record(ns=1), builders.record(case_id="c"))
    builders.lose_header(lost)
    for order in ([good, lost], [lost, good]):
        made = builders.report(order, profile)
        rows = {row.case_id: row for row in made.rows}
        assert rows["a-float16"].efficiency == rows["b"].efficiency == pytest.approx(0.5)
        assert rows["c"].blank_reason == roofline_pb2.BLANK_REASON_NO_PROFILE
        assert len(rows["a-float16"].history) == 1 and not rows["c"].history
        (run,) = [run for run in made.runs if run.file == "lost"]
        assert "it may be of another device" in run.problems[-1]
        with pytest.raises(report_runs.MixedDevicesError, match="lost may be of another device .* no header"):
            report_runs.newest_records([reader.read_run(path) for path in order])


def test_names_that_one_profile_has_are_one_device(tmp_path, profile):
    first = write(tmp_path, "a", 1, builders.record(), device="test  GPU")
    second = write(tmp_path, "b", 2, builders.record(case_id="b"), device="Test GPU 8GB")
    made = builders.report([first, second], profile)
    assert [row.efficiency for row in made.rows] == [pytest.approx(0.5)] * 2
    ours = [write(tmp_path, "c", 1, device="nvidia  h200"), write(tmp_path, "d", 2, device="NVIDIA H200 141GB HBM3e")]
    assert report_runs.device_name([reader.read_run(path) for path in ours]) == "nvidia  h200"


def test_a_file_named_twice_is_one_run(tmp_path):
    path = write(tmp_path, "a", 1)
    (tmp_path / "link").symlink_to(path)
    other = write(tmp_path, "b", 1)
    named = [str(each) for each in (path, other, tmp_path / "link", path)]
    assert report_runs.run_paths(named) == [path, other]


def test_a_wrong_result_is_never_the_best(tmp_path, profile):
    wrong = builders.record(implementation="wrong", ns=60_000)
    wrong.correctness.checked = True
    wrong.correctness.reason = "differs"
    (row,) = best(tmp_path, profile, wrong, builders.record(implementation="right"))
    assert row.implementation == "right"
    (row,) = best(tmp_path, profile, wrong)
    assert row.blank_reason == roofline_pb2.BLANK_REASON_NO_TIME and "differs" in row.message


@pytest.mark.requirement("1.1.1")
def test_an_efficiency_is_against_the_hardware_whatever_others_took(tmp_path, profile):
    ours = builders.record(implementation="triton", ns=100_000)
    alone, *_ = report(tmp_path, profile, ours).rows
    assert alone.efficiency == alone.sol_time_s / alone.actual_time_s == pytest.approx(0.5)
    for ns in (1_000_000, 90_000):
        others = builders.record(implementation="torch", ns=ns)
        for records in ((ours, others), (others, ours)):
            (beside,) = [row for row in report(tmp_path, profile, *records).rows if row.implementation == "triton"]
            assert beside == alone
