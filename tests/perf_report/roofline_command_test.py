"""//perf:roofline as a user runs it: flags, output and exit status."""

import csv
import json
import os
import pty
import resource
import signal
import subprocess
import sys

import pytest

from tileops.proto import benchmark_pb2
from tileops.tests.perf_report import builders

# 20e6 bytes in 100 us, 4.8e12 bytes/s at most: possible. In 1 us it is not.
POSSIBLE = dict(bytes=20_000_000, flops=1_000)


@pytest.fixture
def start(tmp_path):
    """Starts the command in `tmp_path`, its output in pipes; returns the process."""
    environment = dict(os.environ, BUILD_WORKING_DIRECTORY=str(tmp_path))
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)

    def popen(*flags, **settings):
        return subprocess.Popen(
            [sys.executable, "-m", "tileops.perf.roofline", *flags],
            **{"env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | settings,
        )

    (tmp_path / "gpu.textproto").write_text(builders.PROFILE_TEXT)
    return popen


@pytest.fixture
def roofline(start):
    """Runs the command in `tmp_path`; returns (status, stdout, stderr)."""

    def run(*flags):
        command = start(*flags, text=True)
        out, err = command.communicate()
        return command.returncode, out, err

    return run


def test_a_healthy_run_exits_0(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    status, out, err = roofline("--run=run.binpb", "--profile=gpu.textproto")
    assert (status, err) == (0, "")
    assert "health: ok" in out


def test_a_formula_error_exits_1(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(ns=1_000))
    status, out, _ = roofline("--run=run.binpb", "--profile=gpu.textproto")
    assert status == 1
    assert "health: failed" in out


def test_a_cpu_run_is_blank_with_no_cupti(tmp_path, roofline):
    builders.write_run(
        tmp_path / "run.binpb",
        builders.record(source=benchmark_pb2.TIMING_SOURCE_HOST_CLOCK),
        device="Some CPU",
    )
    status, out, _ = roofline("--run=run.binpb")
    assert status == 0
    assert "blank: no_cupti" in out


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
        builders.write_run(
            tmp_path / "run.binpb", builders.record(**POSSIBLE), started_s=started_s
        )
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
    assert '["SiluFwdOp","elementwise","a-float16"' in page


def test_out_is_relative_to_where_the_user_stands(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    status, out, _ = roofline("--run=run.binpb", "--format=csv", "--out=report.csv")
    assert (status, out) == (0, "")
    (row,) = csv.DictReader((tmp_path / "report.csv").open())
    assert row["op"] == "SiluFwdOp"


def test_filters(tmp_path, roofline):
    builders.write_run(
        tmp_path / "run.binpb",
        builders.record(op="SiluFwdOp", implementation="torch"),
        builders.record(op="SiluFwdOp", implementation="triton", ns=90_000),
        builders.record(op="GemmFwdOp", family="gemm"),
    )

    def rows(*flags):
        out = roofline("--run=run.binpb", "--format=json", "--sort=op", *flags)[1]
        return [(r["op"], r["implementation"]) for r in json.loads(out)["rows"]]

    assert rows() == [("GemmFwdOp", "torch"), ("SiluFwdOp", "triton")]
    assert rows("--family=gemm") == [("GemmFwdOp", "torch")]
    assert rows("--op=Silu*,Gemm*", "--implementation=torch") == [
        ("GemmFwdOp", "torch"),
        ("SiluFwdOp", "torch"),
    ]
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
        (["--run=run.binpb", "--profile=missing.textproto"], "missing.textproto"),
        (["--run=run.binpb", "--profile=No GPU"], "no profile of that name: 'No GPU'"),
        (["--run=run.binpb", "--predict"], "no profile names the device"),
        (["--run=run.binpb", "--run=other.binpb"], "several devices"),
        (["--run=run.binpb", "--out=missing/report"], "cannot write"),
        (["--run=run.binpb", "--out=run.binpb"], "--out=run.binpb is a file that this command reads"),
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


def test_runs_come_through_a_pipe(tmp_path, start):
    for suffix in (".jsonl", ".binpb"):
        path = builders.write_run(tmp_path / f"run{suffix}", builders.record(**POSSIBLE))
        command = start("--run=/dev/stdin", "--format=json", stdin=subprocess.PIPE)
        out, err = command.communicate(path.read_bytes())
        assert (command.returncode, err) == (0, b"")
        assert len(json.loads(out)["rows"]) == 1


@pytest.mark.parametrize("flag", ["--format=table", "--help"])
def test_a_reader_that_left_is_no_formula_error(tmp_path, start, flag):
    records = [builders.record(case_id=f"c{i}", **POSSIBLE) for i in range(2_000)]
    builders.write_run(tmp_path / "run.binpb", *records)
    command = start("--run=run.binpb", flag)
    command.stdout.close()
    assert command.stderr.read() == b""
    assert command.wait() == 0


@pytest.mark.parametrize("rows", [1, 2_000])
def test_a_full_disk_under_stdout_is_one_line(tmp_path, start, rows):
    records = [builders.record(case_id=f"c{i}", **POSSIBLE) for i in range(rows)]
    builders.write_run(tmp_path / "run.binpb", *records)
    with open("/dev/full", "w") as full:
        command = start("--run=run.binpb", stdout=full)
    assert command.stderr.read() == (
        b"roofline: cannot write the output: No space left on device\n"
    )
    assert command.wait() == 2


def limit_files_to(size):
    """Returns what makes a process fail to write more than `size` bytes to a file."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path, start, roofline):
    records = [builders.record(case_id=f"c{i}", **POSSIBLE) for i in range(100)]
    builders.write_run(tmp_path / "run.binpb", *records)
    flags = ["--run=run.binpb", "--format=json", "--out=report"]
    assert roofline(*flags)[0] == 0
    size = (tmp_path / "report").stat().st_size
    (tmp_path / "report").write_text("old")
    before = sorted(tmp_path.iterdir())
    command = start(*flags, preexec_fn=limit_files_to(size - 1))
    (line,) = command.stderr.read().splitlines()
    assert b"cannot write" in line and b"report: File too large" in line
    assert command.wait() == 2
    assert (tmp_path / "report").read_text() == "old"
    assert sorted(tmp_path.iterdir()) == before


def test_no_room_for_the_temporary_file_is_one_line(tmp_path, start):
    records = [builders.record(case_id=f"c{i}", **POSSIBLE) for i in range(10)]
    builders.write_run(tmp_path / "run.binpb", *records)
    command = start("--run=run.binpb", preexec_fn=limit_files_to(1_000))
    (line,) = command.stderr.read().splitlines()
    assert b"cannot keep the rows of the report in " in line and b"TMPDIR" in line
    assert command.wait() == 2


def test_out_keeps_links_and_modes_and_writes_to_pipes(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    assert roofline("--run=run.binpb", "--out=link")[0] == 0
    assert (tmp_path / "link").is_symlink()
    assert "health: ok" in (tmp_path / "real").read_text()
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert roofline("--run=run.binpb", "--out=pipe")[0] == 0
    assert b"health: ok" in os.read(reader, 100_000)
    os.close(reader)


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--op=Sliu*"], "--op=Sliu*; there are op: GemmFwdOp, SiluFwdOp"),
        (["--family=x"], "--family=x; there are family: elementwise, gemm"),
        (["--implementation=x"], "--implementation=x; there are implementation: torch"),
        (
            ["--op=Gemm*", "--family=elementwise"],
            "--op=Gemm* --family=elementwise; there are op: GemmFwdOp, SiluFwdOp;"
            " family: elementwise, gemm",
        ),
    ],
)
def test_a_filter_without_a_match_lists_the_names(tmp_path, roofline, flags, message):
    builders.write_run(
        tmp_path / "run.binpb",
        builders.record(),
        builders.record(op="GemmFwdOp", family="gemm"),
    )
    status, out, err = roofline("--run=run.binpb", *flags)
    assert (status, out) == (2, "")
    assert err == f"roofline: no record passes {message}\n"


def test_filters_repeat_or_are_separated_by_commas(tmp_path, roofline):
    ops = ("AddFwdOp", "GemmFwdOp", "SiluFwdOp")
    builders.write_run(
        tmp_path / "run.binpb", *[builders.record(op=op, family=op) for op in ops]
    )
    for flag in ("op", "family"):
        for flags in ([f"--{flag}=Add*,Gemm*"], [f"--{flag}=Add*", f"--{flag}=Gemm*"]):
            status, out, _ = roofline("--run=run.binpb", "--format=json", *flags)
            assert status == 0
            assert {row["op"] for row in json.loads(out)["rows"]} == set(ops[:2])


def _shown(terminal: int) -> bytes:
    """What a terminal was shown until its other end was closed."""
    shown = b""
    try:
        while chunk := os.read(terminal, 10_000):
            shown += chunk
    except OSError:
        pass  # What Linux says where the other end of a terminal closed.
    return shown


def test_a_problem_is_told_once_on_a_terminal(tmp_path, start):
    path = builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    path.write_bytes(path.read_bytes()[:-1])
    ours, theirs = pty.openpty()
    command = start("--run=run.binpb", stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = _shown(ours)
    assert command.wait() == 0
    assert shown.count(b"no footer") == 1


def test_stderr_shows_control_characters_escaped(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(op="a\x1b[2J\nb"))
    _, _, err = roofline("--run=run.binpb", "--op=x")
    assert err.endswith("op: a\\x1b[2J\\nb\n")


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
        "from tileops.perf import command\n"
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
    flags = ("--run=run.binpb", "--profile=gpu.textproto", "--assume_calibration=85")
    status, _, err = roofline(*flags)
    assert status == 2 and "85 is no fraction" in err


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
    for form, said in (("table", "formula error: SiluFwdOp impossible"), ("html", 'id="errors"')):
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
    assert "no header" in err and "not known to be of the same device" in err


def test_a_start_that_no_calendar_has_is_told_and_the_rows_priced(tmp_path, roofline):
    builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE), started_s=10**15)
    status, out, err = roofline("--run=run.binpb", "--profile=gpu.textproto")
    assert status == 0 and "1 row, 1 below" in out and "started_at is no time" in err


@pytest.mark.parametrize("form", ["table", "json", "csv", "html"])
def test_a_closed_stdout_is_one_line(tmp_path, roofline, start, form):
    builders.write_run(tmp_path / "run.binpb", builders.record(**POSSIBLE))
    flags = ("--run=run.binpb", "--profile=gpu.textproto", f"--format={form}")
    command = start(*flags, preexec_fn=lambda: os.close(1))
    _, err = command.communicate()
    assert (command.returncode, err) == (2, b"roofline: stdout is closed; --out names a file to write\n")
    command = start(*flags, f"--out={tmp_path}/report", preexec_fn=lambda: os.close(1))
    assert (command.communicate()[1], command.returncode) == (b"", 0)


@pytest.mark.parametrize("form", ["table", "csv", "html"])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_stdout_holds_what_out_would_whatever_the_locale(tmp_path, start, form, encoding):
    builders.write_run(tmp_path / "run.binpb", builders.record(op="\u00c4\u65e5\u672cFwdOp", **POSSIBLE))
    flags = ("--run=run.binpb", "--profile=gpu.textproto", f"--format={form}")
    environment = dict(
        os.environ,
        BUILD_WORKING_DIRECTORY=str(tmp_path),
        PYTHONPATH=os.pathsep.join(sys.path),
        PYTHONIOENCODING=encoding,
    )
    command = start(*flags, env=environment)
    out, err = command.communicate()
    assert (command.returncode, err) == (0, b"")
    assert start(*flags, "--out=report").wait() == 0
    assert out == (tmp_path / "report").read_bytes()


def test_a_terminal_of_another_encoding_shows_escapes(tmp_path, start):
    builders.write_run(tmp_path / "run.binpb", builders.record(op="\u65e5FwdOp", **POSSIBLE))
    environment = dict(
        os.environ,
        BUILD_WORKING_DIRECTORY=str(tmp_path),
        PYTHONPATH=os.pathsep.join(sys.path),
        PYTHONIOENCODING="ascii",
        TERM="dumb",
        COLUMNS="300",
    )
    ours, theirs = pty.openpty()
    command = start("--run=run.binpb", "--profile=gpu.textproto", stdout=theirs, env=environment)
    os.close(theirs)
    shown = _shown(ours)
    assert (command.communicate()[1], command.returncode) == (b"", 0)
    assert b"\\u65e5FwdOp" in shown
