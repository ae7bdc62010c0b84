"""//perf:bench as a user runs it, on the CPU: what it selects, records and says."""

import os
import pty
import re
import threading

import pytest

from tileops.perf.runs import reader as runfile
from tileops.perf.runs import writer as run_writer
from tileops.proto import benchmark_pb2
from tileops.tests.harness.runs import ERROR, OK, SKIPPED, TIMEOUT, outcomes, plugin, whole


def test_a_run_on_the_cpu(tmp_path, bench):
    status, out, err = bench("--device=cpu", "--rows=all", plugin("implementations"))
    assert (status, out) == (0, "")
    found = outcomes(tmp_path / "tileops-run.binpb")
    assert {key: record.status for key, record in found.items()} == {
        ("small-float32", "torch"): OK,
        ("small-float32", "honest"): OK,
        ("middle-float16", "torch"): OK,
        ("middle-float16", "honest"): OK,
        ("huge-float32", "torch"): SKIPPED,
        ("huge-float32", "honest"): SKIPPED,
        ("few-float32", "torch"): OK,
        ("few-float32", "loop"): OK,
    }
    assert whole(tmp_path / "tileops-run.binpb")
    assert found["huge-float32", "torch"].flops == 1 << 40  # skipped, and priced all the same
    assert found["few-float32", "loop"].data_terms["touched"] == 3
    header = runfile.read_run(tmp_path / "tileops-run.binpb").header
    assert header.environment.device_kind == "cpu" and header.environment.torch_version and header.run_id
    assert "skipped 2, too large for this machine: a row may take 50% of the memory that is available, " in err
    assert "  ScaleFwdOp: huge-float32 (about 52 TiB)\n" in err
    assert f"//perf:roofline -- --run={tmp_path}/tileops-run.binpb" in err
    assert "8 records: 6 ok, 2 skipped, 0 errors, 0 timeouts" in err


def test_a_when_that_raises_costs_its_own_row(tmp_path, bench):
    status, _, err = bench(
        "--device=cpu", "--rows=all", "--op=Scale*", "--label=small", "--label=huge", plugin("fussy")
    )
    assert status == 1, err
    found = outcomes(tmp_path / "tileops-run.binpb")
    assert {key: record.status for key, record in found.items()} == {
        ("small-float32", "torch"): OK,
        ("small-float32", "wb"): ERROR,
        ("small-float32", "honest"): OK,
        ("huge-float32", "torch"): SKIPPED,
        ("huge-float32", "wb"): SKIPPED,
        ("huge-float32", "honest"): SKIPPED,
    }
    assert (
        found["small-float32", "wb"].message
        == "when of 'wb' raised RuntimeError: cannot tell (fussy.py:11, in _unsure)"
    )
    assert found["small-float32", "wb"].flops == 2048


def test_resume_refuses_another_environment(tmp_path, bench):
    header = benchmark_pb2.RunHeader(environment=benchmark_pb2.Environment(device_name="NVIDIA H200"))
    with run_writer.RunWriter(tmp_path / "run.binpb", header):
        pass
    status, _, err = bench("--device=cpu", "--resume", "--out=run.binpb", "--label=few", plugin("implementations"))
    assert status == 2 and "NVIDIA H200" in err


def test_resume_retries_what_failed(tmp_path, bench):
    flags = ("--device=cpu", "--rows=all", "--label=small", "--implementation=torch,moody,hangs", "--row_timeout_s=3")
    status, _, _ = bench(*flags, plugin("moody"))
    assert status == 1
    first = outcomes(tmp_path / "tileops-run.binpb")
    assert [record.status for record in first.values()] == [OK, ERROR, TIMEOUT]
    (tmp_path / "cured").touch()
    status, _, err = bench(*flags, "--resume", plugin("moody"))
    assert status == 0 and "retrying 2 that failed or timed out before" in err
    assert "resumed: 1 record kept, 2 to measure" in err
    assert "3 records: 3 ok, 0 skipped, 0 errors, 0 timeouts" in err
    found = outcomes(tmp_path / "tileops-run.binpb")  # the newest of each
    assert [record.status for record in found.values()] == [OK, OK, OK]
    assert found["small-float32", "torch"] == first["small-float32", "torch"]
    assert whole(tmp_path / "tileops-run.binpb")


def test_a_run_is_moved_aside_before_another_takes_its_name(tmp_path, bench):
    flags = ("--device=cpu", "--label=few", "--implementation=torch", plugin("implementations"))
    header = benchmark_pb2.RunHeader(environment=benchmark_pb2.Environment(device_kind="cuda"))
    with run_writer.RunWriter(tmp_path / "tileops-run.binpb", header) as writer:
        writer.write(benchmark_pb2.BenchmarkRecord(op="Old", case_id="a"))
    (tmp_path / "tileops-run.1.binpb").write_text("taken")
    status, _, err = bench(*flags)
    assert status == 0 and f" to {tmp_path}/tileops-run.2.binpb" in err
    assert list(outcomes(tmp_path / "tileops-run.2.binpb")) == [("a", "")]
    assert list(outcomes(tmp_path / "tileops-run.binpb")) == [("few-float32", "torch")]
    status, _, err = bench("--device=meta", "--label=few", "--out=tileops-run.binpb")  # nor may prices take it
    assert status == 0 and "tileops-run.3.binpb" in err
    status, _, err = bench("--device=meta", "--label=few", "--out=tileops-run.binpb")
    assert status == 0 and not (tmp_path / "tileops-run.4.binpb").exists()  # prices over prices


@pytest.mark.parametrize("text", ["a diary\n", "\x0a\x00", "{}\n"])
def test_a_file_that_is_no_run_is_not_overwritten(tmp_path, bench, text):
    (tmp_path / "notes").write_text(text)
    status, _, err = bench("--device=meta", "--out=notes")
    assert (
        status == 2
        and "exists, and this command replaces only its own earlier output" in err
        and len(err.splitlines()) == 1
    )
    assert (tmp_path / "notes").read_text() == text


def test_an_ending_of_no_run_file_is_refused(tmp_path, bench):
    status, _, err = bench("--device=meta", "--label=few", "--out=run.txt")
    assert status == 2 and "run.txt: a run file ends in .binpb or .jsonl, not in .txt" in err
    assert not (tmp_path / "run.txt").exists()


def test_samples_are_recorded_unless_a_small_file_is_asked_for(tmp_path, bench):
    for name, flags in (("with", ()), ("without", ("--nosamples",))):
        bench(
            "--device=cpu",
            f"--out={name}.binpb",
            "--label=few",
            "--implementation=torch",
            plugin("implementations"),
            *flags,
        )
    timings = [
        [record.timing for record in outcomes(tmp_path / f"{name}.binpb").values() if record.status == OK]
        for name in ("with", "without")
    ]
    assert timings[0] and timings[1]
    assert all(len(timing.sample_ns) == timing.samples for timing in timings[0])
    assert all(not timing.sample_ns and timing.samples for timing in timings[1])


def test_a_copy_without_history_records_the_revision_that_is_stated(tmp_path, bench, monkeypatch):
    monkeypatch.setenv("TILEOPS_REVISION", "abc123")
    status, _, _ = bench("--device=meta", "--out=run.binpb", "--label=few", plugin("implementations"))
    assert status == 0
    found = runfile.read_run(tmp_path / "run.binpb")
    list(found)
    assert found.header.environment.project_revision == "abc123" and not found.header.environment.project_dirty


def test_prices_without_a_device_are_reproducible(tmp_path, bench):
    for name in ("a.binpb", "b.binpb"):
        assert bench("--device=meta", "--reproducible", f"--out={name}", plugin("implementations"))[0] == 0
    _, _, err = bench("--device=meta", "--label=few", "--out=c.binpb")
    assert f'//perf:roofline -- --run={tmp_path}/c.binpb --predict --profile="NVIDIA H200"\n' in err
    assert (tmp_path / "a.binpb").read_bytes() == (tmp_path / "b.binpb").read_bytes()
    assert {record.status for record in outcomes(tmp_path / "a.binpb").values()} == {OK}


def test_list_prints_rows_and_runs_nothing(tmp_path, bench):
    status, out, _ = bench("--list", "--op=Scatter*", plugin("implementations"))
    assert (status, out) == (0, "ScatterCountFwdOp\tfew-float32\ttorch,loop\n")
    assert not list(tmp_path.iterdir())


def test_several_devices_share_the_rows_and_each_row_stays_on_one(tmp_path, bench):
    flags = ("--rows=all", "--label=small,middle,few", plugin("implementations"))
    status, _, err = bench("--device=cpu,cpu", *flags)
    assert status == 0 and "(cpu, cpu)" in err
    assert bench("--device=cpu", *flags, "--out=one.binpb")[0] == 0
    found, one = outcomes(tmp_path / "tileops-run.binpb"), outcomes(tmp_path / "one.binpb")
    assert {key: (record.status, record.flops) for key, record in found.items()} == {
        key: (record.status, record.flops) for key, record in one.items()
    }
    workers: dict[str, set[int]] = {}
    for (case_id, _), record in found.items():
        workers.setdefault(case_id, set()).add(record.device_index)
    assert all(len(of_row) == 1 for of_row in workers.values())
    assert set.union(*workers.values()) == {0, 1}
    assert all(record.harness_s > 0 for record in found.values())
    assert whole(tmp_path / "tileops-run.binpb")


def test_a_terminal_is_shown_the_row_the_errors_and_the_time_left(bench):
    ours, theirs = pty.openpty()
    shown = []
    reader = threading.Thread(target=lambda: shown.extend(iter(lambda: _read(ours), b"")))
    reader.start()
    status, _, _ = bench(
        "--device=cpu",
        "--rows=all",
        "--label=small",
        "--row_timeout_s=60",
        "--implementation=torch,raises,survivor",
        plugin("trouble"),
        stderr=theirs,
    )
    os.close(theirs)
    reader.join(timeout=60)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(shown).decode())
    assert status == 1
    assert re.search(r"0/3 0 errors .* left ScaleFwdOp small-float32 torch", text), text
    assert re.search(r"2/3 1 errors .* left ScaleFwdOp small-float32 survivor", text), text
    assert "error: ScaleFwdOp small-float32 raises: ValueError: a line and another" in text


def _read(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:  # how the end of a terminal reads
        return b""


def test_entries_without_an_implementation_are_skipped(tmp_path, bench):
    status, _, err = bench("--device=cpu", "--label=few")
    assert (
        status == 1 and "no implementation: bring one" in err and "nothing was measured: every row was skipped" in err
    )
    assert [record.status for record in outcomes(tmp_path / "tileops-run.binpb").values()] == [SKIPPED]


def test_globs_may_share_a_flag(bench):
    for flags in (
        ["--op=Scat*,Sca*FwdOp", "--label=small, few"],
        ["--op=Scatter*", "--op=ScaleFwdOp", "--label=few,small"],
    ):
        status, out, err = bench("--list", *flags, plugin("implementations"))
        assert status == 0, err
        assert [line.split("\t")[0] for line in out.splitlines()] == ["ScaleFwdOp", "ScatterCountFwdOp"]


def test_a_when_that_raises_keyboard_interrupt_is_an_error_of_its_row_and_does_not_end_the_list(tmp_path, bench):
    (tmp_path / "mine.py").write_text(
        """
import tileops_generated_toy as generated
from tileops.ops.implementations import implementation


def when(call):
    raise KeyboardInterrupt


class ScaleFwdOp(generated.ScaleFwdOp):
    @implementation("torch")
    def _torch(self, call, x):
        return x * self.params["factor"]


ScaleFwdOp.register("mine", lambda op, call, x: x, when=when)
"""
    )
    flags = ("--op=ScaleFwdOp", "--label=small", "--plugin=mine.py")
    status, out, err = bench("--list", "--device=cpu", "--implementation=torch,mine", *flags)
    assert (status, out) == (0, "ScaleFwdOp\tsmall-float32\ttorch,mine\n"), err


def test_a_plugin_that_ends_the_program_is_said(tmp_path, bench):
    (tmp_path / "script.py").write_text("raise SystemExit(7)\n")
    status, _, err = bench("--list", "--plugin=script.py")
    assert status == 2 and len(err.splitlines()) == 1 and "script.py: SystemExit: 7" in err


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (["--op=Nothing*"], "fits no op"),
        (["--op=Scale*,"], "--op= fits no op"),
        (["--shard=3/2"], "write i/n"),
        (["--device=cuda:99"], "--device=cuda:99: "),
        (["--device=gpu"], "write auto, cuda, cuda:N, cuda:all, cpu, meta"),
        (["--device=cuda:0,cpu"], "devices of one kind"),
        (["--device=cuda:1,cuda:1"], "two rows at once on one GPU"),
        (["--device=cuda:all"], "--device=cuda:all: "),
        (["--reproducible", "--device=cpu"], "--reproducible needs"),
        (["--plugin=nowhere.py"], "nowhere.py"),
        (["--implementation=cutlass"], "--implementation=cutlass"),
        (["--out=missing/run.binpb", "--device=meta"], "missing/run.binpb"),
        (["--spec_dir=missing"], "exclude each other"),
    ],
)
def test_bad_usage_is_one_line_and_2(bench, flags, what):
    status, out, err = bench(*flags)
    assert (status, out) == (2, "")
    assert what in err and len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("flag", ["--row_timeout_s=nan", "--max_row_seconds=inf"])
def test_a_limit_that_is_no_number_is_a_usage_error(bench, flag):
    status, _, err = bench("--device=cpu", "--label=small", flag)
    assert status == 2 and "must be a number of seconds" in err
