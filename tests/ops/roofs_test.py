"""The compute roof of every op: a unit of the profile, named by the class of the op and by nothing that ran."""

from __future__ import annotations

import pytest
import torch

from tileops.ops import catalogue, workloads
from tileops.ops.implementations import implementation
from tileops.perf.roof import profiles

CLASSES = {name: made for name, made in catalogue.load().items() if made.implementation_names()}
H200 = profiles.find_profile("NVIDIA H200")


def called(made, case):
    """The op after a call of the row on meta."""
    op = workloads.construct(made, case, device="meta")
    inputs = workloads.build_inputs(made, case, "meta")
    with workloads.calls_on("meta", inputs):
        op(**inputs)
    return op


@pytest.mark.requirement("1.4.1")
@pytest.mark.parametrize("made", CLASSES.values(), ids=CLASSES)
def test_the_roof_of_every_row_is_a_unit_that_a_profile_rates(made):
    assert {called(made, case).roof_key() for case in made.CASES} <= H200.units.keys()


@pytest.mark.requirement("1.4.4")
@pytest.mark.parametrize("made", CLASSES.values(), ids=CLASSES)
def test_neither_roof_nor_price_follows_the_implementation_that_ran(made):
    op = called(made, made.CASES[0])
    found = set()
    for name in ("", *made.implementation_names(), "another"):
        op.last_call.set_served_by(name)
        assert op.last_implementation == name
        found.add((op.roof_key(), op.eval_roofline()))
    assert len(found) == 1


@pytest.mark.requirement("1.2.23", "1.4.4")
def test_a_matrix_product_on_the_cuda_cores_keeps_the_roof_of_the_tensor_cores():
    base = next(made for name, made in CLASSES.items() if name.lower() == "gemmfwdop")

    class Slow(base):
        @implementation("slow")
        def _slow(self, call, a, b):
            return (a[:, None, :] * b[None, :, :]).sum(-1)

    op = Slow(target="slow")
    op(torch.ones(2, 3, dtype=torch.float16), torch.ones(5, 3, dtype=torch.float16))
    assert (op.last_implementation, op.roof_key()) == ("slow", "tensor_core.fp16")


def optimal_unit(made, case):
    """The unit that does the work which the op counts: products, counts of integers, or arithmetic of one dtype."""
    if made.ENTRY in ("GEMMFwdOp", "GQADenseFwdOp") or made.ENTRY.startswith("Conv"):
        (dtype,) = set(case.dtypes.values())
        units = {"bfloat16": "tensor_core.bf16", "float16": "tensor_core.fp16", "float32": "tensor_core.tf32"}
        return units[dtype]
    dtypes = set(called(made, case).last_call.dtypes.values())
    if dtypes & {"float64", "complex128"}:
        return "cuda_core.fp64"
    counts = made.ENTRY == "MoePermuteNopadFwdOp" or not any("float" in dtype or "complex" in dtype for dtype in dtypes)
    return "cuda_core.int32" if counts else "cuda_core.fp32"


@pytest.mark.requirement("1.2.23", "1.4.3")
@pytest.mark.parametrize("made", CLASSES.values(), ids=CLASSES)
def test_the_roof_is_the_unit_an_optimal_implementation_would_use(made):
    assert [called(made, case).roof_key() for case in made.CASES] == [optimal_unit(made, case) for case in made.CASES]


@pytest.mark.requirement("1.4.3")
@pytest.mark.parametrize("made", CLASSES.values(), ids=CLASSES)
def test_the_key_is_declared_by_the_author_in_code(made):
    declares = next(base for base in made.__mro__ if "roof_key" in vars(base))
    assert declares.__module__.startswith("tileops.ops.families.") or declares.__module__ == "tileops.ops.base"


@pytest.mark.requirement("1.4.5")
def test_inputs_of_one_dtype_have_the_roof_that_the_op_declares():
    roofs = {
        made.ENTRY: called(made, case).roof_key()
        for made in CLASSES.values()
        for case in made.CASES
        if set(case.dtypes.values()) == {"bfloat16"}
    }
    assert {roofs["AddFwdOp"], roofs["RMSNormFwdOp"]} == {"cuda_core.fp32"}
    assert "tensor_core.bf16" in roofs.values()
