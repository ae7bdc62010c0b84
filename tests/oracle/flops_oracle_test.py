"""The FLOP oracle: an independent count for every implemented op, of exactly one kind, and exact (seed, section 1.3)."""

from __future__ import annotations

import dataclasses
import inspect
import math

import pytest
import torch
from torch.nn.attention.bias import causal_lower_right
from torch.utils.flop_counter import FlopCounterMode

from tileops.ops.errors import OpError
from tileops.tests.oracle import expected, flop_enumerations, priced_calls
from tileops.tests.oracle.dispatch_count import count_flops
from tileops.tests.oracle.flop_enumerations import ENUMERATIONS
from tileops.tests.oracle.flop_references import REFERENCES
from tileops.tests.oracle.flop_scalar import FURTHER_OPINIONS, SCALAR_REFERENCES
from tileops.tests.oracle.mutated_prices import formulas_of, reached
from tileops.tests.oracle.small_call import SmallCall

OPS = priced_calls.implemented()
CASES = [(name, case) for name, op in OPS.items() for case in op.CASES]


def test_every_implemented_op_is_counted_by_exactly_one_kind():
    assert sorted([*REFERENCES, *ENUMERATIONS, *(SCALAR_REFERENCES.keys() - FURTHER_OPINIONS)]) == sorted(OPS)


@pytest.mark.requirement("1.2.22", "1.3.8")
@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}-{case.case_id}" for name, case in CASES])
def test_flops_of_every_row_equal_the_count(name, case):
    op = priced_calls.call_case(OPS[name], case)
    inputs = tuple(priced_calls.case_inputs(OPS[name], case).values())
    assert op.eval_roofline()[0] == expected.row_flops(name, op.last_call.params, inputs)


@pytest.mark.requirement("1.3.8")
@pytest.mark.parametrize("name", OPS)
def test_prices_of_small_calls_equal_the_count(name):
    signature = expected.entries()[name][0].signature
    for small in expected.calls_of(name, OPS[name]):
        op = priced_calls.call_small(OPS[name], small)
        price = op.eval_roofline()
        shapes = [one if one is None else tuple(one.shape) for one in small.inputs]
        bound = expected.recount_small(name, signature, op, small)
        assert price == (expected.small_flops(name, op.last_call.params, small), bound.total), (small.params, shapes)


@pytest.mark.requirement("1.3.8")
@pytest.mark.parametrize("name", OPS)
def test_a_call_whose_outputs_have_no_element_computes_nothing_and_moves_nothing(name):
    for small in expected.calls_of(name, OPS[name]):
        op = priced_calls.call_small(OPS[name], small)
        if not any(output.bytes for output in op.last_call.outputs.values()):
            assert op.eval_roofline() == (0, 0), (small.params, dict(op.last_call.tensors))


@pytest.mark.parametrize("name", ENUMERATIONS)
def test_the_count_at_scale_is_the_count_one_by_one(name):
    for small in expected.calls_of(name, OPS[name]):
        one_by_one = ENUMERATIONS[name].count(small.params, small.inputs).flops
        assert ENUMERATIONS[name].flops_at_scale(small.params, small.inputs) == one_by_one, small.params


@pytest.mark.parametrize("name", OPS)
def test_no_small_calls_are_an_error(name, monkeypatch):
    monkeypatch.setattr(expected, "small_calls", lambda op_class: iter(()))
    monkeypatch.setattr(
        expected,
        "ENUMERATIONS",
        {op: dataclasses.replace(one, calls=lambda: iter(())) for op, one in ENUMERATIONS.items()},
    )
    with pytest.raises(ValueError, match=f"{name}: the oracles have no small call"):
        expected.calls_of(name, OPS[name])


@pytest.mark.parametrize("name", OPS)
def test_each_extent_and_number_in_a_price_takes_several_values_among_the_calls_that_are_counted(name):
    """A coefficient of an extent that is always the same is any number; one that takes three values is in its place."""
    counted = [one.op.last_call for one in expected.expectations(name, OPS[name])]
    for index, value in counted[0].indices.items():
        taken = {call.indices[index] for call in counted if index in call.indices}
        if isinstance(value, int):
            assert len(taken - {0}) >= 3, f"{index} is only ever {sorted(taken)}"
        elif isinstance(value, tuple):
            assert len({math.prod(one) for one in taken} - {0}) >= 3, f"{index} holds only ever {sorted(taken)}"
    priced = inspect.getsource(OPS[name].eval_roofline)
    if OPS[name].FUNC:
        priced += "".join(
            inspect.getsource(getattr(formulas_of(OPS[name]), function)) for function in reached(OPS[name])
        )
    for param, value in counted[0].params.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool) and f'params["{param}"]' in priced:
            taken = {call.params[param] for call in counted}
            assert len(taken) >= 3, f"{param} is only ever {sorted(taken, key=str)}"
            if any(
                isinstance(one, float) for one in taken
            ):  # a count, as of decimals or of a chunk, may have no other side
                assert max(taken) > 1 or not _admits(name, {param: 2.0}), f"{param} is only ever {sorted(taken)}"
                assert min(taken) < 0 or not _admits(name, {param: -1.0}), f"{param} is only ever {sorted(taken)}"


def _admits(name, params):
    """Whether a call may have these parameters: the rules of an entry may bound a number."""
    small = expected.calls_of(name, OPS[name])[0]
    try:
        priced_calls.call_small(OPS[name], dataclasses.replace(small, params={**small.params, **params}))
    except OpError:
        return False
    return True


def _comparable(outputs):
    """Outputs with 8-bit floats widened, which torch compares by bits alone."""
    if isinstance(outputs, (tuple, list)):
        return tuple(_comparable(one) for one in outputs)
    is_narrow = outputs is not None and outputs.is_floating_point() and outputs.itemsize == 1
    return outputs.float() if is_narrow else outputs


@pytest.mark.parametrize("name", REFERENCES)
def test_the_reference_that_is_counted_computes_what_the_op_computes(name):
    for small in expected.calls_of(name, OPS[name]):
        copies = [one if one is None else one.clone() for one in small.inputs]
        op = OPS[name](**small.params, target="torch")
        computed = op(**dict(zip(op.INPUT_NAMES, small.inputs, strict=True)))
        counted = REFERENCES[name](op.last_call.params, *copies)
        torch.testing.assert_close(_comparable(counted), _comparable(computed), rtol=1e-2, atol=1e-2)
        for ours, theirs in zip(copies, small.inputs, strict=True):  # what the op writes, the reference writes
            if ours is not None:
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_counts_depend_on_shapes_alone():
    def norm(x):
        return torch.softmax(x - x.mean(-1, keepdim=True), -1)

    assert count_flops(norm, torch.randn(4, 6)) == count_flops(norm, torch.empty(4, 6, device="meta"))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (3, 3), (2, 5), (1, 4)])
def test_the_mask_that_is_enumerated_is_the_one_that_the_op_applies(queries, keys, is_causal):
    """With equal scores and unit vectors for values, the output shows the weights."""
    zeros, units = torch.zeros((1, queries, 1, 8)), torch.eye(keys, 8).view(1, keys, 1, 8)
    op = OPS["GQADenseFwdOp"](is_causal=is_causal, target="torch")
    weights = op(*(one.bfloat16() for one in (zeros, torch.zeros_like(units), units)))[0, :, 0]
    enumerated = [flop_enumerations.admitted(queries, keys, is_causal, query) for query in range(queries)]
    assert enumerated == [row.nonzero().flatten().tolist() for row in weights]
    if is_causal:  # and PyTorch's own
        bias = causal_lower_right(queries, keys)._materialize()
        assert enumerated == [row.nonzero().flatten().tolist() for row in bias]


class TestThirdOpinion:
    """torch.utils.flop_counter counts contractions alone: it agrees on a GEMM, and on the contractions of unmasked
    attention.
    """

    def test_gemm(self):
        case = OPS["GEMMFwdOp"].CASES[0]
        op = priced_calls.call_case(OPS["GEMMFwdOp"], case)
        inputs = list(priced_calls.case_inputs(OPS["GEMMFwdOp"], case).values())
        counter = FlopCounterMode(display=False)
        with counter:
            REFERENCES["GEMMFwdOp"](op.last_call.params, *inputs)
        assert counter.get_total_flops() == op.eval_roofline()[0]

    @pytest.mark.parametrize("is_causal", [False, True])
    def test_attention_differs_by_the_softmax_the_divide_and_the_masked_scores(self, is_causal):
        batch, length, heads, width = 3, 16, 4, 24
        shape = (batch, length, heads, width)
        q, k, v = (torch.empty(shape, dtype=torch.bfloat16, device="meta") for _ in range(3))
        op = priced_calls.call_small(OPS["GQADenseFwdOp"], SmallCall({"is_causal": is_causal}, (q, k, v)))
        counter = FlopCounterMode(display=False)
        with counter:
            scores = torch.matmul(q.transpose(1, 2), k.transpose(1, 2).transpose(-1, -2))
            torch.matmul(scores, v.transpose(1, 2))
        every, admitted = length * length, length * (length + 1) // 2 if is_causal else length * length
        contractions = counter.get_total_flops() * admitted // every
        assert op.eval_roofline()[0] == contractions + batch * heads * admitted * 5 + batch * length * heads * width
