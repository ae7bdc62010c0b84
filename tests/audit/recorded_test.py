"""The recorded audit of the H200: its counters, judged by today's formulas, give its verdicts again."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tileops.perf import paths
from tileops.proto import audit_pb2

RECORDED = sorted(paths.data_path("audit", "recorded", "h200").glob("*.binpb"))


@pytest.mark.parametrize("path", RECORDED, ids=[path.stem for path in RECORDED])
def test_todays_formulas_pass_the_recorded_counters(path, tmp_path):
    recorded = audit_pb2.AuditReport.FromString(path.read_bytes())
    out = tmp_path / "audit.json"
    done = subprocess.run(
        [
            sys.executable, "-m", "tileops.audit.bytes", f"--from_csv={path.with_suffix('.counters.txt')}",
            "--format=json", f"--out={out}",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    today = {(row["op"], row["case_id"]): row["verdict"] for row in json.loads(out.read_text())["rows"]}
    then = {
        (row.op, row.case_id): audit_pb2.Verdict.Name(row.verdict).removeprefix("VERDICT_")
        for row in recorded.rows
    }
    assert today == then
    assert set(then.values()) <= {"PASS", "WARN"}


def test_every_op_of_the_record_was_measured():
    for path in RECORDED:
        for row in audit_pb2.AuditReport.FromString(path.read_bytes()).rows:
            assert row.measured_read_bytes > 0 and row.kernels > 0
