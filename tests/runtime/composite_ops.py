"""The classes of composites.yaml, each with a reference, the composites with a fused implementation as well."""

from __future__ import annotations

from typing import Any

import torch

from tileops.ops.implementations import implementation
from tileops.ops.stages import stage
from tileops.tests.runtime import entry_classes

generated: Any = entry_classes.generated("composites.yaml")


class RouterFwdOp(generated.RouterFwdOp):
    """The k largest scores of each token, softmaxed."""

    runs = 0  # how often a call computed something

    @implementation("torch")
    def _torch(self, call, logits):
        type(self).runs += 1
        values, ids = logits.topk(call.params["k"], dim=1)
        return ids.int(), values.softmax(dim=1)


class PermuteFwdOp(generated.PermuteFwdOp):
    """Rows by expert."""

    @implementation("torch")
    def _torch(self, call, hidden, ids):
        order = torch.argsort(ids.flatten(), stable=True)
        place = torch.empty_like(order)
        place[order] = torch.arange(order.numel(), device=order.device)
        sizes = torch.bincount(ids.flatten(), minlength=call.params["experts"])
        return hidden[order // ids.shape[1]], sizes.int(), place.int()


class GroupedFwdOp(generated.GroupedFwdOp):
    """Each expert's rows times its weights; on request it fails, as a kernel may."""

    runs = 0
    fails = False

    @implementation("torch")
    def _torch(self, call, rows, w, sizes):
        type(self).runs += 1
        if self.fails:
            raise RuntimeError("illegal memory access")
        parts = rows.split(sizes.tolist())
        return torch.cat([part @ weight for part, weight in zip(parts, w, strict=True)])


class CombineFwdOp(generated.CombineFwdOp):
    """Each token's rows, weighted and summed."""

    @implementation("torch")
    def _torch(self, call, y, place, weights):
        return (y[place.long()].view(*weights.shape, -1) * weights[..., None]).sum(dim=1)


class DenseFwdOp(generated.DenseFwdOp):
    """x @ w."""

    @implementation("torch")
    def _torch(self, call, x, w):
        return x @ w


def _routed(logits: torch.Tensor, k: int) -> torch.Tensor:
    """[M, E] weights of each token's experts, 0 for those that it is not routed to."""
    values, ids = logits.topk(k, dim=1)
    return torch.zeros_like(logits).scatter_(1, ids, values.softmax(dim=1))


class LayerFwdOp(generated.LayerFwdOp):
    """Routes by its own scores. Its glue: a relu, which is the kernel stage, and the sum with the shared expert."""

    @implementation("torch")
    def _torch(self, call, hidden, gate, up, down, shared):
        with stage("scores"):
            scores = DenseFwdOp()(hidden, gate)
        ids, weights = RouterFwdOp(call.params["k"])(scores)
        rows, sizes, place = PermuteFwdOp(call.indices["E"])(hidden, ids)
        grouped = GroupedFwdOp()
        out = CombineFwdOp()(grouped(torch.relu(grouped(rows, up, sizes)), down, sizes), place, weights)
        if shared is not None:
            with stage("shared"):
                out = out + DenseFwdOp()(hidden, shared)
        return out

    @implementation("fused")
    def _fused(self, call, hidden, gate, up, down, shared):
        inner = torch.relu(torch.einsum("mh,ehi->mei", hidden, up))
        out = torch.einsum("mei,eih,me->mh", inner, down, _routed(hidden @ gate, call.params["k"]))
        return out if shared is None else out + hidden @ shared


class RoutedLayerFwdOp(generated.RoutedLayerFwdOp):
    """Routes by scores that it is given."""

    @implementation("torch")
    def _torch(self, call, hidden, logits, w, out=None):
        ids, weights = RouterFwdOp(call.params["k"])(logits)
        rows, sizes, place = PermuteFwdOp(call.indices["E"])(hidden, ids)
        found = CombineFwdOp()(GroupedFwdOp()(rows, w, sizes), place, weights)
        return found if out is None else out.copy_(found)

    @implementation("fused")
    def _fused(self, call, hidden, logits, w, out=None):
        found = torch.einsum("mh,ehn,me->mn", hidden, w, _routed(logits, call.params["k"]))
        return found if out is None else out.copy_(found)


class BlockFwdOp(generated.BlockFwdOp):
    """Layers one after the other: one stage, as often as the block is deep."""

    @implementation("torch")
    def _torch(self, call, hidden, logits, w):
        layer = RoutedLayerFwdOp(target=self.inner)
        for _ in range(call.params["depth"]):
            hidden = layer(hidden, logits, w)
        return hidden

    inner: str | None = "torch"  # which implementation the reference runs its layers by

    @implementation("fused")
    def _fused(self, call, hidden, logits, w):
        for _ in range(call.params["depth"]):
            hidden = torch.einsum("mh,ehn,me->mn", hidden, w, _routed(logits, 2))
        return hidden
