"""//manifest:validate --watch validates again after each save, and checks only the entries that the save changed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
import yaml

from tileops.codegen import watching
from tileops.codegen.memory import Memory
from tileops.codegen.pipeline import analyse_files
from tileops.manifest.language import effort
from tileops.manifest.reading import loader
from tileops.tests.manifest.entries import OP, VALID, variant
from tileops.tests.manifest.totality import CORPUS

SECOND = f"Other{OP}"


def dumped(**entries) -> str:
    return yaml.safe_dump(entries, sort_keys=False)


VALID_FILE = dumped(**{OP: VALID, SECOND: VALID})


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """A folder with one valid file, and the command that watches it."""
    folder = tmp_path_factory.mktemp("watched")
    (folder / "demo.yaml").write_text(VALID_FILE)
    command = subprocess.Popen(
        [sys.executable, "-m", "tileops.codegen.validate", f"--spec_dir={folder}", "--watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert next_count(command) == ["0 defects in 2 entries of 1 file"]
    assert "Ctrl-C" in command.stderr.readline()
    yield folder, command
    command.send_signal(signal.SIGINT)
    _, said = command.communicate()
    assert (command.returncode, said) == (130, "validate: interrupted\n")


@pytest.fixture
def watched(process):
    """The folder and the command. Afterwards the file is valid again, and the command has said so."""
    folder, command = process
    yield folder, command
    (folder / "demo.yaml").write_text(VALID_FILE)
    assert next_count(command)[-1].startswith("0 defects in ")


def next_count(command: subprocess.Popen[str]) -> list[str]:
    """The lines up to the next that counts the defects or says why there is none to count."""
    lines = []
    while not (lines and re.search(r"entr(y|ies) of|no spec file", lines[-1])):
        lines.append(command.stdout.readline().rstrip("\n"))
    return lines


def codes(lines: list[str]) -> list[str]:
    return re.findall(r"\[([MR]\d{3})\]$", "\n".join(lines), re.MULTILINE)


def test_a_save_is_validated_and_only_its_entry_is_checked(watched):
    folder, command = watched
    (folder / "demo.yaml").write_text(dumped(**{OP: VALID, SECOND: variant("status", "done")}))
    _, head, *lines = next_count(command)
    assert re.fullmatch(r"demo\.yaml: checked 1 entry in [0-9.]+ s", head) and codes(lines) == ["M012"]
    assert lines[-1].startswith("1 defect in 2 entries of 1 file")


def test_an_atomic_rename_is_a_save(watched):
    folder, command = watched
    (folder / "demo.yaml.new").write_text(dumped(**{OP: variant("status", "done"), SECOND: VALID}))
    os.replace(folder / "demo.yaml.new", folder / "demo.yaml")
    assert codes(next_count(command)) == ["M012"]


def test_a_file_that_disappears_and_a_folder_without_files_end_nothing(watched):
    folder, command = watched
    os.rename(folder / "demo.yaml", folder / "backup")
    assert next_count(command)[2:] == [f"--spec_dir={folder}: no spec file (*.yaml)"]
    os.rename(folder / "backup", folder / "demo.yaml")
    assert next_count(command)[-1] == "0 defects in 2 entries of 1 file"
    (folder / "more.yaml").write_text(dumped(ThirdFwdOp={**VALID, "family": "more"}))
    assert next_count(command)[-1] == "0 defects in 3 entries of 2 files"
    (folder / "more.yaml").unlink()
    assert next_count(command)[-1] == "0 defects in 2 entries of 1 file"


def test_a_file_that_is_missing_for_a_moment_is_one_save(tmp_path, monkeypatch):
    """The file is missing at two looks, and back at the third: that is no deletion."""
    file = tmp_path / "demo.yaml"
    file.write_text("old")
    seen, looks = watching.state([str(file)]), []

    def files():
        looks.append(None)
        if len(looks) == 1:
            file.unlink()
        if len(looks) == 3:
            file.write_text("new and longer")
        return [str(path) for path in tmp_path.glob("*.yaml")]

    monkeypatch.setattr(watching.time, "sleep", lambda seconds: None)
    found = watching.next_state(files, seen)
    assert watching.changed(seen, found) == [str(file)] and found == watching.state([str(file)])
    assert found[str(file)][1] == len("new and longer")


# What somebody who edits the corpus does to it, in this order: (file, text, its replacement).
EDITS = [
    ("norms.yaml", "", "# moved by a line\n"),
    ("norms.yaml", "status: spec-only", "status: done"),
    ("norms.yaml", "# moved by a line\n", ""),
    ("norms.yaml", "", "\n\n"),
    ("norms.yaml", "status: done", "status: spec-only"),
    ("types.yaml", "int", "integer"),
    ("types.yaml", "integer", "int"),
    ("ragged.yaml", "float16", "float17"),
    ("ragged.yaml", "float17", "float16"),
    ("reductions.yaml", "default: false", "default: 0"),  # equal for Python
    ("reductions.yaml", "default: 0", "default: false"),
    ("grouped.yaml", "label", "labels"),
]


def test_what_is_remembered_is_what_a_fresh_check_finds(tmp_path):
    for file in CORPUS.glob("*.yaml"):
        shutil.copy(file, tmp_path)
    files = loader.spec_files(str(tmp_path))
    memory = Memory()
    analyse_files(files, memory=memory)
    for name, old, new in EDITS:
        text = (tmp_path / name).read_text()
        assert old in text, (name, old)
        (tmp_path / name).write_text(text.replace(old, new, 1) if old else new + text)
        again, fresh = analyse_files(files, memory=memory), analyse_files(files)
        assert list(again.diagnostics) == list(fresh.diagnostics), (name, old, new)
        assert again.unreached == fresh.unreached, (name, old, new)
        assert [checked.entry.line for checked, _ in again.entries.values()] == [
            checked.entry.line for checked, _ in fresh.entries.values()
        ]


def test_a_moved_entry_is_remembered_and_a_changed_type_is_checked_wherever_it_is_used(tmp_path):
    for file in CORPUS.glob("*.yaml"):
        shutil.copy(file, tmp_path)
    files = loader.spec_files(str(tmp_path))
    memory = Memory()

    def checks() -> int:
        before = memory.checks
        analyse_files(files, memory=memory)
        return memory.checks - before

    assert checks() == len(loader.load(files).entries) and checks() == 0
    norms = tmp_path / "norms.yaml"
    norms.write_text("# a comment\n" + norms.read_text())
    assert checks() == 0
    types = tmp_path / "types.yaml"
    for name, class_of_type in (("Scaling", "acme.scaling.PerRow"), ("Layout", "acme.layouts.Padded")):
        types.write_text(types.read_text().replace(class_of_type, "other" + class_of_type))
        signatures = [entry.signature for entry in loader.load(files).entries.values()]
        users = [one for one in signatures if any(name in param.type.split() for param in one.params.values())]
        assert checks() == len(users) > 0, name


def test_an_entry_that_took_all_effort_is_checked_again(tmp_path, monkeypatch):
    monkeypatch.setattr(effort, "MAX_STEPS", 50)
    (tmp_path / "demo.yaml").write_text(dumped(**{OP: VALID}))
    files, memory = loader.spec_files(str(tmp_path)), Memory()
    for checks in (1, 2):
        found = analyse_files(files, memory=memory).diagnostics
        assert [one.code for one in found] == ["M004"] and memory.checks == checks
