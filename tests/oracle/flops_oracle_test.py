"""The FLOP oracle: an independent count for every implemented op, of exactly one kind, and exact (seed, section 1.3)."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tileops.perf import paths
from tileops.tests.oracle import priced_calls
from tileops.tests.oracle.dispatch_count import count_flops
from tileops.tests.oracle.flop_enumerations import ENUMERATIONS
from tileops.tests.oracle.flop_references import REFERENCES
from tileops.tests.oracle.primitive_flops import TABLE, UnknownOperation, documented_table
from tileops.tests.oracle.small_calls import SmallCall, small_calls

OPS = priced_calls.implemented()
CASES = [(name, case) for name in REFERENCES for case in OPS[name].CASES]


def test_every_implemented_op_is_counted_by_exactly_one_kind():
    assert sorted([*REFERENCES, *ENUMERATIONS]) == sorted(OPS)


@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}-{case.case_id}" for name, case in CASES])
def test_flops_equal_the_operations_that_the_reference_dispatches(name, case):
    op = priced_calls.call_case(OPS[name], case)
    inputs = priced_calls.case_inputs(OPS[name], case).values()
    assert op.eval_roofline()[0] == count_flops(REFERENCES[name], op.last_call.params, *inputs)


@pytest.mark.parametrize("name", REFERENCES)
def test_flops_of_small_calls_equal_the_operations_that_the_reference_dispatches(name):
    for small in small_calls(OPS[name]):
        op = priced_calls.call_small(OPS[name], small)
        assert op.eval_roofline()[0] == count_flops(REFERENCES[name], op.last_call.params, *small.inputs), small.params


@pytest.mark.parametrize("name", ENUMERATIONS)
def test_the_price_equals_the_count_by_brute_force(name):
    for counted in ENUMERATIONS[name](OPS[name]):
        flops, nbytes = priced_calls.call_small(OPS[name], counted.call).eval_roofline()
        shapes = [one if one is None else one.shape for one in counted.call.inputs]
        assert flops == counted.flops, (counted.call.params, shapes)
        assert counted.nbytes in (None, nbytes), (counted.call.params, shapes)


@pytest.mark.parametrize("name", REFERENCES)
def test_the_reference_that_is_counted_computes_what_the_op_computes(name):
    for small in small_calls(OPS[name]):
        copies = [one if one is None else one.clone() for one in small.inputs]
        op = OPS[name](**small.params, target="torch")
        expected = op(*small.inputs)
        counted = REFERENCES[name](op.last_call.params, *copies)
        torch.testing.assert_close(counted, expected, rtol=1e-2, atol=1e-2)
        for ours, theirs in zip(copies, small.inputs, strict=True):  # what the op writes, the reference writes
            if ours is not None:
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_an_operation_without_a_row_in_the_table_is_an_error():
    with pytest.raises(UnknownOperation, match="aten.erfinv.*has no row"):
        count_flops(torch.erfinv, torch.ones(3))


def test_an_operation_stands_in_the_table_once():
    names = [name for count in TABLE for name in count.operations]
    assert len(names) == len(set(names))


def test_composites_are_priced_as_the_sum_of_their_primitives():
    x = torch.ones(7, device="meta")
    assert count_flops(torch.sigmoid, x) == count_flops(lambda x: torch.reciprocal(torch.exp(-x) + 1), x) == 4 * 7
    assert count_flops(torch.nn.functional.silu, x) == count_flops(lambda x: torch.sigmoid(x) * x, x) == 5 * 7


def test_counts_depend_on_shapes_alone():
    def norm(x):
        return torch.softmax(x - x.mean(-1, keepdim=True), -1)

    assert count_flops(norm, torch.randn(4, 6)) == count_flops(norm, torch.empty(4, 6, device="meta"))


class TestThirdOpinion:
    """torch.utils.flop_counter counts contractions alone: it agrees on a GEMM, and on the contractions of unmasked attention."""

    def test_gemm(self):
        case = OPS["GemmFwdOp"].CASES[0]
        op = priced_calls.call_case(OPS["GemmFwdOp"], case)
        inputs = list(priced_calls.case_inputs(OPS["GemmFwdOp"], case).values())
        counter = FlopCounterMode(display=False)
        with counter:
            REFERENCES["GemmFwdOp"](op.last_call.params, *inputs)
        assert counter.get_total_flops() == op.eval_roofline()[0]

    @pytest.mark.parametrize("is_causal", [False, True])
    def test_attention_differs_by_the_softmax_the_divide_and_the_masked_scores(self, is_causal):
        batch, length, heads, width = 2, 16, 4, 8
        shape = (batch, length, heads, width)
        q, k, v = (torch.empty(shape, dtype=torch.bfloat16, device="meta") for _ in range(3))
        op = priced_calls.call_small(OPS["GroupedQueryAttentionFwdOp"], SmallCall({"is_causal": is_causal}, (q, k, v)))
        counter = FlopCounterMode(display=False)
        with counter:
            scores = torch.matmul(q.transpose(1, 2), k.transpose(1, 2).transpose(-1, -2))
            torch.matmul(scores, v.transpose(1, 2))
        every, admitted = length * length, length * (length + 1) // 2 if is_causal else length * length
        contractions = counter.get_total_flops() * admitted // every
        assert op.eval_roofline()[0] == contractions + batch * heads * admitted * 5 + batch * length * heads * width




def test_the_documentation_prints_the_table():
    text = paths.data_path("docs", "what-counts.md").read_text()
    assert "\n".join(documented_table()) in text
