"""What pytest_test's main file makes of an outcome."""

import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

import pytest

MAIN = pathlib.Path("bazel/pytest_main.py").absolute()


@pytest.fixture(name="run")
def run_fixture(tmp_path):
    """Runs the main file on one test file with `text`; returns (exit status, output, report)."""

    def run(text, **environment):
        (tmp_path / "some_test.py").write_text(text)
        report = tmp_path / "report.xml"
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("TEST", "TILEOPS_TEST", "OMP_"))
        }
        done = subprocess.run(
            [sys.executable, "-P", "-S", MAIN, "some_test.py"],
            cwd=tmp_path,
            env=kept | {"XML_OUTPUT_FILE": str(report)} | environment,
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout + done.stderr, xml.etree.ElementTree.parse(report)

    return run


def test_passing_and_failing(run):
    status, _, report = run("def test_a(): pass\ndef test_b(): assert 0")
    assert status == 1
    assert report.find("testsuite").get("tests") == "2"
    assert report.find("testsuite").get("failures") == "1"


def test_no_test_is_a_failure(run):
    status, output, _ = run("def helper(): pass")
    assert status != 0
    assert "no test was collected" in output


def test_a_filter_chooses(run):
    status, _, report = run("def test_a(): pass\ndef test_b(): assert 0", TESTBRIDGE_TEST_ONLY="test_a")
    assert status == 0
    assert report.find("testsuite").get("tests") == "1"


def test_a_test_marked_nightly_runs_only_with_all_tests(run):
    text = "import pytest\ndef test_a(): pass\n@pytest.mark.nightly\ndef test_b(): pass"
    status, _, report = run(text)
    assert (status, report.find("testsuite").get("tests")) == (0, "1")
    status, _, report = run(text, TILEOPS_TEST_ALL="1")
    assert (status, report.find("testsuite").get("tests")) == (0, "2")


def test_threads_that_wait_leave_the_processor_to_other_tests(run):
    text = "import os\ndef test_a(): assert os.environ['OMP_WAIT_POLICY'] == '{}'"
    assert run(text.format("PASSIVE"))[0] == 0
    assert run(text.format("ACTIVE"), OMP_WAIT_POLICY="ACTIVE")[0] == 0


def test_a_filter_that_takes_all_is_no_failure(run):
    status, output, _ = run("def test_a(): assert 0", TESTBRIDGE_TEST_ONLY="other")
    assert status == 0
    assert "no test of this target fits" in output
