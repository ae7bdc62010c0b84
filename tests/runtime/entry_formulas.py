"""Formulas of composites.yaml: over the checked call and its stages alone."""

from __future__ import annotations

import numpy as np

from tileops.ops.checked_call import CheckedCall


def experts_hit(call: CheckedCall) -> int:
    """Experts of a GroupedFwdOp call that receive rows."""
    return int(np.count_nonzero(call.values("sizes")))


def grouped(call: CheckedCall) -> tuple[int, int]:
    """rows [R, H] by expert against w [E, H, N]: an expert without rows reads no weights."""
    weights = call.tensors["w"].bytes // call.indices["E"] * experts_hit(call)
    flops = 2 * call.indices["R"] * call.indices["H"] * call.indices["N"]
    return flops, call.bytes_of("rows", "sizes", "y") + weights


def layer(call: CheckedCall) -> tuple[int, int]:
    """Every stage counts its flops; bytes are the layer's own tensors, experts without rows left out."""
    up, down = call.stages["experts"]
    hit = experts_hit(up)
    flops = sum(_flops(stage) for calls in call.stages.values() for stage in calls)
    weights = call.bytes_of("up", "down") // call.indices["E"] * hit
    assert experts_hit(down) == hit
    return flops, call.bytes_of("hidden", "gate", "shared", "result") + weights


def sum_of_stages(call: CheckedCall) -> tuple[int, int]:
    """Flops of every stage, of composites too; bytes of what the routing decides: weights of experts hit."""
    flops = nbytes = 0
    for calls in call.stages.values():
        for stage in calls:
            if stage.op == "RoutedLayerFwdOp":
                more = sum_of_stages(stage)
                flops, nbytes = flops + more[0], nbytes + more[1]
            else:
                flops += _flops(stage)
                nbytes += grouped(stage)[1] if stage.op == "GroupedFwdOp" else 0
    return flops, nbytes


def _flops(call: CheckedCall) -> int:
    index = call.indices
    if call.op == "DenseFwdOp":
        return 2 * index["M"] * index["H"] * index["N"]
    if call.op == "RouterFwdOp":
        return 5 * index["M"] * index["E"]
    if call.op == "PermuteFwdOp":
        return index["M"] * index["K"]
    if call.op == "CombineFwdOp":
        return 2 * index["M"] * index["K"] * index["H"]
    return grouped(call)[0]


def distinct_ids(call: CheckedCall) -> tuple[int, int]:
    """Bytes: as many rows as the ids name, and the ids; for SelectFwdOp of traced.yaml."""
    return 0, int(np.unique(call.values("ids")).size)
