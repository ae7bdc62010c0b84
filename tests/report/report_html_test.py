"""The HTML report: whole, inert and usable, in a real browser where there is one."""

import html
import io
import json
import re

import pytest

from tileops.perf.report import cells as report_cells
from tileops.perf.report import html as report_html
from tileops.perf.report import page
from tileops.perf.roof import profiles
from tileops.proto import benchmark_pb2, roofline_pb2
from tileops.tests.report import browser, builders

needs_browser = pytest.mark.skipif(browser.find() is None, reason="no chromium on this machine")

EVIL = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
EVENTS = benchmark_pb2.TIMING_SOURCE_CUDA_EVENTS


def records():
    """One row of each verdict and of each place that a plot has for rows."""
    return [
        builders.record(case_id="below", data_terms={"experts": 7}),
        builders.record(case_id="done", ns=50_000),
        builders.record(case_id="compute", ns=300_000, flops=10**9, family="gemm", op="GEMMFwdOp"),
        builders.record(case_id="tiny", ns=5_000, bytes=8_000),
        builders.record(case_id="anomaly", bytes=95_000_000),
        builders.record(case_id="impossible", bytes=200_000_000),
        builders.record(case_id="no-flops", flops=0, op="CopyFwdOp"),
        builders.record(case_id="no-bytes", bytes=0),
        builders.record(case_id="events", source=EVENTS),
        builders.record(case_id=EVIL, op=EVIL, family=EVIL, message=EVIL, ns=None),
    ]


def html_of(tmp_path, *given, runs=(), **query):
    paths = list(runs) or [builders.write_run(tmp_path / "run.binpb", *given)]
    report = builders.report(paths, builders.profile(tmp_path), **query)
    head = roofline_pb2.Report()
    head.CopyFrom(report)
    head.ClearField("rows")
    out = io.StringIO()
    report_html.write_html(head, lambda: iter(report.rows), out)
    return out.getvalue()


def data_of(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_the_page_names_nothing_outside_itself(tmp_path):
    text = html_of(tmp_path, *records())
    # What a browser would fetch; the SVG namespace is a name, not an address.
    assert not re.search(r'(src|href)\s*=\s*["\']?(?!x onerror)', text.replace("&quot;", ""))
    assert not re.search(r"@import|url\((?!#)", text)
    addresses = set(re.findall(r"https?://[^\s\"'<]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}


def test_what_files_say_is_text_and_never_markup(tmp_path):
    text = html_of(tmp_path, *records())
    assert text.count("<script") == text.count("</script") == 2
    assert "<img" not in text
    names = {row[0] for row in data_of(text)["rows"]}
    assert EVIL in names
    hidden = html_of(tmp_path, builders.record(op="a\u202eb\x1bc"))
    assert "\u202e" not in hidden and "\\u202e" in hidden


def test_facts_that_need_no_script_are_in_the_markup(tmp_path):
    text = html_of(tmp_path, *records())
    body = text[text.index("<body>") : text.index('<script type="application/json"')]
    errors = body.index('id="errors"')
    assert errors < body.index('class="chips"') < body.index('id="plot"')
    assert "SiLUFwdOp impossible torch: implies 2 TB/s of hbm" in body
    assert re.search(r"<strong>1</strong> formula error", body)
    assert "<strong>3</strong> blank" in body
    assert 'class="health-failed">failed</strong> (1 formula error)' in body
    assert re.search(r"<td>gemm</td><td class=\"n\">1</td>", body)
    for fact in ("driver</dt><dd>1.2", "revision</dt><dd>abc", "a datasheet", "80.00%"):
        assert fact in body


def test_an_assumed_calibration_is_said_and_drawn(tmp_path):
    run = builders.write_run(tmp_path / "run.binpb", *records())
    assumed = profiles.assume(builders.profile(tmp_path), 0.75)
    report = builders.report([run], assumed)
    out = io.StringIO()
    report_html.write_html(report, lambda: iter(report.rows), out)
    assert 'class="warning">ASSUMED, not measured: 0.75' in out.getvalue()
    assert "75.00%, assumed" in out.getvalue()
    # What the plot draws, the table of the profile says: 0.75 of 1e14.
    assert re.search(r"tensor_core.bf16</td>.*?75.00%, assumed</td><td[^>]*>75 TFLOP/s", out.getvalue())
    units = data_of(out.getvalue())["profile"]["units"]
    assert units["tensor_core.bf16"]["effective"] == 0.75e14
    assert units["cuda_core.fp32"]["effective"] == 5e12


def test_the_ops_with_the_most_time_to_win_come_first(tmp_path):
    text = html_of(
        tmp_path,
        *[builders.record(op=f"Op{number}", ns=100_000 + number * 1_000) for number in range(7)],
        builders.record(op="Tiny", ns=9_000, bytes=8_000),
    )
    assert re.findall(r'data-op="(\w+)"', text) == ["Op6", "Op5", "Op4", "Op3", "Op2"]


def test_interrupted_runs_and_clocks_are_named(tmp_path):
    record = builders.record()
    record.device_state.start.sm_clock_mhz = 1_500
    record.device_state.end.sm_clock_mhz = 1_980
    record.device_state.end.throttle_reasons.append("sw_power_cap")
    path = builders.write_run(tmp_path / "run.binpb", record)
    path.write_bytes(path.read_bytes()[:-1])
    text = html_of(tmp_path, runs=[path])
    assert "SM 1500-1980 MHz, reduced during 1 record" in text
    assert "run.binpb (interrupted)" in text and "no footer" in text


def test_large_reports_have_cells_that_count_every_row(tmp_path, monkeypatch):
    monkeypatch.setattr(report_cells, "MOST_POINTS", 5)
    text = html_of(tmp_path, *records())
    data = data_of(text)
    assert len(data["rows"]) == 5 and data["total"] == 10
    assert sum(cell["count"] for cell in data["cells"]) == 10
    rails = {cell["rail"] for cell in data["cells"]}
    assert rails == {None, "left", "right", "bottom"}
    assert "the table has the first 5" in text
    for cell in data["cells"]:
        if cell["rail"] is None:
            assert cell["x"] > 0 and cell["y"] > 0


def test_cells_of_one_place_and_verdict_are_one(tmp_path):
    rows = builders.report(
        [
            builders.write_run(
                tmp_path / "run.binpb",
                builders.record(case_id="a", ns=98_000),
                builders.record(case_id="b", ns=98_001),
                builders.record(case_id="c", ns=50_000),
            )
        ],
        builders.profile(tmp_path),
    ).rows
    cells = report_cells.Cells()
    for row in rows:
        cells.add(row)
    below, done = sorted(cells.all(), key=lambda cell: -cell.count)
    assert (below.count, below.verdict) == (2, "below")
    assert (done.count, done.verdict) == (1, "at_ceiling")
    assert below.least == pytest.approx(50 / 98, rel=1e-4) and below.least < below.most
    assert below.headroom_s == pytest.approx(96e-6, rel=1e-3)
    # Within half a step of where the rows are.
    assert below.x == pytest.approx(1 / 40, rel=0.07)
    assert below.y == pytest.approx(1e10, rel=0.07)


def test_sums_over_nothing_are_no_numbers_and_the_missing_factor_is_named(tmp_path):
    text = html_of(tmp_path, builders.record(roof_key="tensor_core.bf16"), is_prediction=True)
    assert re.search(r'elementwise</td><td class="n">1</td><td class="n">0</td><td class="n"></td>', text)
    assert "1 row blank (uncalibrated): measure the profile with //perf:calibrate, or --assume_calibration=0.85" in text
    text = html_of(tmp_path, builders.record(), builders.record(case_id="b", ns=None))
    assert re.search(r'elementwise</td>(<td class="n">[012]</td>){3}<td class="n">50.0%</td>', text)


def test_no_two_verdicts_are_told_apart_by_colour_alone():
    kinds = {name.removeprefix("VERDICT_").lower() for name in roofline_pb2.Verdict.keys()}  # noqa: SIM118 -- not a dict: it has no iterator
    assert kinds - {"unspecified"} <= set(page.SHAPES)
    assert len(set(page.SHAPES.values())) == len(page.SHAPES)


@needs_browser
def test_the_page_runs_under_its_own_policy_and_nothing_else_does(tmp_path):
    text = html_of(tmp_path, *records())
    assert 'data-ready="yes"' in browser.opened(text)
    document = browser.opened(text.replace("</body>", "<script>document.title = 'owned'</script></body>"))
    assert "<title>owned" not in document
    assert "<title>Roofline: Test GPU" in document


@needs_browser
def test_every_row_is_on_the_plot_and_in_the_table(tmp_path):
    answer = browser.ask(
        html_of(tmp_path, *records()),
        """return {
          marks: byId("plot").querySelectorAll("path.pt").length,
          rows: byId("rows").tBodies[0].rows.length,
          inside: plot.marks.every((mark) => mark.inside && isFinite(mark.px) && isFinite(mark.py)),
          roofs: byId("plot").querySelectorAll(".roof").length,
          ridges: [...byId("plot").querySelectorAll(".ridge title")].map((each) => each.textContent),
          title: document.title,
          names: [...byId("rows").querySelectorAll("tbody button.plain")].map((each) => each.textContent),
        };""",
    )
    assert answer["marks"] == answer["rows"] == 10
    assert answer["inside"]
    # The memory's and the unit's ceilings, theoretical and calibrated; the rail's.
    assert answer["roofs"] == 6
    assert answer["ridges"] == ["ridge point of cuda_core.fp32: 6.3 FLOPs per byte"]
    assert answer["title"] == "Roofline: Test GPU"
    assert EVIL in answer["names"]


@needs_browser
def test_a_mark_stands_where_its_numbers_say(tmp_path):
    answer = browser.ask(
        html_of(tmp_path, *records()),
        """const find = (name) => plot.marks.find((mark) => mark.row.case_id === name);
        const [done, below, compute] = ["done", "below", "compute"].map(find);
        return [below.px - done.px, done.py - below.py, compute.px > below.px, compute.py < done.py];""",
    )
    same_intensity, twice_the_rate, right, higher = answer
    assert same_intensity == 0
    # Below stands lower: screen coordinates grow downwards.
    assert twice_the_rate < 0
    assert right and higher


@needs_browser
def test_hovering_tells_clicking_filters_and_chips_hide(tmp_path):
    answer = browser.ask(
        html_of(tmp_path, *records()),
        """const mark = plot.marks.find((each) => each.row.case_id === "below");
        const box = plot.svg.getBoundingClientRect();
        const at = { clientX: box.left + mark.px, clientY: box.top + mark.py, bubbles: true };
        const rows = () => [...byId("rows").tBodies[0].rows].map((row) => row.cells[1].textContent);
        plot.svg.dispatchEvent(new PointerEvent("pointermove", at));
        const tip = byId("tip").textContent;
        plot.svg.dispatchEvent(new MouseEvent("click", at));
        const clicked = rows(), shown = byId("details").textContent;
        byId("clear").click();
        document.querySelector('.chip[data-verdict="below"]').click();
        const without = rows(), faint = document.querySelectorAll(".pt.faint").length;
        byId("clear").click();
        byId("search").value = "GEMM comp"; byId("search").dispatchEvent(new Event("input"));
        const found = rows();
        byId("clear").click();
        byId("family").value = "gemm"; byId("family").dispatchEvent(new Event("change"));
        return { tip, clicked, shown, without, faint, found, family: rows(), count: byId("count").textContent };""",
    )
    for fact in ("SiLUFwdOp", "below", "50.0%", "100.00 µs", "experts7", "0.025 FLOP/B"):
        assert fact in answer["tip"], fact
    assert "no-flops" not in answer["clicked"] and "below" in answer["clicked"]
    assert "40,000,000" in answer["shown"]
    assert not {"below", "compute", "no-flops"} & set(answer["without"])
    assert answer["faint"] == 3
    assert answer["found"] == answer["family"] == ["compute"]
    assert answer["count"] == "1 of 10 rows"


@needs_browser
def test_numbers_are_shown_as_they_are(tmp_path):
    """A count beyond a script's exact numbers, and an efficiency just below a line."""
    record = builders.record(flops=2**53 + 1, bytes=2**63 - 1, ns=None)
    answer = browser.ask(
        html_of(tmp_path, record, builders.record(case_id="b", ns=62_501), is_prediction=False),
        """byId("rows").querySelectorAll("tbody button")[1].click();
        const percents = [0.8, 0.79999, 1.05, 1.0500001, 0.5, 12.345].map(percent);
        return [percents, byId("rows").textContent, byId("details").textContent];""",
    )
    percents, rows, details = answer
    assert percents == ["80.0%", "79.999%", "105.0%", "105.00001%", "50.0%", "1,234.5%"]
    assert "79.999%" in rows
    assert "9,007,199,254,740,993" in details and "9,223,372,036,854,775,807" in details


@needs_browser
def test_heads_sort_and_absent_values_stay_last(tmp_path):
    answer = browser.ask(
        html_of(tmp_path, *records()),
        """const heads = [...byId("rows").tHead.rows[0].cells];
        const head = heads.find((each) => each.textContent.startsWith("efficiency"));
        const place = heads.indexOf(head);
        const value = (row) => parseFloat(row.cells[place].textContent) || null;
        const read = () => [...byId("rows").tBodies[0].rows].map(value);
        head.firstChild.click();
        const down = read(), sort = head.getAttribute("aria-sort");
        head.firstChild.click();
        return { down, up: read(), sort };""",
    )
    assert answer["sort"] == "descending"
    values = [value for value in answer["down"] if value is not None]
    assert values == sorted(values, reverse=True) and len(values) == 7
    assert answer["down"][7:] == answer["up"][7:] == [None] * 3
    assert answer["up"][:7] == values[::-1]


@needs_browser
def test_dark_colours_differ_and_can_be_read(tmp_path):
    answer = browser.ask(
        html_of(tmp_path, *records()),
        """const inked = (name) => document.querySelector(`.chips .v-${name}`);
        const read = () => [document.body, ...["below", "blank", "at_ceiling", "formula_error"].map(inked)]
          .flatMap((each) => [getComputedStyle(each).color, getComputedStyle(document.body).backgroundColor]);
        const first = read();
        byId("theme").click();
        return [first, read()];""",
    )
    for colours in answer:
        for ink, paper in zip(colours[::2], colours[1::2]):
            assert contrast(ink, paper) >= 4.5, (ink, paper)
    assert answer[0][1] != answer[1][1]


def contrast(ink, paper):
    """The WCAG contrast ratio of two colours given as rgb(...)."""

    def luminance(colour):
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(ink), luminance(paper)))
    return (high + 0.05) / (low + 0.05)


@needs_browser
def test_several_runs_draw_each_rows_course(tmp_path):
    runs = [
        builders.write_run(tmp_path / f"{number}.binpb", builders.record(ns=ns), started_s=number)
        for number, ns in ((1, 100_000), (2, 90_000), (3, 95_000))
    ]
    answer = browser.ask(
        html_of(tmp_path, runs=runs),
        """byId("rows").querySelector("tbody button").click();
        const small = byId("rows").querySelector("svg.course polyline").getAttribute("points").split(" ").length;
        return { small, details: byId("details").textContent };""",
    )
    assert answer["small"] == 3
    assert "1.binpb100.00 µs" in answer["details"] and "3.binpb95.00 µs" in answer["details"]


@needs_browser
def test_predictions_are_hollow_marks_on_the_roof(tmp_path):
    text = html_of(tmp_path, *records(), is_prediction=True)
    answer = browser.ask(
        text,
        """const hollow = document.querySelectorAll(".pt.v-predicted.hollow").length;
        return { heads: byId("rows").tHead.textContent, hollow };""",
    )
    assert "efficiency" not in answer["heads"] and "SOL time" in answer["heads"]
    assert answer["hollow"] == 9
    assert "SOL times are bounds" in text and 'id="to-win"' not in text


@needs_browser
def test_cells_answer_as_points_do(tmp_path, monkeypatch):
    monkeypatch.setattr(report_cells, "MOST_POINTS", 5)
    answer = browser.ask(
        html_of(tmp_path, *records()),
        """const mark = plot.marks.find((each) => each.cell.rail === null && each.verdict === "below");
        const box = plot.svg.getBoundingClientRect();
        plot.hover({ clientX: box.left + mark.px, clientY: box.top + mark.py });
        const marks = document.querySelectorAll("path.pt").length;
        return { tip: byId("tip").textContent, marks, cells: data.cells.length };""",
    )
    assert "1 row, below" in answer["tip"] and "for example" in answer["tip"]
    assert answer["marks"] == answer["cells"]


@needs_browser
def test_cells_of_predictions_are_predictions_on_the_roof(tmp_path, monkeypatch):
    monkeypatch.setattr(report_cells, "MOST_POINTS", 5)
    given = [builders.record(case_id=f"c{place}", bytes=10**7 + place * 10**5) for place in range(40)]
    text = html_of(tmp_path, *given, builders.record(roof_key=""), is_prediction=True)
    cells = data_of(text)["cells"]
    assert {cell["verdict"]: cell["count"] for cell in cells if cell["verdict"] == "blank"} == {"blank": 1}
    predicted = [cell for cell in cells if cell["verdict"] == "predicted"]
    assert sum(cell["count"] for cell in predicted) == 40 and max(cell["count"] for cell in predicted) > 1
    for cell in predicted:
        assert cell["y"] == pytest.approx(cell["x"] * 8e11)
    answer = browser.ask(
        text,
        """const marks = () => document.querySelectorAll("path.pt.v-predicted:not(.faint)").length;
        const before = marks();
        document.querySelector('.chip[data-verdict="blank"]').click();
        const without = marks();
        document.querySelector('.chip[data-verdict="predicted"]').click();
        return [before, without, marks()];""",
    )
    assert answer == [len(predicted), len(predicted), 0]


@needs_browser
@pytest.mark.parametrize("width", [360, 800])
def test_a_narrow_window_does_not_scroll_sideways(tmp_path, width):
    # A window is no narrower than 500 pixels; a frame is.
    inner = html.escape(html_of(tmp_path, *records()))
    answer = browser.ask(
        '<meta http-equiv="Content-Security-Policy" content=""><body>'
        f'<iframe width="{width}" height="800" srcdoc="{inner}"></iframe></body></html>',
        """const frame = document.querySelector("iframe");
        const pause = () => new Promise((done) => setTimeout(done, 20));
        while (!frame.contentDocument?.documentElement?.dataset.ready) await pause();
        const inner = frame.contentDocument;
        return [inner.documentElement.clientWidth, inner.documentElement.scrollWidth];""",
    )
    shown, needed = answer
    assert width - 20 <= shown <= width
    assert needed <= shown
