"""An index is read where a call solves it, and nowhere else: formulas, rules and branches."""

from __future__ import annotations

import pytest
import torch

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


# ---- an optional tensor solves what no other tensor of every such call does


def gained(flops: str = "M + (G if present(gain) else 0)", rows: list[dict] | None = None, **signature):
    """gain [G] of dtype R is a choice of the caller, and alone has G and R."""
    given = {"label": "given", "M": 4, "G": 3, "some": ["gain"], "dtype_cases": [{"T": "float16", "R": "float32"}]}
    whole = {
        "forall": {"M": "Dim", "G": "Dim", "T": "DType[float16]", "R": "DType[float16 | float32]"},
        "inputs": {"x": {"dtype": "T", "shape": "[M]"}, "gain": {"dtype": "R", "shape": "[2 * G]", "optional": True}},
        "outputs": {"y": {"dtype": "T", "shape": "[M]"}},
        **signature,
    }
    return demo(
        {"flops": flops}, rows or [given, {"label": "without", "M": 4, "dtype_cases": [{"T": "float16"}]}], **whole
    )


def test_an_optional_tensor_solves_its_own_indices_where_it_is_passed():
    op = op_class(gained())()
    found = op.check(meta(4), meta(6, dtype=torch.float32))
    assert found.indices == {"M": 4, "T": "float16", "G": 3, "R": "float32"}
    assert op.check(meta(4)).indices == {"M": 4, "T": "float16"}
    with pytest.raises(ValueError, match="'gain'"):
        op.check(meta(4), meta(5))
    with pytest.raises(ValueError, match="bfloat16"):
        op.check(meta(4), meta(6, dtype=torch.bfloat16))


@pytest.mark.parametrize(("inputs", "price"), [((4, 6), 7), ((4, None), 4)])
def test_its_price_reads_the_index_where_the_tensor_is_passed(inputs, price):
    tensors = [None if size is None else meta(size) for size in inputs]
    assert called(gained(), *tensors).eval_roofline()[0] == price


@pytest.mark.parametrize("flops", ["M + G", "1 if R == 'float16' else 2", "G if M > 2 else M", "v"])
def test_a_formula_guards_the_index_of_an_optional_tensor(flops):
    found = verdict(gained(flops, let={"v": "G + 1"}))[1]
    assert [one.code for one in found] == ["R011"] and "present(gain) = False)" in found[0].message


def test_an_output_that_reads_the_index_of_an_absent_tensor_names_that_branch():
    found = verdict(gained("M", outputs={"y": {"dtype": "T", "shape": "[G]"}}))[1]
    assert [(one.code, one.field) for one in found] == [("M040", "signature.forall.G")]
    assert "(present(gain) = False)" in found[0].message


def test_an_index_that_the_optional_tensor_cannot_solve_names_the_branch_that_has_it():
    inputs = {"x": {"dtype": "T", "shape": "[M]"}, "gain": {"dtype": "R", "shape": "[G * G]", "optional": True}}
    found = verdict(gained("M", inputs=inputs))[1]
    assert [one.code for one in found] == ["M040"] and "(present(gain) = True)" in found[0].message


@pytest.mark.parametrize(
    "row",
    [
        {"M": 4, "G": 3, "dtype_cases": [{"T": "float16"}]},
        {"M": 4, "dtype_cases": [{"T": "float16", "R": "float16"}]},
        {"M": 4, "some": ["gain"], "dtype_cases": [{"T": "float16", "R": "float16"}]},
        {"M": 4, "G": 3, "some": ["gain"], "dtype_cases": [{"T": "float16"}]},
    ],
)
def test_a_row_writes_the_indices_of_the_optional_tensors_that_it_passes(row):
    found = verdict(dict(gained(rows=[{"label": "row", **row}]), status="spec-only"))[1]
    assert [one.code for one in found] == ["M060"]


def test_either_of_two_optional_tensors_solves_the_index_that_they_share():
    inputs = {
        "x": {"dtype": "T", "shape": "[M]"},
        "gain": {"dtype": "T", "shape": "[G]", "optional": True},
        "bias": {"dtype": "T", "shape": "[G]", "optional": True},
    }
    rows = [
        {"label": "both", "M": 4, "G": 3, "some": ["gain", "bias"], "dtype_cases": [{"T": "float16"}]},
        {"label": "none", "M": 4, "dtype_cases": [{"T": "float16"}]},
    ]
    forall = {"M": "Dim", "G": "Dim", "T": "DType[float16]"}
    shape_rules = ["G > 1 if present(gain) else True"]
    op = op_class(gained("M", rows, forall=forall, inputs=inputs, shape_rules=shape_rules))()
    assert op.check(meta(4), None, meta(1)).indices["G"] == 1
    assert op.check(meta(4), meta(2)).indices["G"] == op.check(meta(4), meta(2), meta(2)).indices["G"] == 2
    assert "G" not in op.check(meta(4)).indices
    with pytest.raises(ValueError, match="'bias'"):
        op.check(meta(4), meta(2), meta(3))
    with pytest.raises(ValueError, match="G > 1 if"):
        op.check(meta(4), meta(1))


def test_a_construction_time_tensor_solves_its_own_indices_too():
    params = {"gain": {"type": "torch.Tensor | None", "dtype": "R", "shape": "[2 * G]", "default": None}}
    entry = gained(params=params, inputs={"x": {"dtype": "T", "shape": "[M]"}})
    assert op_class(entry)(gain=meta(6)).check(meta(4)).indices["G"] == 3
    assert called(entry, meta(4)).eval_roofline()[0] == 4


def test_a_run_of_axes_of_an_optional_tensor_is_broadcast_where_it_is_passed():
    entry = demo(
        {"flops": "prod(S)"},
        [
            {"label": "given", "A": [4, 1], "L": [3], "some": ["low"], "dtype_cases": [{"T": "float16"}]},
            {"label": "without", "A": [4, 1], "dtype_cases": [{"T": "float16"}]},
        ],
        forall={"A": "Shape", "L": "Shape", "T": "DType[float16]"},
        inputs={"x": {"dtype": "T", "shape": "[*A]"}, "low": {"dtype": "T", "shape": "[*L]", "optional": True}},
        outputs={"y": {"dtype": "T", "shape": "[*S]"}},
        let={"S": "broadcast(A, L) if present(low) else A"},
    )
    op = op_class(entry)()
    assert op.check(meta(4, 1), meta(3)).outputs["y"].shape == (4, 3)
    assert op.check(meta(4, 1)).outputs["y"].shape == (4, 1)


# ---- lets


def test_a_let_that_nothing_reads_makes_no_index_relevant():
    entry = gained(let={"v": "G + 1", "w": "v * 2"})
    assert verdict(entry)[1] == []
    op = op_class(entry)()
    assert op.check(meta(4), meta(6)).indices["w"] == 8
    assert op.check(meta(4)).indices.keys() == {"M", "T"}


def test_an_index_is_read_through_the_lets_that_an_output_reads():
    found = verdict(gained("M", let={"v": "G + 1", "w": "v * 2"}, outputs={"y": {"dtype": "T", "shape": "[w]"}}))[1]
    assert [(one.code, one.field) for one in found] == [("M040", "signature.forall.G")]
    assert "(present(gain) = False)" in found[0].message


def test_a_rule_may_ask_the_dtype_of_an_optional_tensor_that_is_passed():
    op = op_class(gained(shape_rules=["R == 'float32' if present(gain) else True"]))()
    assert "R" not in op.check(meta(4)).indices
    assert op.check(meta(4), meta(6, dtype=torch.float32)).indices["R"] == "float32"
    with pytest.raises(ValueError, match="R == 'float32' if"):
        op.check(meta(4), meta(6))


# ---- dtype combinations


def test_a_combination_may_name_parameters_and_none():
    entry = demo(
        {"flops": "M"},
        [{"label": "row", "M": 4, "N": 1, "dtype_cases": [{"T": "float16"}]}],
        params={"to": {"type": "float16 | bfloat16 | None", "default": None}},
        dtype_combos=[{"T": "float16", "to": None}, {"T": "float32", "to": "bfloat16"}],
        status="spec-only",
    )
    made = op_class(entry)
    assert made().check(meta(2, 3)).indices["T"] == "float16"
    assert made(torch.bfloat16).check(meta(2, 3, dtype=torch.float32)).indices["T"] == "float32"
    for to, dtype in ((None, torch.float32), (torch.bfloat16, torch.float16), ("float16", torch.float16)):
        with pytest.raises(ValueError, match="accepted are: float16, None; float32, bfloat16"):
            made(to).check(meta(2, 3, dtype=dtype))
    entry["workloads"][0]["to"] = "bfloat16"
    assert [one.code for one in verdict(entry)[1]] == ["M060"]


def test_the_id_of_a_case_names_every_dtype_parameter_that_is_not_none_in_the_order_of_params():
    params = {
        "kept": {"type": "float16 | float32", "default": "float32"},
        "none": {"type": "float16 | None", "default": None},
        "to": {"type": "float16 | bfloat16 | None", "default": "bfloat16"},
    }
    row = {"label": "row", "M": 4, "N": 1, "dtype_cases": [{"T": "float16"}]}
    rows = [row, {**row, "to": None}, {**row, "to": "float16", "kept": "float16"}]
    cases = op_class(demo(None, rows, params=params)).CASES
    assert [case.case_id for case in cases] == [
        "row-float16-float32-bfloat16",
        "row-float16-float32",
        "row-float16-float16-float16",
    ]
