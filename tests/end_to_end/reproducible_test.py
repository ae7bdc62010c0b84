"""Every file that the build generates has the same bytes when it is made again in another directory.

Bazel made the files that this test reads. The test runs each generator once more: in a directory of its own, with other
hash seeds, another time zone, home and temporary directory.
"""

from __future__ import annotations

import ast
import os
import pathlib
import re
import runpy
import subprocess
import sys

import pytest

from tileops.tools.cli import paths

# Steps of the build that generate files, as Bazel lists them.
GENERATORS = set(paths.data_path("tests", "end_to_end", "generators").read_text().split())

# What each test below makes again.
MODULES = {label for label in GENERATORS if re.fullmatch(r"//ops/generated:\w+_emit", label)}
MESSAGES = {label for label in GENERATORS if re.fullmatch(r"//proto:\w+_protoc", label)}
INDEX = {"//ops:row_index_emit"}
PAGES = {"//docs:ops", "//docs:efficiency"}
REPORTS = {"//perf:h200_report", "//perf:price_report"}
# Made again by another test, and not reproducible: it measures.
ELSEWHERE = {"//docs:requirement"}
MEASURES = {"//perf:measured_report"}

# Runfiles are links to the files of the checkout.
CHECKOUT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(name="again")
def again_fixture(tmp_path):
    """Runs a module in an empty directory of its own, under another environment; returns that directory."""
    folders = {name: tmp_path / name for name in ("work", "home", "scratch")}
    for folder in folders.values():
        folder.mkdir()

    def run(module: str, *arguments: str) -> pathlib.Path:
        environment = dict(
            os.environ,
            PYTHONPATH=os.pathsep.join(sys.path),
            PYTHONHASHSEED="12345",
            TZ="Pacific/Auckland",
            LC_ALL="C",
            HOME=str(folders["home"]),
            TMPDIR=str(folders["scratch"]),
            BUILD_WORKING_DIRECTORY=str(folders["work"]),
        )
        command = [sys.executable, "-m", module, *arguments]
        done = subprocess.run(command, cwd=folders["work"], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return folders["work"]

    return run


def assert_same(made: pathlib.Path, *built: str) -> None:
    assert made.read_bytes() == paths.data_path(*built).read_bytes(), f"{'/'.join(built)} differs when made again"


def test_every_generator_is_made_again_by_a_test():
    assert MODULES and MESSAGES
    assert GENERATORS == MODULES | MESSAGES | INDEX | PAGES | REPORTS


def test_no_generator_of_the_checkout_is_left_out():
    found = set()
    for folder in sorted(path for path in CHECKOUT.iterdir() if path.is_dir() and not path.is_symlink()):
        for build in folder.rglob("BUILD.bazel"):
            calls = [node for node in ast.walk(ast.parse(build.read_text())) if isinstance(node, ast.Call)]
            for call in calls:
                if ast.unparse(call.func) in ("genrule", "native.genrule"):
                    (name,) = [ast.literal_eval(word.value) for word in call.keywords if word.arg == "name"]
                    found.add(f"//{build.parent.relative_to(CHECKOUT).as_posix()}:{name}")
    assert found == INDEX | PAGES | REPORTS | ELSEWHERE | MEASURES
    messages = {f"//proto:{path.stem}_py_protoc" for path in (CHECKOUT / "proto").glob("*.proto")}
    assert messages == MESSAGES


def test_op_modules(again):
    folder = again("tileops.codegen.emit", f"--spec_dir={paths.data_path('manifest', 'spec')}", "--out_dir=modules")
    made = {module.stem: module for module in (folder / "modules").glob("*.py")}
    assert {f"//ops/generated:{name}_emit" for name in made} == MODULES
    # Bazel's copy is text of a BUILD file and comes from no program.
    families = runpy.run_path(str(made.pop("families")))["FAMILIES"]
    assert families == runpy.run_path(str(paths.data_path("ops", "generated", "families.py")))["FAMILIES"]
    for name, module in made.items():
        assert_same(module, "ops", "generated", f"{name}.py")


@pytest.mark.parametrize("label", sorted(MESSAGES))
def test_protobuf_messages(again, label):
    stem = label.removeprefix("//proto:").removesuffix("_py_protoc")
    root = paths.data_path("proto").parent
    folder = again(
        "tileops.bazel.protoc",
        f"-Itileops/proto={root / 'proto'}",
        "--python_out=.",
        "--pyi_out=.",
        f"tileops/proto/{stem}.proto",
    )
    for suffix in ("_pb2.py", "_pb2.pyi"):
        assert_same(folder / "tileops" / "proto" / f"{stem}{suffix}", "proto", f"{stem}{suffix}")


def test_row_index(again):
    assert_same(again("tileops.perf.row_index_tool", "--out=index.py") / "index.py", "ops", "row_index_data.py")


@pytest.mark.parametrize("form, name", [("table", "txt"), ("json", "json"), ("html", "html")])
def test_report_of_recorded_runs(again, form, name):
    folder = again("tileops.perf.roofline", "--reproducible", f"--format={form}", f"--out=report.{name}")
    assert_same(folder / f"report.{name}", "perf", f"h200_report.{name}")


def test_prices_and_pages(again):
    folder = again("tileops.perf.bench", "--device=meta", "--reproducible", "--out=price_run.binpb")
    assert_same(folder / "price_run.binpb", "perf", "price_run.binpb")
    flags = ("--run=price_run.binpb", "--profile=NVIDIA H200", "--predict", "--reproducible")
    for form, name in (("table", "txt"), ("json", "json")):
        again("tileops.perf.roofline", *flags, f"--format={form}", f"--out=prices.{name}")
        assert_same(folder / f"prices.{name}", "perf", f"price_report.{name}")
    again("tileops.perf.roofline", "--format=json", "--reproducible", "--out=report.json")
    again("tileops.docs.ops_page", "--report=report.json", "--out=ops.md")
    assert_same(folder / "ops.md", "docs", "ops.md")
    published = next(paths.data_path("perf", "recorded", "published").glob("*.tsv"))
    again("tileops.perf.league", "--format=json", "--out=league.json")
    flags = ("--report=report.json", "--league=league.json", f"--published={published}")
    again("tileops.docs.efficiency_page", *flags, "--out=efficiency.md")
    assert_same(folder / "efficiency.md", "docs", "efficiency.md")
