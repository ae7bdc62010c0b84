"""The oracles notice wrong formulas: a sample of every op's mutants, and what the mutation tool itself promises."""

from __future__ import annotations

import pytest

from tileops.manifest import dtypes
from tileops.ops import checked_call
from tileops.tests.oracle import mutation_run, priced_calls
from tileops.tests.oracle.mutants import mutants

OPS = priced_calls.implemented()
_SAMPLE = 40  # mutants of an op


@pytest.mark.parametrize("name", OPS)
def test_a_wrong_formula_is_noticed(name):
    sample = list(mutation_run.outcomes(name, OPS[name], at_most=_SAMPLE))
    assert sample
    assert [one.mutant.change for one in sample if not one.noticed and not one.equivalent] == []


def test_a_formula_of_its_own_is_changed_where_it_stands_and_not_where_it_is_called():
    changes = {one.mutant.change for one in mutation_run.outcomes("GroupedQueryAttentionFwdOp", OPS["GroupedQueryAttentionFwdOp"])}
    assert "'k' -> 'v'" in changes  # the tensors are named in perf/formulas.py alone


def test_a_wrong_element_size_is_noticed(monkeypatch):
    name = "GemmFwdOp"
    known = mutation_run.expectations(name, OPS[name])
    assert all(one.op.eval_roofline()[1] == one.nbytes for one in known)
    monkeypatch.setattr(checked_call, "BITS", {**dtypes.BITS, "bfloat16": 8})
    assert any(one.op.eval_roofline()[1] != one.nbytes for one in known)


def _changes(source: str) -> list[str]:
    return [one.change for one in mutants(source, frozenset({"f"}), ("x", "y"))]


@pytest.mark.parametrize(
    ("source", "change"),
    [
        ("def f(M, N): return 2 * M", "2 -> 3"),
        ("def f(M, N): return 2 * M", "2 -> 1"),
        ("def f(M, N): return 2 * M + N", "2 * M + N -> 2 * M"),
        ("def f(M, N): return 2 * M + N", "2 * M + N -> N"),
        ("def f(M, N): return M * N", "M * N -> M"),
        ("def f(c):\n    M = c\n    N = c\n    return M", "M -> N"),
        ("def f(c): return c.bytes('x')", "'x' -> 'y'"),
        ("def f(c): return c.bytes('x', 'y')", "c.bytes('x', 'y') -> c.bytes('x')"),
        ("def f(c): return 1 if c else 2", "1 if c else 2 -> 1 if not c else 2"),
        ("def f(c):\n    if c:\n        return 1\n    return 2", "if c -> if not c"),
        ("def f(c): return c < 3", "c < 3 -> c <= 3"),
        ("def f(c):\n    n = 1\n    n += 2\n    return n", "n += 2 -> n = 2"),
    ],
)  # fmt: skip
def test_mutants_change(source, change):
    assert change in _changes(source)


def test_only_the_functions_named_are_changed_and_no_docstring():
    source = 'def f():\n    """Counts 2 * n."""\n    return 2\n\ndef g():\n    return 7\n'
    assert _changes(source) == ["2 -> 3", "2 -> 1"]


