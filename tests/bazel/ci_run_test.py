"""`.ci/run` forces Bazel's sandbox where it starts, says where it does not, and counts what ran."""

import pathlib
import shutil
import subprocess

import pytest

BAZELW = """#!/bin/sh
if [ "$1" = info ]; then echo "{install}"; exit; fi
echo "flags: $*"
echo "//a:b                 PASSED in 1.0s"
echo "//a:c                 (cached) PASSED in 1.0s"
echo "//a:d                 FAILED in 1.0s"
exit 3
"""


@pytest.mark.parametrize("status", [0, 1], ids=["a sandbox", "no sandbox"])
def test_the_sandbox_is_forced_where_it_starts(tmp_path, status):
    (tmp_path / ".ci").mkdir()
    shutil.copy(pathlib.Path(".ci/run"), tmp_path / ".ci" / "run")
    programs = {
        "bazelw": BAZELW.format(install=tmp_path),
        "linux-sandbox": f"#!/bin/sh\n[ \"$*\" = '-- /bin/true' ] || exit 9\nexit {status}\n",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(["bash", ".ci/run", "//a/..."], cwd=tmp_path, capture_output=True, text=True, check=False)
    forced = "--spawn_strategy=linux-sandbox "
    assert done.stdout.splitlines()[0] == f"flags: test {forced if status == 0 else ''}//a/..."
    assert ("sandbox does not start on this machine" in done.stderr) == (status != 0)
    assert done.stdout.splitlines()[-1] == "2 passed, 1 failed"
    assert done.returncode == 3
