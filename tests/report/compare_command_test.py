"""//perf:compare as a user runs it: flags, forms, exit status, and its page."""

import csv
import functools
import io
import json
import os
import re
import unittest.mock

import pytest

from tileops.perf.comparison import html as compare_html
from tileops.perf.comparison import rows as compare_rows
from tileops.perf.comparison import table
from tileops.perf.comparison import text as compare_text
from tileops.perf.report import columns
from tileops.proto import roofline_pb2
from tileops.tests.report import browser, builders

EVIL = "</script><script>document.title='owned'</script>"


@pytest.fixture
def start(start_command):
    """Starts //perf:compare in `tmp_path`, its output in pipes; returns the process."""
    return functools.partial(start_command, "compare")


@pytest.fixture
def compare(start):
    """Runs the command on base.binpb and new.binpb; returns (status, out, err)."""

    def run(*flags, named=("--base=base.binpb", "--new=new.binpb")):
        command = start(*named, *flags, text=True)
        out, err = command.communicate()
        return command.returncode, out, err

    return run


def write(tmp_path, base, new):
    builders.write_run(tmp_path / "base.binpb", *base)
    return builders.write_run(tmp_path / "new.binpb", *new, started_s=2_000)


def test_a_regression_exits_1_and_is_on_top(tmp_path, compare):
    write(
        tmp_path,
        [builders.record(), builders.record(case_id="slow")],
        [builders.record(bytes=7), builders.record(case_id="slow", ns=120_000)],
    )
    status, out, err = compare()
    assert (status, err) == (1, "")
    slower, price = [line for line in out.splitlines() if line.startswith("SiLUFwdOp")]
    assert slower.split()[1:] == "slow torch 100.00 us 120.00 us +20.0% slower".split()
    assert " same " in price and "bytes 40000000 -> 7" in price
    assert "2 rows, 1 slower, 1 same, 1 price changed, mean change +9.5%" in out
    assert out.endswith("health: failed\n")


def test_no_regression_exits_0_and_lists_no_row_but_with_all(tmp_path, compare):
    write(tmp_path, [builders.record()], [builders.record(ns=104_000)])
    status, out, _ = compare()
    assert status == 0 and "SiLUFwdOp" not in out and "1 row, 1 same" in out
    assert "SiLUFwdOp" in compare("--all")[1]
    status, out, _ = compare("--threshold=3%")
    assert status == 1 and "slower" in out


def test_json_and_csv_have_every_row(tmp_path, compare):
    write(
        tmp_path,
        [builders.record(), builders.record(case_id="gone")],
        [builders.record(ns=50_000), builders.record(case_id="came", ns=None)],
    )
    status, out, _ = compare("--format=json")
    document = json.loads(out)
    assert (status, document["health"]) == (0, "ok")
    assert document["summary"]["rows"] == 3
    assert document["summary"]["faster"] == document["summary"]["vanished"] == 1
    assert document["families"] == [{"family": "elementwise", "rows": 1, "ratio": 0.5}]
    assert document["base"]["file"] == "base.binpb"
    rows = {row["case_id"]: row for row in document["rows"]}
    assert rows["a-float16"]["base_time_s"] == 1e-4
    assert rows["gone"]["new_time_s"] is None
    listed = list(csv.DictReader(io.StringIO(compare("--format=csv")[1])))
    assert [row["verdict"] for row in listed] == ["faster", "vanished", "appeared"]
    write(tmp_path, [], [])
    assert compare("--format=csv")[1].startswith("op,family,case_id,")


def test_damage_is_told_and_the_rest_compared(tmp_path, compare):
    path = write(tmp_path, [builders.record()], [builders.record()])
    path.write_bytes(path.read_bytes()[:-1])
    status, out, err = compare("--format=json")
    assert status == 0 and "new.binpb: at byte" in err and "no footer" in err
    assert json.loads(out)["new"]["interrupted"]
    assert "new.binpb: at byte" in compare()[1]


@pytest.mark.parametrize(
    "named, message",
    [
        (["--base=base.binpb"], "--new is required"),
        (["--new=new.binpb"], "--base is required"),
        (["--base=base.binpb", "--new=missing"], "missing: No such file"),
        (["--base=base.binpb", "--new=other.binpb"], "several devices"),
        (["--base=base.binpb", "--new=new.binpb", "--threshold=-1"], "threshold"),
        (["--base=base.binpb", "--new=new.binpb", "--threshold=5"], "write 5% or 0.05; 5 alone would be 500%"),
        (["--base=base.binpb", "--new=new.binpb", "--threshold=5 percent"], "write a fraction as 5% or as 0.05"),
        (["--base=base.binpb", "--new=new.binpb", "--threshold=nan"], "--threshold=nan"),
        (["--base=base.binpb", "--new=new.binpb", "--threshold=inf"], "--threshold=inf"),
        (["--base=base.binpb", "--new=new.binpb", "--out=base.binpb"], "--out=base.binpb"),
        (["--base=base.binpb", "--new=new.binpb", "--out=new.binpb"], "--out=new.binpb"),
    ],
)
def test_bad_usage_exits_2_with_one_line(tmp_path, compare, named, message):
    write(tmp_path, [builders.record()], [builders.record()])
    builders.write_run(tmp_path / "other.binpb", builders.record(), device="Other")
    status, out, err = compare(named=named)
    assert (status, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("compare: ") and message in line


@pytest.mark.skipif(browser.find() is None, reason="no chromium on this machine")
def test_the_page_filters_and_what_files_say_is_text(tmp_path, compare):
    write(
        tmp_path,
        [builders.record(), builders.record(case_id="slow"), builders.record(op=EVIL)],
        [builders.record(flops=3), builders.record(case_id="slow", ns=120_000), builders.record(op=EVIL, ns=50_000)],
    )
    status, page, _ = compare("--format=html")
    assert status == 1 and page.count("<script") == 2
    assert 'data-ready="yes"' in browser.opened(page)
    answer = browser.ask(
        page,
        """const rows = () => [...byId("rows").tBodies[0].rows].map((row) => row.textContent);
        const first = rows();
        document.querySelector('.chip[data-verdict="slower"]').click();
        const without = rows();
        document.querySelector('.chip[data-verdict="price_changed"]').click();
        document.querySelector('.chip[data-verdict="same"]').click();
        return { first, without, same: rows(), title: document.title };""",
    )
    slower, faster, same = answer["first"]
    assert "slower" in slower and "+20.0%" in slower
    assert EVIL in faster
    assert "price: flops 1000000 -> 3" in same
    assert answer["without"] == [faster, same] == answer["same"]
    assert answer["title"] == "Comparison: base.binpb and new.binpb"


def test_a_reader_that_left_is_no_regression(tmp_path, start):
    names = [f"c{number}" for number in range(1_000)]
    write(
        tmp_path,
        [builders.record(case_id=name) for name in names],
        [builders.record(case_id=name, ns=50_000) for name in names],
    )
    command = start("--base=base.binpb", "--new=new.binpb")
    command.stdout.close()
    assert command.stderr.read() == b""
    assert command.wait() == 0


def test_a_run_of_which_nothing_is_left_exits_1_and_says_so(tmp_path, compare):
    write(tmp_path, [builders.record()], [])
    said = "new.binpb has no row of base.binpb: nothing was compared"
    status, out, _ = compare()
    assert status == 1 and said in out and out.endswith("health: failed\n")
    status, out, err = compare("--format=json")
    assert status == 1 and said in err and json.loads(out)["health"] == "failed"
    assert said in compare("--format=html")[1]


def test_a_price_of_nothing_is_a_number(tmp_path, compare):
    write(tmp_path, [builders.record()], [builders.record(flops=0, roof_key="")])
    assert "flops 1000000 -> 0, roof_key cuda_core.fp32 -> none" in compare()[1]


def test_times_that_no_calendar_has_are_told_and_the_rest_compared(tmp_path, compare):
    write(tmp_path, [builders.record()], [builders.record()])
    builders.write_run(tmp_path / "new.binpb", builders.record(), started_s=10**15)
    status, out, _ = compare()
    assert status == 0 and "new.binpb: at byte 0: started_at is not a time" in out and "1 row, 1 same" in out


def test_a_run_without_a_device_is_said_to_name_none(tmp_path, compare):
    write(tmp_path, [builders.record()], [])
    builders.write_run(tmp_path / "new.binpb", builders.record(), device="")
    status, _, err = compare()
    assert status == 2 and "new.binpb names no device, as a run of prices alone does" in err and "''" not in err


def test_a_lost_header_is_told_and_the_rows_compared(tmp_path, compare):
    path = write(tmp_path, [builders.record()], [builders.record()])
    builders.lose_header(path)
    status, out, _ = compare()
    assert status == 0 and "no header" in out and "1 row, 1 same" in out


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_width_cuts_a_name(tmp_path, width):
    case = "hidden-state-reduce-a-long-way-bfloat16-x"
    record = builders.record(op="FP8QuantPerTokenGroupFwdOp", case_id=case, implementation="torch_compile")
    slower = builders.record(op=record.op, case_id=case, implementation="torch_compile", ns=1e15, message="m" * 90)
    rows = compare_rows.compare(compare_rows.measured([record]), compare_rows.measured([slower]), 0.05)
    summary = roofline_pb2.RunSummary(file="a")
    out = builders.Terminal()
    with unittest.mock.patch.dict(os.environ, COLUMNS=str(width), TERM="dumb", NO_COLOR="1"):
        table.write_table(compare_text.Comparison(summary, summary, 0.05, rows), out, every_row=False)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    text = " ".join(out.getvalue().split())
    assert "FP8QuantPerTokenGroup" in text and case in text and "torch_compile" in text
    assert "1,000,000,000,000.00" in text and "slower" in text


def many(count, ns):
    return compare_rows.measured(builders.record(case_id=f"c{place}", ns=ns) for place in range(count))


def test_long_comparisons_are_cut_and_say_what_has_all(monkeypatch):
    monkeypatch.setattr(columns, "MOST_ROWS", 5)
    monkeypatch.setattr(compare_html, "MOST_ROWS", 4)
    rows = compare_rows.compare(many(9, 100), many(7, 200), 0.05)
    summary = roofline_pb2.RunSummary(file="a")
    comparison = compare_text.Comparison(summary, summary, 0.05, rows)
    out = io.StringIO()
    table.write_table(comparison, out, every_row=False)
    assert out.getvalue().count("SiLUFwdOp") == 5
    assert "4 more rows left out, less grave than these: --format=csv" in out.getvalue()
    assert "9 rows, 7 slower, 2 vanished" in out.getvalue()
    out = io.StringIO()
    compare_html.write_html(comparison, out)
    text = out.getvalue()
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert len(data["rows"]) == 4 and data["total"] == 9
    assert "the first 4, the gravest; the other 5 are counted here. --format=csv" in " ".join(text.split())
    assert re.search(r"<td>slower</td><td[^>]*>3</td><td[^>]*>\+100.0%</td>", text)
    assert re.search(r"<td>vanished</td><td[^>]*>2</td>", text)
