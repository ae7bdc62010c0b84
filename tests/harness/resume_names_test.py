"""`--resume` continues a run whose rows had names of an earlier version, and says so."""

from tileops.perf.runs import reader as runfile
from tileops.perf.runs import renames
from tileops.tests.harness import runs

(OLD,) = (old for old, known in renames.load().ops.items() if known.name == "SiLUFwdOp")


def test_rows_under_old_names_are_not_measured_again(tmp_path):
    flags = ("--device=meta", "--op=SiLUFwdOp,AbsFwdOp", "--out=run.jsonl")
    path = tmp_path / "run.jsonl"
    _wait(runs.start(tmp_path, *flags))
    keys = _keys(path)
    path.write_text(path.read_text().replace('"op": "SiLUFwdOp"', f'"op": "{OLD}"'))
    old = path.read_text().count(f'"{OLD}"')
    assert 0 < old < len(keys)
    err = _wait(runs.start(tmp_path, *flags, "--resume"))
    assert f"run.jsonl: {old} records with names of an earlier version, read as today's" in err
    assert f"{len(keys)} records: {len(keys)} ok" in err
    assert _keys(path) == keys and path.read_text().count(f'"{OLD}"') == old


def _wait(process):
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    return err


def _keys(path):
    return [(found.op, found.case_id, found.implementation) for found in runfile.read_run(path).records()]
