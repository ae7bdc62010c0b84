"""The classes of traced.yaml."""

from __future__ import annotations

from typing import Any

from tileops.ops.implementations import implementation
from tileops.tests.runtime import entry_classes

generated: Any = entry_classes.generated("traced.yaml")


class AccumulateFwdOp(generated.AccumulateFwdOp):
    """total + x."""

    @implementation("torch")
    def _torch(self, call, total, x):
        return total.add_(x) if call.params["inplace"] else total + x


class ClearFwdOp(generated.ClearFwdOp):
    """Zeros."""

    @implementation("torch")
    def _torch(self, call, x):
        return x.zero_()


class SplitFwdOp(generated.SplitFwdOp):
    """The halves of each row; they are views of one tensor, which an operator may not return."""

    @implementation("torch")
    def _torch(self, call, x, *buffers):
        left, right = x.clone().chunk(2, dim=1)
        if buffers:
            left, right = buffers[0].copy_(left), buffers[1].copy_(right)
        return left, right, (x > 0).sum(dim=1).int() if call.params["counts"] else None


class ProjectFwdOp(generated.ProjectFwdOp):
    """x @ weight."""

    @implementation("torch")
    def _torch(self, call, x):
        return x @ self.constants["weight"]


class SelectFwdOp(generated.SelectFwdOp):
    """table[ids]."""

    @implementation("torch")
    def _torch(self, call, table, ids):
        return table[ids]
