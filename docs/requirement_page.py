"""//docs:requirement: each statement of the requirement, with the tests that prove it.

    python -m tileops.docs.requirement_page --statements=requirement.tsv --open=requirement_open.tsv \
        --tests=tests/roof/pricing_test.py,tests/layering/BUILD.bazel --out=requirement.md

A test names what it proves: `@pytest.mark.requirement("1.2.3")` on a test function or class, the tag `requirement:1.2.3`
on a test rule of a BUILD file. Both are read as syntax: nothing is imported. A statement that no test proves yet is in
the table of open statements, with what it waits for.
"""

from __future__ import annotations

import ast
import csv
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from absl import app, flags

from tileops.tools.cli import command, errors, paths

_STATEMENTS = flags.DEFINE_string("statements", None, "the statements, as tab-separated values", required=True)
_OPEN = flags.DEFINE_string("open", None, "the open statements, as tab-separated values", required=True)
_TESTS = flags.DEFINE_list("tests", None, "modules of tests, and BUILD files with test rules", required=True)
_OUT = flags.DEFINE_string("out", None, "the page to write", required=True)

_MARKER = "pytest.mark.requirement"
_NIGHTLY = "pytest.mark.nightly"
_TAG = "requirement:"
# Where a table of open statements names no op: something else is missing.
_GAP = "gap"


class MarkerError(errors.UserError):
    """A marker that is on no test, or that names no statement as text; the message has file and line."""


class Proof(NamedTuple):
    """A test and a statement that it proves.

    Attributes:
      statement: its id.
      test: path::function, path::Class::function or //folder:rule.
      place: file:line of the marker.
    """

    statement: str
    test: str
    place: str


class Open(NamedTuple):
    """A statement that no test proves yet.

    Attributes:
      statement: its id.
      ops: manifest entries that it waits for; empty if it waits for something else.
      reason: what is missing, in words.
    """

    statement: str
    ops: tuple[str, ...]
    reason: str


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 written, 2 a file cannot be read or written, or a marker is on no test."""
    del argv
    try:
        found = [
            proof for name in sorted(_TESTS.value) for proof in proofs(name, paths.user_path(name).read_text("utf-8"))
        ]
        statements = read_statements(paths.user_path(_STATEMENTS.value))
        text = page(statements, found, read_open(paths.user_path(_OPEN.value)))
        paths.user_path(_OUT.value).write_text(text, encoding="utf-8")
    except OSError as error:
        raise app.UsageError(str(error)) from error
    return 0


def read_statements(path: pathlib.Path) -> dict[str, str]:
    """Returns the statements by id, in order."""
    return {line["id"]: line["statement"] for line in _rows(path)}


def read_open(path: pathlib.Path) -> list[Open]:
    """Returns the open statements, in order."""
    return [
        Open(line["id"], () if line["waits_for"] == _GAP else tuple(line["waits_for"].split()), line["reason"])
        for line in _rows(path)
    ]


def _rows(path: pathlib.Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def proofs(name: str, text: str) -> list[Proof]:
    """Returns what the markers of a file say: a module of tests, or a BUILD file beside one.

    Raises:
      MarkerError: a marker is on nothing that runs as a test, or does not name statements as text.
    """
    tree = ast.parse(text, name)
    return list(_rule_proofs(name, tree) if name.endswith("BUILD.bazel") else _function_proofs(name, tree))


def _function_proofs(name: str, tree: ast.Module) -> Iterator[Proof]:
    on_tests = set()
    for test, decorators in _tests(tree):
        for marker in decorators:
            if isinstance(marker, ast.Call) and _is_named(marker.func, _MARKER):
                on_tests.add(marker.func)
                place = f"{name}:{marker.lineno}"
                if any(_is_named(other, _NIGHTLY) for other in decorators):
                    raise MarkerError(f"{place}: {test} runs at night alone, and proves nothing of a change")
                for statement in _texts(marker.args, place):
                    yield Proof(statement, f"{name}::{test}", place)
    for node in ast.walk(tree):
        if _is_named(node, _MARKER) and node not in on_tests:
            raise MarkerError(
                f"{name}:{node.lineno}: {_MARKER} is no decorator of a test: of a function test_* of the module or of a"
                " class Test*, or of such a class"
            )


def _tests(tree: ast.Module) -> Iterator[tuple[str, list[ast.expr]]]:
    """(name, decorators) of what pytest collects of a module: functions, and classes with their methods."""
    for node in tree.body:
        if _is_test_function(node):
            yield node.name, node.decorator_list
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            methods = [one for one in node.body if _is_test_function(one)]
            if methods:
                yield node.name, node.decorator_list
            for method in methods:
                yield f"{node.name}::{method.name}", method.decorator_list


def _is_test_function(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test")


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node) == name


def _rule_proofs(name: str, tree: ast.Module) -> Iterator[Proof]:
    on_tests = set()
    for test, tags in _test_rules(tree):
        for tag in tags:
            if _is_tag(tag):
                on_tests.add(tag)
                label = f"//{pathlib.PurePosixPath(name).parent}:{test}"
                yield Proof(tag.value.removeprefix(_TAG), label, f"{name}:{tag.lineno}")
    for node in ast.walk(tree):
        if _is_tag(node) and node not in on_tests:
            raise MarkerError(
                f"{name}:{node.lineno}: {node.value!r} is no tag of a test rule that runs on every change"
            )


def _test_rules(tree: ast.Module) -> Iterator[tuple[str, list[ast.expr]]]:
    """(name, tags) of the test rules of a BUILD file that a wildcard like //... runs."""
    for node in tree.body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            given = {keyword.arg: keyword.value for keyword in node.value.keywords}
            name, tags = given.get("name"), given.get("tags")
            if isinstance(name, ast.Constant) and name.value.endswith("_test") and isinstance(tags, ast.List):
                if "manual" not in [tag.value for tag in tags.elts if isinstance(tag, ast.Constant)]:
                    yield name.value, tags.elts


def _is_tag(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(_TAG)


def _texts(args: Sequence[ast.expr], place: str) -> list[str]:
    found = [arg.value for arg in args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    if not found or len(found) != len(args):
        raise MarkerError(f"{place}: {_MARKER} takes ids of statements as text")
    return found


def page(statements: Mapping[str, str], found: Sequence[Proof], open_rows: Sequence[Open]) -> str:
    """Returns the page, in Markdown: a table per section of the requirement."""
    proven = {proof.statement for proof in found}
    tests = {proof.test for proof in found}
    lines = [
        "# The requirement, statement by statement",
        "",
        "Generated by `./bazelw build //docs:requirement` from the markers of the tests; it is no file of the repository.",
        f"{len(proven)} of {len(statements)} statements are proven by {len(tests)} tests; {len(open_rows)} are open.",
    ]
    cells = {
        one.statement: f"open: waits for {', '.join(one.ops)}: {one.reason}" if one.ops else f"open: {one.reason}"
        for one in open_rows
    }
    for statement in proven:
        named = dict.fromkeys(proof.test for proof in found if proof.statement == statement)
        cells[statement] = "<br>".join(f"`{test}`" for test in named)
    for section, ids in itertools.groupby(statements, section_of):
        lines += ["", f"## {section}", "", "| | statement | proven by |", "| --- | --- | --- |"]
        for one in ids:
            statement = statements[one].replace("|", "\\|")
            lines.append(f"| {one} | {statement} | {cells.get(one, '')} |")
    return "\n".join([*lines, ""])


def section_of(statement: str) -> str:
    """Returns the section of a statement's id: 1.2 of 1.2.3, 4.4 of 4.4.1a, 3 of 3.1."""
    return ".".join(statement.split(".")[:2]) if statement.count(".") > 1 else statement.partition(".")[0]


if __name__ == "__main__":
    command.run(main)
