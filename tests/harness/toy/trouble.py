"""A plugin: implementations that take their process down, or never come back."""

from __future__ import annotations

import ctypes
import os
import signal
import time

import tileops_generated_toy as generated
import torch

from tileops.ops.implementations import implementation


class ScaleFwdOp(generated.ScaleFwdOp):
    """Scale, with accidents."""

    @implementation("torch")
    def _torch(self, call, x):
        return x * self.params["factor"]

    @implementation("crashes")
    def _crashes(self, call, x):
        ctypes.string_at(0)

    @implementation("exits")
    def _exits(self, call, x):
        os._exit(3)

    @implementation("leaves")
    def _leaves(self, call, x):
        raise SystemExit("no more")

    @implementation("is_killed")
    def _is_killed(self, call, x):
        os.kill(os.getpid(), signal.SIGKILL)

    @implementation("hangs")
    def _hangs(self, call, x):
        while True:
            time.sleep(1)

    @implementation("wants_memory")
    def _wants_memory(self, call, x):
        return torch.empty(1 << 62, dtype=torch.uint8)

    @implementation("raises")
    def _raises(self, call, x):
        raise ValueError("a line\nand another")

    @implementation("wrong_shape")
    def _wrong_shape(self, call, x):
        return x[:1] * self.params["factor"]

    @implementation("survivor")
    def _survivor(self, call, x):
        return torch.mul(x, self.params["factor"])
