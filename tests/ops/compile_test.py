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
    elementwise,
    gemm,
    moe,
    reduction,
    rms_norm,
)

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


def test_elementwise(compiled):
    elementwise.silu_and_mul(_empty(2048, 28672))
    elementwise.silu_and_mul(_empty(1, 28672))
    elementwise.add(_empty(2048, 4096), _empty(2048, 4096), 0.5)
    elementwise.add(_empty(16, 256, 56, 56), _empty(256, 1, 1), 1)
    elementwise.add(_empty(16, 256, 56, 56, dtype=torch.float32), _empty(256, 1, 1, dtype=torch.float32), 1)
    for ptx in compiled["_silu_and_mul"] + compiled["_add"]:
        _assert_wide(ptx)
    elementwise.add(_empty(3, 1), _empty(1, 5), 1)
    elementwise.add(_empty(2, 3, 4, 5, 6), _empty(2, 1, 4, 1, 6), 1)


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
