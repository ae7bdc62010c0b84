"""CONTRIBUTING.md and CHANGELOG.md: floors, commands and links are those of the project."""

import ast
import pathlib
import re

import pytest

CONTRIBUTING = pathlib.Path("CONTRIBUTING.md").read_text(encoding="utf-8")
CHANGELOG = pathlib.Path("CHANGELOG.md").read_text(encoding="utf-8")


def _floors() -> dict[str, int]:
    """The floor of each whole folder, from 1 upwards, as the layering test has it."""
    tree = ast.parse(pathlib.Path("tests/layering/BUILD.bazel").read_text(encoding="utf-8"))
    ((floors),) = [
        ast.literal_eval(keyword.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "floors"
    ]
    return {
        name.removesuffix("/...") + "/": number
        for number, names in enumerate(floors, 1)
        for name in names
        if ":" not in name
    }


def _rows() -> list[tuple[int, str]]:
    """(floor, folder or module) of each row of the table."""
    return [(int(floor), name) for floor, name in re.findall(r"^\| (\d+) \| `([^`]+)`", CONTRIBUTING, re.MULTILINE)]


def test_the_table_has_every_folder_on_its_floor_lowest_first():
    rows = _rows()
    named = {name: floor for floor, name in rows if name in _floors()}
    assert named == _floors()
    assert [floor for floor, _ in rows] == sorted(floor for floor, _ in rows)


def test_the_two_lines_for_editors_lead_to_what_the_tools_read():
    settings = pathlib.Path("pyproject.toml").read_text(encoding="utf-8")
    lines = re.findall(r"^    (.+)$", CONTRIBUTING, re.MULTILINE)
    assert lines[0] == "./bazelw run //tools:import_root"
    for folder in re.findall(r"\$PWD/(build/\w+)", lines[1]):
        assert f'"{folder}"' in settings


@pytest.mark.parametrize("text", [CONTRIBUTING, CHANGELOG], ids=["contributing", "changelog"])
def test_links_lead_somewhere(text):
    for link in re.findall(r"\]\(((?!https:)[^)]+)\)", text):
        path, _, heading = link.partition("#")
        assert pathlib.Path(path).is_file(), link
        heads = re.findall(r"^#+ (.+)$", pathlib.Path(path).read_text(encoding="utf-8"), re.MULTILINE)
        assert not heading or heading in {head.lower().replace(" ", "-") for head in heads}, link


def test_a_release_builds_zips_that_there_are():
    (line,) = re.findall(r"\./bazelw build (.+_zip.*)$", CONTRIBUTING, re.MULTILINE)
    for label in line.split():
        folder, name = label.removeprefix("//").split(":")
        assert pathlib.Path(folder, name + ".zip").is_file(), f"{label}: no such target, or missing in this test's data"


def test_the_changelog_keeps_its_form():
    assert re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)[0] == "Unreleased"
    kinds = re.findall(r"^### (.+)$", CHANGELOG, re.MULTILINE)
    assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
