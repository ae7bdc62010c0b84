"""./bazelw and tools/bazel find a Bazel and give it the flags that it needs; each program here is a stand-in."""

import pathlib
import shutil
import subprocess

import pytest

# What the scripts call besides Bazel and its installers.
TOOLS = ("awk", "basename", "bash", "cat", "chmod", "dirname", "env", "grep", "head", "id", "mkdir", "mktemp")
TOOLS += ("python3", "realpath", "rm", "sort", "tail", "xargs")

# The wrapper script of Debian's package and Bazelisk do this with a workspace that has tools/bazel.
CALLS_TOOLS_BAZEL = '#!/bin/bash\nBAZEL_REAL={real} exec tools/bazel "$@"\n'


class Machine:
    """A workspace, and a PATH that holds only what a test puts there."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.workspace = folder / "workspace"
        self.bin = folder / "bin"
        self.home = folder / "home"
        for made in (self.workspace / "tools", self.bin, self.home):
            made.mkdir(parents=True)
        for source in ("bazelw", "tools/bazel", ".bazelversion"):
            shutil.copy(source, self.workspace / source)
        for tool in TOOLS:
            found = shutil.which(tool)
            if found:
                (self.bin / tool).symlink_to(found)

    def add(self, name: str, text: str) -> pathlib.Path:
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def add_bazel(self, name: str, version: str) -> pathlib.Path:
        """A Bazel that prints its arguments. Not a script by its first bytes, as the real one is not."""
        return self.add(name, f'[[ $1 == --version ]] && echo "bazel {version}" || echo "$@"\n')

    def run(self, program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["bash", program, *arguments],
            cwd=self.workspace,
            env={"PATH": str(self.bin), "HOME": str(self.home)} | environment,
            capture_output=True,
            text=True,
        )


@pytest.fixture(name="machine")
def machine_fixture(tmp_path):
    return Machine(tmp_path)


def test_flags_stand_behind_the_command(machine):
    real = machine.add_bazel("bazel-7.7.1", "7.7.1")
    done = machine.run("tools/bazel", "--output_base=/o", "run", "//a:b", "--", "--flag", BAZEL_REAL=str(real))
    assert done.stdout == "--output_base=/o run --noenable_bzlmod //a:b -- --flag\n"


def test_nothing_is_added_where_there_is_no_command(machine):
    real = machine.add_bazel("bazel-7.7.1", "7.7.1")
    assert machine.run("tools/bazel", "--version", BAZEL_REAL=str(real)).stdout == "bazel 7.7.1\n"


def test_bazel_4_needs_no_word_about_modules(machine):
    # Debian's calls itself no_version.
    real = machine.add_bazel("bazel-4", "no_version")
    assert machine.run("tools/bazel", "info", BAZEL_REAL=str(real)).stdout == "info\n"


def test_another_major_is_refused(machine):
    real = machine.add_bazel("bazel-9.0.0", "9.0.0")
    done = machine.run("tools/bazel", "info", BAZEL_REAL=str(real))
    assert done.returncode == 1
    assert "is Bazel 9; this workspace is built with 4.2.3 to 7.7.1" in done.stderr


def test_bazelw_gives_a_plain_bazel_its_flags(machine):
    machine.add_bazel("bazel", "7.7.1")
    assert machine.run("bazelw", "build", "//a").stdout == "build --noenable_bzlmod //a\n"


@pytest.mark.parametrize("name", ["bazel", "bazelisk"])
def test_bazelw_leaves_the_flags_to_a_wrapper(machine, name):
    real = machine.add_bazel("bazel-7.7.1", "7.7.1")
    machine.add(name, CALLS_TOOLS_BAZEL.format(real=real))
    assert machine.run("bazelw", "build", "//a").stdout == "build --noenable_bzlmod //a\n"


def test_bazelw_installs_bazelisk_with_npm(machine):
    real = machine.add_bazel("bazel-7.7.1", "7.7.1")
    wrapper = machine.add("wrapper", CALLS_TOOLS_BAZEL.format(real=real))
    # npm install --silent --no-fund --no-audit --prefix DIR @bazel/bazelisk
    machine.add(
        "npm",
        f"#!/bin/bash\nmkdir -p $6/node_modules/.bin && cat {wrapper} >$6/node_modules/.bin/bazelisk && "
        f"chmod +x $6/node_modules/.bin/bazelisk\n",
    )
    done = machine.run("bazelw", "build", "//a")
    assert done.stdout == "build --noenable_bzlmod //a\n"
    assert "bazelw: installing @bazel/bazelisk with npm" in done.stderr
    # It is kept: the second call installs nothing.
    (machine.bin / "npm").unlink()
    again = machine.run("bazelw", "build", "//a")
    assert (again.stdout, again.stderr) == ("build --noenable_bzlmod //a\n", "")


def test_bazelw_installs_debians_packages(machine):
    # As root, or through sudo where the tests run as somebody else.
    machine.add("sudo", '#!/bin/bash\nshift; exec "$@"\n')
    machine.add("dpkg-query", '#!/bin/bash\necho "bazel-skylib installed"; exit 1\n')
    plain_bazel = '[[ $1 == --version ]] && echo bazel 7.7.1 || echo "$@"'
    machine.add(
        "apt-get",
        f'#!/bin/bash\necho "$@" >>$HOME/apt.log\n'
        f"echo '{plain_bazel}' >{machine.bin}/bazel; chmod +x {machine.bin}/bazel\n",
    )
    done = machine.run("bazelw", "build", "//a")
    assert done.stdout == "build --noenable_bzlmod //a\n"
    assert "bazelw: installing with apt-get: bazel-bootstrap bazel-platforms bazel-rules-java" in done.stderr
    update, install = (machine.home / "apt.log").read_text().splitlines()
    assert update.startswith("update")
    assert "bazel-bootstrap" in install and "bazel-skylib" not in install


def test_bazelw_says_what_to_install(machine):
    done = machine.run("bazelw", "build", "//a")
    assert done.returncode == 1
    assert "found no Bazel and could not install it" in done.stderr
    assert "npm install -g @bazel/bazelisk" in done.stderr
