"""A plugin: an implementation that cannot say which calls it serves."""

from __future__ import annotations

import tileops_generated_toy as generated

from tileops.ops.implementations import implementation


def _unsure(call):
    raise RuntimeError("cannot tell")


class ScaleFwdOp(generated.ScaleFwdOp):
    """Scale, among others by an implementation whose `when` raises."""

    @implementation("torch")
    def _torch(self, call, x):
        return x * self.params["factor"]

    @implementation("wb", when=_unsure)
    def _wb(self, call, x):
        return x * self.params["factor"]

    @implementation("honest")
    def _honest(self, call, x):
        return x * self.params["factor"]
