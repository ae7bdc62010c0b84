"""//perf:compare as a user runs it: flags, forms, exit status, and its page."""

import csv
import io
import json
import os
import subprocess
import sys

import pytest

from tileops.tests.perf_report import browser
from tileops.tests.perf_report import builders

EVIL = "</script><script>document.title='owned'</script>"


@pytest.fixture
def compare(tmp_path):
    """Runs the command on base.binpb and new.binpb; returns (status, out, err)."""
    environment = dict(os.environ, BUILD_WORKING_DIRECTORY=str(tmp_path))
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)

    def run(*flags, named=("--base=base.binpb", "--new=new.binpb")):
        done = subprocess.run(
            [sys.executable, "-m", "tileops.perf.compare", *named, *flags],
            env=environment,
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout, done.stderr

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
    slower, price = [line for line in out.splitlines() if line.startswith("SiluFwdOp")]
    assert slower.split()[1:] == "slow torch 100.00 us 120.00 us +20.0% slower".split()
    assert " same " in price and "bytes 40000000 -> 7" in price
    assert "2 rows, 1 slower, 1 same, 1 price changed, mean change +9.5%" in out
    assert out.endswith("health: failed\n")


def test_no_regression_exits_0_and_lists_no_row_but_with_all(tmp_path, compare):
    write(tmp_path, [builders.record()], [builders.record(ns=104_000)])
    status, out, _ = compare()
    assert status == 0 and "SiluFwdOp" not in out and "1 row, 1 same" in out
    assert "SiluFwdOp" in compare("--all")[1]
    status, out, _ = compare("--threshold=0.03")
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
        (["--base=base.binpb"], "--new names no run file"),
        (["--new=new.binpb"], "--base names no run file"),
        (["--base=base.binpb", "--new=missing"], "missing: No such file"),
        (["--base=base.binpb", "--new=other.binpb"], "several devices"),
        (["--base=base.binpb", "--new=new.binpb", "--threshold=-1"], "threshold"),
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
        [
            builders.record(flops=3),
            builders.record(case_id="slow", ns=120_000),
            builders.record(op=EVIL, ns=50_000),
        ],
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
