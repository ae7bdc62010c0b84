"""Sums over long ranges: a `let` and a formula price them alike, and exactly."""

from __future__ import annotations

import pytest

from tileops.ops.errors import OpCallError
from tileops.tests.codegen.small_entries import analysed, called, demo, meta, source_of, text_of, verdict

LONG = 1_048_576
WINDOW = 4096
CAUSAL = "sum(i + 1 for i in range(M))"
WINDOWED = "sum(min((i + 1, 4096)) for i in range(M))"
ROWS = [{"label": "long", "M": LONG, "N": 1, "dtype_cases": [{"T": "float16"}]}]


def in_let(text: str) -> dict:
    return demo({"flops": "pairs * N"}, rows=ROWS, let={"pairs": text})


def in_formula(text: str) -> dict:
    return demo({"flops": f"{text} * N"}, rows=ROWS)


@pytest.mark.parametrize("made", [in_let, in_formula])
@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        (CAUSAL, LONG * (LONG + 1) // 2),
        (WINDOWED, WINDOW * (WINDOW + 1) // 2 + (LONG - WINDOW) * WINDOW),
        ("sum(1 + min((i, M - 1 - i)) for i in range(M) if i % 2 == 0)", (LONG // 2) * (LONG // 2 + 1) // 2),
        (
            "sum(sum(1 for j in range(M) if i - 4096 < j <= i) for i in range(M))",
            WINDOW * (WINDOW + 1) // 2 + (LONG - WINDOW) * WINDOW,
        ),
    ],
)
def test_pair_counts_of_a_million_tokens_validate_and_price(made, text, pairs):
    entry = made(text)
    ((checked, _),) = analysed(text_of(entry))[0].values()
    assert [case.label for case in checked.cases] == ["long"]
    assert called(entry, meta(LONG, 1)).eval_roofline()[0] == pairs


@pytest.mark.parametrize("text", ["sum(log2_floor(i + 1) for i in range(M))", "sum(min((i * i, M)) for i in range(M))"])
def test_what_is_too_long_for_a_let_is_too_long_for_a_formula(text):
    said = {made.__name__: [defect.code for defect in verdict(made(text))[1]] for made in (in_let, in_formula)}
    assert said == {"in_let": ["M004"], "in_formula": ["R010"]}


def test_a_range_that_is_written_out_may_be_of_any_length():
    entry = demo({"flops": "sum(i * N for i in range(5000000000))"})
    assert called(entry, meta(3, 5)).eval_roofline()[0] == 5 * 5_000_000_000 * 4_999_999_999 // 2
    assert [
        defect.code for defect in verdict(demo({"flops": "sum(log2_floor(i + N) for i in range(5000000000))"}))[1]
    ] == ["R012"]


def test_generated_code_calls_the_closed_form():
    assert "_primitives.range_sum(M, lambda i: _primitives.min((i + 1, 4096)))" in source_of(in_formula(WINDOWED))


# Sums over two sizes without a closed form, with what they are for M = 3 and N = 5.
NESTED = {
    "sum(sum(log2_floor(i + j + 1) for j in range(N)) for i in range(M))": sum(
        (i + j + 1).bit_length() - 1 for i in range(3) for j in range(5)
    ),
    "sum(i * sum(log2_floor(j + 1) for j in range(i * i)) for i in range(N))": sum(
        i * ((j + 1).bit_length() - 1) for i in range(5) for j in range(i * i)
    ),
    "sum(min((i * sum(1 for j in range(i)), N)) for i in range(M) if sum(j * j for j in range(N)) > i)": sum(
        min(i * i, 5) for i in range(3)
    ),
}


@pytest.mark.requirement("2.2.4")
@pytest.mark.parametrize(("text", "expected"), NESTED.items())
def test_2_2_a_formula_may_be_a_sum_over_two_sizes_that_has_no_closed_form(text, expected):
    op = called(demo({"flops": text}), meta(3, 5))
    assert op.eval_roofline()[0] == expected


@pytest.mark.parametrize("text", NESTED)
def test_a_sum_over_two_sizes_is_refused_if_a_row_takes_too_many_steps(text):
    rows = [{"label": "large", "M": 100_000, "N": 100_000, "dtype_cases": [{"T": "float16"}]}]
    (found,) = verdict(demo({"flops": text}, rows=rows))[1]
    assert found.code == "R010" and "steps at the row large" in found.message


def test_a_branch_that_a_row_does_not_take_costs_nothing():
    rows = [{"label": "large", "M": 100_000, "N": 100_000, "dtype_cases": [{"T": "float16"}]}]
    text = f"({next(iter(NESTED))}) if M < 100 else M * N"
    assert verdict(demo({"flops": text}, rows=rows))[1] == []


def test_a_call_of_a_sum_over_two_sizes_that_is_too_long_is_refused():
    op = called(demo({"flops": next(iter(NESTED))}), meta(2_000, 2_000))
    with pytest.raises(OpCallError, match=r"flops \(demo.yaml:\d+\).*more than 1048576 terms is too long"):
        op.eval_roofline()


@pytest.mark.parametrize(
    "text",
    [
        "max(sum(log2_floor(i + j + 1) for j in range(N)) for i in range(M))",
        "sum(max(j * i for j in range(N)) for i in range(M))",
    ],
)
def test_a_run_without_a_bound_is_refused(text):
    (found,) = verdict(demo({"flops": text}))[1]
    assert found.code == "R010" and "2**40 steps" in found.message
