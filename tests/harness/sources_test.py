"""The bench computes no FLOPs or bytes and knows no formula: its numbers come from `op.eval_roofline()`."""

import ast
import pathlib

import pytest

from tileops.perf.harness import run

_PRICES = {"flops", "bytes", "read_bytes"}
# The value of --root: where packages of formulas are. The module imports no formula.
_PLACES = {"tileops.manifest.foreign.roots"}
_HARNESS = pathlib.Path(run.__file__).parent
_SOURCES = [_HARNESS.with_name("bench.py"), *sorted(_HARNESS.glob("*.py"))]


def test_the_sources_are_here():
    assert {"bench.py", "records.py", "session.py", "worker.py"} <= {path.name for path in _SOURCES}


@pytest.mark.requirement("3.6")
@pytest.mark.parametrize("path", _SOURCES, ids=lambda path: path.name)
def test_no_formula_is_imported(path):
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    forbidden = ("tileops.perf.formulas", "tileops.codegen", "tileops.manifest")
    assert not [name for name in imported - _PLACES if name.startswith(forbidden)]


@pytest.mark.parametrize("path", _SOURCES, ids=lambda path: path.name)
def test_prices_are_copied_never_computed(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {leaf.attr for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Attribute)}
        if names & _PRICES:
            where = f"{path.name}:{node.lineno}"
            assert not isinstance(node, ast.AugAssign), where
            assert not [leaf for leaf in ast.walk(node.value) if isinstance(leaf, (ast.BinOp, ast.Constant))], where
