"""The rules of section 1.3 on the prices of ops themselves, counts written down from the requirement's words."""

from __future__ import annotations

import pytest
import torch

from tileops.tests.oracle import priced_calls

# By lower-case name: the requirement speaks of operations, not of how classes are spelled.
OPS = {name.lower().removesuffix("fwdop"): op for name, op in priced_calls.implemented().items()}
SHAPE = (3, 5)
ELEMENTS = 15


def flops_of(name: str, dtype: torch.dtype = torch.float32, **params) -> int:
    """FLOPs of a call in which every input has all the elements of the output."""
    op = OPS[name](**params)
    dtypes = [torch.bool if one in ("condition", "mask") else dtype for one in OPS[name].INPUT_NAMES]
    op(*(torch.empty(SHAPE, dtype=one, device="meta") for one in dtypes))
    return op.eval_roofline()[0]


@pytest.mark.requirement("1.3.1")
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "neg", "abs", "reciprocal"])
def test_a_basic_arithmetic_operation_counts_1(name):
    assert flops_of(name) == ELEMENTS


@pytest.mark.requirement("1.3.2")
@pytest.mark.parametrize("name", ["exp", "log", "log1p", "erf", "tanh", "sin", "cos", "sqrt", "rsqrt"])
def test_a_transcendental_counts_1(name):
    assert flops_of(name) == ELEMENTS


@pytest.mark.requirement("1.3.4")
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("maximum", {}),
        ("minimum", {}),
        ("clampscalar", {"min": 0.0}),
        ("clampscalar", {"max": 1.0}),
        ("clampscalar", {"min": 0.0, "max": 1.0}),
        ("clamptensor", {}),
        ("relu", {}),
        ("where", {}),
    ],
)
def test_a_compare_and_select_counts_1_by_one_bound_or_two(name, params):
    assert flops_of(name, **params) == ELEMENTS


@pytest.mark.requirement("1.3.4")
def test_a_compare_and_select_counts_by_the_output_of_a_broadcast():
    op = OPS["maximum"]()
    op(torch.empty(3, 1, device="meta"), torch.empty(1, 5, device="meta"))
    assert op.eval_roofline()[0] == ELEMENTS


@pytest.mark.requirement("1.3.5")
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite"])
def test_a_predicate_counts_1(name):
    assert flops_of(name) == ELEMENTS


@pytest.mark.requirement("1.3.6")
def test_a_sigmoid_is_negate_exp_add_and_reciprocal():
    assert flops_of("sigmoid") == sum(flops_of(name) for name in ("neg", "exp", "add", "reciprocal")) == 4 * ELEMENTS


@pytest.mark.requirement("1.3.7")
def test_a_silu_is_a_sigmoid_and_a_multiply():
    assert flops_of("silu") == flops_of("sigmoid") + flops_of("mul") == 5 * ELEMENTS


@pytest.mark.requirement("1.3.20")
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("floor", torch.int32),
        ("ceil", torch.int32),
        ("trunc", torch.int32),
        ("round", torch.int32),
        ("abs", torch.uint8),
    ],
)
def test_what_changes_no_value_of_the_dtype_counts_0(name, dtype):
    assert (flops_of(name, dtype), flops_of(name)) == (0, ELEMENTS)
