"""FlashAttention-3 as tokenspeed-fa3 packs it: forward, bfloat16 and float16, Hopper."""

from tileops.ops import catalogue

PACKAGE = "tokenspeed-fa3"
MODULES = ("flash_attn_interface",)


def attention(op, call, q, k, v):
    from flash_attn_interface import flash_attn_func

    # num_splits=0: the library chooses how many blocks share a row of keys, as it does for a KV cache.
    return flash_attn_func(q, k, v, softmax_scale=op.params["sm_scale"], causal=op.params["is_causal"], num_splits=0)


def serves(call):
    """A call on a GPU with heads of a multiple of 8 up to 256."""
    size, record = call.indices, call.tensors["q"]
    is_served = size["D"] % 8 == 0 and size["D"] <= 256
    return call.device.startswith("cuda") and is_served and record.bytes > 0 and size["S_kv"] > 0


catalogue.load()["GQADenseFwdOp"].register("tokenspeed_fa3", attention, when=serves)
