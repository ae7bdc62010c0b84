"""ruff finds nothing to format and nothing to report; mypy finds no error in the packages of TYPED.

These tests read the checkout itself, so that no new folder can be forgotten. Settings: pyproject.toml.
"""

import os
import pathlib
import subprocess
import sys

import pytest

from tileops.tools import import_root

RUNFILES = pathlib.Path.cwd()
# Runfiles are links to the files of the checkout.
CHECKOUT = (RUNFILES / "pyproject.toml").resolve().parent

TYPED = ("tileops.manifest", "tileops.codegen", "tileops.perf", "tileops.audit", "tileops.ops")


def run(*command: str, **variables: str) -> None:
    """Runs a Python program on the checkout; its output is the failure."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)


def test_every_source_file_is_formatted():
    run("ruff", "format", "--check", "--diff", "--no-cache", ".")


def test_no_source_file_has_lint():
    run("ruff", "check", "--no-cache", ".")


def test_types_agree(tmp_path):
    sources, generated = import_root.lay_out(CHECKOUT, RUNFILES, tmp_path)
    packages = [word for package in TYPED for word in ("-p", package)]
    run(
        "mypy",
        f"--cache-dir={tmp_path}/cache",
        "--follow-imports=silent",
        *packages,
        MYPYPATH=f"{sources}{os.pathsep}{generated}",
    )
