"""Liger: Triton kernels that hold a whole row in registers. Its gates take the two halves of a row as two tensors."""

import math

from tileops.ops import catalogue

PACKAGE = "liger-kernel"
MODULES = ("liger_kernel.transformers.functional",)

FLOATS = ("float16", "bfloat16", "float32")


def rms_norm(op, call, x, weight):
    from liger_kernel.transformers.functional import liger_rms_norm

    width = math.prod(op.params["normalized_shape"])
    weight = None if weight is None else weight.reshape(width)
    # "gemma" multiplies by the weight in float32, as the op does; the default rounds before that.
    return liger_rms_norm(x.reshape(-1, width), weight, op.params["eps"], casting_mode="gemma").reshape(x.shape)


def silu_and_mul(op, call, input):
    from liger_kernel.transformers.functional import liger_swiglu

    return liger_swiglu(*input.chunk(2, dim=-1))


def gelu_and_mul(op, call, input):
    from liger_kernel.transformers.functional import liger_geglu

    return liger_geglu(*input.chunk(2, dim=-1))


def is_row(call, name, width):
    record = call.tensors[name]
    return call.device.startswith("cuda") and record.dtype in FLOATS and record.bytes > 0 and width <= 65536


def serves_norm(call):
    """A call on a GPU with rows of at most 65536 values."""
    return is_row(call, "x", math.prod(call.params["normalized_shape"]))


def serves_gate(call):
    """A call on a GPU with halves of at most 65536 values, exact GELU excepted. The library copies the halves first."""
    return is_row(call, "input", call.indices["N"]) and call.params.get("approximate", "tanh") == "tanh"


ops = catalogue.load()
ops["RMSNormFwdOp"].register("liger", rms_norm, when=serves_norm)
ops["SiLUAndMulFwdOp"].register("liger", silu_and_mul, when=serves_gate)
ops["GELUAndMulFwdOp"].register("liger", gelu_and_mul, when=serves_gate)
