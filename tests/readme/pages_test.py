"""Every page of docs names files, folders and targets that the checkout has.

These tests read the checkout itself, so that no page and no folder can be forgotten.
"""

import pathlib
import re

import pytest

# Runfiles are links to the files of the checkout.
CHECKOUT = pathlib.Path("README.md").resolve().parent
PAGES = [
    *(CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "bazel/README.md")),
    *sorted((CHECKOUT / "docs").glob("*.md")),
]
FOLDERS = "manifest|codegen|ops|perf|audit|tests|profiles|proto|tools|bazel|docs"
# The language has such a file; no entry of the project needs one so far.
MAY_BE_MISSING = {"manifest/spec/types.yaml"}


def missing_paths(text: str) -> set[str]:
    """Paths in backticks below a folder of the project that name nothing; <family> and * stand for any name."""
    named = set(re.findall(rf"`((?:{FOLDERS})/[\w./*<>-]*)`", text)) - MAY_BE_MISSING
    return {path for path in named if not any(CHECKOUT.glob(re.sub(r"<\w+>", "*", path.rstrip("/"))))}


def missing_targets(text: str) -> set[str]:
    """Labels //folder:name whose BUILD.bazel has no such name; those of packages (//bazel/pip) are made when needed."""
    named = set(re.findall(r"(?<![:\w/])//((?!bazel/pip)[a-z]\w*(?:/\w+)*:\w+)\b", text))
    return {f"//{label}" for label in named if not _has_target(*label.split(":"))}


def _has_target(folder: str, name: str) -> bool:
    build = CHECKOUT / folder / "BUILD.bazel"
    return build.is_file() and f'name = "{name}"' in build.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(CHECKOUT).as_posix())
def test_a_page_names_what_there_is(page):
    text = page.read_text(encoding="utf-8")
    assert missing_paths(text) == set()
    assert missing_targets(text) == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(CHECKOUT).as_posix())
def test_links_of_a_page_lead_to_pages_and_headings(page):
    for link in re.findall(r"\]\(((?!https?:)[^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, heading = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if heading:
            heads = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
            assert heading in anchors, link


def test_wrong_names_are_noticed():
    assert missing_paths("`perf/bunch.py` `perf/bench.py` `ops/families/<family>.py`") == {"perf/bunch.py"}
    assert missing_targets("//perf:bench //perf:bunch //bunch:bench") == {"//perf:bunch", "//bunch:bench"}
