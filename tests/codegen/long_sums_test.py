"""Sums over long ranges: a `let` and a formula price them alike, and exactly."""

from __future__ import annotations

import pytest

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
    assert said == {"in_let": ["M004"], "in_formula": ["M004"]}


def test_a_range_that_is_written_out_may_be_of_any_length():
    entry = demo({"flops": "sum(i * N for i in range(5000000000))"})
    assert called(entry, meta(3, 5)).eval_roofline()[0] == 5 * 5_000_000_000 * 4_999_999_999 // 2
    assert [
        defect.code for defect in verdict(demo({"flops": "sum(log2_floor(i + N) for i in range(5000000000))"}))[1]
    ] == ["R012"]


def test_generated_code_calls_the_closed_form():
    assert "_primitives.range_sum(M, lambda i: _primitives.min((i + 1, 4096)))" in source_of(in_formula(WINDOWED))
