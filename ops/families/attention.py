"""Public ops of the family attention and their implementations."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from tileops.ops.checked_call import CheckedCall
from tileops.ops.generated import attention as generated
from tileops.ops.implementations import implementation, on_cuda
from tileops.ops.kernels.support import triton_serves
from tileops.ops.roofs import tensor_core_roof
from tileops.ops.samples import Groups
from tileops.perf import formulas

# Scores that the reference holds at a time, in float32: 1 GiB.
_REFERENCE_SCORES = 1 << 28


def _flash_serves(call: CheckedCall) -> bool:
    """PyTorch's flash attention: head widths in multiples of 8 up to 256, and something to attend to."""
    width = call.indices["D"]
    return on_cuda(call) and _has_scores(call) and width % 8 == 0 and 0 < width <= 256


def _kernel_serves(call: CheckedCall) -> bool:
    """The Triton kernel: head widths that are tiles, powers of two up to 128."""
    return triton_serves(call) and _has_scores(call) and call.indices["D"] in (16, 32, 64, 128)


def _cudnn_serves(call: CheckedCall) -> bool:
    """cuDNN through PyTorch: head widths in multiples of 8 up to 128, causal masks of square calls alone."""
    width, queries, keys = (call.indices[name] for name in ("D", "S_q", "S_kv"))
    square = queries == keys or not call.params["is_causal"]
    return _flash_serves(call) and width <= 128 and square and queries > 1 and keys > 1


def _has_scores(call: CheckedCall) -> bool:
    return 0 not in (*call.tensors["q"].shape, call.indices["S_kv"])


def _scale(call: CheckedCall) -> float:
    """What scores are multiplied by."""
    given = call.params["sm_scale"]
    return call.indices["D"] ** -0.5 if given is None else given


class GQADenseFwdOp(generated.GQADenseFwdOp):
    """softmax(sm_scale q k^T) v, each key and value head serving H / H_kv query heads.

    A causal mask is aligned at the bottom right: query i sees keys up to i + S_kv - S_q. Without keys, o is 0.
    """

    # Rows of scores between nearly equal and nearly one alone, offset by key dimension; values of heads of their own
    # scale.
    SAMPLES = {
        "q": Groups(axes=lambda params, rank: (3,), scales=(-4.0, 0.0), has_large=False),
        "k": Groups(axes=lambda params, rank: (1,), scales=(-0.5, 0.5), has_large=False),
        "v": Groups(axes=lambda params, rank: (1, 3), scales=(-3.0, 3.0), has_large=False, is_centred=True),
    }

    def roof_key(self) -> str:
        """The tensor-core unit of the operands' dtype."""
        return tensor_core_roof(self.last_call.dtypes["q"])

    @implementation("torch")
    def _torch(self, call: CheckedCall, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        wide = torch.promote_types(q.dtype, torch.float32)
        _, queries, heads, width = q.shape
        keys, kv_heads = k.shape[1:3]
        out = torch.zeros(q.shape, dtype=q.dtype, device=q.device)
        if not _has_scores(call):
            return out
        step = max(1, _REFERENCE_SCORES // (heads * keys))
        for batch in range(q.shape[0]):
            # [H_kv, G * queries, D] against [H_kv, D, S_kv]: no head of k or v is copied.
            key = k[batch].permute(1, 2, 0).to(wide)
            value = v[batch].transpose(0, 1).to(wide)
            for start in range(0, queries, step):
                rows = q[batch, start : start + step].transpose(0, 1).to(wide)
                count = rows.shape[1]
                scores = rows.reshape(kv_heads, -1, width) @ key
                scores = scores.view(heads, count, keys) * _scale(call)
                if call.params["is_causal"]:
                    last = torch.arange(start, start + count, device=q.device) + (keys - queries)
                    hidden = torch.arange(keys, device=q.device) > last[:, None]
                    scores = scores.masked_fill(hidden, float("-inf"))
                weights = torch.softmax(scores, dim=-1).view(kv_heads, -1, keys)
                rows = (weights @ value).view(heads, count, width)
                out[batch, start : start + step] = rows.transpose(0, 1).to(q.dtype)
        return out

    @implementation("flash", when=_flash_serves)
    def _flash(self, call: CheckedCall, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        # The operator takes fewer heads in k and v than in q, and aligns causal masks at the bottom right; F.sdpa
        # refuses both a rectangular causal call and, in some versions, grouped heads.
        out = torch.ops.aten._scaled_dot_product_flash_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), 0.0, call.params["is_causal"], scale=_scale(call)
        )
        return out[0].transpose(1, 2)

    @implementation("triton", when=_kernel_serves)
    def _triton(self, call: CheckedCall, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        from tileops.ops.kernels.attention import forward as kernels  # Triton is imported when first used

        return kernels.attention(q, k, v, call.params["is_causal"], _scale(call))

    @implementation("cudnn", when=_cudnn_serves)
    def _cudnn(self, call: CheckedCall, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            out = F.scaled_dot_product_attention(
                q.transpose(1, 2),
                k.transpose(1, 2),
                v.transpose(1, 2),
                is_causal=call.params["is_causal"],
                scale=_scale(call),
                enable_gqa=q.shape[2] != k.shape[2],
            )
        return out.transpose(1, 2)

    def eval_roofline_read_bytes(self) -> int:
        """q, k and v once."""
        return formulas.gqa_fwd_read_bytes(self.last_call)
