"""An index is read where a call solves it, and nowhere else: formulas, rules and branches."""

from __future__ import annotations

import pytest

from tileops.tests.codegen.small_entries import called, demo, meta, op_class, verdict


def branching(flops: str = "M", nbytes: str | None = None, rules: list[str] | None = None, row: dict | None = None):
    """z [K] of dtype U is there where f is true, and solves both."""
    roofline = {"flops": flops} if nbytes is None else {"flops": flops, "bytes": nbytes}
    with_z = {"label": "with", "f": True, "M": 4, "K": 5, "dtype_cases": [{"T": "float16", "U": "float32"}]}
    return demo(
        roofline,
        row or [with_z, {"label": "without", "f": False, "M": 4, "dtype_cases": [{"T": "float16"}]}],
        forall={"M": "Dim", "K": "Dim", "T": "DType[float16]", "U": "DType[float16 | float32 | bfloat16]"},
        params={"f": {"type": "bool"}},
        inputs={"x": {"dtype": "T", "shape": "[M]"}, "z": {"dtype": "U", "shape": "[K]", "optional": "f"}},
        outputs={"y": {"dtype": "T", "shape": "[M]"}},
        **({} if rules is None else {"shape_rules": rules}),
    )


@pytest.mark.parametrize(
    ("flops", "nbytes"),
    [("K * M", None), ("1 if U == 'float16' else 2", None), ("M", "K"), ("K if M > 2 else M", None)],
)
def test_a_formula_reads_no_index_where_the_branch_does_not_solve_it(flops, nbytes):
    analysis, found = verdict(branching(flops, nbytes))
    assert [one.code for one in found] == ["R011"] and "f = False)" in found[0].message
    assert not analysis.emittable


@pytest.mark.parametrize(
    "flops", ["K * M if f else M", "K * M if present(z) else M", "(K if U == 'float16' else 2 * M) if f else M"]
)
def test_a_formula_that_reads_an_index_where_it_is_solved_is_clean(flops):
    entry = branching(flops)
    assert verdict(entry)[1] == []
    assert called(entry, meta(4), f=False).eval_roofline()[0] == 4


def test_a_row_writes_no_index_that_a_formula_alone_reads():
    row = [{"label": "row", "f": False, "M": 4, "K": 5, "dtype_cases": [{"T": "float16"}]}]
    assert [one.code for one in verdict(branching(row=row))[1]] == ["M060"]


def test_a_rule_reads_an_index_where_it_is_solved():
    op = op_class(branching(rules=["K > 3 if f else M > 3"]))
    op(f=False).check(meta(4))
    for arguments in ((True, meta(4), meta(2)), (False, meta(2))):
        with pytest.raises(ValueError, match="K > 3 if f else M > 3"):
            op(f=arguments[0]).check(*arguments[1:])


def test_a_rule_that_reads_an_index_before_it_asks_whether_a_call_solves_it_is_refused():
    assert [one.code for one in verdict(branching(rules=["K > 3 or not f"]))[1]] == ["M040"]


@pytest.mark.parametrize(
    "change",
    [
        {"z": {"dtype": "U", "shape": "[M]", "optional": "U == 'float16'"}},
        {
            "z": {"dtype": "U", "shape": "[M]", "optional": "f"},
            "w": {"dtype": "T", "shape": "[M]", "optional": "f and U == 'float16'"},
        },
    ],
)
def test_a_dtype_that_decides_a_branch_is_one_that_every_call_tells(change):
    entry = demo(
        {"flops": "M"},
        [{"label": "row", "M": 4, "f": True, "dtype_cases": [{"T": "float16", "U": "float16"}]}],
        forall={"M": "Dim", "T": "DType[float16]", "U": "DType[float16 | float32]"},
        params={"f": {"type": "bool"}},
        inputs={"x": {"dtype": "T", "shape": "[M]"}, **change},
        outputs={"y": {"dtype": "T", "shape": "[M]"}},
        status="spec-only",
    )
    found = verdict(entry)[1]
    assert [(one.code, one.field) for one in found] == [("M040", "signature.forall.U")]
