"""Matrix products and attention: references and the interpreted kernel against float64; roofs and read halves."""

import pytest
import torch
import torch.nn.functional as F

from tileops.ops.errors import OpError
from tileops.ops.families.attention import GQADenseFwdOp
from tileops.ops.families.gemm import GEMMFwdOp
from tileops.ops.kernels.gemm import skinny as kernels
from tileops.ops.roofs import tensor_core_roof
from tileops.tests.ops.comparing import assert_near


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


# ---- gemm


@pytest.mark.requirement("1.4.7")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_gemm_reference(trans_a, trans_b, dtype):
    a = torch.randn((127, 5) if trans_a else (5, 127)).to(dtype) / 8
    b = torch.randn((129, 127) if trans_b else (127, 129)).to(dtype)
    exact = (a.T if trans_a else a).double() @ (b.T if trans_b else b).double()
    op = GEMMFwdOp(trans_a, trans_b, target="torch")
    assert_near(op(a, b), exact, scale=4)
    assert op.roof_key() == ("tensor_core.fp16" if dtype == torch.float16 else "tensor_core.bf16")


@pytest.mark.parametrize("m, n, k", [(1, 130, 129), (16, 64, 2048), (100, 200, 1100), (128, 100, 70), (33, 5, 4100)])
def test_skinny_kernel(m, n, k):
    # float16 alone: the interpreter multiplies the bits of bfloat16 as integers.
    a, b = torch.randn(m, k).half() / k**0.5, torch.randn(n, k).half()
    assert_near(kernels.matmul_skinny(a, b), a.double() @ b.double().T, scale=4)


def test_skinny_kernel_of_views_and_of_nothing():
    a, b = torch.randn(64, 7).half().T, torch.randn(64, 40).half()[:, ::2].T
    assert_near(kernels.matmul_skinny(a / 8, b), (a / 8).double() @ b.double().T, scale=4)
    assert kernels.matmul_skinny(torch.ones(3, 4).half(), torch.ones(0, 4).half()).shape == (3, 0)


@pytest.mark.parametrize(
    "m, n, k, trans_a, trans_b, served",
    [
        (128, 2112, 7168, False, True, True),
        (129, 2112, 7168, False, True, False),
        (16, 4096, 7168, False, False, False),
        (16, 4096, 7168, True, True, False),
        (16, 64, 64, False, True, False),
        (0, 4096, 7168, False, True, False),
    ],
)
def test_the_skinny_kernel_serves_few_rows_against_a_long_b(m, n, k, trans_a, trans_b, served):
    op = GEMMFwdOp(trans_a, trans_b)
    a = torch.empty((k, m) if trans_a else (m, k), dtype=torch.float16)
    b = torch.empty((n, k) if trans_b else (k, n), dtype=torch.float16)
    assert ("triton" in op.serving(op.check(a, b))) == served


def test_no_tensor_core_takes_an_unknown_dtype():
    with pytest.raises(KeyError, match="complex64"):
        tensor_core_roof("complex64")


# ---- attention


@pytest.mark.requirement("1.4.7")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "batch, queries, keys, heads, kv_heads, width, is_causal",
    [
        (2, 5, 5, 4, 2, 16, True),
        (1, 3, 9, 6, 2, 8, True),  # aligned at the bottom right
        (1, 129, 129, 2, 1, 8, True),
        (1, 3, 2, 2, 2, 24, False),
        (0, 3, 3, 2, 1, 8, True),
        (1, 0, 3, 2, 1, 8, True),
    ],
)
def test_attention_reference(batch, queries, keys, heads, kv_heads, width, is_causal, dtype, monkeypatch):
    monkeypatch.setattr("tileops.ops.families.attention._REFERENCE_SCORES", 1024)  # several chunks of queries
    q = torch.randn(batch, queries, heads, width).to(dtype)
    k, v = (torch.randn(batch, keys, kv_heads, width).to(dtype) for _ in range(2))
    op = GQADenseFwdOp(is_causal=is_causal, target="torch")
    found = op(q, k, v)

    mask = torch.ones(queries, keys, dtype=torch.bool)
    mask = mask.tril(keys - queries) if is_causal else mask
    exact = F.scaled_dot_product_attention(
        *(tensor.transpose(1, 2).double() for tensor in (q, k, v)), attn_mask=mask, enable_gqa=True
    )
    assert_near(found, exact.transpose(1, 2))
    assert op.roof_key() == tensor_core_roof(str(dtype).removeprefix("torch."))
    reads = (q.numel() + k.numel() + v.numel()) * 2 if queries and batch else 0
    assert op.eval_roofline_read_bytes() == reads
    assert op.eval_roofline()[1] == reads + q.numel() * 2


@pytest.mark.parametrize(
    "batch, queries, keys, heads, kv_heads, width, is_causal",
    [
        (2, 5, 5, 4, 2, 16, True),
        (1, 130, 300, 2, 1, 16, True),  # two blocks of queries, whole and masked blocks of keys
        (1, 129, 257, 2, 1, 64, False),
        (1, 3, 2, 2, 2, 16, False),
        (1, 1, 1, 1, 1, 128, True),
    ],
)
def test_attention_kernel(batch, queries, keys, heads, kv_heads, width, is_causal):
    # float16 alone, as for the skinny kernel; v as heads before keys, walked by its strides.
    q, k = torch.randn(batch, queries, heads, width).half(), torch.randn(batch, keys, kv_heads, width).half()
    v = torch.randn(batch, kv_heads, keys, width).half().transpose(1, 2)
    mask = torch.ones(queries, keys, dtype=torch.bool)
    mask = mask.tril(keys - queries) if is_causal else mask
    exact = F.scaled_dot_product_attention(
        *(tensor.transpose(1, 2).double() for tensor in (q, k, v)), attn_mask=mask, enable_gqa=True
    )
    found = GQADenseFwdOp(is_causal=is_causal, target="triton")(q, k, v)
    assert_near(found, exact.transpose(1, 2))


def test_attention_without_keys_gives_zeros():
    q, k = torch.randn(1, 3, 2, 8).half(), torch.randn(1, 0, 1, 8).half()
    assert not GQADenseFwdOp(is_causal=False, target="torch")(q, k, k).any()


@pytest.mark.parametrize("target", ["torch", "triton"])
def test_attention_scales_scores_by_sm_scale(target):
    q, k, v = (torch.randn(1, 9, 2, 16).half() for _ in range(3))
    exact = F.scaled_dot_product_attention(*(tensor.transpose(1, 2).double() for tensor in (q, k, v)), scale=0.7)
    assert_near(GQADenseFwdOp(sm_scale=0.7, target=target)(q, k, v), exact.transpose(1, 2))


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf")])
def test_a_scale_of_attention_is_positive_and_finite(scale):
    with pytest.raises(OpError, match="sm_scale"):
        GQADenseFwdOp(sm_scale=scale)(*(torch.randn(1, 3, 2, 8).half() for _ in range(3)))


def test_a_reference_in_float64_keeps_its_precision():
    op = GQADenseFwdOp(is_causal=True, target="torch")
    call = op.check(*(torch.empty(1, 4, 2, 8, dtype=torch.float16) for _ in range(3)))
    q, k, v = (torch.randn(1, 4, 2, 8, dtype=torch.float64) for _ in range(3))
    found = op.select(call).function(op, call, q, k, v)
    exact = F.scaled_dot_product_attention(*(tensor.transpose(1, 2) for tensor in (q, k, v)), is_causal=True)
    torch.testing.assert_close(found, exact.transpose(1, 2), atol=1e-12, rtol=1e-12)


def _calls(device, **changes):
    """A checked attention call on `device`, as an implementation's `when` sees it."""
    sizes = {"batch": 1, "queries": 512, "keys": 512, "width": 128, "is_causal": True} | changes
    op = GQADenseFwdOp(is_causal=sizes["is_causal"])
    q = torch.empty(sizes["batch"], sizes["queries"], 8, sizes["width"], dtype=torch.float16, device="meta")
    k = torch.empty(sizes["batch"], sizes["keys"], 2, sizes["width"], dtype=torch.float16, device="meta")
    call = op.check(q, k, k)
    call.device = device
    return op.serving(call)


def test_library_attention_serves_what_its_masks_and_widths_allow():
    assert _calls("cuda:0") == ("torch", "flash", "triton", "cudnn")
    assert _calls("cpu") == ("torch", "triton")  # interpreted
    assert _calls("cuda:0", keys=4096) == ("torch", "flash", "triton")
    assert _calls("cuda:0", keys=4096, is_causal=False) == ("torch", "flash", "triton", "cudnn")
    assert _calls("cuda:0", width=72) == ("torch", "flash", "cudnn")
    assert _calls("cuda:0", width=256) == ("torch", "flash")
    assert _calls("cuda:0", width=100) == ("torch",)
    assert _calls("cuda:0", batch=0) == ("torch",)
