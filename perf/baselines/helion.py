"""Helion: kernels written as loops over tiles and compiled to Triton. The kernel below is this project's.

Helion looks for the fastest configuration when a shape first runs, which takes minutes per row. The environment variable
HELION_AUTOTUNE_EFFORT=none takes the first configuration, full looks longest.
"""

import functools
import math
import os

import torch

from tileops.ops import catalogue

PACKAGE = "helion"
MODULES = ("helion", "helion.language")


@functools.cache
def kernel():
    """Returns the kernel. Helion compiles no closures, so its language is a global of this module."""
    global hl
    import helion
    import helion.language as hl

    @helion.kernel(static_shapes=True, autotune_effort=os.environ.get("HELION_AUTOTUNE_EFFORT", "quick"))
    def norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        output = torch.empty_like(x)
        for rows in hl.tile(x.size(0)):
            wide = x[rows, :].to(torch.float32)
            scale = torch.rsqrt(torch.mean(wide * wide, dim=-1) + eps)
            output[rows, :] = (wide * scale[:, None] * weight[:].to(torch.float32)).to(x.dtype)
        return output

    return norm


def rms_norm(op, call, x, weight):
    width = math.prod(op.params["normalized_shape"])
    return kernel()(x.reshape(-1, width), weight.reshape(width), op.params["eps"]).reshape(x.shape)


def serves(call):
    """A call on a GPU with a weight and rows of at most 65536 values, which a program holds."""
    width = math.prod(call.params["normalized_shape"])
    return call.device.startswith("cuda") and call.present("weight") and call.tensors["x"].bytes > 0 and width <= 65536


catalogue.load()["RMSNormFwdOp"].register("helion", rms_norm, when=serves)
