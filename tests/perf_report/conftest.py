"""//perf:roofline as a process of its own."""

import os
import subprocess
import sys

import pytest

from tileops.tests.perf_report import builders


@pytest.fixture
def start(tmp_path):
    """Starts the command in `tmp_path`, its output in pipes; returns the process."""
    environment = dict(os.environ, BUILD_WORKING_DIRECTORY=str(tmp_path))
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)

    def popen(*flags, **settings):
        return subprocess.Popen(
            [sys.executable, "-m", "tileops.perf.roofline", *flags],
            **{"env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | settings,
        )

    (tmp_path / "gpu.textproto").write_text(builders.PROFILE_TEXT)
    return popen


@pytest.fixture
def roofline(start):
    """Runs the command in `tmp_path`; returns (status, stdout, stderr)."""

    def run(*flags):
        command = start(*flags, text=True)
        out, err = command.communicate()
        return command.returncode, out, err

    return run
