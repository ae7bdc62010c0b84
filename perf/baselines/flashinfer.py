"""FlashInfer: kernels of serving. Its activations and attention are compiled with nvcc when first called."""

import functools

import torch

from tileops.ops import catalogue

PACKAGE = "flashinfer-python"
MODULES = ("flashinfer",)


def rms_norm(op, call, x, weight):
    import flashinfer

    return flashinfer.rmsnorm(x.reshape(-1, x.shape[-1]), weight, op.params["eps"]).reshape(x.shape)


def gate(op, call, input):
    import flashinfer

    name = {None: "silu", "none": "gelu", "tanh": "gelu_tanh"}[op.params.get("approximate")]
    return getattr(flashinfer, f"{name}_and_mul")(input)


@functools.lru_cache(maxsize=2)
def planned(batch, queries, keys, heads, kv_heads, width, dtype, causal, scale, device):
    """Returns a wrapper planned for a shape. A server plans once for all layers, so the time of a call has no plan."""
    import flashinfer

    wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(torch.empty(256 << 20, dtype=torch.uint8, device=device))
    starts = torch.arange(batch + 1, dtype=torch.int32, device=device)
    settings = {"causal": causal, "sm_scale": scale, "q_data_type": dtype, "kv_data_type": dtype}
    wrapper.plan(starts * queries, starts * keys, heads, kv_heads, width, **settings)
    return wrapper


def attention(op, call, q, k, v):
    settings = q.dtype, op.params["is_causal"], op.params["sm_scale"], q.device
    wrapper = planned(*q.shape[:2], k.shape[1], q.shape[2], *k.shape[2:], *settings)
    return wrapper.run(*(tensor.reshape(-1, *tensor.shape[2:]) for tensor in (q, k, v))).reshape(q.shape)


def serves(call):
    """A call on a GPU: norms of one axis with a weight; in 16 bits, gates and attention with heads of 64, 128 or 256."""
    if call.op == "RMSNormFwdOp":
        is_served = call.present("weight") and len(call.params["normalized_shape"]) == 1
    else:
        is_served = all(record.dtype in ("float16", "bfloat16") for record in call.inputs.values())
    if call.op == "GQADenseFwdOp":
        is_served = is_served and call.indices["D"] in (64, 128, 256)
    return call.device.startswith("cuda") and is_served and all(record.bytes for record in call.inputs.values())


ops = catalogue.load()
for entry in ("SiLUAndMulFwdOp", "GELUAndMulFwdOp"):
    ops[entry].register("flashinfer", gate, when=serves)
ops["RMSNormFwdOp"].register("flashinfer", rms_norm, when=serves)
ops["GQADenseFwdOp"].register("flashinfer", attention, when=serves)
