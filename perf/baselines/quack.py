"""QuACK: kernels in the CuTe DSL for Hopper and later. A kernel is compiled when a width and dtype first need it."""

import math

from tileops.ops import catalogue

PACKAGE = "quack-kernels"
MODULES = ("quack", "quack.gemm_interface")


def rms_norm(op, call, x, weight):
    import quack

    width = math.prod(op.params["normalized_shape"])
    weight = None if weight is None else weight.reshape(width)
    return quack.rmsnorm(x.reshape(-1, width), weight, eps=op.params["eps"]).reshape(x.shape)


def matmul(op, call, a, b, tuned=False):
    from quack.gemm_interface import gemm

    return gemm(a.T if op.params["trans_a"] else a, b.T if op.params["trans_b"] else b, tuned=tuned)


def matmul_tuned(op, call, a, b):
    return matmul(op, call, a, b, tuned=True)


def serves_norm(call):
    """A call on a GPU with rows of a multiple of 16 bytes."""
    record = call.tensors["x"]
    width = math.prod(call.params["normalized_shape"])
    return (
        call.device.startswith("cuda")
        and record.bytes > 0
        and width * record.bytes // math.prod(record.shape) % 16 == 0
    )


def serves_matmul(call):
    """A call on a GPU whose matrices are stored in rows of a multiple of 16 bytes, the unit of their loads."""
    rows = [call.tensors[name].shape[-1] for name in ("a", "b", "d")]
    return call.device.startswith("cuda") and 0 not in call.tensors["d"].shape and all(n and n % 8 == 0 for n in rows)


ops = catalogue.load()
ops["RMSNormFwdOp"].register("quack", rms_norm, when=serves_norm)
# Tuning compiles and times dozens of configurations when a shape first runs: half a minute per shape.
ops["GEMMFwdOp"].register("quack_tuned", matmul_tuned, when=serves_matmul)
ops["GEMMFwdOp"].register("quack", matmul, when=serves_matmul)
