"""Every kernel compiles for compute capability 9.0, which needs no GPU, and streams memory 16 bytes a thread.

The interpreter that the other tests use accepts what the compiler refuses (values whose type depends on a branch, say).
"""

import re

import torch

from tileops.ops.kernels.attention import forward
from tileops.ops.kernels.gemm import skinny
from tileops.ops.kernels.moe import permute
from tileops.ops.kernels.norm import batch_norm, batch_norm_training, rms_norm
from tileops.ops.kernels.quantization import dequantize, quantize
from tileops.ops.kernels.reduction import folds
from tileops.tests.ops.compiling import assert_wide, compiled, empty  # noqa: F401  # a fixture is found by its name


def _parameters(channels):
    return [empty(channels, dtype=torch.float32) for _ in range(4)]


def test_normalizations(compiled):
    for rows, cols in ((1, 4096), (2048, 16384), (131072, 128)):
        rms_norm.rms_norm(empty(rows, cols), empty(cols), cols, 1e-6)
    for shape in ((32, 64), (8, 64, 32, 32), (4, 128, 1024, 1024)):
        batch_norm.batch_norm_inference(empty(*shape), *_parameters(shape[1]), 1e-5)
        batch_norm_training.batch_norm_training(empty(*shape), *_parameters(shape[1]), 0.1, 1e-5)
    for name in ("_rms_norm", "_normalize", "_resident", "_streamed"):
        for ptx in compiled[name]:
            assert_wide(ptx)
    batch_norm_training.batch_norm_training(empty(100000, 64), *_parameters(64), 0.1, 1e-5)
    # 14 * 14 is a multiple of 4 and no more: 8 bytes a thread.
    batch_norm_training.batch_norm_training(empty(256, 1024, 14, 14), *_parameters(1024), 0.1, 1e-5)
    assert re.search(r"ld\.global\S*\.v2\.b32", compiled["_streamed"][-1])
    for shape in ((32, 64), (4, 128, 1024, 1024), (100000, 64)):  # no running statistics, no weight and no bias
        batch_norm_training.batch_norm_training(empty(*shape), *[None] * 4, 0.1, 1e-5)
    assert {"_column_statistics", "_merge_column_statistics"} <= set(compiled)


def test_reductions(compiled):
    for shape, dims in (((2048, 4096), (1,)), ((8192, 8192), (0, 1)), ((2048, 4096), (0,)), ((4, 128, 4096), (0, 2))):
        kept = tuple(size for axis, size in enumerate(shape) if axis not in dims)
        folds.fold_over("sum", empty(*shape), dims, kept, torch.bfloat16)
    folds.fold_over("sum", empty(65536, 64), (1,), (65536,), torch.bfloat16)
    assert set(compiled) == {"_fold_slices", "_fold_columns", "_fold_rows"}
    for ptx in (kernel for kernels in compiled.values() for kernel in kernels):
        assert re.search(r"ld\.global\S*\.v4\.b32", ptx)


def test_skinny_products_use_the_tensor_cores_and_prefetch(compiled):
    for m in (16, 64, 128):
        skinny.matmul_skinny(empty(m, 7168), empty(4096, 7168))
    for ptx in compiled["_skinny"]:
        assert "wgmma.mma_async" in ptx and "cp.async.cg.shared.global" in ptx


def test_attention_uses_the_tensor_cores_and_prefetches(compiled):
    for width, is_causal in ((64, False), (128, True)):
        key = empty(2, 2048, 8, width)
        forward.attention(empty(2, 2048, 32, width), key, key, is_causal, width**-0.5)
    for ptx in compiled["_attention"]:
        assert "wgmma.mma_async" in ptx and "cp.async.cg.shared.global" in ptx


def test_moe(compiled):
    for tokens, width, experts, local in ((1, 7168, 384, 384), (512, 3072, 256, 128), (4096, 7168, 384, 384)):
        expert_map = None if local == experts else empty(experts, dtype=torch.int32)
        permute.permute(empty(tokens, width), empty(tokens, 8, dtype=torch.int32), expert_map, experts, local)
    assert {"_count_experts", "_scan_counts"} <= set(compiled)
    for ptx in compiled["_permute_in_one_launch"] + compiled["_permute_counted"]:
        assert_wide(ptx)


def test_quantization(compiled):
    for cols, length in ((4096, 4096), (28672, 28672), (7168, 128)):
        quantize.quantize_groups(empty(4096, cols), length, "int8")
        quantize.quantize_groups(empty(4096, cols), length, "fp8")
    quantize.quantize_groups(empty(4096, 4096), 4096, "int8", empty(4096, dtype=torch.float32))
    quantize.quantize_tiles(empty(7168, 18432))
    quantize.quantize_whole(empty(4096, 4096))
    quantize.quantize_int4(empty(14336, 4096, dtype=torch.float16), 128)
    for out_dtype in (torch.bfloat16, torch.float32):
        dequantize.dequantize(empty(4096, 7168, dtype=torch.int8), empty(4096, 56, dtype=torch.float32), 128, out_dtype)
        dequantize.dequantize(empty(4096, 7168, dtype=torch.int8), empty(4096, dtype=torch.float32), 0, out_dtype)
    for ptx in (kernel for name, kernels in compiled.items() if name != "_dequantize" for kernel in kernels):
        assert re.search(r"ld\.global\S*\.v4\.b32", ptx)
        # A quotient is correctly rounded, subnormals included: codes are exact.
        assert "div.full" not in ptx and ".ftz" not in ptx
    for name in ("_quantize_groups", "_quantize_tiles", "_quantize_whole", "_quantize_int4"):
        assert all("div.rn.f32" in ptx for ptx in compiled[name])
    assert any("cvt.rn.satfinite.e4m3x2.f32" in ptx for ptx in compiled["_quantize_tiles"])
