"""FlagGems: Triton kernels behind PyTorch's operators; called by name here, without replacing PyTorch's own."""

from collections.abc import Callable

import torch

from tileops.ops import catalogue

PACKAGE = "flag-gems"
MODULES = ("flag_gems",)

# Functions that take the inputs of the op in order and its parameters by name. An entry has the name without "_".
ALIKE = """abs neg reciprocal sqrt rsqrt exp expm1 log erf sin cos tanh sigmoid ceil round logical_not isnan isinf isfinite
nan_to_num relu elu selu silu gelu softplus hardsigmoid add sub mul floor_divide remainder maximum minimum lerp_scalar
lerp_tensor clamp_tensor eq ne gt ge lt le logical_and logical_or prelu"""


def total(gems, given, x):
    axes = range(x.dim()) if given["dim"] in (None, ()) else given["dim"]
    dtype = given["dtype"] and getattr(torch, given["dtype"])
    return gems.sum_dim(x, [axes] if isinstance(axes, int) else list(axes), given["keepdim"], dtype=dtype)


# The others by entry: (library, parameters, *inputs) -> output.
OTHERS: dict[str, Callable[..., torch.Tensor]] = {
    "ClampScalarFwdOp": lambda gems, given, x: gems.clamp(x, given["min"], given["max"]),
    "DivFwdOp": lambda gems, given, x, y: gems.div_mode(x, y, rounding_mode=given["rounding_mode"]),
    "PowFwdOp": lambda gems, given, x, y: gems.pow_tensor_tensor(x, y),
    "WhereFwdOp": lambda gems, given, mask, x, y: gems.where_self(mask, x, y),
    "MaskedFillScalarFwdOp": lambda gems, given, x, mask: gems.masked_fill(x, mask, given["value"]),
    "SiLUAndMulFwdOp": lambda gems, given, x: gems.silu_and_mul(*x.chunk(2, dim=-1)),
    "GELUAndMulFwdOp": lambda gems, given, x: gems.gelu_and_mul(*x.chunk(2, dim=-1), given["approximate"]),
    "RMSNormFwdOp": lambda gems, given, x, weight: gems.rms_norm(x, given["normalized_shape"], weight, given["eps"]),
    "SumFwdOp": total,
    "GEMMFwdOp": lambda gems, given, a, b: gems.mm(a.T if given["trans_a"] else a, b.T if given["trans_b"] else b),
}


def run(op, call, *inputs):
    import flag_gems

    params = {name: value for name, value in op.params.items() if name != "inplace"}
    if op.ENTRY in OTHERS:
        return OTHERS[op.ENTRY](flag_gems, params, *inputs)
    return getattr(flag_gems, NAMES[op.ENTRY.lower()])(*inputs, **params)


def serves(call):
    """A call on a GPU with floats of one dtype up to 32 bits, not in place; masks are bools; a norm has a weight."""
    floats = {record.dtype for record in call.inputs.values()} - {"bool"}
    is_served = len(floats) == 1 and floats <= {"float16", "bfloat16", "float32"} and not call.params.get("inplace")
    is_served = is_served and (call.op != "RMSNormFwdOp" or call.present("weight"))
    return call.device.startswith("cuda") and is_served and all(record.bytes for record in call.tensors.values())


NAMES = {name.replace("_", "") + "fwdop": name for name in ALIKE.split()}
for entry, op in catalogue.load().items():
    if entry in OTHERS or entry.lower() in NAMES:
        op.register("flag_gems", run, when=serves)
