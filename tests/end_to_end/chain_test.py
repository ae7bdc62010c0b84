"""//perf:measured_report chains a run of the bench on this machine's device into its report, by build targets."""

import ast
import pathlib
import re
import subprocess

import pytest

from tileops.tools.cli import paths

# Stand-ins: the bench writes a run file, the roofline tool writes which run it read and in which form.
BENCH = """\
for flag in "$@"; do
  case "$flag" in --out=*) echo "the run of tonight" > "${flag#--out=}" ;; *) exit 64 ;; esac
done
"""
ROOFLINE = """\
run=the\\ recorded\\ run
for flag in "$@"; do
  case "$flag" in
    --run=*) run=$(cat "${flag#--run=}") ;;
    --format=*) form=${flag#--format=} ;;
    --out=*) out=${flag#--out=} ;;
    *) exit 64 ;;
  esac
done
echo "$form of $run" > "$out"
"""


def labels(name: str) -> list[str]:
    return paths.data_path("tests", "end_to_end", name).read_text().split()


def test_the_report_is_made_from_a_run_of_the_bench_and_by_the_roofline_tool():
    assert {"//perf:bench", "//perf:roofline"} <= set(labels("measured_tools"))


def test_it_measures_only_when_it_is_asked_for_and_never_from_a_cache():
    assert labels("measured_here") == ["//perf:measured_report"]


def command() -> str:
    """The target's command, which is Starlark and Python alike."""
    tree = ast.parse(paths.data_path("perf", "BUILD.bazel").read_text(encoding="utf-8"))
    rules = [
        {word.arg: word.value for word in node.keywords}
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "genrule"
    ]
    (rule,) = (rule for rule in rules if ast.literal_eval(rule["name"]) == "measured_report")
    return eval(compile(ast.Expression(rule["cmd"]), "perf/BUILD.bazel", "eval"))


def built(folder: pathlib.Path, bench_status: int, roofline_status: int) -> subprocess.CompletedProcess:
    """Runs the command as a genrule does, in a folder with stand-ins that end with these statuses."""
    for name, text, status in (("bench", BENCH, bench_status), ("roofline", ROOFLINE, roofline_status)):
        (folder / name).write_text(f"#!/bin/bash\n{text}exit {status}\n")
        (folder / name).chmod(0o755)
    line = re.sub(r"\$\(execpath :?([\w.]+)\)", r"./\1", command())
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line], cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_report_is_of_the_run_that_was_just_measured(tmp_path):
    done = built(tmp_path, 0, 0)
    assert (done.returncode, done.stderr) == (0, "")
    assert {path.name: path.read_text() for path in tmp_path.glob("measured_*")} == {
        "measured_run.binpb": "the run of tonight\n",
        "measured_report.txt": "table of the run of tonight\n",
        "measured_report.json": "json of the run of tonight\n",
        "measured_report.html": "html of the run of tonight\n",
    }


@pytest.mark.parametrize(
    ("bench_status", "roofline_status", "said"),
    [(1, 0, ""), (0, 1, "table of the run of tonight\n")],
    ids=["a row that failed", "a formula error"],
)
def test_the_build_fails_as_the_two_commands_do_and_shows_the_report(tmp_path, bench_status, roofline_status, said):
    done = built(tmp_path, bench_status, roofline_status)
    assert (done.returncode, done.stderr) == (1, said)
