"""Every page of docs names files, folders and targets that the checkout has, and counts what the manifest has.

These tests read the checkout itself, so that no page and no folder can be forgotten.
"""

import functools
import pathlib
import re

import pytest

from tileops.codegen import pipeline
from tileops.manifest.reading import loader

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


# A count of what changes from day to day: "all 78 ops", "of 735 rows", "shows all 735". Limits, as in "up to 2,000
# rows", are none.
COUNT = re.compile(
    r"\b(\d[\d,]*) (?:\w+ )?(ops|entries|families|statements|GPUs)\b|\b(?:all|of|has) (?:of )?(\d[\d,]*) (rows)\b"
    r"|\b(shows all) (\d[\d,]*)",
    re.IGNORECASE,
)
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")


@functools.cache
def today() -> dict[str, int]:
    """How many there are of each thing that a page may count."""
    entries = pipeline.analyse_files(loader.spec_files(str(CHECKOUT / "manifest" / "spec"))).entries
    return {
        "ops": len(entries),
        "entries": len(entries),
        "families": len({checked.entry.family for checked, _ in entries.values()}),
        "rows": sum(len(checked.cases) for checked, _ in entries.values()),
        "statements": len((CHECKOUT / "docs" / "requirement.tsv").read_text(encoding="utf-8").splitlines()) - 1,
        "gpus": len([*(CHECKOUT / "profiles").glob("*.textproto")]),
    }


def stale_counts(text: str) -> list[str]:
    """Counts that are not today's, in sections (from a heading to the next) that do not say of which day they are."""
    found = []
    for section in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
        for match in COUNT.finditer(" ".join(section.split())):
            number, what, rows, rows_what, shown, shown_number = match.groups()
            kind = (what or rows_what or "rows").lower()
            if int((number or rows or shown_number).replace(",", "")) != today()[kind] and not DATE.search(section):
                found.append(match[0])
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(CHECKOUT).as_posix())
def test_a_page_counts_what_there_is_today_or_says_the_day(page):
    assert stale_counts(page.read_text(encoding="utf-8")) == []


def test_stale_counts_are_noticed():
    ops, rows = today()["ops"], today()["rows"]
    assert stale_counts(f"All {ops + 2} ops, of {rows + 1}\nrows. `--top=all` shows all {rows + 3}.") == [
        f"{ops + 2} ops",
        f"of {rows + 1} rows",
        f"shows all {rows + 3}",
    ]
    assert stale_counts(f"All {ops} ops have {rows} rows: of {rows} rows, up to 2,000 rows are shown.") == []
    assert stale_counts(f"# A\n\nOn 2026-11-30, {ops + 2} ops.\n\n# B\n\n{ops + 3} ops.") == [f"{ops + 3} ops"]
