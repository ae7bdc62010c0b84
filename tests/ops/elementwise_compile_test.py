"""Every scalar function of the elementwise table compiles for compute capability 9.0, and streams memory 16 bytes a
thread.
"""

import re

import pytest
import torch

from tileops.ops.kernels.elementwise import dropout, pointwise, positions, table
from tileops.tests.ops.compiling import assert_wide, compiled, empty  # noqa: F401  # a fixture is found by its name
from tileops.tests.ops.elementwise_calls import CLASSES, signatures


def _compile(op, params, operands, result):
    """Compile the kernel of a call of an elementwise op over large contiguous operands."""
    how = table.launch(table.TABLE[op], params, operands, result)
    as_number = float if how.compute == torch.float32 else int
    numbers = [as_number(one) for one in table.TABLE[op].numbers(params, result)]
    inputs = [empty(2048, 4096, dtype=dtype) for dtype in operands.values()]
    pointwise.apply(how.function, inputs, numbers, how.meeting, how.compute, empty(2048, 4096, dtype=result))


@pytest.mark.parametrize("op", table.TABLE)
def test_every_scalar_function_of_an_op_streams_whole_vectors(compiled, op):
    seen = set()
    for some, operands, result in signatures(op):
        how = table.launch(table.TABLE[op], some.params, operands, result)
        if how.function not in seen:
            seen.add(how.function)
            _compile(op, some.params, operands, result)
            # The widest of the operands: a bool beside a float32 takes fewer bytes a thread.
            assert re.search(r"(ld|st)\.global\S*\.v4\.b32", compiled["_flat"][-1])


def test_elementwise_of_every_dtype(compiled):
    for some, operands, result in signatures("SignFwdOp"):
        _compile("SignFwdOp", some.params, operands, result)
    assert len(compiled["_flat"]) == len(table.COMPUTED)


def test_elementwise_broadcasts(compiled):
    def add(a, b, dtype=torch.bfloat16):
        out = empty(*torch.broadcast_shapes(a.shape, b.shape), dtype=dtype)
        pointwise.apply("add", [a, b], [], [dtype, dtype], torch.float32, out)

    add(empty(16, 256, 56, 56), empty(256, 1, 1))
    add(empty(16, 256, 56, 56, dtype=torch.float32), empty(256, 1, 1, dtype=torch.float32), torch.float32)
    for ptx in compiled["_strided"]:
        assert_wide(ptx)
    add(empty(3, 1), empty(1, 5))
    add(empty(2, 3, 4, 5, 6), empty(2, 1, 4, 1, 6))


def test_operands_of_different_dtypes(compiled):
    for first, second in ((torch.int64, torch.bfloat16), (torch.bool, torch.float16), (torch.float16, torch.float32)):
        _compile("MulFwdOp", {}, {"input": first, "other": second}, torch.promote_types(first, second))
    _compile("MulFwdOp", {}, {"input": torch.uint8, "other": torch.int64}, torch.int64)


@pytest.mark.parametrize(
    "op", ["AddFwdOp", "PowFwdOp", "FloorDivideFwdOp", "LogicalAndFwdOp", "LogicalOrFwdOp", "EqFwdOp", "RemainderFwdOp"]
)
def test_an_operand_without_axes_is_read_in_the_dtype_of_the_other(compiled, op):
    params = {"alpha": 1} if op == "AddFwdOp" else {}
    for whole, lone in (
        (torch.float16, torch.float32),
        (torch.float32, torch.float64),
        (torch.int32, torch.int64),
        (torch.bool, torch.float32),
    ):
        names = CLASSES[op].INPUT_NAMES
        for first in (True, False):
            dtypes = (lone, whole) if first else (whole, lone)
            scalars = names[:1] if first else names[1:]
            operands = dict(zip(names, dtypes, strict=True))
            result = torch.bool if op[:2] in ("Lo", "Eq") else table.meeting(operands, scalars)
            how = table.launch(table.TABLE[op], params, operands, result, scalars)
            if how is not None:  # powers of integers are the reference's
                inputs = [
                    empty(*([] if name in scalars else [2048, 4096]), dtype=dtype) for name, dtype in operands.items()
                ]
                pointwise.apply(how.function, inputs, [], how.meeting, how.compute, empty(2048, 4096, dtype=result))
    assert compiled["_flat"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_remainder_takes_no_subnormal_number_for_zero(compiled, dtype):
    _compile("RemainderFwdOp", {}, {"input": dtype, "other": dtype}, dtype)
    (ptx,) = compiled["_flat"]
    assert (
        "abs.f32" in ptx and re.findall(r"\w+\.ftz\S*", ptx.replace("rcp.approx.ftz", "")) == []
    )  # 1 / y of y in [1, 2)


def test_what_only_writes(compiled):
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        positions.alibi(2048, 32, empty(32, 2048, 2048, dtype=dtype))
        positions.sinusoidal(2048, 4096, empty(2048, 4096, dtype=dtype))
    positions.alibi(129, 3, empty(3, 129, 129))
    for ptx in (compiled["_alibi"][0], *compiled["_sinusoidal"]):
        assert re.search(r"st\.global\S*\.v4\.b32", ptx)


def test_dropout(compiled):
    for dtype in (torch.bfloat16, torch.float32):
        x = empty(1024, 4096, dtype=dtype)
        dropout.dropout(x, 2**40, 2**31, 2.0, torch.empty_like(x))
    for ptx in compiled["_dropout"]:
        assert_wide(ptx)
    assert len(compiled["_dropout"]) == 2
    dropout.dropout(empty(5), 1, 2**32, 0.0, empty(5))


def test_gated(compiled):
    for function in ("silu", "gelu", "gelu_tanh"):
        pointwise.gated(function, empty(2048, 28672))
        pointwise.gated(function, empty(1, 28672))
    for ptx in compiled["_gated"]:
        assert_wide(ptx)
