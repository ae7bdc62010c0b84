"""A zip holds the program and its data, no package, and runs under a plain Python."""

import pathlib
import subprocess
import sys
import zipfile

ZIP = pathlib.Path("tests/bazel/greeter_zip.zip").absolute()


def test_contents():
    with zipfile.ZipFile(ZIP) as archive:
        assert archive.namelist() == [
            "__main__.py",
            "main_module.txt",
            "tileops/tests/bazel/greeter.py",
            "tileops/tests/bazel/greeting.txt",
        ]
        assert {entry.date_time[0] for entry in archive.infolist()} == {1980}


def test_it_holds_nothing_of_the_day_or_the_machine():
    with zipfile.ZipFile(ZIP) as archive:
        entries = archive.infolist()
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {(entry.external_attr, entry.create_system, entry.extra) for entry in entries} == {(0o100644 << 16, 3, b"")}
    names = [entry.filename for entry in entries][2:]
    assert names and names == sorted(names)


def test_runs_where_the_user_stands(tmp_path):
    # A module of the user's own is no part of the program.
    (tmp_path / "pathlib.py").write_text("raise SystemExit('wrong pathlib')")
    done = subprocess.run([sys.executable, "-S", ZIP, "3", "--x"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "good morning 3 --x\n"
    assert done.returncode == 3
