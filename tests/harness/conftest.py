"""Fixtures of the tests that run the bench as a command."""

import pytest

from tileops.tests.harness import runs


@pytest.fixture
def start(tmp_path):
    """Starts the command with the toy ops in `tmp_path`."""
    return lambda *flags, **options: runs.start(tmp_path, runs.TOY, *flags, **options)


@pytest.fixture
def bench(start):
    """Runs it to its end; returns (status, stdout, stderr)."""

    def run(*flags, **options):
        process = start(*flags, **options)
        out, err = process.communicate(timeout=240)
        return process.returncode, out, err

    return run
