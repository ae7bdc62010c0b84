"""docs/ops-design.md, run: every example does what its comments say.

A `yaml` block is an entry, all of them one spec file, emitted as tileops_generated_<family>. A `python NAME.py` block
is a module. The other `python` blocks run in order, in one namespace. On a statement, `# -> text` says how its value is
shown, and `# raises Error: text` what it raises and how the message reads in part.
"""

from __future__ import annotations

import ast
import importlib
import linecache
import re
from typing import Any, NamedTuple

import pytest

from tileops.codegen import pipeline
from tileops.ops import catalogue
from tileops.ops.op import Op
from tileops.tools.cli import paths

DOCUMENT = paths.data_path("docs", "ops-design.md")
TEXT = DOCUMENT.read_text()
_BLOCK = re.compile(r"^```(yaml|python) *(\S*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SAYS = re.compile(r"# (?:-> (?P<value>.+)|raises (?P<error>\w+): (?P<message>.+))$")


class Block(NamedTuple):
    """An example: its language, the file that it is ("" where none), its line in the document, its text."""

    language: str
    file: str
    line: int
    text: str


BLOCKS = [Block(found[1], found[2], TEXT.count("\n", 0, found.start(3)), found[3]) for found in _BLOCK.finditer(TEXT)]
EXAMPLES = [block for block in BLOCKS if block.language == "python" and not block.file]


@pytest.fixture(scope="module")
def namespace(tmp_path_factory):
    """What the examples share; the entries are emitted and the document's modules importable."""
    folder = tmp_path_factory.mktemp("design")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        for block in BLOCKS:
            if block.file:
                (folder / block.file).write_text(block.text)
        spec = folder / "demo.yaml"
        spec.write_text("".join(block.text for block in BLOCKS if block.language == "yaml"))
        analysed = pipeline.analyse_files([str(spec)])
        assert [str(found) for found in analysed.diagnostics] == []
        ((family, source),) = analysed.modules().items()
        (folder / f"{family}.py").write_text(source)
        catalogue.import_generated(folder / f"{family}.py")
        importlib.invalidate_caches()
        yield {"__name__": "ops_design"}


def run(block: Block, space: dict[str, Any]) -> None:
    """Run one example statement by statement and compare each with what its comment says."""
    name, lines = f"{DOCUMENT.name}:{block.line}", block.text.splitlines()
    linecache.cache[name] = (len(block.text), None, block.text.splitlines(keepends=True), name)
    for statement in ast.parse(block.text, name).body:
        where = f"{DOCUMENT.name}:{block.line + statement.lineno}"
        says = _SAYS.search(lines[statement.lineno - 1]) or _SAYS.search(lines[statement.end_lineno - 1])
        if says and says["error"]:
            with pytest.raises(Exception) as raised:
                _execute(statement, name, space)
            assert type(raised.value).__name__ == says["error"], f"{where}: {raised.value!r}"
            assert says["message"] in str(raised.value), f"{where}: {raised.value}"
            continue
        value = _execute(statement, name, space)
        assert not says or repr(value) == says["value"], f"{where}: {value!r}"


def _execute(statement: ast.stmt, name: str, space: dict[str, Any]) -> Any:
    if isinstance(statement, ast.Expr):
        return eval(compile(ast.Expression(statement.value), name, "eval"), space)
    exec(compile(ast.Module([statement], []), name, "exec"), space)
    return None


@pytest.mark.requirement("4.4.1e")
def test_every_example_of_the_document_does_what_it_says(namespace):
    assert len(EXAMPLES) > 10
    for block in EXAMPLES:
        run(block, namespace)


def test_a_wrong_comment_is_noticed():
    for text in (
        "1 + 1  # -> 3",
        "1 // 0  # raises ValueError: division",
        "1 // 0  # raises ZeroDivisionError: multiplication",
    ):
        with pytest.raises(AssertionError):
            run(Block("python", "", 0, text), {})
    with pytest.raises(pytest.fail.Exception):
        run(Block("python", "", 0, "1  # raises ValueError: x"), {})


@pytest.mark.requirement("4.4.1e")
def test_every_public_member_of_the_base_class_is_documented():
    members = [name for name in vars(Op) if not name.startswith("_") and not name.isupper()]
    assert [name for name in members if not re.search(rf"\b{name}\b", TEXT)] == []
