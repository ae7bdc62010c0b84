"""//perf:roofline as a user runs it: flags, readings and exit status."""

import csv
import json
import os
import subprocess
import sys

import pytest

from tileops.perf.runs import writer as run_writer
from tileops.proto import benchmark_pb2
from tileops.tests.report import builders
from tileops.tests.report.builders import POSSIBLE


def test_records_that_damage_took_stand_in_the_last_line(tmp_path, roofline):
    records = [builders.record(case_id=f"case-{place}", **POSSIBLE) for place in range(9)]
    path = builders.write_run(tmp_path / "run.binpb", *records)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 10] = b"\xff" * 10
    path.write_bytes(data)
    status, out, _ = roofline("--run=run.binpb", "--profile=gpu.textproto")
    assert status == 0 and out.endswith("health: ok (no formula error); 1 record lost to damage\n")


def test_a_healthy_run_exits_0(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    status, out, err = roofline("--run=run.binpb", "--profile=gpu.textproto")
    assert (status, err) == (0, "")
    assert "health: ok" in out


def test_libraries_are_chosen_only_if_named_and_the_report_says_which_a_run_loaded(tmp_path, roofline):
    header = builders.header()
    header.baselines.add(library="liger", package="liger-kernel", version="0.8.5")
    header.baselines.add(library="quack", package="quack-kernels", skipped="quack-kernels is not installed")
    with run_writer.RunWriter(tmp_path / "run.binpb", header) as writer:
        writer.write(builders.record(**POSSIBLE))
        writer.write(builders.record(implementation="liger", library="liger", ns=50_000, **POSSIBLE))
    flags = ("--run=run.binpb", "--profile=gpu.textproto")
    for more, expected in (([], ("torch", "")), (["--baselines=liger"], ("liger", "liger"))):
        status, out, _ = roofline(*flags, "--format=csv", *more)
        (row,) = csv.DictReader(out.splitlines())
        assert status == 0 and (row["implementation"], row["library"]) == expected
    assert "libraries liger 0.8.5; skipped quack" in roofline(*flags)[1]
    found = json.loads(roofline(*flags, "--format=json", "--implementation=all")[1])
    assert [row["library"] for row in found["rows"]] == ["", "liger"]
    assert found["runs"][0]["baselines"][1]["skipped"] == "quack-kernels is not installed"
    for more in (["--implementation=all"], ["--predict"]):
        status, _, err = roofline(*flags, "--baselines=liger", *more)
        assert status == 2 and "--baselines has an effect only with --implementation=best and without --predict" in err


@pytest.mark.requirement("4.3.11")
def test_a_formula_error_exits_1(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(ns=1_000))
    status, out, _ = roofline("--run=run.binpb", "--profile=gpu.textproto")
    assert status == 1
    assert "health: failed" in out


@pytest.mark.requirement("1.2.24")
def test_a_cpu_run_is_blank_with_no_cupti(tmp_path, roofline):
    builders.write_run(
        tmp_path / "run.binpb", builders.record(source=benchmark_pb2.TIMING_SOURCE_HOST_CLOCK), device="Some CPU"
    )
    status, out, _ = roofline("--run=run.binpb")
    assert status == 0
    assert "blank: no_cupti" in out


@pytest.mark.requirement("1.2.26", "4.3.2")
def test_the_profile_is_matched_by_the_devices_name(tmp_path, roofline):
    run = tmp_path / "run.jsonl"
    builders.write_run(run, builders.record(**POSSIBLE), device="nvidia h200")
    status, out, _ = roofline("--run=run.jsonl", "--format=json")
    assert status == 0
    assert json.loads(out)["profile"]["gpu"] == "NVIDIA H200"
    builders.write_run(run, builders.record(**POSSIBLE), device="NVIDIA H200 PCIe")
    status, out, _ = roofline("--run=run.jsonl", "--format=json")
    assert status == 0
    (row,) = json.loads(out)["rows"]
    assert row["blank_reason"] == "no_profile"


def test_another_devices_profile_is_an_error_unless_predicting(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(), device="Other GPU")
    flags = ["--run=run.binpb", "--profile=gpu.textproto"]
    status, out, err = roofline(*flags)
    assert (status, out) == (2, "")
    assert "'Test GPU'" in err and "'Other GPU'" in err and "--predict" in err
    status, out, _ = roofline(*flags, "--predict", "--format=json")
    assert status == 0
    document = json.loads(out)
    assert document["is_prediction"]
    (row,) = document["rows"]
    assert row["sol_time_s"] == pytest.approx(50e-6)
    assert row["actual_time_s"] is None


def test_reproducible_leaves_out_what_varies(tmp_path, roofline):
    outputs = []
    for started_s in (1_000, 2_000):
        builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE), started_s=started_s)
        for form in ("json", "table", "csv", "html"):
            flags = ["--run=run.binpb", f"--format={form}", "--reproducible"]
            outputs.append(roofline(*flags)[1])
    assert outputs[:4] == outputs[4:]
    (run,) = json.loads(outputs[0])["runs"]
    assert not {"run_id", "started_at", "hostname_hash", "project_revision"} & set(run)
    assert run["device_name"] == builders.DEVICE


def test_html_is_one_page_with_every_row(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    status, out, _ = roofline("--run=run.binpb", "--format=html", "--out=report.html")
    assert (status, out) == (0, "")
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n")
    assert '["SiLUFwdOp","elementwise","a-float16"' in page


def test_out_is_relative_to_where_the_user_stands(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    status, out, _ = roofline("--run=run.binpb", "--format=csv", "--out=report.csv")
    assert (status, out) == (0, "")
    (row,) = csv.DictReader((tmp_path / "report.csv").open())
    assert row["op"] == "SiLUFwdOp"


def test_filters(tmp_path, roofline):
    builders.write_run(
        tmp_path / "run.binpb",
        builders.record(op="SiLUFwdOp", implementation="torch"),
        builders.record(op="SiLUFwdOp", implementation="triton", ns=90_000),
        builders.record(op="GEMMFwdOp", family="gemm"),
    )

    def rows(*flags):
        out = roofline("--run=run.binpb", "--format=json", "--sort=op", *flags)[1]
        return [(r["op"], r["implementation"]) for r in json.loads(out)["rows"]]

    assert rows() == [("GEMMFwdOp", "torch"), ("SiLUFwdOp", "triton")]
    assert rows("--family=gemm") == [("GEMMFwdOp", "torch")]
    assert rows("--op=SiLU*,GEMM*", "--implementation=torch") == [("GEMMFwdOp", "torch"), ("SiLUFwdOp", "torch")]
    assert len(rows("--implementation=all")) == 3


def test_an_interrupted_run_is_priced_and_told(tmp_path, roofline):
    path = builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    path.write_bytes(path.read_bytes()[:-1])
    status, out, err = roofline("--run=run.binpb", "--profile=gpu.textproto")
    assert status == 0
    assert "interrupted after 1 record\n" in err
    assert "1 row, " in out
    assert "run.binpb: at byte" in err and "no footer" in err


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--run=missing.binpb"], "missing.binpb: No such file"),
        (["--run=gpu.textproto"], "gpu.textproto: not a run file"),
        (["--run=gpu.textproto"], "//perf:bench writes run files, and //perf:records makes them from JUnit"),
        (["--run=run.binpb", "--out=report.pdf"], "no form has the ending .pdf; use .txt, .json, .csv, .html"),
        (["--run=run.binpb", "--profile=missing.textproto"], "missing.textproto"),
        (["--run=run.binpb", "--profile=No GPU"], "no profile of that name: 'No GPU'"),
        (["--run=run.binpb", "--predict"], "no profile names the device"),
        (["--run=run.binpb", "--run=other.binpb"], "several devices"),
        (["--run=run.binpb", "--out=missing/report"], "cannot write"),
        (["--run=run.binpb", "--format=json", "--out=run.binpb"], "--out=run.binpb is a file that this command reads"),
        (["--run=run.binpb", f"--out={'n' * 5_000}"], "File name too long"),
        (["--run=run.binpb", f"--profile={'n' * 5_000}"], "no profile of that name"),
        ([f"--run={'n' * 5_000}"], "File name too long"),
        (["--run=run.binpb", "--format=pdf"], "--format=pdf"),
        (["--no_such_flag"], "no_such_flag"),
        (["run.binpb"], "unexpected argument 'run.binpb'"),
    ],
)
def test_bad_usage_exits_2_with_one_line(tmp_path, roofline, flags, message):
    builders.write_run(tmp_path / "run.binpb", builders.record())
    builders.write_run(tmp_path / "other.binpb", builders.record(), device="Other")
    status, out, err = roofline(*flags)
    assert (status, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("roofline: ")
    assert message in line


def test_help_exits_0(roofline):
    status, out, _ = roofline("--help")
    assert status == 0
    for flag in ("--run", "--profile", "--format", "predict", "reproducible"):
        assert flag in out


def test_the_table_shows_the_rows_with_most_time_to_win_and_says_how_to_see_all(tmp_path, roofline):
    # By the profile 500 us and 50 us at the ceiling: a done row has more headroom than a slow one, and less to win.
    done = [builders.record(case_id=f"done{at}", ns=550_000 + at, bytes=400_000_000) for at in range(45)]
    slow = [builders.record(case_id=f"slow{at}", ns=70_000 + at) for at in range(15)]
    builders.write_run(tmp_path / "run.binpb", *done, *slow)

    def cases(*flags):
        status, out, err = roofline("--run=run.binpb", "--profile=gpu.textproto", *flags)
        assert (status, err) == (0, "")
        found = [line.split()[1] for line in out.splitlines() if line.startswith("SiLUFwdOp") and len(line.split()) > 6]
        return found, [line for line in out.splitlines() if "--top" in line], out

    shown, said, out = cases()
    assert len(shown) == 40 and shown[:15] == [f"slow{at}" for at in reversed(range(15))]
    assert said == ["these are the 40 rows with the most time to win, of 60: --top=all shows all, --top=N the first N"]
    assert "60 rows" in out  # sums and counts are of all
    assert cases("--top=3")[0] == ["slow14", "slow13", "slow12"]
    by_time = cases("--sort=op", "--top=2")
    assert len(by_time[0]) == 2 and by_time[1][0].startswith("these are the 2 rows that come first by --sort, of 60: ")
    for flags in (["--top=all"], ["--top=60"]):
        shown, said, _ = cases(*flags)
        assert len(shown) == 60 and said == []
    every = roofline("--run=run.binpb", "--format=csv")[1]
    assert len(every.splitlines()) == 61


def test_a_cut_table_without_a_row_below_the_ceiling_promises_no_time_to_win(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", *(builders.record(case_id=f"done{at}", ns=55_000) for at in range(3)))
    for flags in (["--profile=gpu.textproto"], []):  # at the ceiling; no profile has the device
        status, out, _ = roofline("--run=run.binpb", "--top=2", *flags)
        assert status == 0 and "these are the 2 rows that come first by --sort, of 3: " in out


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--top=0"], "--top=0: write a number above 0, or all"),
        (["--top=most"], "--top=most: write a number above 0, or all"),
        (["--top=5", "--format=json"], "--top needs --format=table; json has every row"),
    ],
)
def test_a_wrong_number_of_rows_is_bad_usage(roofline, flags, message):
    assert roofline(*flags) == (2, "", f"roofline: {message}\n")


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--op=Sliu*"], "--op=Sliu*; there are: GEMMFwdOp, SiLUFwdOp"),
        (["--family=x"], "--family=x; there are: elementwise, gemm"),
        (["--implementation=x"], "--implementation=x; there are: torch"),
        (
            ["--op=GEMM*", "--family=elementwise"],
            "--op=GEMM* --family=elementwise; of --op there are: GEMMFwdOp, SiLUFwdOp;"
            " of --family there are: elementwise, gemm",
        ),
    ],
)
def test_a_filter_without_a_match_lists_the_names(tmp_path, roofline, flags, message):
    builders.write_run(tmp_path / "run.binpb", builders.record(), builders.record(op="GEMMFwdOp", family="gemm"))
    status, out, err = roofline("--run=run.binpb", *flags)
    assert (status, out) == (2, "")
    assert err == f"roofline: no record matches {message}\n"


def test_filters_repeat_or_are_separated_by_commas(tmp_path, roofline):
    ops = ("AddFwdOp", "GEMMFwdOp", "SiLUFwdOp")
    builders.write_run(tmp_path / "run.binpb", *[builders.record(op=op, family=op) for op in ops])
    for flag in ("op", "family"):
        for flags in ([f"--{flag}=Add*,GEMM*"], [f"--{flag}=Add*", f"--{flag}=GEMM*"]):
            status, out, _ = roofline("--run=run.binpb", "--format=json", *flags)
            assert status == 0
            assert {row["op"] for row in json.loads(out)["rows"]} == set(ops[:2])


def test_prices_alone_are_predicted_for_a_named_gpu(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(ns=None), device="")
    status, _, err = roofline("--run=run.binpb", "--profile=gpu.textproto")
    assert status == 2 and "with --predict" in err and "''" not in err
    status, out, _ = roofline("--run=run.binpb", "--profile=gpu.textproto", "--predict")
    assert status == 0 and "predicted" in out and "no_time" not in out


@pytest.mark.parametrize("when", ["imports", "main"])
def test_ctrl_c_is_one_line(tmp_path, when):
    press = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    (tmp_path / "program.py").write_text(
        "from tileops.tools.cli import command\n"
        f"def press():\n    {press}\n    import time; time.sleep(60)\n"
        + ("press()\n" if when == "imports" else "command.run(lambda argv: press())\n")
    )
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} program.py; echo $?"],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("130\n", "program: interrupted\n")


def test_an_uncalibrated_profile_leaves_readings_blank_until_a_factor_is_assumed(tmp_path, roofline):
    record = builders.record(**POSSIBLE)
    builders.write_run(tmp_path / "run.binpb", record, device="NVIDIA H100 PCIe")
    status, out, err = roofline("--run=run.binpb", "--format=json")
    (row,) = json.loads(out)["rows"]
    assert (status, err, row["blank_reason"], row["efficiency"]) == (0, "", "uncalibrated", None)
    flags = ("--run=run.binpb", "--assume_calibration=0.9")
    status, out, err = roofline(*flags, "--format=json")
    (row,) = json.loads(out)["rows"]
    assert status == 0
    assert row["efficiency"] == pytest.approx(20e6 / (0.9 * 2e12) / 100e-6)
    assert json.loads(out)["profile"]["assumed_calibration"] == 0.9
    words = "ASSUMED, not measured: 0.9 of the theoretical value of every figure"
    assert words in err
    _, out, _ = roofline(*flags)
    assert words in out


def test_an_assumed_factor_that_is_no_fraction_is_bad_usage(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    for given, said in (("85", "write 85% or 0.85"), ("0", "a share is above 0%")):
        status, _, err = roofline("--run=run.binpb", "--profile=gpu.textproto", f"--assume_calibration={given}")
        assert status == 2 and f"flag --assume_calibration={given}: {said}" in err


def test_an_unknown_op_is_told_with_the_command_that_lists_the_ops_of_this_run(tmp_path, roofline):
    records = [builders.record(op=f"Op{number}FwdOp", **POSSIBLE) for number in range(9)]
    builders.write_run(tmp_path / "run.binpb", *records)
    chosen = ["--run=run.binpb", "--profile=gpu.textproto"]
    for flags, listing in (
        (chosen[:1], "--run=run.binpb"),
        (chosen, " ".join(chosen)),
        ([*chosen, "--predict"], "--predict " + " ".join(chosen)),
    ):
        status, _, err = roofline(*flags, "--op=GEM", "--implementation=torch")
        assert status == 2
        assert err.endswith(f" ./bazelw run //perf:roofline -- {listing} --implementation=all --top=all lists all 9\n")


@pytest.mark.requirement("3.8", "4.3.1")
def test_one_run_of_everything_is_read_as_the_model_says_in_every_form(tmp_path, roofline):
    """Impossible, unknown clock, no bytes, a tie, latency-bound; and a torn end."""
    path = builders.write_run(
        tmp_path / "run.binpb",
        builders.record(case_id="impossible", bytes=200_000_000),
        builders.record(case_id="zero", bytes=0),
        builders.record(case_id="events", source=benchmark_pb2.TIMING_SOURCE_CUDA_EVENTS),
        builders.record(case_id="tie", flops=250_000_000),
        builders.record(case_id="tiny", bytes=8_000, ns=9_000),
        builders.record(case_id="lost"),
    )
    path.write_bytes(path.read_bytes()[:-40])
    flags = ("--run=run.binpb", "--profile=gpu.textproto", "--implementation=all")
    status, out, err = roofline(*flags, "--format=json")
    document = json.loads(out)
    assert status == 1 and document["health"] == "failed"
    assert "run.binpb: at byte" in err
    rows = {row["case_id"]: row for row in document["rows"]}
    assert {name: (row["verdict"], row["blank_reason"]) for name, row in rows.items()} == {
        "impossible": ("formula_error", None),
        "zero": ("blank", "zero_bytes"),
        "events": ("blank", "no_cupti"),
        "tie": ("below", None),
        "tiny": ("latency_bound", None),
    }
    assert rows["tie"]["bound"] == "memory"
    assert document["summary"]["rows"] == 5
    for form, said in (("table", "formula error: SiLUFwdOp impossible"), ("html", 'id="errors"')):
        status, out, _ = roofline(*flags, f"--format={form}")
        assert status == 1 and said in out
    # The same rows of a GPU that no profile names: nothing is priced, nothing fails.
    builders.write_run(path, builders.record(bytes=2**60), device="Unknown GPU")
    status, out, _ = roofline("--run=run.binpb", "--format=json")
    (row,) = json.loads(out)["rows"]
    assert (status, row["blank_reason"]) == (0, "no_profile")


def test_a_lost_header_is_named_and_can_be_made_up_for(tmp_path, roofline):
    path = builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    builders.write_run(tmp_path / "good.binpb", builders.record(case_id="b", **POSSIBLE))
    builders.lose_header(path)
    status, out, err = roofline("--run=run.binpb", "--profile=gpu.textproto")
    (line,) = err.splitlines()
    assert (status, out) == (2, "")
    assert "run.binpb: at byte 0: " in line and "//perf:records --device_name=" in line
    status, out, err = roofline("--run=run.binpb")
    assert status == 0 and "no_profile" in out and "no header" in err
    flags = ("--run=run.binpb", "--run=good.binpb", "--profile=gpu.textproto")
    status, out, err = roofline(*flags, "--format=json")
    rows = {row["case_id"]: row["blank_reason"] for row in json.loads(out)["rows"]}
    assert (status, rows) == (0, {"a-float16": "no_profile", "b": None})
    assert "no header" in err and "it may be of another device" in err


def test_a_start_that_no_calendar_has_is_told_and_the_rows_priced(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE), started_s=10**15)
    status, out, err = roofline("--run=run.binpb", "--profile=gpu.textproto")
    assert status == 0 and "1 row, 1 below" in out and "started_at is not a time" in err


def test_a_sparse_peak_in_a_users_profile_is_refused_and_an_unlikely_figure_warned_of(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record())
    sparse = 'unit { key: "tensor_core.fp16" theoretical_flops_per_s: 0.5e14 source: "a datasheet" }'
    (tmp_path / "sparse.textproto").write_text(builders.PROFILE_TEXT + sparse)
    status, out, err = roofline("--run=run.binpb", "--profile=sparse.textproto")
    assert (status, out) == (2, "")
    assert "tensor_core.bf16 is 1e+14, twice tensor_core.fp16, 5e+13: a figure with sparsity; give the dense one" in err
    (tmp_path / "odd.textproto").write_text(builders.PROFILE_TEXT + sparse.replace("0.5e14", "0.8e14"))
    for more in ([], ["--predict"]):
        status, out, err = roofline("--run=run.binpb", "--profile=odd.textproto", "--format=json", *more)
        assert status == 0 and json.loads(out)["health"] == "ok"
        assert "odd.textproto: tensor_core.fp16 and tensor_core.bf16 differ" in err


@pytest.mark.parametrize("form", ["table", "json", "csv", "html"])
def test_a_run_without_records_is_nothing_to_report(tmp_path, roofline, form):
    path = builders.write_run(tmp_path / "run.binpb")
    status, out, err = roofline("--run=run.binpb", f"--format={form}", "--profile=gpu.textproto")
    assert (status, out) == (2, "")
    assert err == f"roofline: {path}: no records; there is nothing to report\n"
    path.write_bytes(path.read_bytes()[:-1])
    assert "run.binpb: no records; at byte " in roofline("--run=run.binpb", f"--format={form}")[2]


def test_an_empty_run_beside_another_is_named(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record())
    builders.write_run(tmp_path / "empty.binpb", started_s=2_000)
    status, out, _ = roofline("--run=run.binpb", "--run=empty.binpb", "--profile=gpu.textproto")
    assert status == 0 and "empty.binpb: no records" in out


def test_damage_in_a_file_of_json_lines_is_at_a_line(tmp_path, roofline):
    path = builders.write_run(tmp_path / "run.jsonl", builders.record(), builders.record(case_id="b"))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], "\n", lines[1].replace('"op"', '"opp"'), lines[2], lines[3]]))
    _, out, _ = roofline("--run=run.jsonl", "--profile=gpu.textproto")
    assert 'run.jsonl: at line 3: Message type "tileops.benchmark.BenchmarkRecord" has no field named "opp"' in out
    assert "run.jsonl: at line 5: the footer counts 2 records, and 1 record could be read" in out
    path.write_text("".join([lines[0], lines[1][:-9] + "\n", *lines[2:]]))
    _, out, _ = roofline("--run=run.jsonl", "--profile=gpu.textproto")
    assert "run.jsonl: at line 2: " in out and "(char" not in out and "line 1 column" not in out
