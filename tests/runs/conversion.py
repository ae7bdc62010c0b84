"""The fixture that runs //perf:records as a user does."""

import os
import re
import subprocess
import sys

import pytest


@pytest.fixture
def convert(tmp_path):
    """Runs the command in `tmp_path`; returns (status, stdout, stderr without the line that names the written file)."""
    environment = dict(os.environ, BUILD_WORKING_DIRECTORY=str(tmp_path))
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)

    def run(*flags, text=True):
        done = subprocess.run(
            [sys.executable, "-m", "tileops.perf.records", *flags], env=environment, capture_output=True, text=text
        )
        err = done.stderr
        return (
            done.returncode,
            done.stdout,
            re.sub(r"^records: wrote .*\n", "", err, flags=re.MULTILINE) if text else err,
        )

    return run
