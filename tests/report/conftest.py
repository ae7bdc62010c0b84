"""The commands that read run files, as processes of their own."""

import functools
import os
import subprocess
import sys

import pytest

from tileops.tests.report import builders


@pytest.fixture
def start_command(tmp_path):
    """Starts a command of perf/ in `tmp_path`, its output in pipes; returns the process."""
    environment = dict(os.environ, BUILD_WORKING_DIRECTORY=str(tmp_path))
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)

    def popen(name, *flags, **settings):
        return subprocess.Popen(
            [sys.executable, "-m", f"tileops.perf.{name}", *flags],
            **{"env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | settings,
        )

    return popen


@pytest.fixture
def start(tmp_path, start_command):
    """Starts //perf:roofline in `tmp_path`, beside a profile of the builders' GPU; returns the process."""
    (tmp_path / "gpu.textproto").write_text(builders.PROFILE_TEXT)
    return functools.partial(start_command, "roofline")


@pytest.fixture
def roofline(start):
    """Runs the command in `tmp_path`; returns (status, stdout, stderr)."""

    def run(*flags):
        command = start(*flags, text=True)
        out, err = command.communicate()
        return command.returncode, out, err

    return run
