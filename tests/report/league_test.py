"""//perf:league: libraries against our implementations, in numbers that are reckoned by hand."""

import csv
import io
import json
import math

import pytest

from tileops.perf.report import facts, league, league_text, runs
from tileops.perf.runs import reader
from tileops.perf.runs import writer as run_writer
from tileops.proto import benchmark_pb2
from tileops.tests.report import browser, builders

ERROR, SKIPPED = benchmark_pb2.STATUS_ERROR, benchmark_pb2.STATUS_SKIPPED
LIBRARIES = (("liger", "0.8.5", ""), ("quack", "0.6.5", ""), ("fla", "", "fla-core is not installed"))


def record(case_id, implementation, us, library="", is_default=False, **fields):
    return builders.record(
        op="AddFwdOp",
        case_id=case_id,
        implementation=implementation,
        library=library,
        is_default=is_default,
        ns=None if us is None else us * 1e3,
        **(builders.POSSIBLE | fields),
    )


def wrong(case_id, library):
    return record(
        case_id,
        library,
        None,
        library,
        status=ERROR,
        message="wrong result: off by 3",
        correctness=benchmark_pb2.Correctness(checked=True, reason="off by 3"),
    )


def write(path, *records, started_s=1_000, libraries=LIBRARIES, source=None):
    header = builders.header(started_s=started_s)
    for library, version, skipped in libraries:
        header.baselines.add(library=library, package=f"{library}-kernels", version=version, skipped=skipped)
    with run_writer.RunWriter(path, header) as writer:
        for each in records:
            if source is not None:
                each.timing.source = source
            writer.write(each)
    return path


def collected(paths, profile=None, **selection):
    readers = [reader.read_run(path) for path in paths]
    selection = runs.Selection(implementation=runs.ALL, **({"libraries": [runs.ALL]} | selection))
    return league.collect(readers, [facts.RunFacts(each) for each in readers], selection, profile)


# Our default is triton. Ratios of liger: 45/50, 160/80 and 99/100; of quack: 25/50.
RECORDS = (
    record("a-f16", "torch", 100),
    record("a-f16", "triton", 50, is_default=True),
    record("a-f16", "liger", 45, "liger"),
    record("a-f16", "quack", 25, "quack"),
    record("b-f16", "torch", 70),
    record("b-f16", "triton", 80, is_default=True),
    record("b-f16", "liger", 160, "liger"),
    record("b-f16", "liger_other", 170, "liger"),
    wrong("b-f16", "quack"),
    record("c-f16", "triton", 100, is_default=True),
    record("c-f16", "liger", 99, "liger"),
    record("c-f16", "quack", None, "quack", status=ERROR, message="RuntimeError: no"),
    record("d-f16", "triton", 60, is_default=True),
    record("d-f16", "quack", None, "quack", status=SKIPPED, message="does not serve this row"),
)


@pytest.fixture
def run(tmp_path):
    return write(tmp_path / "run.binpb", *RECORDS)


def test_the_standings_by_hand(run):
    found = collected([run])
    assert found.libraries == ("liger", "quack") and found.skipped == {"fla": "fla-core is not installed"}
    first, second = found.standings()
    assert (first.library, second.library) == ("quack", "liger")
    assert first.ratio == pytest.approx(0.5) and second.ratio == pytest.approx(math.cbrt(0.9 * 2.0 * 0.99))
    assert (first.rows, first.wrong, first.failed, first.compared, first.won, first.fastest) == (3, 1, 1, 1, 1, 1)
    assert (second.rows, second.wrong, second.failed, second.compared, second.won, second.fastest) == (3, 0, 0, 3, 1, 1)
    assert (first.versions, second.versions) == (("quack-kernels 0.6.5",), ("liger-kernels 0.8.5",))
    assert found.ours_fastest() == 1 and len(found.served()) == 3 and len(found.rows) == 4
    assert [(row.case_id, row.fastest.implementation) for row in found.won()] == [
        ("a-f16", "quack"),
        ("b-f16", "torch"),
    ]


def test_exactly_two_percent_faster_is_not_over_two_percent(tmp_path):
    run = write(
        tmp_path / "run.binpb",
        *(record("a", "triton", 100, is_default=True), record("a", "liger", 98, "liger")),
        *(record("b", "triton", 100, is_default=True), record("b", "liger", 97.99, "liger")),
        *(record("c", "triton", 100, is_default=True), record("c", "liger", 100, "liger")),
    )
    found = collected([run])
    assert [row.case_id for row in found.won()] == ["b"]
    assert [row.fastest.implementation for row in found.rows] == ["liger", "liger", "triton"]


def test_all_times_of_a_row_are_of_one_run(tmp_path):
    old = write(
        tmp_path / "old.binpb",
        record("a", "triton", 50, is_default=True),
        record("a", "liger", 40, "liger"),
        started_s=1,
    )
    new = write(tmp_path / "new.binpb", record("a", "triton", 30, is_default=True), started_s=2)
    ratios = [standing.ratio for standing in collected([new, old]).standings()]
    assert ratios == [pytest.approx(0.8)]
    alone = write(tmp_path / "alone.binpb", record("a", "liger", 10, "liger"), started_s=3)
    assert [(row.run, row.fastest.time_s) for row in collected([new, old, alone]).rows] == [(1, pytest.approx(40e-6))]
    (row,) = collected([new, alone]).rows
    assert row.default is None and row.run == 1 and row.fastest.implementation == "liger"
    assert "no row has a time of our default" in league_text.hint(collected([alone]))


def test_an_impossible_time_and_a_time_of_another_clock_do_not_compete(tmp_path):
    run = write(
        tmp_path / "run.binpb",
        *(record("a", "triton", 50, is_default=True), record("a", "liger", 1, "liger")),
        *(record("b", "triton", 50, is_default=True),),
        record("b", "liger", 40, "liger", source=benchmark_pb2.TIMING_SOURCE_CUDA_EVENTS),
    )
    found = collected([run], builders.profile(tmp_path))
    (standing,) = found.standings()
    assert (standing.rows, standing.impossible, standing.compared, standing.ratio) == (2, 1, 0, None)
    assert found.rows[0].fastest.implementation == "triton" and not found.won()


@pytest.fixture
def command(run, start_command):
    def start(*flags):
        process = start_command("league", *flags, text=True)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    return start


def test_the_command_writes_every_form(tmp_path, command):
    status, out, err = command("--run=run.binpb")
    assert status == 0, err
    lines = [line.split() for line in out.splitlines()]
    assert ["quack", "quack-kernels", "0.6.5", "3", "1", "1", "1", "0.500", "1", "1"] in lines
    assert ["(ours)", "3", "1"] in lines
    assert "libraries liger 0.8.5, quack 0.6.5; skipped fla" in out and "fla was skipped: fla-core is not" in out
    assert "2 rows in which some implementation is over 2% faster than our default" in out
    assert "quack wrong: wrong result: off by 3" in out and "quack failed: RuntimeError: no" in out
    status, out, _ = command("--run=run.binpb", "--format=json")
    found = json.loads(out)
    assert [each["library"] for each in found["libraries"]] == ["quack", "liger"] and found["ours_fastest"] == 1
    assert found["rows"][0]["fastest"] == "quack" and found["rows"][0]["default"] == "triton"
    assert found["rows"][0]["entrants"][2]["ratio"] == pytest.approx(0.9)
    status, out, _ = command("--run=run.binpb", "--format=csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    (row,) = [each for each in rows if each["outcome"] == "wrong"]
    assert (row["case_id"], row["library"], row["time_s"], row["message"]) == (
        *("b-f16", "quack", ""),
        "wrong result: off by 3",
    )
    assert [each["implementation"] for each in rows if each["is_fastest"] == "true"][:2] == ["quack", "torch"]
    status, _, err = command("--run=run.binpb", "--out=league.html")
    page = (tmp_path / "league.html").read_text()
    assert status == 0 and "Libraries beside our kernels" in page and "wrong result: off by 3" in page
    assert command("--run=run.binpb", "--out=league.html")[0] == 0  # its own earlier output


@pytest.mark.skipif(browser.find() is None, reason="no chromium on this machine")
def test_the_page_sorts_and_filters_and_what_files_say_is_text(tmp_path, command):
    evil = "<script>alert(1)</script>"
    write(tmp_path / "run.binpb", *RECORDS, record("e", "liger", None, "liger", status=ERROR, message=evil))
    _, page, _ = command("--run=run.binpb", "--format=html")
    assert page.count("<script") == 2 and 'data-ready="yes"' in browser.opened(page)
    answer = browser.ask(
        page,
        """const rows = () => [...byId("rows").tBodies[0].rows].map((row) => row.textContent);
        const all = rows();
        [...document.querySelectorAll("#rows th button")].find((head) => head.textContent === "liger").click();
        const sorted = rows();
        byId("search").value = "off by 3";
        byId("search").dispatchEvent(new Event("input"));
        return { all, sorted, found: rows(), won: document.querySelectorAll("#won tbody tr").length };""",
    )
    assert len(answer["all"]) == 4 and any(evil in row for row in answer["all"])
    assert "160.00 us (2.000)" in answer["sorted"][0] and "a-f16" in answer["sorted"][2]
    (found,) = answer["found"]
    assert "b-f16" in found and "quack wrong: wrong result: off by 3" in found and answer["won"] == 2


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--baselines=ligr"],
            "--baselines=ligr: the runs have no record of this library; they have records of liger, quack",
        ),
        (["--top=0"], "--top=0: write a number above 0, or all"),
        (["--format=csv", "--top=3"], "--top needs --format=table"),
        (["--op=Nothing*"], "no record matches --op=Nothing*"),
    ],
)
def test_wrong_flags_are_errors(command, flags, said):
    status, out, err = command("--run=run.binpb", *flags)
    assert (status, out) == (2, "") and said in err


def test_one_library_alone(command):
    status, out, _ = command("--run=run.binpb", "--baselines=liger", "--format=json")
    found = json.loads(out)
    assert [each["library"] for each in found["libraries"]] == ["liger"] and found["skipped"] == {}
    assert all(each["library"] in ("", "liger") for row in found["rows"] for each in row["entrants"])
