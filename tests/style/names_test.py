"""Old names of ops and families are spelled in the map of renames alone, beside what tells of the past."""

import os
import pathlib
import re

from tileops.perf.runs import renames

# Runfiles are links to the files of the checkout.
CHECKOUT = (pathlib.Path.cwd() / "pyproject.toml").resolve().parent
SUFFIXES = (
    ".bazel",
    ".bzl",
    ".css",
    ".cu",
    ".js",
    ".jsonl",
    ".md",
    ".proto",
    ".py",
    ".textproto",
    ".toml",
    ".tsv",
    ".txt",
    ".yaml",
)
# The map, the history, and names as others published them.
ALLOWED = ("perf/runs/renames.toml", "CHANGELOG.md", "perf/recorded/published/")


def old_names() -> re.Pattern[str]:
    """Returns what finds an old name: of an op anywhere, of a family where code or an entry names it."""
    names = renames.load()
    ops = "|".join(old for old, known in names.ops.items() if known.name != old)
    families = "|".join(names.families)
    return re.compile(
        rf"(?<![A-Za-z0-9])(?:{ops})(?![A-Za-z0-9])|(?:families|generated|kernels|spec)[./:](?:{families})\b"
        rf"|\bfamily\W{{1,3}}(?:{families})\b"
    )


def sources():
    """Yields the text files of the checkout, by path below it."""
    for folder, folders, files in os.walk(CHECKOUT):
        folders[:] = [name for name in folders if not name.startswith((".", "bazel-")) and name != "build"]
        for name in files:
            if name.endswith(SUFFIXES):
                yield (pathlib.Path(folder) / name).relative_to(CHECKOUT)


def test_no_old_name_is_left_but_in_the_map():
    pattern = old_names()
    left = [
        f"{path}:{number}: {line.strip()[:120]}"
        for path in sources()
        if not str(path).startswith(ALLOWED)
        for number, line in enumerate((CHECKOUT / path).read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert left == []


def test_an_old_name_would_be_found():
    pattern = old_names()
    op, family = next(iter(renames.load().ops)), next(iter(renames.load().families))
    for text in (f'"{op}":', f"test_{op}_x", f"//ops/kernels/{family}:x", f"from tileops.ops.generated.{family}"):
        assert pattern.search(text), text
    for text in (f"  family: {family}", f'family="{family}"'):
        assert pattern.search(text), text
    for text in (f"Grouped{op}", f"{op}s", f"a {family} by rows"):
        assert not pattern.search(text), text
