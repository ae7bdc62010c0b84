"""FlashAttention-3 as fa3-fwd packs it: forward, bfloat16, Hopper. tokenspeed_fa3.py has float16 too."""

from tileops.ops import catalogue

PACKAGE = "fa3-fwd"
MODULES = ("fa3_fwd_interface",)


def attention(op, call, q, k, v):
    from fa3_fwd_interface import flash_attn_func

    # num_splits=0: the library chooses how many blocks share a row of keys, as it does for a KV cache.
    return flash_attn_func(q, k, v, softmax_scale=op.params["sm_scale"], causal=op.params["is_causal"], num_splits=0)


def serves(call):
    """A bfloat16 call on a GPU with heads of a multiple of 8 up to 256."""
    size, record = call.indices, call.tensors["q"]
    is_served = record.dtype == "bfloat16" and size["D"] % 8 == 0 and size["D"] <= 256
    return call.device.startswith("cuda") and is_served and record.bytes > 0 and size["S_kv"] > 0


catalogue.load()["GQADenseFwdOp"].register("fa3_fwd", attention, when=serves)
