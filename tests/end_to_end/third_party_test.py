"""The bench needs the project's packages and no other: a list, held against what its files import."""

from __future__ import annotations

import ast
import os
import pty
import subprocess
import sys
import zipfile

import pytest

from tileops.tools.cli import paths

# What the bench needs of a machine, as README.md names it: import names.
NEEDED = {"absl", "google", "numpy", "torch"}
# What it can do without: a display of progress, and the project's own kernels.
OPTIONAL = {"rich", "triton"}
# Parts of torch's or Python's own distribution are no packages; yaml is read by --spec_dir alone.
FOR_SPEC_FILES = {"yaml"}
BY_NAME = {"importlib.import_module", "import_module", "__import__"}


def imported(source: str) -> set[str]:
    """Returns the top-level names of all absolute imports of a module, wherever they stand in it, and by name."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in BY_NAME:
            # Names that are put together begin with "tileops" or are the user's plugins.
            names |= {part.value.partition(".")[0] for part in node.args[:1] if isinstance(part, ast.Constant)}
    return names


def test_an_import_by_name_is_an_import():
    assert imported("importlib.import_module('pandas.io')\n__import__('scipy')") == {"pandas", "scipy"}


@pytest.mark.requirement("5.2.5")
def test_the_files_of_the_bench_import_the_listed_packages_alone():
    with zipfile.ZipFile(paths.data_path("perf", "bench_zip.zip")) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist() if name.endswith(".py")}
    # Files of libraries import their library; the bench reads such a file only if --baselines names it.
    foreign = {
        name: imported(text) - set(sys.stdlib_module_names) - {"tileops"}
        for name, text in files.items()
        if "/perf/baselines/" not in f"/{name}"
    }
    assert set().union(*foreign.values()) == NEEDED | OPTIONAL | FOR_SPEC_FILES


def bench_without(packages: set[str], tmp_path, **streams) -> subprocess.CompletedProcess:
    path = [entry for entry in sys.path if not any(f"pip_{package}/" in entry for package in packages)]
    assert len(path) == len(sys.path) - len(packages)
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path), BUILD_WORKING_DIRECTORY=str(tmp_path))
    command = [sys.executable, "-m", "tileops.perf.bench", "--device=cpu", "--op=AddFwdOp", "--out=run.binpb"]
    return subprocess.run(command, cwd=tmp_path, env=environment, text=True, **streams)


@pytest.mark.requirement("5.2.5")
def test_the_bench_runs_without_triton_and_without_rich(tmp_path):
    done = bench_without(OPTIONAL, tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run.binpb").stat().st_size > 0


def test_a_terminal_without_rich_gets_lines(tmp_path):
    outer, terminal = pty.openpty()
    try:
        done = bench_without(OPTIONAL, tmp_path, stdout=subprocess.PIPE, stderr=terminal)
    finally:
        os.close(terminal)
    said = os.read(outer, 1 << 16).decode()
    os.close(outer)
    assert done.returncode == 0, said
    assert "Traceback" not in said
