"""Every kernel compiles for compute capability 9.0, which needs no GPU, and streams memory 16 bytes a thread.

The interpreter that the other tests use accepts what the compiler refuses (values whose type depends on a branch, say).
"""

import os
import re
import types

import pytest
import torch

if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("kernels are interpreted in this process; run this file alone", allow_module_level=True)

import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from tileops.ops.kernels import (
    attention,
    batch_norm,
    batch_norm_training,
    dropout,
    elementwise,
    elementwise_table,
    gemm,
    moe,
    positions,
    reduction,
    rms_norm,
)
from tileops.tests.ops.elementwise_calls import signatures

_H200 = GPUTarget("cuda", 90, 32)


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """PTX of the kernels that launches ask for, by kernel name; nothing is launched."""
    found: dict[str, list[str]] = {}
    compile_for_launch = JITFunction.run

    def run(self, *args, grid, warmup, **kwargs):
        kernel = compile_for_launch(self, *args, grid=grid, warmup=True, **kwargs)
        found.setdefault(self.fn.__name__, []).append(kernel.asm["ptx"])
        return kernel

    driver = types.SimpleNamespace(
        get_current_target=lambda: _H200, get_current_device=lambda: 0, get_current_stream=lambda device=None: 0
    )
    monkeypatch.setattr(JITFunction, "run", run)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    triton.runtime.driver.set_active(driver)
    yield found
    triton.runtime.driver.set_active(None)  # whoever asks next finds the machine's own


def _empty(*shape, dtype=torch.bfloat16):
    return torch.empty(shape, dtype=dtype)


def _parameters(channels):
    return [_empty(channels, dtype=torch.float32) for _ in range(4)]


def _assert_wide(ptx):
    """All of a streaming kernel's traffic of vectors goes 16 bytes at a time."""
    assert re.search(r"ld\.global\S*\.v4\.b32", ptx) and re.search(r"st\.global\S*\.v4\.b32", ptx)


def _compile(op, params, operands, result):
    """Compile the kernel of a call of an elementwise op over large contiguous operands."""
    how = elementwise_table.launch(elementwise_table.TABLE[op], params, operands, result)
    as_number = float if how.compute == torch.float32 else int
    numbers = [as_number(one) for one in elementwise_table.TABLE[op].numbers(params, result)]
    inputs = [_empty(2048, 4096, dtype=dtype) for dtype in operands.values()]
    elementwise.apply(how.function, inputs, numbers, how.meeting, how.compute, _empty(2048, 4096, dtype=result))


@pytest.mark.parametrize("op", elementwise_table.TABLE)
def test_every_scalar_function_of_an_op_streams_whole_vectors(compiled, op):
    seen = set()
    for some, operands, result in signatures(op):
        how = elementwise_table.launch(elementwise_table.TABLE[op], some.params, operands, result)
        if how.function not in seen:
            seen.add(how.function)
            _compile(op, some.params, operands, result)
            assert re.search(r"ld\.global\S*\.v4\.b32", compiled["_flat"][-1])


def test_elementwise_of_every_dtype(compiled):
    for some, operands, result in signatures("SignFwdOp"):
        _compile("SignFwdOp", some.params, operands, result)
    assert len(compiled["_flat"]) == len(elementwise_table.COMPUTED)


def test_elementwise_broadcasts(compiled):
    def add(a, b, dtype=torch.bfloat16):
        out = _empty(*torch.broadcast_shapes(a.shape, b.shape), dtype=dtype)
        elementwise.apply("add", [a, b], [], [dtype, dtype], torch.float32, out)

    add(_empty(16, 256, 56, 56), _empty(256, 1, 1))
    add(_empty(16, 256, 56, 56, dtype=torch.float32), _empty(256, 1, 1, dtype=torch.float32), torch.float32)
    for ptx in compiled["_strided"]:
        _assert_wide(ptx)
    add(_empty(3, 1), _empty(1, 5))
    add(_empty(2, 3, 4, 5, 6), _empty(2, 1, 4, 1, 6))


def test_operands_of_different_dtypes(compiled):
    for first, second in ((torch.int64, torch.bfloat16), (torch.bool, torch.float16), (torch.float16, torch.float32)):
        _compile("MulFwdOp", {}, {"input": first, "other": second}, torch.promote_types(first, second))
    _compile("MulFwdOp", {}, {"input": torch.uint8, "other": torch.int64}, torch.int64)


def test_what_only_writes(compiled):
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        positions.alibi(2048, 32, _empty(32, 2048, 2048, dtype=dtype))
        positions.sinusoidal(2048, 4096, _empty(2048, 4096, dtype=dtype))
    positions.alibi(129, 3, _empty(3, 129, 129))
    for ptx in (compiled["_alibi"][0], *compiled["_sinusoidal"]):
        assert re.search(r"st\.global\S*\.v4\.b32", ptx)


def test_dropout(compiled):
    for dtype in (torch.bfloat16, torch.float32):
        dropout.dropout(_empty(1024, 4096, dtype=dtype), 2**40, 2**31, 2.0)
    for ptx in compiled["_dropout"]:
        _assert_wide(ptx)
    assert len(compiled["_dropout"]) == 2
    dropout.dropout(_empty(5), 1, 2**32, 0.0)


def test_gated(compiled):
    for gate in elementwise_table.GATED.values():
        elementwise.gated(gate.scalar, _empty(2048, 28672))
        elementwise.gated(gate.scalar, _empty(1, 28672))
    for ptx in compiled["_gated"]:
        _assert_wide(ptx)


def test_normalizations(compiled):
    for rows, cols in ((1, 4096), (2048, 16384), (131072, 128)):
        rms_norm.rms_norm(_empty(rows, cols), _empty(cols), cols, 1e-6)
    for shape in ((32, 64), (8, 64, 32, 32), (4, 128, 1024, 1024)):
        batch_norm.batch_norm_inference(_empty(*shape), *_parameters(shape[1]), 1e-5)
        batch_norm_training.batch_norm_training(_empty(*shape), *_parameters(shape[1]), 0.1, 1e-5)
    for name in ("_rms_norm", "_normalize", "_resident", "_streamed"):
        for ptx in compiled[name]:
            _assert_wide(ptx)
    batch_norm_training.batch_norm_training(_empty(100000, 64), *_parameters(64), 0.1, 1e-5)
    # 14 * 14 is a multiple of 4 and no more: 8 bytes a thread.
    batch_norm_training.batch_norm_training(_empty(256, 1024, 14, 14), *_parameters(1024), 0.1, 1e-5)
    assert re.search(r"ld\.global\S*\.v2\.b32", compiled["_streamed"][-1])
    assert {"_column_statistics", "_merge_column_statistics"} <= set(compiled)


def test_reductions(compiled):
    for shape, dims in (((2048, 4096), (1,)), ((8192, 8192), (0, 1)), ((2048, 4096), (0,)), ((4, 128, 4096), (0, 2))):
        kept = tuple(size for axis, size in enumerate(shape) if axis not in dims)
        reduction.sum_over(_empty(*shape), dims, kept, torch.bfloat16)
    reduction.sum_over(_empty(65536, 64), (1,), (65536,), torch.bfloat16)
    assert set(compiled) == {"_sum_slices", "_sum_columns", "_sum_rows"}
    for ptx in (kernel for kernels in compiled.values() for kernel in kernels):
        assert re.search(r"ld\.global\S*\.v4\.b32", ptx)


def test_skinny_products_use_the_tensor_cores_and_prefetch(compiled):
    for m in (16, 64, 128):
        gemm.matmul_skinny(_empty(m, 7168), _empty(4096, 7168))
    for ptx in compiled["_skinny"]:
        assert "wgmma.mma_async" in ptx and "cp.async.cg.shared.global" in ptx


def test_attention_uses_the_tensor_cores_and_prefetches(compiled):
    for width, is_causal in ((64, False), (128, True)):
        key = _empty(2, 2048, 8, width)
        attention.attention(_empty(2, 2048, 32, width), key, key, is_causal)
    for ptx in compiled["_attention"]:
        assert "wgmma.mma_async" in ptx and "cp.async.cg.shared.global" in ptx


def test_moe(compiled):
    for tokens, width, experts, local in ((1, 7168, 384, 384), (512, 3072, 256, 128), (4096, 7168, 384, 384)):
        expert_map = None if local == experts else _empty(experts, dtype=torch.int32)
        moe.permute(_empty(tokens, width), _empty(tokens, 8, dtype=torch.int32), expert_map, experts, local)
    assert {"_count_experts", "_scan_counts"} <= set(compiled)
    for ptx in compiled["_permute_in_one_launch"] + compiled["_permute_counted"]:
        _assert_wide(ptx)
