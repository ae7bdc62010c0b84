"""The recorded audit of the H200: its counters, judged by today's formulas, give its verdicts again.

An implemented op that is not in it is named below, with the reason: it has to be measured, or cannot be.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tileops.ops import catalogue
from tileops.proto import audit_pb2
from tileops.tools.cli import paths

IMPLEMENTED = {name: op_class for name, op_class in catalogue.load().items() if op_class.STATUS == "implemented"}
# Ops and branches of a price that the newest record lacks, and why. An op that is implemented without an H200 at hand
# is named here until it is measured.
UNMEASURED = {"AlibiFwdOp": "its formula declares no read", "SinusoidalFwdOp": "its formula declares no read"}
# Families whose ops were added after the last audit.
NOT_YET = ("convolution", "fft", "pool", "quantization")
UNMEASURED |= {
    name: f"the family {op.FAMILY} was added after the last audit"
    for name, op in IMPLEMENTED.items()
    if op.FAMILY in NOT_YET
}
UNMEASURED |= dict.fromkeys(
    ("AmaxFwdOp", "AminFwdOp", "MeanFwdOp", "ProdFwdOp", "VectorNormFwdOp"), "added after the last audit"
)
UNMEASURED_BRANCHES = {
    ("DropoutFwdOp", "flops: training = False"): "a copy that the driver makes, which counters do not see",
    # Every dtype is read alike: the branch is one of flops.
    ("AbsFwdOp", "flops: T = uint8"): "not measured since uint8 has a branch of its own",
    ("ReLUFwdOp", "flops: T = uint8"): "not measured since uint8 has a branch of its own",
}
ROWS = {(name, case.case_id) for name, op_class in IMPLEMENTED.items() for case in op_class.CASES}
RECORDED = sorted(paths.data_path("audit", "recorded", "h200").glob("*.binpb"))


@pytest.mark.requirement("3.10")
@pytest.mark.parametrize("path", RECORDED, ids=[path.stem for path in RECORDED])
def test_todays_formulas_pass_the_recorded_counters(path, tmp_path):
    recorded = audit_pb2.AuditReport.FromString(path.read_bytes())
    out = tmp_path / "audit.json"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tileops.audit.bytes",
            f"--from_csv={path.with_suffix('.counters.txt')}",
            "--format=json",
            f"--out={out}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    then = {
        (row.op, row.case_id): audit_pb2.Verdict.Name(row.verdict).removeprefix("VERDICT_") for row in recorded.rows
    }
    # Rows that the manifest has no more are told, and are no failure of today's formulas.
    gone = {key for key in then if key not in ROWS}
    assert done.returncode == (2 if gone else 0), done.stdout + done.stderr
    assert all(f"{op} has no row {case_id} (any more)" in done.stderr for op, case_id in gone)
    today = {(row["op"], row["case_id"]): row["verdict"] for row in json.loads(out.read_text())["rows"]}
    assert today == {key: verdict for key, verdict in then.items() if key not in gone}
    assert set(then.values()) <= {"PASS", "WARN"}


def test_there_is_a_record_with_its_counters():
    assert RECORDED
    assert all(path.with_suffix(".counters.txt").is_file() for path in RECORDED)


@pytest.mark.parametrize("op", sorted(IMPLEMENTED))
def test_the_newest_record_takes_every_branch_that_rows_of_an_implemented_op_take(op):
    rows = audit_pb2.AuditReport.FromString(RECORDED[-1].read_bytes()).rows
    recorded = {row.case_id for row in rows if row.op == op and (op, row.case_id) in ROWS}
    if op in UNMEASURED:
        assert not recorded
        pytest.skip(f"{op}: {UNMEASURED[op]}")
    op_class = IMPLEMENTED[op]
    taken = {branch for case in op_class.CASES if case.case_id in recorded for branch in case.branches}
    lacking = {op_class.BRANCHES[at] for case in op_class.CASES for at in case.branches if at not in taken}
    assert lacking == {branch for name, branch in UNMEASURED_BRANCHES if name == op}


@pytest.mark.requirement("4.5.13")
def test_no_recorded_row_falls_short_of_its_declared_reads_at_all():
    for path in RECORDED:
        rows = audit_pb2.AuditReport.FromString(path.read_bytes()).rows
        assert [row.case_id for row in rows if row.measured_read_bytes < row.declared_read_bytes] == []


def test_every_op_of_the_record_was_measured():
    for path in RECORDED:
        for row in audit_pb2.AuditReport.FromString(path.read_bytes()).rows:
            assert row.measured_read_bytes > 0 and row.kernels > 0
