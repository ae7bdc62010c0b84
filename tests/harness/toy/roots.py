"""A plugin: a reference that is defined for non-negative values alone, and on large rows for none."""

from __future__ import annotations

import tileops_generated_toy as generated
import torch

from tileops.ops.implementations import implementation


class ScaleFwdOp(generated.ScaleFwdOp):
    """Not a scale: a root."""

    @implementation("torch")
    def _torch(self, call, x):
        return torch.sqrt(x if call.indices["N"] == 32 else -1 - x * x)

    @implementation("honest")
    def _honest(self, call, x):
        return x.sqrt()
