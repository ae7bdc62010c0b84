"""The main file of every pytest_test: runs pytest on the files it is given, and reports to Bazel.

Bazel's --test_filter is pytest's -k expression; --test_arg passes any other option of pytest. Tests that are marked
`nightly` are left out unless the environment holds TILEOPS_TEST_ALL=1, as it does in the targets of //tests:nightly.
"""

import os
import sys

import pytest

OPTIONS = (
    # Test files are found by path; what they import from this project they name as tileops.<folder>....
    "--import-mode=importlib",
    "--strict-markers",
    "-p",
    "no:cacheprovider",
    "-o",
    "xfail_strict=true",
    "-o",
    "markers=nightly: too long for every change; runs with TILEOPS_TEST_ALL=1\n"
    "requirement(*ids): proves these statements of docs/requirement.tsv",
    "-ra",
)


def main(arguments: list[str]) -> int:
    """Returns pytest's exit status; 5, no test, is a failure unless a filter took them all out."""
    # Bazel runs several tests at once. Threads of OpenMP that wait for work would keep the processors from them: on two
    # cores under load that took four times the processor time. Read when torch is imported, here and in commands.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    options = [*OPTIONS, f"--rootdir={os.getcwd()}"]
    if os.environ.get("TILEOPS_TEST_ALL") != "1":
        options += ["-m", "not nightly"]
    report = os.environ.get("XML_OUTPUT_FILE")
    if report:
        options.append(f"--junit-xml={report}")
    chosen = os.environ.get("TESTBRIDGE_TEST_ONLY")
    if chosen:
        options += ["-k", chosen]
    scratch = os.environ.get("TEST_TMPDIR")
    if scratch:
        options.append(f"--basetemp={scratch}/pytest")
    status = pytest.main([*options, *arguments])
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        if chosen:
            print(f"no test of this target fits --test_filter={chosen}")
            return 0
        print("no test was collected: a pytest_test has to hold one", file=sys.stderr)
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
