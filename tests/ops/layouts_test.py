"""Kernels read their inputs however they lie, by Triton's interpreter: one op of each family, or all
(TILEOPS_TEST_ALL=1).
"""

import os

import numpy as np
import pytest
import torch

from tileops.tests.ops.layouts import (
    FLOATS,
    IN_TURN,
    LAYOUTS,
    ONE_PER_FAMILY,
    PRODUCTS,
    WITH_KERNEL,
    WITHOUT_INPUTS,
    are_taken,
    cases,
    check,
)

_IS_ALL = os.environ.get("TILEOPS_TEST_ALL") == "1"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", WITH_KERNEL if _IS_ALL else ONE_PER_FAMILY)
def test_a_kernel_reads_inputs_of_every_layout(op, layout):
    served = 0
    with np.errstate(all="ignore"):
        for case in cases(op):
            if op not in PRODUCTS or case.dtype != torch.bfloat16:  # whose bits the interpreter multiplies as integers
                served += check(case, layout, in_turn=_IS_ALL and case.dtype in IN_TURN)
    assert bool(served) is are_taken(op, layout)


def test_every_dtype_that_kernels_serve_is_among_the_calls():
    for op in ("SinFwdOp", "RMSNormFwdOp", "SumFwdOp", "DropoutFwdOp", *WITHOUT_INPUTS):
        assert {case.dtype for case in cases(op)} >= set(FLOATS)
    assert {case.dtype for case in cases("RemainderFwdOp")} >= {torch.int32, torch.int64, torch.uint8}
