"""A hand-made op of the shape that codegen emits, for tests of the base class alone."""

from __future__ import annotations

import torch

from tileops.ops import checks
from tileops.ops.checked_call import CheckedCall, TensorRecord
from tileops.ops.implementations import implementation, on_cuda
from tileops.ops.op import Op


class _GeneratedScale(Op, generated=True):
    """y = x * factor over rows chosen by ids."""

    ENTRY = "ScaleFwdOp"
    INPUT_NAMES = ("x", "ids")
    OUTPUT_NAMES = ("y",)
    METADATA_NAMES = ("ids",)

    def __init__(self, factor=2, *, target=None):
        super().__init__({"factor": factor}, target)

    def forward(self, x, ids=None):
        return self._complete(self.check(x, ids), (x, ids))

    def check(self, x, ids=None):
        shape, dtype = checks.tensor_facts("ScaleFwdOp", "x", x)
        device = checks.call_device("ScaleFwdOp", (("x", x), ("ids", ids)), ("ids",))
        inputs = {"x": TensorRecord(shape, dtype)}
        metadata = {}
        if ids is not None:
            inputs["ids"] = TensorRecord(*checks.tensor_facts("ScaleFwdOp", "ids", ids))
            metadata["ids"] = ids
        outputs = {"y": TensorRecord(shape, dtype)}
        return CheckedCall("ScaleFwdOp", self.params, {"S": shape}, inputs, outputs, device, metadata)

    def eval_roofline(self):
        call = self.last_call
        return call.tensors["x"].shape[0], call.bytes_of("x", "ids", "y")


class ScaleFwdOp(_GeneratedScale):
    """The public class."""

    @implementation("torch")
    def _torch(self, call, x, ids):
        if torch.is_tensor(x) and x.is_cpu and x.numel() and x.flatten()[0] == 13:  # a GPU's graph reads no value
            raise RuntimeError("thirteen")
        return x * self.params["factor"]

    @implementation("add", when=lambda call: call.params["factor"] == 2)
    def _add(self, call, x, ids):
        return x + x

    @implementation("gpu", when=on_cuda)
    def _gpu(self, call, x, ids):
        raise AssertionError("no GPU here")
