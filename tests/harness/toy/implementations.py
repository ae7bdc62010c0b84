"""A plugin: hand-written classes of the toy ops, with right implementations."""

from __future__ import annotations

import tileops_generated_toy as generated
import torch

from tileops.ops.implementations import implementation, on_cuda


class ScaleFwdOp(generated.ScaleFwdOp):
    """Scale, four ways."""

    @implementation("torch")
    def _torch(self, call, x):
        return x * self.params["factor"]

    @implementation("honest")
    def _honest(self, call, x):
        return torch.mul(x, self.params["factor"])

    @implementation("gpu", when=on_cuda)
    def _gpu(self, call, x):
        return x * self.params["factor"]


class ScatterCountFwdOp(generated.ScatterCountFwdOp):
    """Scatter, two ways."""

    def roofline_data_terms(self):
        return {"touched": len(set(self.last_call.values("ids").tolist()))}

    @implementation("torch")
    def _torch(self, call, total, ids, x):
        before = total.clone()
        total.index_add_(0, ids, x)
        return before

    @implementation("loop")
    def _loop(self, call, total, ids, x):
        before = total.clone()
        for at, value in zip(ids.tolist(), x, strict=True):
            total[at] += value
        return before
