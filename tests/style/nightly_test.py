"""Every test that has a nightly target runs in //tests:nightly, which lists them by name."""

import pathlib
import re

# Runfiles are links to the files of the checkout.
TESTS = (pathlib.Path.cwd() / "pyproject.toml").resolve().parent / "tests"


def test_every_nightly_target_is_listed():
    made = set()
    for build in TESTS.glob("*/BUILD.bazel"):
        for rule in re.split(r"\n(?=\S)", build.read_text(encoding="utf-8")):
            if re.search(r"^    nightly = ", rule, re.MULTILINE):
                (name,) = re.findall(r'^    name = "(\w+)"', rule, re.MULTILINE)
                made.add(f"//tests/{build.parent.name}:{name}_nightly")
    listed = re.findall(r'"(//tests/\w+:\w+_nightly)"', (TESTS / "BUILD.bazel").read_text(encoding="utf-8"))
    assert made and sorted(made) == listed
