"""README.md's commands name targets and flags that exist, and its links lead somewhere."""

import functools
import pathlib
import re
import shutil
import subprocess

import pytest

README = pathlib.Path("README.md").read_text()

# Commands stand indented by four spaces, one a line.
COMMANDS = re.findall(r"^    (?:ssh \S+ )?((?:\./bazelw|python3) .+)$", README, re.MULTILINE)
COMMANDS += re.findall(r"`((?:\./bazelw|python3) \S+ [^`]+)`", README)

# Labels that stayed where users know them when their programs moved: aliases.
MOVED = {"//manifest:validate": "//codegen:validate", "//ops:conformance": "//ops/conformance:conformance"}

TARGETS = sorted(set(re.findall(r"//\w[\w/]*:\w+", README)))


def files_of(target: str) -> list[pathlib.Path]:
    """The files that a target of this test's data brings: the program, or what the target builds."""
    folder, name = MOVED.get(target, target).removeprefix("//").split(":")
    return [path for path in pathlib.Path(folder).glob(name + "*") if path.name.split(".")[0] == name]


@functools.cache
def flags_of(program: str) -> set[str]:
    """The names of the flags that a program takes, by its own help."""
    done = subprocess.run([program, "--helpfull"], capture_output=True, text=True)
    return set(re.findall(r"--(?:\[no\])?(\w+)", done.stdout))


def program_and_flags(command: str) -> tuple[str, list[str]] | None:
    """The program that a command starts, as a path, and the names of the flags it gives it."""
    words = command.split()
    if words[:2] == ["./bazelw", "run"]:
        program = MOVED.get(words[2], words[2]).removeprefix("//").replace(":", "/")
    elif words[0] == "python3" and words[1].endswith("_zip.zip"):
        program = "perf/" + words[1].removesuffix("_zip.zip")
    else:
        return None
    return program, [re.match(r"--(\w+)", word).group(1) for word in words[2:] if re.match(r"--\w", word)]


RUNS = [found for found in map(program_and_flags, COMMANDS) if found]


def test_the_two_commands_are_there():
    assert {"./bazelw run //perf:roofline", "./bazelw test //..."} <= set(COMMANDS)


@pytest.mark.parametrize(("script", "tests"), [("run", "//..."), ("nightly", "//tests:nightly")])
def test_the_checks_run_their_tests_and_count_the_results(tmp_path, script, tests):
    (tmp_path / ".ci").mkdir()
    for name in ("run", "nightly"):
        shutil.copy(f".ci/{name}", tmp_path / ".ci")
    bazelw = tmp_path / "bazelw"
    bazelw.write_text('#!/bin/sh\necho "called: $*"\necho "//a:b  PASSED in 1s"\necho "//a:c  FAILED in 1s"\nexit 3\n')
    bazelw.chmod(0o755)
    done = subprocess.run([tmp_path / ".ci" / script], capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert done.stdout.splitlines() == [
        f"called: test {tests}",
        "//a:b  PASSED in 1s",
        "//a:c  FAILED in 1s",
        "1 passed, 1 failed",
    ]


@pytest.mark.parametrize("built", sorted(set(re.findall(r"bazel-bin/([\w/.]+)", README))))
def test_what_is_built_stands_where_it_says(built):
    assert pathlib.Path(built).is_file(), f"README.md says that a build makes bazel-bin/{built}"


def test_it_says_where_the_pages_are():
    assert all(f"`bazel-bin/docs/{page}.md`" in README for page in ("ops", "efficiency"))


@pytest.mark.parametrize("target", TARGETS)
def test_target_exists(target):
    assert files_of(target), f"README.md names {target}: no such target, or it is missing in this test's data"


@pytest.mark.parametrize(("program", "flags"), RUNS, ids=[f"{program} {flags}" for program, flags in RUNS])
def test_flags_exist(program, flags):
    assert not set(flags) - flags_of(program)


@pytest.mark.parametrize("link", re.findall(r"\]\(([^):]+)\)", README))
def test_link_leads_somewhere(link):
    assert pathlib.Path(link).exists()
