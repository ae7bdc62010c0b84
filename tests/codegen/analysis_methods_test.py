"""The roofline document, sections 4.4.1, 4.4.4 and 4.4.5: the generated method, when it is valid, and where it ends.

One test a sentence, in its order. What modules import, and determinism, are in analysis_imports_test.py.
"""

from __future__ import annotations

import ast
import inspect
import math
import sys
import types

import pytest
import torch

from tileops.codegen import pipeline
from tileops.ops import catalogue, workloads
from tileops.ops.errors import OpCallError, OpNotAvailableError
from tileops.ops.implementations import implementation
from tileops.ops.op import Op
from tileops.tests.codegen.small_entries import OP, analysed, called, demo, meta, module, op_class, source_of, text_of

PROJECT = pipeline.analyse_files(pipeline.chosen_spec_files())
SOURCES = PROJECT.modules()
FLAGS = {"train": {"type": "bool", "default": False}, "wide": {"type": "bool", "default": False}}


def pricing_methods() -> list:
    """(op, method) of every generated price of the project, as syntax trees."""
    found = []
    for source in SOURCES.values():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                found += [
                    pytest.param(one, id=f"{node.name}.{one.name}")
                    for one in node.body
                    if isinstance(one, ast.FunctionDef) and one.name.startswith("eval_roofline")
                ]
    return found


# ---- 4.4.1 Generated method


@pytest.mark.requirement("4.4.1a")
def test_4_4_1_every_manifest_entry_is_served_by_a_generated_method():
    classes = catalogue.load()
    assert set(classes) == set(PROJECT.entries)
    for entry, found in classes.items():
        owner = next(base for base in found.__mro__ if "eval_roofline" in vars(base))
        assert (owner.__name__, owner.__module__.rpartition(".")[0]) == (entry, "tileops.ops.generated")


@pytest.mark.requirement("4.4.1b")
def test_4_4_1_a_subclass_with_an_entry_of_its_own_receives_its_own_evaluator():
    """The public class of one entry as base of another's: the price is that of the entry that the class stands for."""
    made = module(text_of(demo({"flops": "M"}), demo({"flops": "1000 * M"}), names=("AFwdOp", "BFwdOp")))

    class A(made.AFwdOp):
        """The public class of AFwdOp."""

    class B(made.BFwdOp, A):
        """The public class of BFwdOp, which inherits A's code and not its price."""

    for op, flops in ((A(), 3), (B(), 3000)):
        op(meta(3, 5))
        assert op.eval_roofline()[0] == flops
    assert (A.ENTRY, B.ENTRY) == ("AFwdOp", "BFwdOp")


def test_4_4_1_it_is_emitted_per_discriminant_point():
    entry = demo({"flops": "(M if train else N) + (7 if wide else 8)"}, params=FLAGS)
    body = source_of(entry).partition("def eval_roofline(self)")[2].partition("def ")[0]
    assert [body.count(f"= {leaf}") for leaf in ("N + 8", "N + 7", "M + 8", "M + 7")] == [1, 1, 1, 1]
    for (train, wide), flops in {(False, False): 13, (False, True): 12, (True, False): 11, (True, True): 10}.items():
        assert called(entry, meta(3, 5), train=train, wide=wide).eval_roofline()[0] == flops


def test_4_4_1_each_formula_says_where_it_stands_in_the_spec_file():
    entry = demo({"flops": "M", "bytes": "N"})
    lines = text_of(entry).splitlines()
    at = {name: lines.index(f"    {name}: {text}") + 1 for name, text in (("flops", "M"), ("bytes", "N"))}
    body = [line.strip() for line in source_of(entry).splitlines()]
    for name, local in (("flops", "M"), ("bytes", "N")):
        assert body[body.index(f"# demo.yaml:{at[name]}: {name}") + 1].endswith(f"= {local}")
    entry = demo({"func": "demo_formulas.price"})
    line = text_of(entry).splitlines().index("    func: demo_formulas.price") + 1
    assert f"# demo.yaml:{line}: func" in source_of(entry)


def test_4_4_1_points_that_fold_to_the_same_thing_are_one_branch():
    body = source_of(demo({"flops": "(M if train else M) * (2 if wide else 2)"}, params=FLAGS))
    assert "  if " not in body.partition("def eval_roofline(self)")[2].partition("CASES")[0]


def test_4_4_1_terms_that_no_expression_relates_are_decided_apart_and_added():
    """Sixteen flags are 65,536 points, and sixteen small branches."""
    flags = [f"flag{number}" for number in range(16)]
    entry = demo(
        {"flops": " + ".join(["M", *(f"({3**number} if {flag} else 0)" for number, flag in enumerate(flags))])},
        params={flag: {"type": "bool", "default": False} for flag in flags},
    )
    assert len(source_of(entry).partition("def eval_roofline(self)")[2].splitlines()) < 200
    for chosen in ([], [0], [0, 15], [1, 2, 3, 14], range(16)):
        op = called(entry, meta(3, 5), **{flags[number]: True for number in chosen})
        assert op.eval_roofline()[0] == 3 + sum(3**number for number in chosen)


@pytest.mark.requirement("4.4.1c", "4.4.2a")
def test_4_4_2_an_inline_body_is_folded_at_each_of_many_related_points():
    """Six flags in one product are 64 points; no body tests a flag inside an expression."""
    flags = [f"flag{number}" for number in range(6)]
    sums = " * ".join(f"(M + {3**number} if {flag} else M + {number})" for number, flag in enumerate(flags))
    entry = demo({"flops": sums}, params={flag: {"type": "bool", "default": False} for flag in flags})
    tree = ast.parse(source_of(entry))
    (method,) = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "eval_roofline")
    parts = [*ast.walk(method)]
    tested = [ast.unparse(node.test) for node in parts if isinstance(node, ast.IfExp)]
    assert tested == ["_written"]  # whether the call writes anything, on which its reads depend
    assert len([node for node in parts if isinstance(node, ast.Assign) and node.targets[0].id == "_flops"]) == 64
    for chosen in ([], [0], [1, 4], range(6)):
        wanted = math.prod(3 + 3**number if number in chosen else 3 + number for number in range(6))
        op = called(entry, meta(3, 5), **{flags[number]: True for number in chosen})
        assert op.eval_roofline()[0] == wanted


def test_4_4_2_of_many_related_points_those_that_fold_alike_are_one_branch():
    """Twelve flags are 4,096 points and thirteen leaves, of two formulas."""
    flags = [f"flag{number}" for number in range(12)]
    entry = demo(
        {"flops": f"M if {' or '.join(flags)} else N"},
        params={flag: {"type": "bool", "default": False} for flag in flags},
    )
    ((checked, analysis),) = analysed(text_of(entry))[0].values()
    assert len(analysis.branches.texts) == 3  # two of flops, one of bytes
    body = source_of(entry).partition("def eval_roofline(self)")[2].partition("def ")[0]
    assert (body.count("_flops = M"), body.count("_flops = N"), body.count(" else ")) == (12, 1, 1)
    assert "_read if _written else 0" in body


@pytest.mark.requirement("4.4.1d", "4.4.4b")
def test_4_4_1_it_evaluates_over_the_last_completed_call_and_not_the_last_attempt():
    op = op_class(demo())()
    op(meta(3, 5))
    with pytest.raises(OpCallError):
        op(meta(3, 5, 7))
    assert op.eval_roofline() == (15, 60)


# ---- 4.4.4 Evaluation timing


@pytest.mark.requirement("1.4.9", "4.4.4a")
def test_4_4_4_it_is_valid_once_a_call_has_completed_and_refused_before():
    op = op_class(demo())()
    for ask in (op.eval_roofline, op.eval_roofline_read_bytes, op.roof_key):
        with pytest.raises(OpNotAvailableError, match="DemoFwdOp: no call has completed"):
            ask()
    op(meta(3, 5))
    assert op.eval_roofline() == (15, 60) and op.eval_roofline_read_bytes() == 30 and op.roof_key() == "cuda_core.fp32"


@pytest.mark.requirement("4.4.4c")
def test_4_4_4_a_constant_price_is_refused_before_a_call_too():
    with pytest.raises(OpNotAvailableError):
        op_class(demo({"flops": "1", "bytes": "2"}))().eval_roofline()


@pytest.mark.requirement("4.4.4a")
def test_4_4_4_a_check_alone_completes_nothing():
    op = op_class(demo())()
    op.check(meta(3, 5))
    with pytest.raises(OpNotAvailableError):
        op.eval_roofline()


@pytest.mark.requirement("4.4.4c")
def test_4_4_4_the_dtype_is_bound_by_the_call():
    op = op_class(demo())()
    op(meta(3, 5))
    half = op.eval_roofline()[1]
    op(meta(3, 5, dtype=torch.float32))
    assert op.eval_roofline()[1] == 2 * half


@pytest.mark.requirement("4.4.4d")
def test_4_4_4_an_arbitrary_rank_ops_dims_are_bound_by_the_call():
    entry = demo(
        {"flops": "prod(S) * len(S)"},
        forall={"S": "Shape", "T": "DType[float16]"},
        inputs={"x": {"dtype": "T", "shape": "[*S]"}},
        outputs={"y": {"dtype": "T", "shape": "[*S]"}},
        rows=[{"label": "row", "S": [2], "dtype_cases": [{"T": "float16"}]}],
    )
    op = op_class(entry)()
    for shape, flops in (((), 0), ((4,), 4), ((2, 3, 4), 72)):
        op(meta(*shape))
        assert op.eval_roofline()[0] == flops


@pytest.mark.requirement("4.4.4b", "4.4.4e")
def test_4_4_4_pricing_after_a_second_call_prices_the_second_call():
    op = op_class(demo())()
    op(meta(3, 5))
    assert op.eval_roofline() == op.eval_roofline() == (15, 60)
    op(meta(1, 2))
    assert op.eval_roofline() == (2, 8)


@pytest.mark.requirement("4.4.4e")
def test_4_4_4_a_func_is_asked_each_time(monkeypatch):
    made = types.ModuleType("demo_formulas")
    count = iter(range(10))
    made.price = lambda call: (next(count), 0)
    monkeypatch.setitem(sys.modules, "demo_formulas", made)
    op = called(demo({"func": "demo_formulas.price"}), meta(3, 5))
    assert [op.eval_roofline()[0] for _ in range(3)] == [0, 1, 2]


@pytest.mark.requirement("4.4.4e")
@pytest.mark.parametrize("method", pricing_methods())
def test_4_4_4_a_price_holds_no_cache(method):
    """Its body keeps nothing: it assigns plain local names alone, and nothing decorates it."""
    targets = [
        target
        for node in ast.walk(method)
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    assert all(isinstance(target, ast.Name) for target in targets) and not method.decorator_list
    assert not [
        node
        for node in ast.walk(method)
        if isinstance(node, (ast.Global, ast.Nonlocal, ast.FunctionDef)) and node is not method
    ]


def held(op: Op) -> dict[tuple[int, str], object]:
    """All that could keep a price from one call to the next: attributes of the op, its classes, their modules, its call."""
    call = op.last_call
    assert call.tensors  # made when first asked for, and the call's own
    slots = {name: getattr(call, name) for one in type(call).__mro__ for name in getattr(one, "__slots__", ())}
    modules = {sys.modules[one.__module__] for one in type(op).__mro__ if one.__module__ in sys.modules}
    holders = [vars(op), getattr(call, "__dict__", {}), slots, *map(vars, type(op).__mro__), *map(vars, modules)]
    return {(at, name): value for at, holder in enumerate(holders) for name, value in holder.items()}


def changes(op: Op) -> list[str]:
    """The names of what pricing an op changes in what it holds."""
    before = held(op)
    op.eval_roofline(), op.eval_roofline_read_bytes()
    after = held(op)
    return [name for at, name in before | after if before.get((at, name)) is not after.get((at, name), before)]


def test_4_4_4_pricing_leaves_nothing_behind_that_a_later_call_could_find():
    for made in catalogue.load().values():
        op = workloads.construct(made, made.CASES[0], device="meta")
        op(**workloads.build_inputs(made, made.CASES[0], "meta"))
        assert changes(op) == [], made.ENTRY


def test_4_4_4_a_price_that_is_kept_is_noticed(monkeypatch):
    op = called(demo(), meta(3, 5))
    real = type(op).eval_roofline
    monkeypatch.setattr(type(op), "eval_roofline", lambda self: vars(self).setdefault("_price", real(self)))
    assert changes(op) == ["_price"]


@pytest.mark.requirement("4.4.4f")
def test_4_4_4_a_call_on_meta_holds_no_values_and_a_formula_that_reads_them_raises(monkeypatch):
    made = types.ModuleType("demo_formulas")
    made.price = lambda call: (int(call.values("ids").sum()), 0)
    monkeypatch.setitem(sys.modules, "demo_formulas", made)
    entry = demo(
        {"func": "demo_formulas.price"},
        inputs={
            "x": {"dtype": "T", "shape": "[M, N]"},
            "ids": {"dtype": "int32", "shape": "[M, 2]", "values": "topk_ids(M, 2, 8)"},
        },
    )
    op = called(entry, meta(3, 5), meta(3, 2, dtype=torch.int32))
    with pytest.raises(
        OpNotAvailableError, match="DemoFwdOp: the values of 'ids' decide the price.* pass it on the cpu"
    ):
        op.eval_roofline()
    op(meta(3, 5), torch.ones(3, 2, dtype=torch.int32))
    assert op.eval_roofline() == (6, 0)


# ---- 4.4.5 Evaluator surface boundary


@pytest.mark.requirement("4.4.5a", "4.4.5e")
@pytest.mark.parametrize("method", pricing_methods())
def test_4_4_5_a_price_is_plain_python_and_holds_no_expression_string(method):
    """Every string in a body is a name or a place: nothing in it could be parsed as a formula."""
    strings = [
        node.value for node in ast.walk(method) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    for text in strings:
        if text == ast.get_docstring(method, clean=False):
            continue
        place = "yaml:" in text
        assert place or text.replace(".", "").replace("_", "").isalnum(), text


@pytest.mark.parametrize("method", pricing_methods())
def test_4_4_5_a_price_calls_nothing_that_could_evaluate_text(method):
    for node in ast.walk(method):
        if isinstance(node, ast.Name):
            assert node.id not in {"eval", "exec", "compile", "getattr", "globals", "__import__"}


@pytest.mark.requirement("4.4.5b")
def test_4_4_5_there_is_no_op_local_evaluator():
    """The base class knows no formula: what prices an op is the method of its own generated class."""
    source = inspect.getsource(sys.modules[Op.__module__])
    assert not [word for word in ("eval(", "exec(", "compile(", "import ast") if word in source.replace("_eval(", "")]
    with pytest.raises(NotImplementedError):
        Op({}, None).eval_roofline()


@pytest.mark.requirement("3.11", "4.4.5a")
def test_4_4_5_a_class_that_states_a_price_of_its_own_is_refused():
    base = op_class(demo())

    class Cheap:
        def eval_roofline(self):
            return 0, 0

    with pytest.raises(TypeError, match="Direct defines eval_roofline.*change the entry's `roofline` block instead"):
        type("Direct", (base,), {"eval_roofline": lambda self: (0, 0)})
    with pytest.raises(TypeError, match="Cheap defines eval_roofline"):
        type("Mixed", (Cheap, base), {})
    public = type(OP, (base,), {"_torch": implementation("torch")(lambda self, call, x: x)})
    with pytest.raises(TypeError, match="Later defines eval_roofline"):
        type("Later", (public,), {"eval_roofline": base.eval_roofline})


def test_4_4_5_the_formula_of_an_entry_is_priced_by_its_class_alone():
    """No module of the project returns (flops, bytes) of an entry by its name or its text."""
    for name, found in list(sys.modules.items()):
        if name.startswith(("tileops.codegen", "tileops.manifest")) and found is not None:
            public = [
                one
                for one in vars(found)
                if "roofline" in one.lower() and not one.startswith("_") and callable(getattr(found, one))
            ]
            assert set(public) <= {"RooflineField"}, (name, public)
