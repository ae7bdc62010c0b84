"""//manifest:validate and //codegen:emit print every defect, what they could not judge, and a count."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import yaml

from tileops.tests.manifest.entries import OP, VALID, variant

SECOND = f"Other{OP}"


def run(module: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *flags],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        check=False,
    )


@pytest.fixture
def folder(tmp_path):
    def write(**entries):
        (tmp_path / "demo.yaml").write_text(yaml.safe_dump(entries, sort_keys=False))
        return f"--spec_dir={tmp_path}"

    return write


def test_a_clean_manifest_is_counted_and_is_status_0(folder):
    done = run("tileops.codegen.validate", folder(**{OP: VALID, SECOND: VALID}))
    assert (done.returncode, done.stdout) == (0, "0 defects in 2 entries of 1 file\n")


def test_a_defect_is_followed_by_what_waits_for_its_mending(folder):
    spec_dir = folder(**{OP: variant("signature.params.flip.type", "int |")})
    done = run("tileops.codegen.validate", spec_dir)
    *lines, count = done.stdout.splitlines()
    assert done.returncode == 1
    assert [line.rpartition("[")[2] for line in lines[:1]] == ["M023]"]
    assert len(lines) == 3 and all(f"demo.yaml:1: {OP}: not judged: " in line for line in lines[1:])
    assert "inference plans and workload rows: signature.params.flip" in lines[1]
    assert count == "1 defect in 1 entry of 1 file; 2 judgments not reached"


def test_a_formula_that_reads_a_defective_let_waits_for_it(folder):
    entry = variant("signature.let.L", "float16")
    entry["roofline"]["flops"] = "N // L"
    *lines, count = run("tileops.codegen.validate", folder(**{OP: entry})).stdout.splitlines()
    assert [line.rpartition("[")[2] for line in lines if line.endswith("]")] == ["M021]"]
    assert lines[-1].endswith("not judged: roofline.flops: it reads L, which has a defect")
    assert count.startswith("1 defect in 1 entry of 1 file; 2 judgments")


def test_json_holds_defects_and_what_was_not_reached(folder):
    spec_dir = folder(**{OP: variant("signature.params.flip.type", "int |"), SECOND: VALID})
    found = json.loads(run("tileops.codegen.validate", spec_dir, "--format=json").stdout)
    assert [(one["op"], one["field"], one["code"]) for one in found["diagnostics"]] == [
        (OP, "signature.params.flip.type", "M023")
    ]
    assert {one["op"] for one in found["unreached"]} == {OP} and len(found["unreached"]) == 2
    assert found["unreached"][0].keys() == {"file", "line", "op", "reason"} and found["entries"] == 2
    assert (
        json.loads(run("tileops.codegen.validate", spec_dir, "--format=json", f"--op={SECOND}").stdout)["unreached"]
        == []
    )


def test_a_glob_that_fits_no_entry_is_bad_usage(folder):
    done = run("tileops.codegen.validate", folder(**{OP: VALID}), "--op=Nope*")
    assert (done.returncode, done.stdout) == (2, "") and f"--op=Nope* fits no op; there are: {OP}" in done.stderr


def test_emit_counts_one_defect_in_the_singular(folder):
    done = run("tileops.codegen.emit", folder(**{OP: variant("status", "done")}), "--check")
    assert done.returncode == 1 and done.stderr.endswith("\n1 defect; nothing was written\n")
