"""The roofline document, sections 2.1 and 2.2: the output contract and the two modes. One test per sentence, in order.

Derived bytes are in analysis_bytes_test.py, the analysis as such in analysis_rules_test.py.
"""

from __future__ import annotations

import sys
import types

import pytest
import torch

from tileops.ops import catalogue, workloads
from tileops.ops.errors import OpCallError
from tileops.tests.codegen.small_entries import called, demo, meta, op_class, source_of, verdict

PROJECT = [(op_class, case) for op_class in catalogue.load().values() for case in op_class.CASES]


@pytest.fixture
def formulas(monkeypatch):
    """A module of func formulas, importable as demo_formulas while a test runs."""
    made = types.ModuleType("demo_formulas")
    made.price = lambda call: (0, 0)
    monkeypatch.setitem(sys.modules, "demo_formulas", made)
    return made


def codes(entry) -> list[str]:
    return [one.code for one in verdict(entry)[1]]


# ---- 2.1 Output contract


@pytest.mark.requirement("2.1.1", "4.1.8", "4.1.9")
@pytest.mark.parametrize(("made", "case"), PROJECT, ids=[f"{made.ENTRY}-{case.case_id}" for made, case in PROJECT])
def test_2_1_per_workload_the_field_yields_flops_and_bytes_as_ints(made, case):
    op = workloads.construct(made, case, device="meta")
    op(**workloads.build_inputs(made, case, "meta"))
    flops, nbytes = op.eval_roofline()
    assert [type(flops), type(nbytes)] == [int, int]
    assert flops >= 0 and nbytes > 0  # a row of 0 bytes has no lower bound, and its report is blank


def test_2_1_a_real_valued_formula_yields_an_int_or_an_error_that_names_it():
    entry = demo({"flops": "M * N * 0.5"})
    assert called(entry, meta(3, 4)).eval_roofline()[0] == 6
    assert type(called(entry, meta(3, 4)).eval_roofline()[0]) is int
    with pytest.raises(
        OpCallError, match=r"DemoFwdOp: flops \(demo.yaml:\d+\) gave 7.5, but a price must be a finite non-negative"
    ):
        called(entry, meta(3, 5)).eval_roofline()


@pytest.mark.parametrize("formula", ["M - 4", "M * N - 100", "0 - M"])
def test_2_1_a_negative_count_is_an_error_and_no_price(formula):
    with pytest.raises(OpCallError, match="gave -"):
        called(demo({"flops": formula}), meta(3, 5)).eval_roofline()


@pytest.mark.requirement("2.1.3")
def test_2_1_the_compute_roof_is_not_part_of_the_field():
    assert codes(demo({"flops": "M", "roof": "tensor_core.bf16"})) == ["R001"]
    assert codes(demo({"flops": "M", "roof_key": "tensor_core.bf16"})) == ["R001"]


@pytest.mark.requirement("1.2.10")
def test_1_2_the_bound_is_not_part_of_the_manifest():
    assert codes(demo({"flops": "M", "bound": "memory"})) == ["R001"]
    assert codes({**demo(), "bound": "memory"}) == ["M011"]
    row = {"label": "row", "M": 3, "N": 5, "dtype_cases": [{"T": "float16"}], "bound": "memory"}
    assert codes(demo(rows=[row])) == ["M060"]


# ---- 2.2 Inline


@pytest.mark.requirement("2.2.1", "2.2.2")
def test_2_2_an_entry_uses_one_of_two_modes():
    assert (
        codes(demo({"flops": "M"})) == codes(demo({"flops": "M", "bytes": "N"})) == codes(demo({"func": "a.b"})) == []
    )
    assert codes(demo({"flops": "M", "func": "a.b"})) == ["R001"]


@pytest.mark.requirement("2.2.4")
def test_2_2_formulas_read_indices_parameters_and_lets():
    entry = demo(
        {"flops": "M * N + k + L", "bytes": "L * k"},
        params={"k": {"type": "int"}},
        let={"L": "2 * N"},
        rows=[{"label": "row", "M": 3, "N": 5, "k": 7, "dtype_cases": [{"T": "float16"}]}],
    )
    assert called(entry, meta(3, 5), k=7).eval_roofline() == (15 + 7 + 10, 70)


def test_2_2_formulas_read_parameters_that_take_no_part_in_types():
    entry = demo({"flops": "M * (1 if alpha == 1 else 2)"}, params={"alpha": {"type": "Number", "default": 1}})
    assert called(entry, meta(3, 5)).eval_roofline()[0] == 3
    assert called(entry, meta(3, 5), alpha=0.5).eval_roofline()[0] == 6


def test_2_2_formulas_read_dtype_indices():
    entry = demo({"flops": "M * (1 if T == 'float16' else 2)"})
    assert called(entry, meta(3, 5)).eval_roofline()[0] == 3
    assert called(entry, meta(3, 5, dtype=torch.float32)).eval_roofline()[0] == 6


@pytest.mark.requirement("2.2.8")
def test_2_2_a_cost_that_varies_with_presence_reads_present():
    inputs = {"x": {"dtype": "T", "shape": "[M, N]"}, "w": {"dtype": "T", "shape": "[N]", "optional": True}}
    rows = [
        {"label": "bare", "M": 3, "N": 5, "dtype_cases": [{"T": "float16"}]},
        {"label": "with", "M": 3, "N": 5, "some": ["w"], "dtype_cases": [{"T": "float16"}]},
    ]
    entry = demo({"flops": "M * (2 if present(w) else 1)"}, inputs=inputs, rows=rows)
    assert called(entry, meta(3, 5)).eval_roofline()[0] == 3
    assert called(entry, meta(3, 5), meta(5)).eval_roofline()[0] == 6
    for formula, code in (
        ("M if w is None else N", "R010"),
        ("M if w == None else N", "R011"),
        ("M if w else N", "R011"),
    ):
        assert codes(demo({"flops": formula}, inputs=inputs, rows=rows)) == [code], formula


@pytest.mark.requirement("2.2.5")
def test_2_2_a_value_list_of_forall_is_not_in_indices():
    entry = demo(
        {"flops": "M"},
        forall={"M": "Dim", "lens": "Seq[Int]"},
        inputs={"cu": {"dtype": "int32", "shape": "[M]", "values": "running_sums(lens)"}},
        outputs={"y": {"dtype": "int32", "shape": "[M]"}},
        rows=[{"label": "row", "lens": [2, 3]}],
    )
    assert codes(entry) == []
    entry["roofline"]["flops"] = "sum(lens)"
    ((found),) = verdict(entry)[1]
    assert (
        found.code == "R011"
        and "lens" not in found.message.partition("allowed are")[2].partition(" and the functions")[0]
    )


@pytest.mark.requirement("2.2.6")
def test_2_2_bytes_of_t_is_the_byte_size_of_tensor_t():
    entry = demo(
        {"flops": "0", "bytes": "bytes(x) + 3 * bytes(y)"}, outputs={"y": {"dtype": "float64", "shape": "[N]"}}
    )
    assert called(entry, meta(3, 5)).eval_roofline() == (0, 2 * 15 + 3 * 8 * 5)


def test_2_2_bytes_of_an_optional_tensor_needs_a_guard():
    inputs = {"x": {"dtype": "T", "shape": "[M, N]"}, "w": {"dtype": "T", "shape": "[N]", "optional": True}}
    rows = [
        {"label": "bare", "M": 3, "N": 5, "dtype_cases": [{"T": "float16"}]},
        {"label": "with", "M": 3, "N": 5, "some": ["w"], "dtype_cases": [{"T": "float16"}]},
    ]
    guarded = demo({"flops": "0", "bytes": "bytes(x) + (bytes(w) if present(w) else 0)"}, inputs=inputs, rows=rows)
    assert called(guarded, meta(3, 5)).eval_roofline()[1] == 30
    assert called(guarded, meta(3, 5), meta(5)).eval_roofline()[1] == 40
    for text in ("bytes(w)", "bytes(w) if not present(w) else 0", "0 if present(w) else bytes(w)"):
        assert codes(demo({"flops": "0", "bytes": text}, inputs=inputs, rows=rows)) == ["R013"], text


def test_2_2_bytes_of_a_tensor_with_a_condition_may_be_read_where_that_or_its_presence_is_shown_to_hold():
    sections = {
        "params": {"mode": {"type": "'plain' | 'scaled'", "default": "plain"}},
        "inputs": {
            "x": {"dtype": "T", "shape": "[M, N]"},
            "w": {"dtype": "T", "shape": "[N]", "optional": "mode == 'scaled'"},
        },
        "outputs": {
            "y": {"dtype": "T", "shape": "[M, N]"},
            "s": {"dtype": "int32", "shape": "[M]", "nullable": "mode == 'scaled'"},
        },
        "rows": [
            {"label": mode, "M": 3, "N": 5, "mode": mode, "dtype_cases": [{"T": "float16"}]}
            for mode in ("plain", "scaled")
        ],
    }
    for name, size in (("w", 10), ("s", 12)):
        for guard in ("mode == 'scaled'", f"present({name})", "not mode == 'plain'"):
            entry = demo({"flops": "0", "bytes": f"bytes({name}) if {guard} else 1"}, **sections)
            assert called(entry, meta(3, 5)).eval_roofline()[1] == 1
            assert called(entry, meta(3, 5), meta(5), mode="scaled").eval_roofline()[1] == size
        for text in (f"bytes({name})", f"1 if mode == 'scaled' else bytes({name})"):
            assert codes(demo({"flops": "0", "bytes": text}, **sections)) == ["R013"], text


@pytest.mark.requirement("2.2.7")
def test_2_2_formulas_call_the_built_in_primitives():
    entry = demo({"flops": "ceil_div(M, 2) * prod((N, 2)) + max((M, N)) + sum(i for i in range(M))"})
    assert called(entry, meta(3, 5)).eval_roofline()[0] == 2 * 10 + 5 + 3


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("M + N * 2", 3 + 10),
        ("(M + N) * 2", 16),
        ("N - M - 1", 1),
        ("N - (M - 1)", 3),
        ("N // 2 * 2", 4),
        ("N // (2 * 2)", 1),
        ("N % 3 + 1", 3),
        ("N % (3 + 1)", 1),
        ("1 if M < N < 6 else 2", 1),
        ("1 if not M == 3 else 2", 2),
        ("1 if M == 3 and N == 5 or M == 9 else 2", 1),
        ("1 if M == 9 and (N == 5 or M == 3) else 2", 2),
        ("(1 if M == 3 else 2) + 1", 2),
        ("1 if M == 3 else 2 + 1", 1),
        ("abs(M - N) * 2", 4),
        ("-(M - N) * 2", 4),
        ("(0 - N) // 2 + 10", 7),
        ("(0 - N) % 3", 1),
        ("M if M in (1, 3) else 0", 3),
        ("(M, N)[1]", 5),
        ("sum(i * 2 for i in (M, N) if i > 3) * 3", 30),
        ("max(i - 1 for i in (M, N))", 4),
        ("sum(sum(i * j for j in range(3)) for i in range(M))", 9),
        ("sum(sum(j for j in range(i)) for i in (M, N))", 13),
    ],
)
def test_2_2_the_emitted_expression_keeps_the_formulas_own_precedence(formula, value):
    assert called(demo({"flops": formula}), meta(3, 5)).eval_roofline()[0] == value


def test_2_2_an_unknown_name_is_a_defect_in_a_branch_that_is_never_taken_too():
    assert codes(demo({"flops": "Q if False else 7"})) == ["R011"]


@pytest.mark.requirement("2.2.2", "2.2.23")
def test_2_2_the_example_of_an_inline_formula_is_priced_with_derived_bytes():
    entry = demo(
        {"flops": "2 * M * N * K"},
        forall={"M": "Dim", "N": "Dim", "K": "Dim"},
        inputs={"a": {"dtype": "float16", "shape": "[M, K]"}, "b": {"dtype": "float16", "shape": "[K, N]"}},
        outputs={"c": {"dtype": "float16", "shape": "[M, N]"}},
        rows=[{"label": "row", "M": 3, "N": 5, "K": 7}],
    )
    assert called(entry, meta(3, 7), meta(7, 5)).eval_roofline() == (2 * 3 * 5 * 7, 2 * (21 + 35 + 15))


# ---- 2.2 Func


@pytest.mark.requirement("2.2.3", "2.2.15", "4.4.2c")
def test_2_2_a_func_gets_the_checked_call_and_nothing_else(formulas):
    seen = []
    formulas.price = lambda *arguments: seen.append(arguments) or (1, 2)
    op = called(demo({"func": "demo_formulas.price"}), meta(3, 5))
    assert op.eval_roofline() == (1, 2)
    ((call,),) = seen
    assert call is op.last_call


@pytest.mark.requirement("2.2.16", "2.2.17", "2.2.18", "2.2.19", "2.2.20")
def test_2_2_the_checked_call_has_every_fact_that_an_inline_formula_reads(formulas):
    entry = demo(
        {"func": "demo_formulas.price"},
        params={"k": {"type": "int"}, "scale": {"type": "float", "default": 0.5}},
        let={"L": "N // k", "wide": "T == 'float32'"},
        inputs={
            "x": {"dtype": "T", "shape": "[M, N]"},
            "ids": {"dtype": "int32", "shape": "[M, 2]", "values": "topk_ids(M, 2, 8)"},
            "w": {"dtype": "T", "shape": "[N]", "optional": True},
        },
        outputs={"y": {"dtype": "T", "shape": "[L if wide else 1]"}},
        rows=[
            {"label": "bare", "M": 3, "N": 5, "k": 2, "dtype_cases": [{"T": "float16"}]},
            {"label": "with", "M": 3, "N": 5, "k": 2, "some": ["w"], "dtype_cases": [{"T": "float32"}]},
        ],
    )
    call = called(entry, meta(3, 5), torch.zeros(3, 2, dtype=torch.int32), k=2).last_call
    assert dict(call.params) == {"k": 2, "scale": 0.5}
    assert dict(call.indices) == {"M": 3, "N": 5, "T": "float16", "L": 2, "wide": False}
    assert [call.present(name) for name in ("x", "ids", "w", "y")] == [True, True, False, True]
    assert (call.tensors["x"].shape, call.tensors["x"].dtype, call.tensors["x"].bytes) == ((3, 5), "float16", 30)
    assert call.values("ids").tolist() == [[0, 0]] * 3
    assert call.stages == {}


def test_2_2_a_formula_never_reads_the_op(formulas):
    call = called(demo(), meta(3, 5)).last_call
    refused = {"device", "aliases", "buffers"}  # a completed call tells none of these
    reachable = [getattr(call, name) for name in dir(call) if not name.startswith("_") and name not in refused]
    assert not [value for value in reachable if isinstance(value, torch.nn.Module) or hasattr(value, "eval_roofline")]


@pytest.mark.requirement("2.2.15")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "gave 3, but a formula must return"),
        ((1,), "gave"),
        ((1, 2, 3), "gave"),
        ([1, 2], "gave"),
        ((-1, 2), "flops of demo_formulas.price gave -1"),
        ((1, 2.5), "bytes of demo_formulas.price gave 2.5"),
        ((1, float("inf")), "gave inf"),
        ((float("nan"), 1), "gave nan"),
        ((True, 1), "gave True"),
        ((1, None), "gave None"),
    ],
)
def test_2_2_a_func_gives_two_finite_non_negative_integers_or_an_error_names_it(formulas, given, message):
    formulas.price = lambda call: given
    with pytest.raises(OpCallError, match=f"DemoFwdOp: .*{message}"):
        called(demo({"func": "demo_formulas.price"}), meta(3, 5)).eval_roofline()


def test_2_2_a_func_of_numpy_like_whole_numbers_is_a_pair_of_plain_ints(formulas):
    formulas.price = lambda call: (6.0, 2)
    flops, nbytes = called(demo({"func": "demo_formulas.price"}), meta(3, 5)).eval_roofline()
    assert (type(flops), flops, nbytes) == (int, 6, 2)


def test_2_2_a_func_introduces_no_signature_dependency(formulas):
    formulas.price = lambda call: (1, 1)
    with_func, without = (op_class(demo(block)) for block in ({"func": "demo_formulas.price"}, {"flops": "0"}))
    assert with_func.INPUT_NAMES == without.INPUT_NAMES and len(with_func.CASES) == len(without.CASES)
    made = [
        source_of(demo(block)).partition("def check")[2].partition("def eval_roofline")[0]
        for block in ({"func": "demo_formulas.price"}, {"flops": "0"})
    ]
    assert made[0] == made[1]
