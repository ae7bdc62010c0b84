"""Kernels compile for compute capability 9.0 however their inputs lie: one op of each family, or all
(TILEOPS_TEST_ALL=1).

The interpreter accepts what the compiler refuses: a reduction of a number that is no tile, for one.
"""

import os

import pytest
import torch

from tileops.ops.errors import OpCallError
from tileops.ops.kernels import support
from tileops.tests.ops.compiling import compiled  # noqa: F401  # a fixture is found by its name
from tileops.tests.ops.layouts import IN_TURN, LAYOUTS, ONE_PER_FAMILY, WITH_KERNEL, are_taken, cases, laid_out

_IS_ALL = os.environ.get("TILEOPS_TEST_ALL") == "1"


@pytest.mark.parametrize("op", WITH_KERNEL if _IS_ALL else ONE_PER_FAMILY)
def test_a_kernel_compiles_for_inputs_of_every_layout(compiled, op, monkeypatch):
    monkeypatch.setattr(
        support, "_INTERPRETED", True
    )  # kernels serve tensors of the CPU, for which nothing is launched
    chosen = [case for case in cases(op) if _IS_ALL or case.dtype == torch.bfloat16]
    for layout in LAYOUTS:
        served = 0
        for case in chosen:
            for inputs in laid_out(case, layout, in_turn=_IS_ALL and case.dtype in IN_TURN):
                try:
                    case.run(*inputs)
                except OpCallError:  # a rule of the entry, or memory that a written input shares
                    continue
                served += 1
        assert bool(served) is are_taken(op, layout)
    assert compiled
