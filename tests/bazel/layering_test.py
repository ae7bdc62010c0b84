"""forbidden_deps finds what is there, and says how it is reached."""

import pathlib
import subprocess
import sys

QUERIES = pathlib.Path("tests/bazel")


def judge(query: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-S", "bazel/layering_main.py", QUERIES / query, "of a reason"], capture_output=True, text=True
    )
    return done.returncode, done.stderr


def test_a_forbidden_dependency_is_found_and_shown():
    status, said = judge("broken_rule_query")
    assert status == 1
    assert "//tests/bazel:greeter must not reach //bazel/pip:rich, because of a reason" in said
    assert "  -> //tests/bazel:greeter\n  -> //bazel/pip:rich\n" in said


def test_a_kept_rule_passes():
    assert judge("kept_rule_query") == (0, "")
