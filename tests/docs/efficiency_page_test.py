"""The page of efficiencies: what it says of a report's rows, and of what others published."""

import os
import subprocess
import sys

import pytest

from tileops.docs import efficiency_page
from tileops.docs.efficiency_page import Published
from tileops.perf.runs import former, renames
from tileops.tools.cli import paths

RUN = {"file": "run.binpb", "device_name": "NVIDIA H200", "driver_version": "580", "torch_version": "2.11"}


def _row(op, case_id, label, actual_us, sol_us, family="elementwise"):
    return {
        "op": op,
        "family": family,
        "case_id": case_id,
        "label": label,
        "implementation": "triton",
        "bound": "memory",
        "actual_time_s": actual_us / 1e6,
        "sol_time_s": sol_us / 1e6,
        "efficiency": sol_us / actual_us,
        "verdict": "at_ceiling" if sol_us >= 0.8 * actual_us else "below",
    }


ROWS = [
    _row("AddFwdOp", "big-float16-float16", "big", 20.0, 18.0),
    _row("AddFwdOp", "mixed-float16-float32", "mixed", 40.0, 20.0),
    _row("ExpFwdOp", "a-big-float32", "a-big", 20.0, 15.0),
    _row("ExpFwdOp", "small-float32", "small", 4.0, 1.0),
    _row("SumFwdOp", "loss-bfloat16", "loss", 12.0, 11.0, family="reduction"),
    {**_row("NegFwdOp", "none-float16", "none", 4.0, 1.0), "efficiency": None},
]
PUBLISHED = {
    ("AddFwdOp", "big", "float16"): Published(40e-6, "torch", 10e-6),
    ("AddFwdOp", "mixed", "float16"): Published(1e-6, "torch", 1e-6),
    ("ExpFwdOp", "a-big", "float32"): Published(20e-6, "", None),
    ("ExpFwdOp", "small", "float32"): Published(1e-6, "torch", 3.96e-6),
}


NO_LEAGUE = {"libraries": [], "skipped": {}, "served": 0, "ours_fastest": 0, "won": 0, "rows": []}


@pytest.fixture
def page():
    return efficiency_page.page({"runs": [RUN], "rows": ROWS}, PUBLISHED, NO_LEAGUE)


def _cells(page, section, first):
    part = page.split(f"## {section}")[1].split("## ")[0]
    (line,) = [line for line in part.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_long_rows_are_told_by_kind_of_op_and_short_ones_are_counted(page):
    assert _cells(page, "To the hardware's limit", "two operands") == ["2", "1", "0.50", "0.54", "0.70", "0.86"]
    assert _cells(page, "To the hardware's limit", "unary math")[:3] == ["1", "0", "0.75"]
    assert _cells(page, "To the hardware's limit", "reduction")[:2] == ["1", "1"]
    assert _cells(page, "To the hardware's limit", "all")[:2] == ["4", "2"]
    assert "Of 5 rows, 4 take more than 10 us at the limit: 2 of these reach the ceiling" in page
    assert "Of the other 1 rows, 1 are `below`." in page


def test_a_published_row_is_that_of_the_label_whose_dtype_all_operands_have(page):
    assert _cells(page, "To published times", "two operands") == ["1", "0.500", "2.000", "1", "1"]
    assert _cells(page, "To published times", "unary math") == ["2", "2.000", "1.010", "1", "0"]
    assert _cells(page, "To published times", "all")[0] == "3"


def test_the_worst_rows_come_first(page):
    lines = [line for line in page.split("farthest from the limit")[1].splitlines() if line.startswith("| ")][2:]
    assert [line.split(" | ")[1] for line in lines] == [
        "mixed-float16-float32",
        "a-big-float32",
        "big-float16-float16",
        "loss-bfloat16",
    ]
    assert "| 40.0 | 20.0 | 0.50 | memory |" in lines[0]


def test_a_report_without_rows_is_a_page():
    assert "To published times" in efficiency_page.page({"runs": [RUN], "rows": []}, PUBLISHED, NO_LEAGUE)


def _entrant(implementation, us, ratio, library="", outcome="timed", message=""):
    return {
        "implementation": implementation,
        "library": library,
        "outcome": outcome,
        "time_s": None if us is None else us / 1e6,
        "ratio": ratio,
        "message": message,
    }


def test_libraries_have_a_column_each_and_the_fastest_of_each_row_is_named():
    def standing(library, **counts):
        return {"library": library, "versions": [f"{library}-kernel 1.2"], "failed": 0, "impossible": 0} | counts

    league = {
        "libraries": [
            standing("liger", rows=2, wrong=0, compared=2, ratio=0.75, won=1, fastest=1),
            standing("quack", rows=1, wrong=1, compared=0, ratio=None, won=0, fastest=0),
        ],
        "skipped": {"fla": "fla-core is not installed"},
        "served": 2,
        "ours_fastest": 1,
        "won": 2,
        "rows": [
            {
                "op": "AddFwdOp",
                "case_id": "a-float16",
                "default": "triton",
                "fastest": "triton",
                "is_won": False,
                "entrants": [_entrant("triton", 20.0, 1.0), _entrant("liger", 25.0, 1.25, "liger")],
            },
            {
                "op": "SumFwdOp",
                "case_id": "b-float16",
                "default": "triton",
                "fastest": "liger_b",
                "is_won": True,
                "entrants": [
                    _entrant("triton", 40.0, 1.0),
                    _entrant("liger_a", 30.0, 0.75, "liger"),
                    _entrant("liger_b", 18.0, 0.45, "liger"),
                    _entrant("quack", None, None, "quack", "wrong", "wrong result: off by 3"),
                ],
            },
            {
                "op": "ExpFwdOp",
                "case_id": "c-float16",
                "default": "torch",
                "fastest": "triton",
                "is_won": True,
                "entrants": [_entrant("torch", 40.0, 1.0), _entrant("triton", 16.0, 0.4)],
            },
        ],
    }
    page = efficiency_page.page({"runs": [RUN], "rows": ROWS}, PUBLISHED, league)
    section = page.split("## Beside libraries of others")[1].split("\n## ")[0]
    assert "`fla` was skipped: fla-core is not installed." in section
    assert "| liger | liger-kernel 1.2 | 2 | 0 | 0 | 2 | 0.750 | 1 | 1 |" in section
    assert "| quack | quack-kernel 1.2 | 1 | 1 | 0 | 0 |  | 0 | 0 |" in section
    assert "| (ours) |  | 2 |  |  |  |  |  | 1 |" in section
    assert "| op | row | our default | liger | quack | fastest |" in section
    assert "| AddFwdOp | a-float16 | triton 20.0 | 25.0 (1.250) |  | triton |" in section
    assert "| SumFwdOp | b-float16 | triton 40.0 | 18.0 (0.450) | wrong | liger_b |" in section
    assert "- SumFwdOp b-float16: quack wrong: wrong result: off by 3" in section
    won = section.split("### Rows in which some implementation is over 2% faster than our default")[1]
    assert "These are 2 of 3 rows" in won
    assert [line for line in won.splitlines() if "FwdOp" in line] == [
        "| ExpFwdOp | c-float16 | triton | 16.0 | torch | 40.0 | 0.400 |",
        "| SumFwdOp | b-float16 | liger_b | 18.0 | triton | 40.0 | 0.450 |",
    ]


def test_runs_without_libraries_or_defaults_say_so(page):
    section = page.split("## Beside libraries of others")[1]
    assert "The recorded runs have no library" in section
    assert "do not say which implementation is the default" in section


def test_rows_of_earlier_workloads_are_left_out_and_counted(page, monkeypatch):
    assert "Left out" not in page
    monkeypatch.setattr(former, "load", lambda: frozenset({("AddFwdOp", "mixed-float16-float32")}))
    shorter = efficiency_page.page({"runs": [RUN], "rows": ROWS}, PUBLISHED, NO_LEAGUE)
    assert _cells(shorter, "To the hardware's limit", "two operands") == ["1", "1", "0.90", "0.90", "0.90", "0.90"]
    assert "Left out: 1 recorded row of earlier workloads." in shorter and "mixed" not in shorter


def test_the_published_file_says_whose_figures_it_holds_and_is_read_whole():
    path = paths.data_path("perf", "recorded", "published", "tileops-2026-08-22-h200.tsv")
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# ") and "licence" in lines[0]
    found = efficiency_page.published_rows(path)
    assert len(found) == sum(not line.startswith("#") for line in lines) - 1
    assert all(row.kernel_s > 0 and (row.baseline_s is None) == (row.baseline == "") for row in found.values())


def test_what_others_published_has_todays_names(tmp_path):
    (old,) = (old for old, known in renames.load().ops.items() if known.name == "SiLUFwdOp")
    path = tmp_path / "rows.tsv"
    path.write_text(
        f"# from elsewhere\nop\tlabel\tdtype\tkernel_ns\tbaseline\tbaseline_ns\n{old}\tmine\tfloat16\t1000\t\t\n"
    )
    assert efficiency_page.published_rows(path) == {("SiLUFwdOp", "mine", "float16"): Published(1e-6, "", None)}


def test_the_page_that_the_build_makes_compares_rows():
    try:
        page = paths.data_path("docs", "efficiency.md").read_text()
    except FileNotFoundError:
        pytest.skip("the page is made by Bazel alone")
    assert int(_cells(page, "To published times", "all")[0]) > 300
    # The page that is written by hand quotes the counts of the page that the build makes.
    (counts,) = [line for line in page.splitlines() if line.startswith("Of ")]
    assert counts in " ".join(paths.data_path("docs", "what-remains.md").read_text().split())


def test_the_tool_is_loaded_without_a_warning():
    # As the build loads it, with what its own deps bring: torch warns where that has no numpy.
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", "import tileops.docs.efficiency_page, torch"],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
