"""Generated ops of the project: their checks' errors, their cases, and their prices against hand counts."""

from __future__ import annotations

import math

import pytest
import torch

from tileops.ops import catalogue, workloads
from tileops.ops.errors import OpCallError, OpConstructionError

OPS = catalogue.load()
CASES = [(name, case) for name, op_class in OPS.items() for case in op_class.CASES]


def half(*shape):
    return torch.ones(shape, dtype=torch.float16)


def test_the_eight_ops_are_there_with_a_reference_each():
    assert set(OPS) >= {
        "SiLUAndMulFwdOp",
        "AddFwdOp",
        "RMSNormFwdOp",
        "SumFwdOp",
        "BatchNormFwdOp",
        "GEMMFwdOp",
        "GQADenseFwdOp",
        "MoePermuteNopadFwdOp",
    }
    for name, op_class in OPS.items():
        if op_class.STATUS == "implemented":
            assert op_class.implementation_names()[0] == "torch", name


@pytest.mark.parametrize(
    ("op", "inputs", "message"),
    [
        (
            "SiLUAndMulFwdOp",
            (half(3, 5),),
            "SiLUAndMulFwdOp: axis 1 of 'input' is declared '2 \\* N', and no N makes it 5",
        ),
        (
            "SiLUAndMulFwdOp",
            (half(),),
            r"SiLUAndMulFwdOp: 'input' is declared \[\*M, 2 \* N\], and its shape \[\] has 0 axes",
        ),
        (
            "SiLUAndMulFwdOp",
            (half(4).int(),),
            "SiLUAndMulFwdOp: dtype of 'input' is declared 'T', which is float16 or bfloat16 or float32",
        ),
        (
            "AddFwdOp",
            (half(3), half(4)),
            r"AddFwdOp: let S = broadcast\(A, B\): shapes \[3\] and \[4\] do not broadcast; 'input' is \[3\]; 'other' is \[4\]",
        ),
        (
            "LerpScalarFwdOp",
            (half(3), half(3).float()),
            "LerpScalarFwdOp: dtype of 'end' is declared 'T', which is float16 in this call, but float32 was found",
        ),
        ("AddFwdOp", (half(3), half(3).to("meta")), "AddFwdOp: input 'other' is on meta and 'input' on cpu"),
        ("AddFwdOp", (half(3), 1), "AddFwdOp: input 'other' must be a tensor, but a int was passed"),
        ("AddFwdOp", (half(3), None), "AddFwdOp: input 'other' must be a tensor, but a NoneType was passed"),
        (
            "BatchNormFwdOp",
            (half(2, 3), torch.ones(4), torch.ones(3)),
            r"axis 0 of 'running_mean' is declared 'C', which is 3 in this call, but 4 was found \(shape \[4\]\)",
        ),
        (
            "BatchNormFwdOp",
            (half(2, 3), torch.ones(3).half(), torch.ones(3)),
            "dtype of 'running_mean' is declared 'float32', but float16 was found",
        ),
        (
            "GEMMFwdOp",
            (half(2, 3), half(5, 4)),
            "GEMMFwdOp: axis 1 of 'b' is declared 'K', which is 3 in this call, but 4 was found",
        ),
        (
            "GEMMFwdOp",
            (half(2, 3, 1), half(5, 3)),
            r"GEMMFwdOp: 'a' is declared \[M, K\], and its shape \[2, 3, 1\] has 3 axes",
        ),
        (
            "GQADenseFwdOp",
            (half(1, 4, 3, 8), half(1, 4, 2, 8), half(1, 4, 2, 8)),
            "the rule 'H_kv > 0 and H %.*H = 3, H_kv = 2\\); 'q' is",
        ),
        (
            "GQADenseFwdOp",
            (half(1, 5, 2, 8), half(1, 4, 2, 8), half(1, 4, 2, 8)),
            "the rule 'not is_causal or S_q <= S_kv' does not hold",
        ),
    ],
)
def test_a_call_that_does_not_fit_names_op_tensor_term_and_found(op, inputs, message):
    params = {"is_causal": True} if op == "GQADenseFwdOp" else {}
    with pytest.raises(OpCallError, match=message):
        OPS[op](**params)(*inputs)


@pytest.mark.parametrize(
    ("op", "params", "message"),
    [
        ("RMSNormFwdOp", {"normalized_shape": 4}, r"'normalized_shape' is declared list\[int\], but 4 was passed"),
        ("SumFwdOp", {"dim": "0"}, "'dim' is declared int"),
        ("SumFwdOp", {"dtype": torch.int32}, "'dtype' is declared float16"),
        ("BatchNormFwdOp", {"training": 1}, "'training' is declared bool, but 1 was passed"),
        ("AddFwdOp", {"alpha": "1"}, "'alpha' is declared Number"),
    ],
)
def test_a_parameter_that_does_not_fit_is_refused_at_construction(op, params, message):
    with pytest.raises(OpConstructionError, match=message):
        OPS[op](**params)


def test_a_sum_outside_the_rank_names_the_rule():
    with pytest.raises(
        OpCallError,
        match=r"SumFwdOp: the rule 'valid_axes\(dim, len\(S\)\)' does not hold for this call \(dim = 2, S = \(3,\)\)",
    ):
        OPS["SumFwdOp"](dim=2)(half(3))


@pytest.mark.requirement("4.1.9")
@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}-{case.case_id}" for name, case in CASES])
def test_every_case_prices_on_meta_to_a_finite_non_negative_integer(name, case):
    op = workloads.construct(OPS[name], case)
    inputs = workloads.build_inputs(OPS[name], case, "meta")
    with workloads.calls_on("meta", inputs):
        op(**inputs)
    flops, nbytes = op.eval_roofline()
    assert type(flops) is int and type(nbytes) is int and flops >= 0 and nbytes > 0
    assert (0 < op.eval_roofline_read_bytes() < nbytes) if inputs else op.eval_roofline_read_bytes() == 0
    assert op.roof_key()
    for index, value in case.indices.items():
        if isinstance(value, tuple) and index not in op.last_call.indices:
            continue  # a list that only fills metadata; no tensor solves it
        assert op.last_call.indices[index] == value


def price(name, params=None, **tensors):
    op = OPS[name](**(params or {}))
    op(**tensors)
    return op.eval_roofline()


@pytest.mark.requirement("1.3.9")
def test_hand_counts_of_flops_and_bytes():
    # silu and mul: 6 per output element; 2N in, N out
    assert price("SiLUAndMulFwdOp", input=half(7, 10)) == (6 * 7 * 5, 2 * (70 + 35))
    # add: 1 an element, 2 where alpha is no identity; a two-sided broadcast writes 12 elements
    assert price("AddFwdOp", input=half(3, 1), other=half(1, 4)) == (12, 2 * (3 + 4 + 12))
    assert price("AddFwdOp", {"alpha": 3}, input=half(3, 1), other=half(1, 4))[0] == 12 + 4
    # rms norm: 3 an element, 4 with a weight, 3 a row
    assert price("RMSNormFwdOp", {"normalized_shape": [8]}, x=half(5, 8)) == (5 * (8 * 3 + 3), 2 * 80)
    assert price("RMSNormFwdOp", {"normalized_shape": [8]}, x=half(5, 8), weight=half(8)) == (5 * (8 * 4 + 3), 2 * 88)
    # sum: one add a reduced value; the output's own dtype
    assert price("SumFwdOp", {"dim": [0, 2]}, input=half(2, 3, 4)) == (24, 2 * (24 + 3))
    assert price("SumFwdOp", {"dtype": torch.float32}, input=half(2, 3, 4)) == (24, 2 * 24 + 4)
    # batch norm: in training the running statistics, if any, are read and written, and those of the batch returned
    statistics = {"running_mean": torch.zeros(3), "running_var": torch.ones(3)}
    assert price("BatchNormFwdOp", input=half(2, 3, 4), **statistics) == (2 * 24 + 3 * 4, 2 * 48 + 4 * 6)
    assert price("BatchNormFwdOp", {"training": True}, input=half(2, 3, 4)) == (5 * 24 + 3 * 4, 2 * 48 + 4 * 6)
    assert price("BatchNormFwdOp", {"training": True}, input=half(2, 3, 4), **statistics) == (
        5 * 24 + 3 * 11,
        2 * 48 + 4 * 18,
    )
    affine = {"weight": torch.ones(3), "bias": torch.zeros(3)}
    assert price("BatchNormFwdOp", {"training": True}, input=half(2, 3, 4), **statistics, **affine) == (
        6 * 24 + 3 * 12,
        2 * 48 + 4 * 24,
    )
    # gemm: 2 a multiply-add
    assert price("GEMMFwdOp", a=half(2, 3), b=half(5, 3)) == (60, 2 * (6 + 15 + 10))
    assert price("GEMMFwdOp", {"trans_a": True, "trans_b": False}, a=half(3, 2), b=half(3, 5)) == (
        60,
        2 * (6 + 15 + 10),
    )


def test_read_halves_leave_the_writes_out():
    op = OPS["BatchNormFwdOp"](training=True)
    op(half(2, 3, 4), torch.zeros(3), torch.ones(3))
    assert op.eval_roofline_read_bytes() == 2 * 24 + 4 * 6


def test_a_subclass_without_an_entry_keeps_its_parents_price_and_one_with_an_entry_has_its_own():
    assert "eval_roofline" not in vars(OPS["GEMMFwdOp"])
    for name, op_class in OPS.items():
        generated = next(base for base in op_class.__mro__ if "eval_roofline" in vars(base))
        assert generated.__module__.startswith("tileops.ops.generated."), name
        assert generated.__name__ == name


def test_inputs_of_a_case_are_reproducible_and_their_own():
    op_class = OPS["RMSNormFwdOp"]
    case = next(case for case in op_class.CASES if case.label == "llama-8b-decode")
    first, again = (workloads.build_inputs(op_class, case, "cpu") for _ in range(2))
    assert torch.equal(first["x"], again["x"])
    assert not torch.equal(first["x"], workloads.build_inputs(op_class, case, "cpu", variant=1)["x"])
    assert first["x"].flatten()[: first["weight"].numel()].ne(first["weight"]).any()
    normal = workloads.build_inputs(OPS["MoePermuteNopadFwdOp"], OPS["MoePermuteNopadFwdOp"].CASES[0], "cpu")[
        "hidden_states"
    ]
    assert math.isclose(normal.float().std().item(), 1.0, rel_tol=0.1)


def test_random_values_of_a_row_lie_in_the_interval_that_the_op_names():
    op_class = OPS["LogFwdOp"]
    low, high = op_class.SAMPLES["input"]
    for case in op_class.CASES:
        if case.label == "elementwise-4K":
            x = workloads.build_inputs(op_class, case, "cpu")["input"]
            assert x.all() if x.dtype == torch.bool else low <= x.min() < x.max() <= high


def test_metadata_does_not_follow_the_variant():
    op_class = OPS["MoePermuteNopadFwdOp"]
    case = op_class.CASES[1]
    first, other = (workloads.build_inputs(op_class, case, "meta", variant=v) for v in (0, 1))
    assert torch.equal(first["topk_ids"], other["topk_ids"])
    assert first["topk_ids"].device.type == "cpu" and first["hidden_states"].device.type == "meta"
