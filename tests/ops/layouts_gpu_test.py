"""Kernels of every op and dtype read their inputs however they lie, on a GPU, on which they run as they are compiled."""

import os

import pytest
import torch

from tileops.tests.ops.layouts import IN_TURN, LAYOUTS, WITH_KERNEL, are_taken, cases, check

if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("kernels are interpreted in this process; run this file alone", allow_module_level=True)
pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU; layouts_test.py interprets, layouts_compile_test.py compiles"
)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", WITH_KERNEL)
def test_a_kernel_reads_inputs_of_every_layout(op, layout):
    served = sum(check(case, layout, "cuda", in_turn=case.dtype in IN_TURN) for case in cases(op))
    assert bool(served) is are_taken(op, layout)
