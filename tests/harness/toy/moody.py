"""A plugin: implementations that fail until a file named `cured` stands where the user does."""

from __future__ import annotations

import os
import pathlib
import time

import tileops_generated_toy as generated

from tileops.ops.implementations import implementation


def _is_cured() -> bool:
    return pathlib.Path(os.environ["BUILD_WORKING_DIRECTORY"], "cured").exists()


class ScaleFwdOp(generated.ScaleFwdOp):
    """Scale, on good days."""

    @implementation("torch")
    def _torch(self, call, x):
        return x * self.params["factor"]

    @implementation("moody")
    def _moody(self, call, x):
        if not _is_cured():
            raise RuntimeError("not today")
        return x * self.params["factor"]

    @implementation("hangs")
    def _hangs(self, call, x):
        while not _is_cured():
            time.sleep(0.1)
        return x * self.params["factor"]

    @implementation("survivor")
    def _survivor(self, call, x):
        return x * self.params["factor"]
