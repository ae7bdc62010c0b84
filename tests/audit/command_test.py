"""//audit:bytes as a user runs it, with toy ops on the CPU and a program that stands in for ncu."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from tileops.proto import audit_pb2
from tileops.tests.audit import ncu_output
from tileops.tests.harness import toys

FAKE_NCU = pathlib.Path(__file__).absolute().parent / "fake_ncu.py"
READ = 32 * 64 * 4  # of the toy's row "small": its float32 input, once
ROW = ("--op=ScaleFwdOp", "--label=small")


@pytest.fixture
def ncu(tmp_path):
    """Path of an executable that runs the stand-in under this Python."""
    path = tmp_path / "ncu"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE_NCU}" "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def start(tmp_path, ncu):
    """Starts the command with the toy ops of a plugin; `fake` is what the stand-in does."""

    def started(*flags, fake=None, program=ncu, plugin="implementations"):
        environment = dict(os.environ, BUILD_WORKING_DIRECTORY=str(tmp_path), FAKE_NCU=json.dumps(fake or {}))
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tileops.audit.bytes",
                f"--generated_dir={toys.GENERATED}",
                f"--plugin={toys.plugin(plugin)}",
                f"--ncu={program}",
                *flags,
            ],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    return started


@pytest.fixture
def audit(start, tmp_path):
    """Runs it to its end; returns (status, stdout, stderr, report)."""

    def run(*flags, **settings):
        out, err = (process := start(*flags, **settings)).communicate(timeout=240)
        saved = tmp_path / "tileops-audit.binpb"
        report = audit_pb2.AuditReport.FromString(saved.read_bytes()) if saved.exists() else None
        return process.returncode, out, err, report

    return run


@pytest.mark.requirement("4.5.1", "4.5.4")
def test_a_covered_read_half_passes_and_says_what_it_was_measured_by(audit):
    status, out, _, report = audit(*ROW, fake={"read": READ, "write": 7})
    assert status == 0
    (row,) = report.rows
    assert (row.op, row.case_id, row.verdict) == ("ScaleFwdOp", "small-float32", audit_pb2.VERDICT_PASS)
    assert (row.declared_read_bytes, row.measured_read_bytes, row.measured_write_bytes) == (READ, READ, 7)
    assert list(row.kernel_names) == ["scale_kernel"] and row.kernels == 1
    assert row.implementation  # the one that the op chose
    assert list(row.premises) == [0, 1] and len(report.premises) == 2
    assert (report.device_name, report.profiler_version) == ("cpu", "2099.1.0.0")
    assert "PASS" in out and "Premise 1" in out


@pytest.mark.requirement("4.5.1")
def test_a_claim_of_reads_that_were_not_made_fails_with_status_1(audit):
    status, out, err, report = audit(*ROW, fake={"read": READ // 2, "write": 0})
    assert status == 1
    assert report.rows[0].verdict == audit_pb2.VERDICT_FAIL
    assert "0.5000 of the declared" in out and "FAIL: 1 of 1 row; the formula claims reads" in err


@pytest.mark.requirement("4.5.7")
def test_a_planted_exception_is_evaluated_by_the_process_that_made_the_call(audit, tmp_path):
    planted = tmp_path / "planted.py"
    planted.write_text(
        "from tileops.audit import exceptions\n"
        "one = exceptions.ReadException(op='ScaleFwdOp', when='N < 100', reason='planted')\n"
        "exceptions.EXCEPTIONS = (one,)\n"
    )
    flags = (*ROW, f"--plugin={planted}", "--save_csv=counters.txt")
    status, out, _, report = audit(*flags, fake={"read": READ // 2, "write": 0})
    assert (status, report.rows[0].verdict) == (0, audit_pb2.VERDICT_EXEMPT), out
    assert (report.rows[0].exemption_condition, list(report.rows[0].premises)) == ("N < 100", [0])
    assert '"conditions": {"N < 100": true}' in (tmp_path / "counters.txt").read_text()
    # Without the exception the saved counters fail: what the call met exempts nothing by itself.
    assert audit("--from_csv=counters.txt")[0] == 1


def test_json_has_the_rows_by_verdict_name(audit, tmp_path):
    status, out, _, _ = audit(*ROW, "--format=json", f"--out={tmp_path}/audit.json", fake={"read": READ, "write": 0})
    assert (status, out) == (0, "")
    found = json.loads((tmp_path / "audit.json").read_text())
    assert found["summary"]["PASS"] == 1
    assert found["rows"][0]["verdict"] == "PASS" and found["rows"][0]["ratio"] == 1.0


def test_missing_ncu_is_an_error_of_the_row_with_what_to_do(audit):
    status, out, err, report = audit(*ROW, program="no-such-ncu")
    assert status == 2
    assert report.rows[0].verdict == audit_pb2.VERDICT_ERROR
    assert "no such program" in report.rows[0].reason and "--ncu" in report.rows[0].reason
    assert "ERROR: 1 of 1 row; no usable measurement" in err
    assert "Traceback" not in err


def test_forbidden_counters_are_an_error_with_the_vendors_words_and_what_to_do(audit):
    words = "ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"
    _, _, _, report = audit(*ROW, fake={"errors": [words], "status": 1})
    assert report.rows[0].verdict == audit_pb2.VERDICT_ERROR
    assert words in report.rows[0].reason
    assert "--cap-add=SYS_ADMIN" in report.rows[0].reason


def test_a_run_that_measures_nothing_leaves_the_last_measurement_alone(audit, tmp_path):
    audit(*ROW, "--save_csv=keep.txt", fake={"read": READ, "write": 0})
    kept = [(tmp_path / name).read_bytes() for name in ("keep.txt", "tileops-audit.binpb")]
    status, out, err, _ = audit(*ROW, "--save_csv=keep.txt", program="no-such-ncu")
    assert status == 2 and "ERROR" in out
    assert "nothing was measured: tileops-audit.binpb stays as it was" in err
    assert [(tmp_path / name).read_bytes() for name in ("keep.txt", "tileops-audit.binpb")] == kept
    # A file that the user names gets what happened.
    audit(*ROW, "--out=tileops-audit.binpb", program="no-such-ncu")
    assert (
        audit_pb2.AuditReport.FromString((tmp_path / "tileops-audit.binpb").read_bytes()).rows[0].verdict
        == audit_pb2.VERDICT_ERROR
    )


def test_ncu_by_a_relative_path_is_found_where_the_user_stands(audit, ncu):
    status, _, _, report = audit(*ROW, fake={"read": READ, "write": 7}, program=f"./{pathlib.Path(ncu).name}")
    assert status == 0 and report.rows[0].verdict == audit_pb2.VERDICT_PASS


@pytest.mark.requirement("4.5.12")
def test_no_verdict_is_no_success(audit):
    status, out, err, report = audit("--op=ScatterCountFwdOp", fake={"read": 96, "write": 0})
    assert {row.verdict for row in report.rows} == {audit_pb2.VERDICT_NO_VERDICT}
    assert status == 2
    assert "NO-VERDICT: 1 of 1 row, which is not a pass; the op declares no read half" in err and "NO-VERDICT" in out


def test_a_row_that_dies_is_an_error_that_quotes_it(audit):
    _, _, _, report = audit(*ROW, "--implementation=raises", fake={"read": 1, "write": 1}, plugin="trouble")
    assert report.rows[0].verdict == audit_pb2.VERDICT_ERROR
    assert "error code (1)" in report.rows[0].reason and "Error" in report.rows[0].reason


def test_a_cut_off_log_is_an_error(audit):
    _, _, _, report = audit(*ROW, fake={"read": READ, "write": 0, "cut": -3})
    assert report.rows[0].verdict == audit_pb2.VERDICT_ERROR
    assert "cut off" in report.rows[0].reason


def test_a_hang_is_an_error_after_the_rows_time(audit):
    _, _, _, report = audit(*ROW, "--row_timeout_s=0.5", fake={"sleep": 100})
    assert report.rows[0].verdict == audit_pb2.VERDICT_ERROR
    assert "the row took more than 0.5 s" in report.rows[0].reason


def test_saved_counters_are_judged_again_without_ncu(audit, tmp_path):
    audit(*ROW, "--save_csv=counters.txt", fake={"read": READ, "write": 0})
    (tmp_path / "tileops-audit.binpb").unlink()
    status, out, _, report = audit("--from_csv=counters.txt", "--out=again.binpb", program="no-such-ncu")
    assert status == 0 and report is None
    (row,) = audit_pb2.AuditReport.FromString((tmp_path / "again.binpb").read_bytes()).rows
    assert (row.case_id, row.verdict, row.measured_read_bytes) == ("small-float32", audit_pb2.VERDICT_PASS, READ)
    whole = (tmp_path / "counters.txt").read_text()
    (tmp_path / "counters.txt").write_text(whole[: whole.rindex("# tileops-audit end")])
    status, out, _, _ = audit("--from_csv=counters.txt", "--format=json")
    assert status == 2
    assert "cut off" in json.loads(out)["rows"][0]["reason"]
    (tmp_path / "counters.txt").write_text(whole[: whole.rindex("# tileops-audit file")])
    status, out, err, _ = audit("--from_csv=counters.txt", "--format=json")
    found = json.loads(out)
    assert (status, found["summary"]["PASS"]) == (2, 1)
    assert "cut off after 1 call:" in found["notes"][0] and "cut off after 1 call:" in err
    status, _, err, _ = audit("--from_csv=counters.txt", "--out=counters.txt")
    assert status == 2 and "--out=counters.txt is a file that this command reads" in err


def test_an_ncu_run_by_itself_is_judged_as_the_row_that_the_flags_name(audit, tmp_path):
    (tmp_path / "bare.csv").write_text(ncu_output.details([("k", f"{READ:,}", "0")]))
    status, out, _, _ = audit("--from_csv=bare.csv", *ROW, "--format=json")
    assert status == 0 and json.loads(out)["rows"][0]["verdict"] == "PASS"
    status, _, err, _ = audit("--from_csv=bare.csv", "--op=ScaleFwdOp")
    assert status == 2 and "--case" in err
    status, out, err, _ = audit("--from_csv=bare.csv", "--case=small-float32", "--op=ScaleFwdOp", "--format=json")
    assert status == 0 and json.loads(out)["rows"][0]["case_id"] == "small-float32"
    status, _, err, _ = audit("--from_csv=none.csv", *ROW)
    assert status == 2 and "none.csv: No such file" in err


@pytest.mark.parametrize(
    ("flag", "said"), [("--device=cpu", "only a GPU"), ("--op=Nothing", "fits no op"), ("--format=xml", "format")]
)
def test_bad_usage_is_status_2_and_one_line(audit, flag, said):
    status, out, err, _ = audit(flag)
    assert (status, out) == (2, "")
    assert said in err and len(err.splitlines()) == 1


def test_ctrl_c_keeps_what_was_measured_and_skips_the_rest(start, tmp_path):
    process = start(
        "--op=ScaleFwdOp", "--label=small,middle", "--rows=all", fake={"sleep": 30, "read": READ, "write": 0}
    )
    time.sleep(0.5)
    deadline = time.monotonic() + 60
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not children.read_text().strip() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)  # past ncu --version, in the first row
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted after 0 of 2 rows" in err
    report = audit_pb2.AuditReport.FromString((tmp_path / "tileops-audit.binpb").read_bytes())
    assert [row.verdict for row in report.rows] == [audit_pb2.VERDICT_SKIPPED] * 2
    assert "SKIPPED" in out
