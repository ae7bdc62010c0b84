"""The oracles notice wrong formulas: a sample of the mutants of every op, all of them in the nightly run."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pkgutil

import pytest

from tileops.perf import formulas
from tileops.tests.oracle import equivalents, expected, mutated_prices, mutation_run, priced_calls
from tileops.tests.oracle.mutants import Mutant, Names, mutants

OPS = priced_calls.implemented()
_IS_ALL = os.environ.get("TILEOPS_TEST_ALL") == "1"
# How many mutants of an op are tried: of an emitted price, and of a formula in Python. None tries all.
_SAMPLE, _SAMPLE_IN_PYTHON = (None, None) if _IS_ALL else (12, 40)
FUNC_OPS = [name for name, op_class in OPS.items() if op_class.FUNC]


@pytest.mark.requirement("4.6.4")
@pytest.mark.parametrize("name", [name for name in OPS if name not in FUNC_OPS])
def test_a_wrong_expression_is_noticed(name):
    sample = list(mutation_run.outcomes(name, OPS[name], at_most=_SAMPLE))
    assert [one.mutant for one in sample if not one.noticed and not one.equivalent] == []
    assert 2 * sum(one.by_number for one in sample) > sum(not one.equivalent for one in sample)
    assert _wrong_element_sizes(sample)


@pytest.mark.requirement("4.6.4")
@pytest.mark.parametrize("name", FUNC_OPS)
def test_a_wrong_formula_in_python_is_noticed_and_every_listed_equivalent_is_one(name):
    found = list(mutation_run.outcomes(name, OPS[name], at_most=_SAMPLE_IN_PYTHON))
    assert [one.mutant for one in found if not one.noticed and not one.equivalent] == []
    assert _wrong_element_sizes(found)
    changed = {one.mutant.function for one in found}
    assert OPS[name].FUNC.rpartition(".")[2] in changed
    if _IS_ALL:  # a sample may leave out the mutant of an equivalent, and a short function
        assert mutation_run.stale(found) == []
        assert mutated_prices.reached(OPS[name]) <= changed


def _wrong_element_sizes(found: list[mutation_run.Outcome]) -> list[mutation_run.Outcome]:
    return [one for one in found if one.mutant.tree is None and one.by_number]


def test_every_formula_in_python_is_changed_on_behalf_of_some_op():
    names = [found.name for found in pkgutil.iter_modules(formulas.__path__, f"{formulas.__name__}.")]
    modules = [importlib.import_module(name) for name in names]
    functions = (value for module in modules for value in vars(module).values() if inspect.isfunction(value))
    written = {function.__name__ for function in functions if function.__module__ in names}
    # A formula also reaches primitives of the language, which have tests of their own.
    assert written <= frozenset().union(*(mutated_prices.reached(OPS[name]) for name in FUNC_OPS))


def test_a_listed_equivalent_is_of_an_op():
    assert {op for op, _, _ in equivalents.LISTED} <= OPS.keys()


def test_no_calls_or_a_price_that_is_wrong_as_it_stands_is_no_measure_of_mutants(monkeypatch):
    monkeypatch.setattr(mutation_run, "expectations", lambda name, op_class: [])
    with pytest.raises(ValueError, match="GEMMFwdOp: the oracles know no call"):
        next(mutation_run.outcomes("GEMMFwdOp", OPS["GEMMFwdOp"]))


def test_a_kill_by_an_exception_is_told_from_a_kill_by_a_number():
    known = expected.expectations("GEMMFwdOp", OPS["GEMMFwdOp"])

    def raising(op):
        raise TypeError("no such axis")

    assert mutation_run._noticed(known, mutated_prices.Methods(price=raising)) == (False, True)
    assert mutation_run._noticed(known, mutated_prices.Methods(price=lambda op: (0, 0)))[0]
    assert mutation_run._noticed(known, mutated_prices.as_they_stand(OPS["GEMMFwdOp"])) == (False, False)


class TestEquivalence:
    """Sizes of tensors that are declared alike are excused, and nothing else that names them."""

    @staticmethod
    def _reason(op: str, before: str, after: str) -> str:
        source, changed = (f"def f(call):\n    return {text}" for text in (before, after))
        return equivalents.reason(
            op, expected.entries()[op][0].signature, source, Mutant("f", 2, "", "", ast.parse(changed))
        )

    def test_the_size_of_one_for_the_size_of_another(self):
        assert self._reason("GQADenseFwdOp", "call.bytes_of('k', 'v')", "call.bytes_of('v', 'v')")
        assert self._reason("GQADenseFwdOp", "call.tensors['k'].bytes", "call.tensors['v'].bytes")
        assert self._reason("BatchNormFwdOp", "call.bytes_of('save_mean')", "call.bytes_of('save_invstd')")

    def test_of_tensors_that_a_call_passes_together(self):
        assert self._reason("BatchNormFwdOp", "call.bytes_of('running_mean')", "call.bytes_of('running_var')")
        assert self._reason("BatchNormFwdOp", "call.present('running_mean')", "call.present('running_var')")

    def test_not_of_tensors_that_differ_or_that_a_call_may_leave_out(self):
        assert not self._reason("GQADenseFwdOp", "call.bytes_of('q', 'v')", "call.bytes_of('k', 'v')")
        assert not self._reason("BatchNormFwdOp", "call.bytes_of('weight')", "call.bytes_of('bias')")
        assert not self._reason("BatchNormFwdOp", "call.bytes_of('running_mean')", "call.bytes_of('weight')")

    def test_not_their_presence_or_their_values(self):
        assert not self._reason("BatchNormFwdOp", "call.present('bias')", "call.present('weight')")
        assert not self._reason("GQADenseFwdOp", "call.values('k').sum()", "call.values('v').sum()")

    def test_which_of_two_branches_that_add_up_the_same_sizes(self):
        same = "call.bytes_of('k') if {} else call.bytes_of('v')"
        other = "call.bytes_of('k') if {} else call.bytes_of('q')"
        assert self._reason("GQADenseFwdOp", same.format("call"), same.format("not call"))
        assert not self._reason("GQADenseFwdOp", other.format("call"), other.format("not call"))

    def test_what_a_branch_asks_that_adds_up_the_same_sizes_on_either_side(self):
        signature = expected.entries()["GQADenseFwdOp"][0].signature
        for other, excused in (("v", True), ("q", False)):
            branch = f"return call.bytes_of('k') if n else call.bytes_of({other!r})"
            source, changed = (f"def f(call):\n    n = call.params[{name!r}]\n    {branch}" for name in "pr")
            mutant = Mutant("f", 2, "", "", ast.parse(changed))
            assert bool(equivalents.reason("GQADenseFwdOp", signature, source, mutant)) is excused

    def test_a_listed_reason_holds_at_its_place_alone(self, monkeypatch):
        signature = expected.entries()["GEMMFwdOp"][0].signature
        monkeypatch.setitem(equivalents.LISTED, ("GEMMFwdOp", "f", "n = 2"), "why")
        assert equivalents.reason("GEMMFwdOp", signature, "", Mutant("f", 1, "1 -> 2", "n = 2")) == "why"
        assert equivalents.reason("GEMMFwdOp", signature, "", Mutant("f", 1, "1 -> 2", "m = 2")) == ""
        assert equivalents.reason("GEMMFwdOp", signature, "", Mutant("g", 1, "1 -> 2", "n = 2")) == ""

    def test_a_reason_that_no_survivor_needs_is_stale(self, monkeypatch):
        monkeypatch.setattr(equivalents, "LISTED", {("GEMMFwdOp", "f", "n = 2"): "why"})
        survivor = mutation_run.Outcome("GEMMFwdOp", Mutant("f", 1, "1 -> 2", "n = 2"), False, False, "why")
        noticed = mutation_run.Outcome("GEMMFwdOp", Mutant("f", 1, "1 -> 2", "n = 2"), True, False)
        assert mutation_run.stale([survivor]) == []
        assert (
            mutation_run.stale([noticed]) == mutation_run.stale([survivor, survivor]) == [("GEMMFwdOp", "f", "n = 2")]
        )


NAMES = Names(tensors=("x", "y"), indices=("M", "N"), params=("p", "q"))


def _changes(source: str) -> list[str]:
    return [one.change for one in mutants(source, frozenset({"f"}), NAMES)]


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
        ("def f(c): return 1", "1 -> 0"),
        ("def f(c): return -c", "-c -> c"),
        ("def f(c): return not c", "not c -> c"),
        ("def f(c): return 0 < c < 3", "0 < c < 3 -> 0 <= c < 3"),
        ("def f(c): return 0 < c < 3", "0 < c < 3 -> 0 < c <= 3"),
        ("def f(c): return 0 < c < 3", "0 < c < 3 -> 0 < c"),
        ("def f(c): return 0 < c < 3", "0 < c < 3 -> c < 3"),
        ("def f(c): return c and d", "c and d -> d"),
        ("def f(c): return c.indices['M']", "c.indices['M'] -> c.indices['N']"),
        ("def f(c): return c.params['p']", "c.params['p'] -> c.params['q']"),
        ("def f(c): return c.tensors['x'].shape[1]", "'x' -> 'y'"),
        ("def f(c): return 1 if c else 2", "1 if c else 2 -> 1 if not c else 2"),
        ("def f(c):\n    if c:\n        return 1\n    return 2", "if c -> if not c"),
        ("def f(c): return c < 3", "c < 3 -> c <= 3"),
        ("def f(c):\n    n = 1\n    n += 2\n    return n", "n += 2 -> n = 2"),
    ],
)
def test_mutants_change(source, change):
    assert change in _changes(source)


def test_only_the_functions_named_are_changed_and_no_docstring():
    source = 'def f():\n    """Counts 2 * n."""\n    return 2\n\ndef g():\n    return 7\n'
    assert _changes(source) == ["2 -> 3", "2 -> 1"]


def test_a_mutant_names_its_function_and_the_statement_that_it_makes():
    source = "def f(c):\n    if c > 1:\n        n = c - 1\n    return n\n"
    found = {(one.function, one.place, one.change): one.becomes for one in mutants(source, frozenset({"f"}), NAMES)}
    assert found["f", 2, "1 -> 2"] == "if c > 2:"
    assert found["f", 3, "1 -> 2"] == "n = c - 2"
    assert found["f", 2, "if c > 1 -> if not c > 1"] == "if not c > 1:"


def test_making_mutants_leaves_each_with_one_change():
    source = "def f(c):\n    return 2 * c + 3\n"
    for one in mutants(source, frozenset({"f"}), NAMES):
        assert ast.unparse(one.tree) == f"def f(c):\n    {one.becomes}"
