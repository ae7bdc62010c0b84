"""The expression language: round trips, closedness, bounds, folding."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.manifest.language import expr, expr_parser, kind_check, kinds
from tileops.manifest.language.evaluate import UnknownNameError, evaluate, fold
from tileops.manifest.language.expr import (
    Binary,
    Call,
    Compare,
    Conditional,
    Literal,
    Logic,
    Name,
    Subscript,
    Tuple,
    Unary,
)
from tileops.manifest.plans import sums

NAMES = ("a", "b", "c")
integers = st.integers(0, 20).map(Literal)
names = st.sampled_from(NAMES).map(Name)


def _numbers(inner):
    return st.one_of(
        st.builds(Binary, st.sampled_from(["+", "-", "*"]), inner, inner),
        st.builds(Binary, st.sampled_from(["//", "%"]), inner, st.integers(1, 7).map(Literal)),
        st.builds(lambda operand: Unary("-", operand), inner),
        st.builds(Conditional, _tests(inner), inner, inner),
        st.builds(lambda items: Call("prod", (Tuple(tuple(items)),)), st.lists(inner, min_size=1, max_size=3)),
        st.builds(
            lambda items, at: Subscript(Tuple(tuple(items)), Literal(at)),
            st.lists(inner, min_size=2, max_size=3),
            st.integers(0, 1),
        ),
    )


def _tests(inner):
    comparison = st.builds(
        lambda op, left, right: Compare((op,), (left, right)),
        st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
        inner,
        inner,
    )
    return st.one_of(
        comparison,
        st.builds(
            lambda op, parts: Logic(op, tuple(parts)),
            st.sampled_from(["and", "or"]),
            st.lists(comparison, min_size=2, max_size=3),
        ),
        comparison.map(lambda node: Unary("not", node)),
        st.just(Call("present", (Name("t"),))),
    )


expressions = st.recursive(st.one_of(integers, names), _numbers, max_leaves=20)
bindings = st.fixed_dictionaries({name: st.integers(0, 9) for name in NAMES})


@settings(max_examples=400, deadline=None)
@given(expressions, bindings, st.booleans())
def test_text_reads_back_to_the_same_value(node, values, present):
    again = expr_parser.parse(expr.to_source(node))
    assert evaluate(again, values, {"t": present}) == evaluate(node, values, {"t": present})


@settings(max_examples=400, deadline=None)
@given(expressions)
def test_text_of_what_was_read_is_stable(node):
    text = expr.to_source(node)
    assert expr.to_source(expr_parser.parse(text)) == text


@settings(max_examples=400, deadline=None)
@given(expressions, bindings, st.booleans())
def test_python_agrees_with_the_value(node, values, present):
    text = expr.to_source(node)
    scope = {**values, "present": lambda t: present, "t": None, "prod": lambda items: __import__("math").prod(items)}
    assert evaluate(node, values, {"t": present}) == eval(text, scope)  # noqa: S307  # the test's own expression


@settings(max_examples=400, deadline=None)
@given(expressions, bindings, st.booleans())
def test_folding_keeps_the_value_and_leaves_no_decided_name(node, values, present):
    folded = fold(node, {"a": values["a"]}, {"t": present})
    assert evaluate(folded, values, {}) == evaluate(node, values, {"t": present})
    assert "a" not in expr.names(folded)


@pytest.mark.parametrize("text", ["topk_ids(4, 9, 8)", "nothing(1)", "max(())", "1 // 0", "(1, 2)[9]", "abs('a')"])
def test_folding_leaves_what_has_no_value_as_it_is(text):
    assert fold(expr_parser.parse(text), {}, {}) == expr_parser.parse(text)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 3), st.booleans()), min_size=1, max_size=8))
def test_the_parts_of_a_sum_add_up_to_it_and_share_no_name(drawn):
    node = None
    for negative, first, second, nested in drawn:
        addend = Binary("*", Name(f"n{first}"), Name(f"n{second}")) if first != second else Literal(first)
        addend = Binary("-", Literal(7), addend) if nested else addend
        node = addend if node is None else Binary("-" if negative else "+", node, addend)
    values = {f"n{at}": 3 + at * at for at in range(4)}
    parts = sums.related(node, lambda part: frozenset(part.free_names))
    assert sum(evaluate(part, values, {}) for part in parts) == evaluate(node, values, {})
    names = [name for part in parts for name in part.free_names]
    assert len(names) == len(set(names))


def test_no_number_passes_two_to_the_128th():
    text = " * ".join(["9223372036854775807"] * 3)
    with pytest.raises(ValueError, match=r"2\*\*128"):
        evaluate(expr_parser.parse(text), {}, {})
    assert isinstance(fold(expr_parser.parse(text), {}, {}), Binary)


def test_folding_takes_the_arm_of_the_point():
    node = expr_parser.parse("n * (3 + (1 if present(w) else 0)) + 0")
    assert expr.to_source(fold(node, {}, {"w": True})) == "n * 4"
    assert expr.to_source(fold(node, {}, {"w": False})) == "n * 3"


@pytest.mark.parametrize(
    "text",
    [
        "a.__class__",
        "a._x",
        "x.shape",
        "isinstance(a, int)",
        "{i for i in a}",
        "a.value.b.real",
        "lambda: 1",
        "(a := 1)",
        "f'{a}'",
        "f(*a)",
        "a ** 2",
        "a / 2",
        "[a, b]",
        "{a: b}",
        "a if b",
        "f(**x)",
        "per_axis(a, 0, 2, *b)",
        "len(i for i in a)",
        "prod((i for i in a), 1)",
        "(i for i in a)",
        "[i for i in a]",
        "a @ b",
        "a << 1",
        "a & b",
        "~a",
        "...",
        "b'a'",
        "1j",
        "a is b",
        "await a",
        "a[::2]",
        "prod(i for i in a)",
        "all(i for i in a for j in a)",
        "1e999",
        "",
        "a; b",
        "import os",
    ],
)
def test_everything_else_is_refused(text):
    with pytest.raises(expr_parser.ExprError):
        expr_parser.parse(text)


def test_dtypes_that_are_no_kind_are_told_as_a_kind():
    assert kinds.index_kind("float16 | int8") == "'float16 | int8' is no kind; write DType[float16 | int8]"
    assert str(kinds.index_kind("shape")).endswith("the kinds are Dim, Shape, Seq[Int] and DType[a | b]")


@pytest.mark.parametrize(("text", "said"), [("a / 2", "write // for a quotient"), ("a ** 2", "write a product")])
def test_a_refused_operator_names_its_replacement(text, said):
    with pytest.raises(expr_parser.ExprError, match=said):
        expr_parser.parse(text)


@pytest.mark.parametrize(
    "text", ["(" * 500 + "1" + ")" * 500, "-" * 3000 + "1", " + ".join(["a"] * 1500), "not " * 900 + "a", "1" * 3000]
)
def test_a_hostile_expression_is_refused(text):
    with pytest.raises(expr_parser.ExprError):
        expr_parser.parse(text)


def test_a_guard_narrows_and_its_absence_is_a_defect():
    scope = kind_check.Scope({"p": kinds.Maybe(kinds.INT)}, {"t": True}, roofline=True)

    def said(text):
        found = []
        kind_check.check(expr_parser.parse(text), scope, lambda what, message: found.append(what))
        return found

    assert said("p.value if present(p) else 0") == []
    assert said("0 if not present(p) else p.value") == []
    assert said("present(p) and p.value > 0") == []
    assert said("not present(p) or p.value > 0") == []
    assert said("p.value if present(t) else 0") == [kind_check.PRESENCE]
    assert said("bytes(t)") == [kind_check.PRESENCE]
    assert said("bytes(t) if present(t) else 0") == []


def test_a_field_of_a_maybe_is_read_where_it_is_present_and_of_its_constructor():
    layout = kinds.Adt(
        "Layout", (kinds.Constructor("A", "x.A", (("n", kinds.INT),)), kinds.Constructor("B", "x.B", ()))
    )
    scope = kind_check.Scope({"layout": kinds.Maybe(layout)}, {})

    def said(text):
        found = []
        kind_check.check(expr_parser.parse(text), scope, lambda what, message: found.append(what))
        return found

    assert said("(layout.n if layout.kind == 'A' else 0) if present(layout) else 0") == []
    assert said("layout.n if present(layout) else 0") == [kind_check.PRESENCE]
    assert said("layout.m if present(layout) else 0") == [kind_check.NAME]


def test_bool_is_never_int():
    scope = kind_check.Scope({"b": kinds.BOOL}, {})
    found = []
    kind_check.check(expr_parser.parse("b + 1"), scope, lambda what, message: found.append(what))
    assert found == [kind_check.KIND]


@pytest.mark.parametrize(
    ("text", "kind"),
    [("n + 1", "Dim"), ("n * 2", "Dim"), ("n // 2", "Dim"), ("n - 1", "Int"), ("n + i", "Int"), ("-n", "Int")],
)
def test_arithmetic_of_dims(text, kind):
    scope = kind_check.Scope({"n": kinds.DIM, "i": kinds.INT}, {})
    assert str(kind_check.check(expr_parser.parse(text), scope, lambda *said: pytest.fail(str(said)))) == kind


@pytest.mark.requirement("4.4.5c")
def test_no_function_of_the_manifest_prices_a_formula():
    """A consumer cannot give the evaluator the sizes of tensors, so it cannot price bytes(t)."""
    assert list(inspect.signature(evaluate).parameters) == ["node", "values", "present"]
    formula = expr_parser.parse("2 * N + bytes(x)")
    with pytest.raises(UnknownNameError, match=r"bytes\(x\)"):
        evaluate(formula, {"N": 3, "x": 4, "bytes": len}, {"x": True})


def test_a_step_of_a_slice_is_refused_with_what_to_write():
    with pytest.raises(expr_parser.ExprError, match=r"a slice has no step; write \[start:stop\]"):
        expr_parser.parse("a[::2]")


def test_a_field_of_what_may_be_none_is_that_field():
    assert expr_parser.parse("layout.value.block") == expr_parser.parse("layout.block")
    for text in (
        "layout.value.value",
        "layout.value.shape",
        "layout.value.__class__",
        "layout.block.size",
        "a.value.b.c",
    ):
        with pytest.raises(expr_parser.ExprError):
            expr_parser.parse(text)


@pytest.mark.parametrize(
    ("by_name", "by_position"),
    [
        ("per_axis(pad, 0, 2, fallback=3)", "per_axis(pad, 0, 2, 3)"),
        ("max(sizes, default=1)", "max(sizes, 1)"),
        ("min(sizes, default=n + 1)", "min(sizes, n + 1)"),
        ("max((i + 1 for i in sizes if i > 2), default=0)", "max((i + 1 for i in sizes if i > 2), 0)"),
    ],
)
def test_an_optional_argument_by_name_is_that_at_its_position(by_name, by_position):
    node = expr_parser.parse(by_name)
    assert node == expr_parser.parse(by_position)
    assert expr.to_source(node) == by_position
    assert expr_parser.parse(expr.to_source(node)) == node


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("per_axis(a, 0, 2, value=1)", "no optional argument 'value'; only fallback may be written by name"),
        ("per_axis(value=a, i=0, n=2)", "no optional argument 'value'"),
        ("max(a, fallback=1)", "no optional argument 'fallback'; only default"),
        ("len(a, default=1)", "no optional argument 'default'; write all by position"),
        ("topk_ids(1, 2, experts=3)", "no optional argument 'experts'"),
        ("present(x=a)", "no optional argument 'x'"),
        ("per_axis(a, 0, 2, 3, fallback=3)", "'fallback' twice"),
        ("per_axis(a, 0, 2, fallback=3, fallback=3)", "'fallback' twice"),
        ("per_axis(a, 0, fallback=3)", "takes 3 arguments by position, not 2"),
        ("max(default=3)", "takes 1 arguments by position, not 0"),
    ],
)
def test_another_argument_by_name_is_refused_as_one_that_does_not_fit(text, words):
    with pytest.raises(expr_parser.ExprError) as caught:
        expr_parser.parse(text)
    assert caught.value.is_kind and words in str(caught.value)


def test_a_default_stands_for_the_items_of_a_comprehension_that_has_none():
    node = expr_parser.parse("max((i + 1 for i in sizes if i > 2), default=7)")
    assert evaluate(node, {"sizes": (1, 2)}, {}) == 7
    assert evaluate(node, {"sizes": (1, 5)}, {}) == 6
