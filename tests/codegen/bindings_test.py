"""What emitted checks and prices read, where they read it, and that operators bind as the entry writes them."""

from __future__ import annotations

import pytest
import torch

from tileops.ops.errors import OpCallError
from tileops.tests.codegen.emitted import build

HALF, FULL = torch.float16, torch.float32


@pytest.fixture
def op(tmp_path):
    """Builds the class of an entry from its signature; the formula is N unless another is given."""

    def made(flops="N", row=(), **signature):
        signature = {"forall": {"N": "Dim"}, "outputs": {"y": {"dtype": "float32", "shape": "[N]"}}} | signature
        workload = {"label": "a", "N": 5} | dict(row)
        entry = {
            "family": "demo",
            "status": "spec-only",
            "signature": signature,
            "workloads": [workload],
            "roofline": {"flops": flops},
        }
        return build(tmp_path, {"DemoFwdOp": entry})["DemoFwdOp"]

    return made


def meta(*shape, dtype=FULL):
    return torch.empty(shape, dtype=dtype, device="meta")


def called(instance, *inputs):
    instance(*inputs)
    return instance


X = {"x": {"dtype": "float32", "shape": "[N]"}}
FLAG, MAYBE = {"type": "bool", "default": False}, {"type": "bool | None", "default": None}
WORDS = {"type": "'a' | 'b' | 'c'"}
TYPED = {"forall": {"N": "Dim", "T": "DType[float16 | float32]"}, "inputs": {"x": {"dtype": "T", "shape": "[N]"}}}
ROW = {"dtype_cases": [{"T": "float16"}]}


# ---- what is bound where it is read


def test_derived_bytes_that_a_dtype_decides_read_it(op):
    state = {"s": {"dtype": "int8", "shape": "[N]", "mutated": "T == 'float16'"}}
    found = op(row=ROW, forall=TYPED["forall"], inputs={**TYPED["inputs"], **state})()
    assert called(found, meta(5, dtype=HALF), meta(5, dtype=torch.int8)).eval_roofline() == (5, 10 + 5 + 5 + 20)
    assert called(found, meta(5), meta(5, dtype=torch.int8)).eval_roofline() == (5, 20 + 5 + 20)
    assert found.eval_roofline_read_bytes() == 25


def test_a_restriction_on_a_dtype_that_decides_no_branch_finds_it_solved(op):
    found = op(row=ROW, **TYPED, shape_rules=["not T == 'float32'"])()
    found(meta(5, dtype=HALF))
    with pytest.raises(OpCallError, match="not T == 'float32'"):
        found(meta(5))


def test_an_index_of_an_absent_tensor_is_not_asked_for(op):
    inputs = {**X, "w": {"dtype": "float32", "shape": "[K]", "optional": "flag"}}
    found = op(flops="K if present(w) else N", forall={"N": "Dim", "K": "Dim"}, params={"flag": FLAG}, inputs=inputs)
    assert called(found(), meta(5), None).eval_roofline()[0] == 5
    assert called(found(flag=True), meta(5), meta(7)).eval_roofline()[0] == 7


def test_a_formula_reads_the_size_of_a_construction_time_tensor(op):
    params = {"table": {"type": "torch.Tensor", "dtype": "float32", "shape": "[N]"}}
    found = called(op(flops="bytes(table) + N", params=params, inputs=X)(meta(5)), meta(5))
    assert found.eval_roofline() == (25, 60)


def test_two_optional_inputs_are_each_checked_under_their_own_guard(op):
    optional = {"dtype": "float32", "shape": "[N]", "optional": True}
    found = op(inputs={**X, "v": optional, "w": optional})()
    found(meta(5), None, meta(5))
    found(meta(5), meta(5), None)
    for v, w in ((None, meta(4)), (meta(4), None)):
        with pytest.raises(OpCallError, match="declared 'N'"):
            found(meta(5), v, w)


@pytest.mark.parametrize("homes", [("cpu", "meta"), ("meta", "cpu"), ("meta", "meta"), ("cpu", "cpu")])
def test_a_call_of_metadata_alone_is_on_meta_where_one_tensor_is(op, homes):
    ids = {"dtype": "int32", "shape": "[N, 1]", "values": "topk_ids(N, 1, 2)"}
    found = op(inputs={"i": ids, "j": ids})
    found.register("zeros", lambda op, call, *inputs: torch.zeros(5))
    instance = called(found(), *(torch.zeros(5, 1, dtype=torch.int32, device=home) for home in homes))
    assert instance.last_implementation == ("" if "meta" in homes else "zeros")


# ---- what a point decides


def test_a_word_among_several_decides_a_presence(op):
    inputs = {**X, "w": {"dtype": "float32", "shape": "[N]", "optional": "mode in ('a', 'b')"}}
    found = op(row={"mode": "a"}, params={"mode": WORDS}, inputs=inputs)
    found("b")(meta(5), meta(5))
    found("c")(meta(5), None)
    with pytest.raises(OpCallError, match="'w' must be given if and only if"):
        found("c")(meta(5), meta(5))


def test_none_decides_a_presence(op):
    inputs = {**X, "w": {"dtype": "float32", "shape": "[K]", "optional": "keep != None"}}
    found = op(forall={"N": "Dim", "K": "Dim"}, params={"keep": MAYBE}, inputs=inputs)  # whose row writes no K
    found(False)(meta(5), meta(3))
    found()(meta(5), None)


def test_a_required_tensor_is_present_and_leaves_its_axis_solvable(op):
    found = op(inputs={"x": {"dtype": "float32", "shape": "[N + (2 if present(x) else N)]"}})()
    assert called(found, meta(7)).eval_roofline()[0] == 5


def test_a_let_that_asks_for_a_presence_has_a_value_in_rows(op):
    inputs = {**X, "w": {"dtype": "float32", "shape": "[N]", "optional": True}}
    found = op(flops="k", let={"k": "N if present(w) else 2 * N"}, inputs=inputs, shape_rules=["k > 4"])()
    assert called(found, meta(5), None).eval_roofline()[0] == 10
    assert called(found, meta(5), meta(5)).eval_roofline()[0] == 5


def test_a_let_is_worked_out_and_never_solved_from_a_tensor(op):
    found = op(let={"k": "N + 1"}, inputs={"w": {"dtype": "float32", "shape": "[k]"}, **X})()
    found(meta(6), meta(5))
    with pytest.raises(OpCallError, match="declared 'k', which is 6"):
        found(meta(7), meta(5))


def test_two_tensors_with_one_condition_may_be_asked_for_together(op):
    shared = {"dtype": "float32", "shape": "[N]", "optional": "mode == 'a'"}
    formula = "N if present(v) or present(w) else 1"
    found = op(flops=formula, row={"mode": "a"}, params={"mode": WORDS}, inputs={**X, "v": shared, "w": shared})
    assert called(found("a"), meta(5), meta(5), meta(5)).eval_roofline()[0] == 5
    assert called(found("b"), meta(5), None, None).eval_roofline()[0] == 1


def test_a_presence_chooses_a_case_where_its_condition_is_a_flag(op):
    cases = {"params": {"there": "Bool", "n": "Dim"}, "match": ["there"], "cases": {False: "[n]", True: "[n, 2]"}}
    inputs = {**X, "w": {"dtype": "float32", "shape": "[N]", "optional": "flag"}}
    outputs = {"y": {"dtype": "float32", "shape": "Wide[present(w), N]"}}
    found = op(params={"flag": FLAG}, types={"Wide": cases}, inputs=inputs, outputs=outputs)
    assert found()(meta(5), None).shape == (5,)
    assert found(flag=True)(meta(5), meta(5)).shape == (5, 2)


# ---- operators bind as they are written


def test_a_sum_broken_over_lines_keeps_its_first_term_together(op):
    first = "(N * 1000000000 if N * 1000000000 > 4000000000 * N else N * 2000000000 - N)"
    formula = f"{first} + N * 30000000000000000 + N * 40000000000000000 + N * 50000000000000000"
    found = called(op(flops=formula, inputs=X)(), meta(5))
    assert found.eval_roofline()[0] == 5 * 2_000_000_000 - 5 + 5 * 120_000_000_000_000_000


def test_a_run_that_is_a_conditional_is_compared_as_a_whole(op):
    inputs = {
        "x": {"dtype": "float32", "shape": "[*S]"},
        "w": {"dtype": "float32", "shape": "[*(S if len(S) > 1 else (N, N)), N]"},
        "v": {"dtype": "float32", "shape": "[N]"},
    }
    found = op(row={"S": [5]}, forall={"N": "Dim", "S": "Shape"}, inputs=inputs)()
    found(meta(5), meta(3, 3, 3), meta(3))
    found(meta(5, 4), meta(5, 4, 3), meta(3))
    with pytest.raises(OpCallError, match="'w'"):
        found(meta(5), meta(3, 4, 3), meta(3))


def test_the_variable_of_a_comprehension_is_no_name_outside_it(op):
    """Neither the argument that a family is given nor a parameter that a branch decides."""
    cases = {
        "params": {"n": "Dim", "on": "Bool"},
        "match": ["on"],
        "cases": {False: "[n]", True: "[sum(n + N for N in range(2)), sum(n for flag in range(3))]"},
    }
    outputs = {"y": {"dtype": "float32", "shape": "Summed[N, flag]"}}
    found = op(params={"flag": FLAG}, types={"Summed": cases}, inputs=X, outputs=outputs)
    assert found(flag=True)(meta(5)).shape == (5 + 0 + 5 + 1, 15)


def test_the_variable_of_a_comprehension_may_be_called_as_a_dtype(op):
    found = called(op(flops="sum(abs(int8) for int8 in range(N))", inputs=X)(), meta(5))
    assert found.eval_roofline()[0] == 10


# ---- terms without a value


def test_an_output_of_negative_length_is_refused(op):
    found = op(inputs=X, outputs={"y": {"dtype": "float32", "shape": "[N - 3]"}})()
    assert found(meta(5)).shape == (2,)
    with pytest.raises(
        OpCallError, match=r"'y' is declared \[N - 3\], which is \[-1\] .*, but no axis may be negative"
    ):
        found(meta(2))


@pytest.mark.parametrize(("formula", "reason"), [("10 // N", "by zero"), ("log2_floor(N)", "logarithm of 0")])
def test_a_formula_without_a_value_names_itself(op, formula, reason):
    found = called(op(flops=formula, inputs=X)(), meta(0))
    with pytest.raises(OpCallError, match=rf"flops \(demo.yaml:\d+\) has no value for this call: .*{reason}"):
        found.eval_roofline()


@pytest.mark.parametrize("term", ["8 // N", "N + 8 // N", "*repeat(1, 2 - N)", "prod(S[1:]) // S[0]"])
def test_an_axis_without_a_value_names_its_term(op, term):
    inputs = {**X, "s": {"dtype": "float32", "shape": "[*S]"}, "w": {"dtype": "float32", "shape": f"[{term}]"}}
    found = op(row={"N": 2, "S": [1]}, forall={"N": "Dim", "S": "Shape"}, inputs=inputs)()
    with pytest.raises(OpCallError, match="of w, "):
        found(meta(0 if "//" in term else 3), meta(), meta(1))
