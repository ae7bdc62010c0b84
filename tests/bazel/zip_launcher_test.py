"""A zip says at once which packages it needs, where they are not installed."""

import hashlib
import os
import pathlib
import subprocess
import sys
import zipfile

LAUNCHER = pathlib.Path(__file__).absolute().parents[2] / "bazel" / "zip_launcher.py"


def run_zip(tmp_path, environment=None, **sources):
    """Runs a zip whose main module is prog.main; returns the finished process.

    `environment` has what is added to that of the test.
    """
    path = tmp_path / "prog_zip.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(LAUNCHER, "__main__.py")
        archive.writestr("main_module.txt", "prog.main")
        for name, source in sources.items():
            archive.writestr(f"prog/{name}.py", source)
    return subprocess.run([sys.executable, path], capture_output=True, text=True, env=os.environ | (environment or {}))


def test_missing_packages_are_one_line(tmp_path):
    done = run_zip(
        tmp_path,
        main="import os.path\nfrom prog import part\n",
        part=(
            "import no_such_package.inner as x\n"
            "from no_such_family import one\n"
            "import pytest\n"
            "def later():\n    import not_needed_at_start\n"
        ),
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "prog_zip: needs the packages no_such_family, no_such_package, pytest;"
        f" {sys.executable} lacks no_such_family, no_such_package\n"
    )


def test_packages_go_by_the_names_that_install_them(tmp_path):
    source = "from absl import app\nfrom google.protobuf import message\nimport yaml\nimport no_such\n"
    done = run_zip(tmp_path, main=source)
    assert "needs the packages absl-py, no_such, protobuf, pyyaml;" in done.stderr


def test_what_a_program_only_tries_to_import_is_not_needed(tmp_path):
    source = "try:\n    import no_such\nexcept ImportError:\n    print('without')\n"
    done = run_zip(tmp_path, main=source)
    assert (done.returncode, done.stdout) == (0, "without\n")


def test_a_zip_that_is_told_no_revision_names_its_own_content(tmp_path):
    source = "import os\nprint(os.environ['TILEOPS_REVISION'])\n"
    done = run_zip(tmp_path, {"TILEOPS_REVISION": ""}, main=source)
    content = hashlib.sha256((tmp_path / "prog_zip.zip").read_bytes()).hexdigest()
    assert done.stdout == f"zip-{content}\n"
    assert run_zip(tmp_path, {"TILEOPS_REVISION": "abc123"}, main=source).stdout == "abc123\n"
