"""--baselines: which libraries are loaded, skipped or refused, and what a run says of them."""

import os
import sys

import pytest

from tileops.perf.harness import baselines
from tileops.perf.runs import headers, reader
from tileops.proto import benchmark_pb2
from tileops.tests.harness import runs

ROW = ("--op=RMSNormFwdOp", "--label=llama-8b-decode")
CPU = (*ROW, "--device=cpu", "--implementation=torch,good,wrong", "--out=run.binpb", "--baselines_dir=libs")

PLUGIN = """\
from tileops.ops import catalogue

PACKAGE = "{package}"
{more}

def norm(op, call, x, weight):
    import {module}

    return {module}.norm(x, weight, op.params["eps"])


catalogue.load()["RMSNormFwdOp"].register("{name}", norm)
"""
NORM = """\
def norm(x, weight, eps):
    wide = x.float()
    normal = wide * (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
    return ((normal if weight is None else normal * weight.float()){error}).to(x.dtype)
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Installs a package into a folder of PYTHONPATH: site(name, version, code)."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)

    def install(name, version, code):
        (folder / f"{name}.py").write_text(code)
        for old in folder.glob(f"{name}-*.dist-info/METADATA"):
            old.unlink()
            old.parent.rmdir()
        info = folder / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")

    return install


@pytest.fixture
def library(tmp_path):
    """Writes the plug-in file of a library."""
    (tmp_path / "libs").mkdir()

    def write(name, module=None, more="", implementation=None):
        package = module or f"{name}_package"
        path = tmp_path / "libs" / f"{name}.py"
        path.write_text(PLUGIN.format(package=package, module=package, more=more, name=implementation or name))
        return path

    return write


@pytest.fixture
def bench(tmp_path):
    """Runs the bench with the project's ops; returns (status, stdout, stderr)."""

    def run(*flags, **options):
        process = runs.start(tmp_path, *flags, **options)
        out, err = process.communicate(timeout=240)
        return process.returncode, out, err

    return run


@pytest.fixture
def five(site, library):
    """A right library, a wrong one, one that is missing, and two that are broken."""
    site("good_package", "1.2", NORM.format(error=""))
    site("wrong_package", "0.3", NORM.format(error=" + 1"))
    site("broken_package", "7", "raise OSError('libcudart.so.11: not found')\n")
    site("crash_package", "8", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    for name in ("good", "wrong", "missing"):
        library(name)
    library("broken", more='MODULES = ("broken_package",)')
    library("crash", more="import crash_package")


def _said(err):
    return [line.removeprefix("bench: ") for line in err.splitlines() if "--baselines=" in line]


def test_a_run_with_all_libraries_says_what_it_loaded_what_it_skipped_and_who_is_wrong(tmp_path, bench, five):
    status, _, err = bench(*CPU, "--baselines=all")
    assert status == 1, err  # a wrong result is an error, as of any implementation
    loaded_and_skipped = [
        ("broken", "broken_package", "7", "import broken_package: OSError: libcudart.so.11: not found"),
        ("crash", "crash_package", "8", "loading it failed: the process was killed by SIGKILL"),
        ("good", "good_package", "1.2", ""),
        ("missing", "missing_package", "", "missing_package is not installed"),
        ("wrong", "wrong_package", "0.3", ""),
    ]
    run = reader.read_run(tmp_path / "run.binpb")
    found = [(each.library, each.package, each.version, each.skipped) for each in run.header.baselines]
    for (*names, reason), (*expected, beginning) in zip(found, loaded_and_skipped, strict=True):
        assert names == expected and reason.startswith(beginning) and bool(reason) == bool(beginning)
    assert [line.split(": ", 1)[0] for line in _said(err)] == [f"--baselines={each[0]}" for each in found]
    for name, package, version, reason in found:
        said = f"skipped: {reason}" if reason else f"{package} {version}"
        assert err.count(f"--baselines={name}: {said}\n") == 1
    assert [(each.name, list(each.sources)) for each in run.header.plugins] == [
        ("--baselines=good", ["good.py"]),
        ("--baselines=wrong", ["wrong.py"]),
    ]
    records = {each.implementation: each for each in run.records()}
    assert {name: each.library for name, each in records.items()} == {"torch": "", "good": "good", "wrong": "wrong"}
    assert records["good"].status == runs.OK and records["good"].correctness.checked
    assert records["wrong"].status == runs.ERROR and "wrong result" in records["wrong"].message
    assert not records["wrong"].HasField("timing")


def test_the_default_is_what_a_call_takes_without_libraries(tmp_path, bench, five):
    flags = (*ROW, "--device=cpu", "--out=run.binpb", "--baselines_dir=libs", "--baselines=good")
    (tmp_path / "mine.py").write_text(
        "from tileops.ops import catalogue\n"
        "op_class = catalogue.load()['RMSNormFwdOp']\n"
        "right = op_class.implementations()[0].function\n"
        "op_class.register('mine', right)\n"
        "op_class.register('elsewhere', right, when=lambda call: False)\n"
    )
    status, _, err = bench(*flags, "--implementation=torch,mine,good", "--plugin=mine.py")
    assert status == 0, err
    records = {each.implementation: each for each in reader.read_run(tmp_path / "run.binpb").records()}
    assert {name: each.is_default for name, each in records.items()} == {"torch": False, "mine": True, "good": False}


def test_a_list_shows_the_implementations_of_libraries_and_misses_none(bench, five):
    status, out, err = bench(
        "--list", "--op=RMSNormFwdOp,ReLUFwdOp", "--baselines_dir=libs", "--baselines=good,missing"
    )
    assert status == 0, err
    rows = [line.split("\t") for line in out.splitlines()]
    norms = [names.split(",") for op, _, names in rows if op == "RMSNormFwdOp"]
    others = [names.split(",") for op, _, names in rows if op == "ReLUFwdOp"]
    assert all("good" in names for names in norms) and not any("good" in names for names in others)
    assert len(_said(err)) == len(err.splitlines()) == 2 and "good_package 1.2" in err


def test_a_library_that_serves_no_row_does_not_fail_the_run(bench, five):
    flags = ("--op=ReLUFwdOp", "--device=cpu", "--baselines_dir=libs", "--baselines=good", "--out=run.binpb")
    status, _, err = bench(*flags)
    assert status == 0 and "does not serve" not in err and "no selected row" not in err, err


def test_resume_needs_the_same_libraries_and_versions(tmp_path, bench, site, library):
    site("good_package", "1.2", NORM.format(error=""))
    library("good")
    library("missing")
    flags = (*ROW, "--device=cpu", "--implementation=torch,good", "--out=run.binpb", "--baselines_dir=libs")
    assert bench(*flags, "--baselines=good")[0] == 0
    # What is skipped takes no part.
    status, _, err = bench(*flags, "--baselines=all", "--resume")
    assert status == 0 and "resumed: 2 records kept, 0 to measure" in err, err
    before = (tmp_path / "run.binpb").read_bytes()
    site("good_package", "1.3", NORM.format(error=""))
    status, _, err = bench(*flags, "--baselines=good", "--resume")
    assert status == 2 and "--baselines=good is not the same (good_package 1.2 and 1.3)" in err
    assert (tmp_path / "run.binpb").read_bytes() == before


def test_runs_differ_in_libraries_in_their_files_and_in_their_versions():
    def header(version="1.2", digest="0", skipped=""):
        return benchmark_pb2.RunHeader(
            plugins=[benchmark_pb2.Plugin(name="--baselines=good", sources={"good.py": digest})],
            baselines=[
                benchmark_pb2.Baseline(library="good", package="good_package", version=version),
                benchmark_pb2.Baseline(library="fast", package="fast_package", version="1", skipped=skipped),
            ],
        )

    difference = headers.plugin_difference
    assert difference(header(), header()) is None
    assert difference(header(skipped="no GPU"), header(skipped="no GPU here")) is None
    assert difference(header(), header(version="1.3")) == "--baselines=good is not the same (good_package 1.2 and 1.3)"
    assert difference(header(), header(digest="1")) == "--baselines=good is not the same (its good.py)"
    assert "name --baselines=good in one run and nothing in the other" in difference(
        header(), benchmark_pb2.RunHeader()
    )


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--baselines=god"], "--baselines=god: no such library; there are: broken, crash, good, missing, wrong"),
        (["--baselines=all", "--device=meta"], "--baselines: not with --device=meta"),
        ([], "--baselines_dir needs --baselines"),
        (["--baselines=good", "--implementation=goood"], "no selected op has an implementation of this name"),
    ],
)
def test_wrong_flags_are_errors(bench, five, flags, said):
    status, out, err = bench(*ROW, "--list", "--baselines_dir=libs", *flags)
    assert (status, out) == (2, "") and said in err.splitlines()[-1], err


def test_an_implementation_that_hides_its_library_skips_it(bench, site, library):
    site("good_package", "1.2", NORM.format(error=""))
    library("good", implementation="better")
    status, out, err = bench(*ROW, "--list", "--baselines_dir=libs", "--baselines=good")
    assert status == 0 and "better" not in out
    assert "skipped: its implementation 'better' of RMSNormFwdOp is not named after the library" in err


def test_a_file_says_its_package_in_a_line_that_nobody_has_to_run(tmp_path):
    path = tmp_path / "good.py"
    for text, said in [
        ("", "no line PACKAGE"),
        ("PACKAGE = make()", "no line PACKAGE"),
        ("PACKAGE = 'a'\nMODULES = 'b'", "MODULES is no tuple of strings"),
        ("PACKAGE = (", "cannot be read as Python"),
    ]:
        path.write_text(text)
        with pytest.raises(baselines.BaselineError, match=said):
            baselines.find(["good"], str(tmp_path))
    path.write_text("import nothing_of_this_name\nPACKAGE = 'a-b'\nMODULES = ('a.b', 'a.c')\n")
    (tmp_path / "_helper.py").write_text("")
    (found,) = baselines.find(["all"], str(tmp_path))
    assert (found.name, found.package, found.modules) == ("good", "a-b", ("a.b", "a.c"))
    assert found.owns("good") and found.owns("good_fast") and not found.owns("goodness")
    assert found.version() is None and "nothing_of_this_name" not in sys.modules


def test_a_library_of_its_file_s_name_is_not_taken_for_the_file(tmp_path, bench, site, library):
    """perf/baselines/liger.py may say `import liger`: the file itself must never be what that finds."""
    site("good", "2", NORM.format(error=""))
    library("good", module="good")
    library("other", module="good", implementation="other")
    os.remove(tmp_path / "site" / "good.py")  # its distribution is there, its module is not
    status, _, err = bench(
        *CPU[:-3], "--out=run.binpb", "--baselines_dir=libs", "--baselines=other", "--implementation=other"
    )
    assert status == 1 and "No module named 'good' (other.py:" in err, err
