"""fla (flash-linear-attention): Triton kernels for linear attention, and the norms and gates around it."""

import math

from tileops.ops import catalogue

PACKAGE = "fla-core"
MODULES = ("fla.modules.norm.layernorm", "fla.modules.activations", "fla.ops.attn.parallel")

FLOATS = ("float16", "bfloat16", "float32")


def rms_norm(op, call, x, weight):
    from fla.modules.norm.layernorm import rms_norm

    width = math.prod(op.params["normalized_shape"])
    weight = None if weight is None else weight.reshape(width)
    return rms_norm(x.reshape(-1, width), weight, None, eps=op.params["eps"]).reshape(x.shape)


def silu_and_mul(op, call, input):
    from fla.modules.activations import swiglu

    return swiglu(*input.chunk(2, dim=-1))


def attention(op, call, q, k, v):
    from fla.ops.attn.parallel import parallel_attn

    return parallel_attn(q, k, v, scale=op.params["sm_scale"])


def serves_norm(call):
    """A call on a GPU with rows of at most 64 KiB."""
    record = call.tensors["x"]
    rows = math.prod(record.shape[: -len(call.params["normalized_shape"])])
    return call.device.startswith("cuda") and 0 < record.bytes <= 65536 * rows


def serves_gate(call):
    """A call on a GPU, float64 excepted."""
    record = call.tensors["input"]
    return call.device.startswith("cuda") and record.dtype in FLOATS and record.bytes > 0


def serves_attention(call):
    """A causal call on a GPU with as many queries as keys and heads of at most 256."""
    size = call.indices
    is_square = call.params["is_causal"] and size["S_q"] == size["S_kv"]
    return call.device.startswith("cuda") and is_square and size["D"] <= 256 and call.tensors["q"].bytes > 0


ops = catalogue.load()
ops["RMSNormFwdOp"].register("fla", rms_norm, when=serves_norm)
ops["SiLUAndMulFwdOp"].register("fla", silu_and_mul, when=serves_gate)
ops["GQADenseFwdOp"].register("fla", attention, when=serves_attention)
