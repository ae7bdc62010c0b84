"""The report's forms: JSON, CSV and the table."""

import csv
import io
import json
import re

import pytest

from tileops.perf.report import columns
from tileops.perf.report import json as report_json
from tileops.perf.report import table as report_table
from tileops.perf.report import text as report_text
from tileops.proto import benchmark_pb2, roofline_pb2
from tileops.tests.report import builders

ESCAPE = "\x1b["


def make_report(tmp_path, *records, is_prediction=False):
    path = builders.write_run(tmp_path / "run.binpb", *records)
    profile = builders.profile(tmp_path)
    return builders.report([path], profile, is_prediction=is_prediction)


@pytest.fixture
def records():
    return [
        builders.record(flops=2**63, case_id="impossible"),
        builders.record(data_terms={"experts": 7}),
        builders.record(
            case_id="skipped [8, 4]", ns=None, status=benchmark_pb2.STATUS_SKIPPED, message="needs [red]80 GiB[/red]"
        ),
    ]


@pytest.fixture
def report(tmp_path, records):
    return make_report(tmp_path, *records)


def as_json(tmp_path, *records, profile=None):
    path = builders.write_run(tmp_path / "run.binpb", *records)
    out = io.StringIO()
    report_json.write_json(*builders.collected([path], profile, report_json.json_row), out)
    return json.loads(out.getvalue())


@pytest.mark.requirement("4.3.1")
def test_json_has_the_published_form(tmp_path, records):
    document = as_json(tmp_path, *records, profile=builders.profile(tmp_path))
    assert document["health"] == "failed"
    assert document["summary"] == {
        "rows": 3,
        "at_ceiling": 0,
        "below": 1,
        "latency_bound": 0,
        "anomaly": 0,
        "formula_error": 1,
        "blank": 1,
    }
    assert document["outcomes"] == {"errors": 0, "timeouts": 0, "lost": 0} and not document["adds_implementations"]
    assert document["profile"]["gpu"] == builders.DEVICE
    assert document["profile"]["hbm"]["mix"][0] == {"kind": "COPY", "fraction": 0.7}
    assert document["runs"][0]["records"] == 3
    rows = {row["case_id"]: row for row in document["rows"]}
    below = rows["a-float16"]
    assert below["verdict"] == "below"
    assert below["bound"] == "memory"
    assert below["blank_reason"] is None
    assert below["efficiency"] == pytest.approx(0.5)
    assert below["data_terms"] == {"experts": 7}
    assert below["bytes"] == 40_000_000
    blank = rows["skipped [8, 4]"]
    assert blank["verdict"] == "blank"
    assert blank["blank_reason"] == "no_time"
    assert blank["bound"] is None
    for reading in (
        "efficiency",
        "actual_time_s",
        "sol_time_s",
        "memory_time_s",
        "compute_time_s",
        "achieved_bytes_per_s",
        "achieved_flops_per_s",
    ):
        assert blank[reading] is None
    impossible = rows["impossible"]
    assert impossible["verdict"] == "formula_error"
    assert impossible["flops"] == 2**63
    assert impossible["breaches"][0]["roof"] == "cuda_core.fp32"


def test_json_has_every_field_of_the_proto_and_the_same_values(tmp_path, records):
    profile = builders.profile(tmp_path)
    odd = builders.record(case_id='\n"\\ \u2028', label="\u00fc", message="\x00")
    run = builders.write_run(tmp_path / "old.binpb", odd, started_s=1)
    newest = builders.write_run(tmp_path / "new.binpb", odd, *records)
    head, texts = builders.collected([run, newest], profile, report_json.json_row)
    rows = builders.report([run, newest], profile).rows
    assert len(texts) == len(rows) == 4
    for text, row in zip(texts, rows):
        assert b"\n" not in text
        plain = json.loads(text)
        assert set(plain) == {field.name for field in row.DESCRIPTOR.fields}
        for field in row.DESCRIPTOR.fields:
            value = getattr(row, field.name)
            if field.name == "data_terms":
                value = dict(value)
            elif field.name in ("breaches", "history"):
                value = [{part.name: getattr(each, part.name) for part in each.DESCRIPTOR.fields} for each in value]
            elif field.enum_type is not None:
                value = report_text.enum_name(row, field.name)
            elif field.has_presence and not row.HasField(field.name):
                value = None
            if isinstance(value, float):
                value = pytest.approx(value, rel=1e-11)
            assert plain[field.name] == value


@pytest.mark.requirement("1.2.28", "4.3.3")
def test_every_form_shows_the_label_of_a_latency_bound_row_beside_its_verdict(tmp_path):
    # Latency floor 10 us; SOL times of 9 us and 50 us.
    short = builders.record(case_id="short", bytes=7_200_000, flops=1, ns=8_000)
    run = builders.write_run(tmp_path / "run.binpb", short, builders.record(case_id="long"))
    profile = builders.profile(tmp_path)
    _, texts = builders.collected([run], profile, report_json.json_row)
    assert {(row["verdict"], row["latency_bound"]) for row in map(json.loads, texts)} == {
        ("anomaly", True),
        ("below", False),
    }
    out = io.StringIO()
    _, texts = builders.collected([run], profile, report_json.csv_row)
    report_json.write_csv(texts, out)
    lines = csv.DictReader(io.StringIO(out.getvalue()))
    assert {(row["verdict"], row["latency_bound"]) for row in lines} == {("anomaly", "true"), ("below", "false")}
    text = table(builders.report([run], profile))
    (line,) = [line for line in lines_of(text, "SiLUFwdOp") if "short" in line]
    assert line.endswith("anomaly, latency bound")
    # Launching hides what its kernel does, so the totals leave it out.
    assert [line.split() for line in lines_of(text, "elementwise")][-1][1:4] == ["2", "0", "1"]


def test_json_without_a_profile_says_null(tmp_path, records):
    assert as_json(tmp_path, *records)["profile"] is None


def test_json_of_no_rows_is_a_document():
    out = io.StringIO()
    report_json.write_json(roofline_pb2.Report(), [], out)
    assert json.loads(out.getvalue())["rows"] == []


def test_csv_has_one_line_a_row_and_empty_cells_for_absent_readings(tmp_path, records):
    path = builders.write_run(tmp_path / "run.binpb", *records)
    out = io.StringIO()
    _, texts = builders.collected([path], builders.profile(tmp_path), report_json.csv_row)
    report_json.write_csv(texts, out)
    rows = {row["case_id"]: row for row in csv.DictReader(io.StringIO(out.getvalue()))}
    assert len(rows) == 3
    assert float(rows["a-float16"]["efficiency"]) == pytest.approx(0.5)
    assert rows["skipped [8, 4]"]["efficiency"] == ""
    assert rows["skipped [8, 4]"]["message"] == "needs [red]80 GiB[/red]"


def test_csv_quotes_a_lone_carriage_return(tmp_path):
    path = builders.write_run(tmp_path / "run.binpb", builders.record(case_id="a\rb"))
    _, texts = builders.collected([path], None, report_json.csv_row)
    out = io.StringIO(newline="")
    report_json.write_csv(texts, out)
    head, row = csv.reader(io.StringIO(out.getvalue(), newline=""))
    assert len(row) == len(head) and "a\rb" in row


def table(report, out=None):
    out = io.StringIO() if out is None else out
    report_table.write_table(report, iter(report.rows), out)
    return out.getvalue()


def lines_of(text, start):
    return [line for line in text.splitlines() if line.startswith(start)]


def test_table_shows_each_row_the_summary_and_the_health(report):
    text = table(report)
    (head,) = lines_of(text, "op ")
    for title in ("op", "case", "implementation", "time", "SOL time", "efficiency"):
        assert title in head
    (below,) = [line for line in lines_of(text, "SiLUFwdOp") if "a-float16" in line]
    assert below.split() == ("SiLUFwdOp a-float16 torch 100.00 us 50.00 us 50.00 us 50.0% memory below").split()
    (blank,) = [line for line in lines_of(text, "SiLUFwdOp") if "skipped" in line]
    assert "skipped [8, 4]" in blank
    assert "blank: no_time" in blank
    assert "needs [red]80 GiB[/red]" in blank
    assert "3 rows, 1 below, 1 formula error, 1 blank" in text
    assert "formula error: SiLUFwdOp impossible torch: implies" in text
    assert text.splitlines()[-1] == "health: failed (1 formula error)"


def test_the_last_line_counts_what_failed_and_what_damage_took(tmp_path):
    error, timeout = benchmark_pb2.STATUS_ERROR, benchmark_pb2.STATUS_TIMEOUT
    made = make_report(
        tmp_path,
        builders.record(),
        builders.record(implementation="a", ns=None, status=error),
        builders.record(implementation="b", ns=None, status=error),
        builders.record(implementation="c", ns=None, status=timeout),
        builders.record(implementation="d", ns=None, status=benchmark_pb2.STATUS_SKIPPED),
    )
    said = "ok (no formula error); 2 measurements failed, 1 measurement timed out"
    assert table(made).splitlines()[-1] == f"health: {said}"
    made.outcomes.lost = 12
    assert table(made).splitlines()[-1] == f"health: {said}, 12 records lost to damage"
    assert report_text.health(made) == f"{said}, 12 records lost to damage"


def test_a_retried_measurement_is_no_failure(tmp_path):
    failed = builders.record(ns=None, status=benchmark_pb2.STATUS_ERROR)
    assert table(make_report(tmp_path, failed, builders.record())).endswith("health: ok (no formula error)\n")


def test_sums_over_several_implementations_say_so(tmp_path):
    said = "sums add all implementations of a case"
    assert said in table(make_report(tmp_path, builders.record(), builders.record(implementation="triton")))
    assert said not in table(make_report(tmp_path, builders.record(), builders.record(case_id="b")))


def test_the_summary_of_a_family_leaves_impossible_rows_out(report):
    (line,) = lines_of(table(report), "elementwise")
    assert line.split() == ["elementwise", "3", "0", "1", "50.0%", "50.00", "us"]


def test_no_colours_where_nobody_watches(report, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert ESCAPE not in table(report)


def test_colours_on_a_terminal(report, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert ESCAPE in table(report, builders.Terminal())


def on_terminal(report, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")
    return table(report, builders.Terminal())


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140, 180])
def test_no_line_is_wider_than_the_terminal(report, monkeypatch, width):
    text = on_terminal(report, monkeypatch, width)
    assert max(len(line) for line in text.splitlines()) <= width


LONG_CASES = [f"hidden-state-reduce-{end}" for end in ("a-float16", "a-bfloat16")]


def long_named(tmp_path):
    return make_report(
        tmp_path,
        *[
            builders.record(
                op="FP8QuantPerTokenGroupFwdOp", implementation="torch_compile", case_id=case, ns=1_208_190.0
            )
            for case in LONG_CASES
        ],
    )


def test_80_columns_have_room_for_every_promise(tmp_path, monkeypatch):
    text = on_terminal(long_named(tmp_path), monkeypatch, 80)
    head = " ".join(text.splitlines()[2:4])
    assert head.split() == ("op case implementation time SOL time headroom efficiency bound verdict".split())
    for case in LONG_CASES:
        (index,) = [i for i, line in enumerate(text.splitlines()) if f" {case} " in line]
        names, readings = text.splitlines()[index : index + 2]
        assert names.split() == ["FP8QuantPerTokenGroupFwdOp", case, "torch_compile"]
        assert readings.split() == "1,208.19 us 50.00 us 1,158.19 us 4.1% memory below".split()
    assert "hidden:" not in text


def test_brief_names_still_differ_and_are_explained(tmp_path, monkeypatch):
    text = on_terminal(long_named(tmp_path), monkeypatch, 70)
    for end in ("a-f16", "a-bf16"):
        names = f"FP8QuantPerTokenGroup hidden-state-reduce-{end} torch_compile"
        assert names in " ".join(text.split())
    assert "times in us" in text
    assert "1,208.19 " in text and "1,208.19 us" not in text


def test_names_that_brevity_would_make_alike_stay_whole(tmp_path, monkeypatch):
    cases = [f"{'x' * 60}-{dtype}" for dtype in ("float16", "f16")]
    records = [builders.record(case_id=case) for case in cases]
    text = on_terminal(make_report(tmp_path, *records), monkeypatch, 80)
    assert all(case in text for case in cases)


def test_what_does_not_fit_is_counted(tmp_path, monkeypatch):
    text = on_terminal(long_named(tmp_path), monkeypatch, 40)
    assert "verdict" in text and "headroom" not in text.split("family")[0]
    assert "hidden: widen the terminal or" in text


def test_names_from_a_file_cannot_steer_the_terminal(tmp_path, monkeypatch):
    record = builders.record(op="Evil\x1b[2JOp", case_id="a\rb", family="f\x1b", message="m\x9b", flops=2**63)
    for width in (80, 400):
        text = on_terminal(make_report(tmp_path, record), monkeypatch, width)
        assert not set(text) & set("\x1b\r\x9b")
        assert "Evil\\x1b[2JOp" in text and "a\\rb" in text


def test_no_roof_says_what_is_missing(tmp_path):
    text = table(
        make_report(
            tmp_path,
            builders.record(case_id="a", roof_key=""),
            builders.record(case_id="b", roof_key="tensor_core.fp8"),
        )
    )
    undeclared, unknown = [line for line in lines_of(text, "SiLUFwdOp") if "no_roof" in line]
    assert "the op declares no roof" in undeclared
    assert "the profile has no unit tensor_core.fp8" in unknown


def test_counts_are_grammatical(tmp_path):
    text = table(make_report(tmp_path, builders.record()))
    assert "  1 record  " in text and "\n1 row, 1 below" in text


def test_a_run_of_prices_says_how_to_predict(tmp_path):
    report = make_report(tmp_path, builders.record(ns=None))
    report.ClearField("profile")
    report.runs[0].device_kind = "meta"
    assert '--predict --profile="NVIDIA H200"' in table(report)


def test_problems_of_a_run_are_shown(report):
    report.runs[0].problems.append("at byte 7: torn")
    assert "run.binpb: at byte 7: torn" in table(report)


def test_a_prediction_says_that_it_is_one(tmp_path):
    records = builders.record(), builders.record(case_id="b", roof_key="")
    text = table(make_report(tmp_path, *records, is_prediction=True))
    assert "predicted for Test GPU" in text
    (head,) = lines_of(text, "op ")
    assert "SOL time" in head and "bound" in head
    assert "efficiency" not in head
    predicted, blank = lines_of(text, "SiLUFwdOp")
    assert predicted.split()[-4:] == ["50.00", "us", "memory", "predicted"]
    assert "blank: no_roof" in blank
    assert "\n2 rows, 1 predicted, 1 blank" in text


def test_a_bound_of_next_to_nothing_is_not_shown_as_zero(tmp_path):
    assert "<0.01 us" in table(make_report(tmp_path, builders.record(bytes=8, flops=1)))


def test_rows_stand_by_family_and_the_most_time_to_win_below(tmp_path):
    def record(op, family, headroom_us, **fields):
        return builders.record(op=op, family=family, ns=50_000 + headroom_us * 1_000, **fields)

    text = table(
        make_report(
            tmp_path,
            record("AFwdOp", "x", 30),
            record("BFwdOp", "y", 50),
            record("CFwdOp", "x", 10),
            record("BFwdOp", "y", 1, case_id="b"),
            builders.record(op="Tiny", family="x", ns=9_000, bytes=8_000),
        )
    )
    lines = [line.split()[0] for line in text.splitlines() if line[:1].isalpha()]
    assert lines[2:10] == ["op", "y", "BFwdOp", "BFwdOp", "x", "AFwdOp", "CFwdOp", "Tiny"]
    assert "\ny (2 rows)\n" in text
    below = text[text.index("most time to win") :]
    ranked = [line.split() for line in below.splitlines() if "FwdOp" in line]
    assert [line[0] for line in ranked] == ["BFwdOp", "AFwdOp"]
    # BFwdOp's other row and CFwdOp are at their ceiling: done, whatever is left.
    assert ranked[0][-2:] == ["50.00", "us"]
    # A faster kernel would not show where latency dominates.
    assert "Tiny" not in below
    (family,) = lines_of(text, "x  ")
    assert family.split() == ["x", "3", "1", "2", "72.9%", "40.00", "us"]


def test_several_runs_show_the_course_of_each_row(tmp_path):
    runs = [
        builders.write_run(tmp_path / f"{number}", builders.record(ns=ns), started_s=number)
        for number, ns in ((1, 100_000), (2, 200_000), (3, 150_000))
    ]
    text = table(builders.report(runs, builders.profile(tmp_path)))
    row = lines_of(text, "SiLUFwdOp  ")[0]
    assert row.rstrip().endswith("\u2581\u2588\u2584 -25.0%")
    # The same time again is a flat line; a single run has none.
    text = table(builders.report([runs[0], runs[0]], builders.profile(tmp_path)))
    assert "course" in text and "\u2581\u2581 +0.0%" in text
    assert "course" not in table(builders.report(runs[:1], builders.profile(tmp_path)))


def test_a_long_table_is_cut_and_says_how_many_rows_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "MOST_ROWS", 3)
    monkeypatch.setattr(report_table, "_MOST_ERRORS_LISTED", 1)
    records = [
        builders.record(case_id=f"c{place}", family="xy"[place % 2], bytes=10**7 * (1 + place // 5 * 100))
        for place in range(7)
    ]
    text = table(make_report(tmp_path, *records))
    assert len([line for line in lines_of(text, "SiLUFwdOp ") if line.split()[1][0] == "c"]) == 3
    assert "4 more rows left out, last in the order of --sort: --format=csv and json have them all" in text
    assert "(2 of 4 rows)" in text or "(1 of 4 rows)" in text
    # What is summed and counted is all of them.
    assert "7 rows, " in text and "2 formula error" in text
    assert text.count("formula error: SiLUFwdOp") == 1
    assert "and 1 more formula errors: --format=json has them all" in text


def test_a_sum_over_nothing_is_no_number_and_a_part_is_counted(tmp_path):
    records = [
        builders.record(case_id="a"),
        builders.record(case_id="b", ns=None),
        builders.record(family="unknown", roof_key=""),
    ]
    text = table(make_report(tmp_path, *records))
    summary = text[text.index("family") :]
    assert lines_of(summary, "elementwise")[0].split() == ["elementwise", "2", "0", "1", "50.0%", "50.00", "us"]
    assert lines_of(summary, "unknown")[0].split() == ["unknown", "1", "0", "0"]
    text = table(make_report(tmp_path, *records, is_prediction=True))
    summary = text[text.index("family") :]
    assert lines_of(summary, "elementwise")[0].split() == ["elementwise", "2", "2", "100.00", "us"]
    assert lines_of(summary, "unknown")[0].split() == ["unknown", "1", "0"]


def test_rows_that_lack_a_calibration_say_how_one_is_assumed(tmp_path):
    text = table(make_report(tmp_path, builders.record(roof_key="tensor_core.bf16"), is_prediction=True))
    assert "1 row blank (uncalibrated): measure the profile with //perf:calibrate, or --assume_calibration=0.85" in text
    assert "assume_calibration" not in table(make_report(tmp_path, builders.record()))


def test_a_row_faster_than_its_bound_takes_nothing_off_the_headroom(tmp_path):
    # 52 us at best, 50 us measured: at the ceiling, and its headroom below zero.
    records = builders.record(case_id="a", ns=50_000, bytes=41_600_000), builders.record(case_id="b")
    text = table(make_report(tmp_path, *records))
    assert lines_of(text, "elementwise")[0].split()[-2:] == ["50.00", "us"]


def test_a_course_of_many_runs_shows_the_newest(tmp_path):
    runs = [
        builders.write_run(tmp_path / f"{number}", builders.record(ns=ns), started_s=number)
        for number, ns in enumerate([200_000] * 2 + [100_000] * 11 + [200_000], 1)
    ]
    row = lines_of(table(builders.report(runs, builders.profile(tmp_path))), "SiLUFwdOp  ")[0]
    assert row.rstrip().endswith(" " + "\u2581" * 11 + "\u2588 +100.0%")


@pytest.mark.parametrize(
    "ratio, expected",
    [(0.8, "80.0%"), (0.79999, "79.999%"), (1.05, "105.0%"), (1.0500001, "105.00001%"), (0.5, "50.0%"), (None, "")],
)
def test_a_ratio_beside_a_line_is_not_rounded_onto_it(ratio, expected):
    assert report_table.percent(ratio) == expected


def test_every_reason_of_blank_rows_says_what_to_do(tmp_path):
    warm = builders.record(case_id="warm")
    warm.device_state.cache_preparation.flush = benchmark_pb2.CACHE_FLUSH_NONE
    text = table(
        make_report(
            tmp_path,
            warm,
            builders.record(case_id="events", source=benchmark_pb2.TIMING_SOURCE_CUDA_EVENTS),
            builders.record(case_id="bytes", bytes=0),
            builders.record(case_id="roof", roof_key=""),
            builders.record(case_id="calibration", roof_key="tensor_core.bf16"),
            builders.record(case_id="time", ns=None),
            builders.record(case_id="time2", ns=None),
        )
    )
    for reason, remedy in {
        "no_cupti": "measure with CUPTI",
        "warm_cache": "flush before each call",
        "zero_bytes": "correct its entry",
        "no_roof": "a roof key to the op",
        "uncalibrated": "//perf:calibrate",
    }.items():
        assert re.search(rf"^1 row blank \({reason}\): .*{re.escape(remedy)}", text, re.MULTILINE)
    assert "\n2 rows blank (no_time): nothing was timed" in text
    assert set(report_text._HINTS) == set(roofline_pb2.BlankReason.values()[1:])
    alone = builders.report([builders.write_run(tmp_path / "run.binpb", builders.record())], None)
    assert "1 row blank (no_profile): write a profile of the device" in table(alone)


def test_totals_say_what_they_are_of(tmp_path):
    text = table(make_report(tmp_path, builders.record()))
    assert "latency-bound, impossible and blank rows are left out" in text
    assert "time to win that of the rows below the ceiling" in text
