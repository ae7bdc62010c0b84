"""Saved counters: what is written reads back, and what is cut off, damaged or there twice is reported."""

import json

import pytest

from tileops.audit import report, saved, saved_rows
from tileops.perf.runs import renames
from tileops.proto import audit_pb2
from tileops.tests.audit.ncu_output import raw
from tileops.tests.harness import toys

SCALE = toys.load("implementations")["ScaleFwdOp"]
READ = 32 * 64 * 4
FACTS = {"op": "ScaleFwdOp", "case_id": "small-float32", "implementation": "torch", "calls": 1}
MIDDLE = toys.case(SCALE, "middle").case_id
CSV = raw([("k", str(READ), "0")])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "counters.txt"


def write(path, *calls, rows=None):
    writer = saved.Writer(path, len(calls) if rows is None else rows)
    for facts, csv in calls:
        writer.append(facts, csv)
    writer.close()


def judge(*files, cases=None, classes=None):
    """(rows, notes, what is cut) of files, with the toy op's rows selected."""
    found = report.new_report()
    chosen = saved_rows.Chosen(
        classes=classes or {"ScaleFwdOp": SCALE},
        cases={"ScaleFwdOp": SCALE.CASES if cases is None else cases},
        implementation="",
    )
    cut = saved_rows.judge(files, chosen, (), found)
    return list(found.rows), list(found.notes), cut


def one_row(path):
    (row,), _, _ = judge(path)
    return row


def test_what_is_written_is_judged_again(path):
    write(path, (FACTS, CSV))
    (row,), notes, cut = judge(path)
    assert (row.case_id, row.verdict, row.implementation) == ("small-float32", audit_pb2.VERDICT_PASS, "torch")
    assert (notes, cut) == ([], [])


def test_a_call_of_an_earlier_version_is_of_the_row_of_today(path, tmp_path, monkeypatch):
    (tmp_path / "map.toml").write_text(
        f'[ops.OldFwdOp]\nname = "ScaleFwdOp"\ncases.a = {{case_id = "{FACTS["case_id"]}", label = "small"}}\n'
    )
    monkeypatch.setattr(renames, "load", lambda: renames.read(tmp_path / "map.toml"))
    write(path, (FACTS | {"op": "OldFwdOp", "case_id": "a"}, CSV), (FACTS | {"case_id": MIDDLE}, CSV))
    rows, notes, cut = judge(path)
    assert [(row.op, row.case_id) for row in rows] == [("ScaleFwdOp", "small-float32"), ("ScaleFwdOp", MIDDLE)]
    assert notes == [renames.counted(1, "saved call")] and cut == []
    write(path, (FACTS | {"op": "OldFwdOp", "case_id": "a"}, CSV), (FACTS, CSV))
    assert "the files have the call twice" in one_row(path).reason


def test_a_file_cut_between_calls_is_told(path):
    write(path, (FACTS, CSV), (FACTS | {"case_id": MIDDLE}, CSV))
    whole = path.read_text()
    path.write_text(whole[: whole.index("end\n") + 4])
    (row,), notes, cut = judge(path)
    assert row.verdict == audit_pb2.VERDICT_PASS
    assert notes == cut == [f"{path}: the file is cut off after 1 call: how many followed is unknown"]


def test_a_file_that_lost_a_call_in_its_middle_is_told(path):
    write(path, (FACTS, CSV), (FACTS | {"case_id": MIDDLE}, CSV))
    whole = path.read_text()
    path.write_text(whole[whole.index("end\n") + 4 :])
    assert judge(path)[2] == [f"{path}: the file has 1 of 2 calls that were saved: it is damaged"]


def test_rows_that_the_audit_did_not_measure_are_told(path):
    write(path, (FACTS, CSV), rows=15)
    _, notes, cut = judge(path)
    assert notes == [f"{path}: the audit measured 1 of its 15 rows; the file lacks the others"] and cut == []


def test_a_file_cut_within_a_call_is_an_error_of_the_call(path):
    write(path, (FACTS, CSV))
    whole = path.read_text()
    path.write_text(whole[: whole.index("# tileops-audit end")])
    assert "the file is cut off in this call" in one_row(path).reason
    assert one_row(path).verdict == audit_pb2.VERDICT_ERROR


def test_lines_behind_a_calls_end_belong_to_no_call(path):
    write(path, (FACTS, CSV))
    stray = raw([("k", "9", "9")]).splitlines()[-1].replace('"0"', '"7"', 1)
    path.write_text(path.read_text().replace("end\n", f"end\n{stray}\n"))
    assert one_row(path).verdict == audit_pb2.VERDICT_ERROR
    assert "after this call's end, belongs to no call" in one_row(path).reason


def test_lines_before_the_first_call_are_refused(path):
    write(path, (FACTS, CSV))
    path.write_text('"stray"\n' + path.read_text())
    with pytest.raises(saved.SavedError, match=":1: this line is above the first line that names a call"):
        saved.read(path)


def test_a_file_of_ends_alone_is_refused(path):
    path.write_text("# tileops-audit end\n")
    with pytest.raises(saved.SavedError, match="but no line that names a call"):
        saved.read(path)


@pytest.mark.parametrize("files", [1, 2])
def test_a_call_that_is_there_twice_is_an_error_with_both_places(path, tmp_path, files):
    contradictory = raw([("k", "5", "0")])
    if files == 1:
        write(path, (FACTS, CSV), (FACTS, contradictory))
        (row,), _, _ = judge(path)
    else:
        write(path, (FACTS, CSV))
        write(tmp_path / "other.txt", (FACTS, contradictory))
        (row,), _, _ = judge(path, tmp_path / "other.txt")
    assert row.verdict == audit_pb2.VERDICT_ERROR and not row.HasField("measured_read_bytes")
    assert row.reason.count(".txt:") == 2


def test_one_row_by_two_implementations_is_two_rows(path):
    write(path, (FACTS, CSV), (FACTS | {"implementation": "triton"}, CSV))
    assert [row.implementation for row in judge(path)[0]] == ["torch", "triton"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"op": ["x"]}, r"op is \['x'\]"),
        ({"op": 5}, "op is 5"),
        ({"case_id": None}, "case_id is None"),
        ({"implementation": 5}, "implementation is 5"),
        ({"device_name": None}, "device_name is None"),
        ({"torch_version": None}, "torch_version is None"),
        ({"conditions": ["N > 3"]}, r"conditions is \['N > 3'\]"),
        ({"conditions": {"N > 3": "no"}}, r"conditions is {'N > 3': 'no'}"),
        ({"copies": 5}, "copies is 5"),
        ({"copies": "Memcpy"}, "copies is 'Memcpy'"),
        ({"copies": [1]}, r"copies is \[1\]"),
    ],
    ids=str,
)
def test_a_damaged_line_that_names_a_call_is_refused_with_its_place(path, damage, said):
    write(path, (FACTS | damage, CSV))
    with pytest.raises(saved.SavedError, match=f"counters.txt:1: the line that names the call is damaged: {said}"):
        judge(path)


@pytest.mark.parametrize("footer", ["", "{", "[]", '{"calls": 1}', '{"calls": "x", "rows": 1}', "null"])
def test_a_damaged_last_line_is_refused(path, footer):
    write(path, (FACTS, CSV))
    head, _, _ = path.read_text().rpartition("# tileops-audit file")
    path.write_text(f"{head}# tileops-audit file {footer}\n")
    with pytest.raises(saved.SavedError, match="the line that counts the calls is damaged"):
        saved.read(path)


def test_a_row_that_there_is_no_more_is_told_and_the_others_are_judged(path):
    write(path, (FACTS | {"case_id": "gone"}, CSV), (FACTS, CSV))
    (row,), notes, unjudged = judge(path)
    assert row.verdict == audit_pb2.VERDICT_PASS
    assert notes == unjudged == [f"{path}:1: ScaleFwdOp has no row gone (any more): not judged"]
    write(path, (FACTS | {"op": "GoneFwdOp"}, CSV))
    with pytest.raises(saved.SavedError, match="GoneFwdOp has no row small-float32.*\nno saved call fits"):
        judge(path)


def test_an_empty_or_missing_file_is_refused(path):
    path.write_text("\n")
    with pytest.raises(saved.SavedError, match="counters.txt: the file is empty; name a file of --save_csv"):
        saved.read(path)
    path.unlink()
    with pytest.raises(saved.SavedError, match="^cannot read .*counters.txt: No such file"):
        saved.read(path)


def test_a_bare_run_is_of_the_one_row_that_is_selected(path):
    path.write_text(CSV)
    (row,), _, _ = judge(path, cases=[toys.case(SCALE, "small")])
    assert row.verdict == audit_pb2.VERDICT_PASS
    with pytest.raises(saved.SavedError, match="name one row with --op and --case"):
        judge(path)


def test_what_was_saved_before_stays_until_a_call_is_measured(path):
    write(path, (FACTS, CSV))
    before = path.read_text()
    writer = saved.Writer(path, 2)
    assert path.read_text() == before
    writer.close()
    assert path.read_text() == before
    writer = saved.Writer(path, 2)
    writer.append(FACTS | {"case_id": MIDDLE}, CSV)
    assert "middle" in path.read_text() and "small" not in path.read_text()


def test_a_file_that_was_not_there_is_not_left_empty(path):
    write(path)
    assert not path.exists()


def test_a_file_that_cannot_be_written_is_found_before_anything_is_measured(tmp_path):
    with pytest.raises(OSError):
        saved.Writer(tmp_path / "none" / "counters.txt", 1)


def test_the_last_line_counts_calls_and_rows(path):
    write(path, (FACTS, CSV), rows=3)
    last = path.read_text().splitlines()[-1]
    assert json.loads(last.removeprefix("# tileops-audit file ")) == {"calls": 1, "rows": 3}
