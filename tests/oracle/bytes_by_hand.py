"""Level two of the structural oracle: calls whose bytes the contract does not settle, recounted by enumeration.

Seed, sections 4.6 and 4.7. Each recount gets the parameters and the tensors of one call, enumerates what it touches as
sets of distinct elements or rows, and shares nothing with the formula but the definition of minimum traffic. It is made
of every row twice: with the values that the workload draws, which are what a report prices, and with selecting tensors
that the case constructs itself, so that a generator that draws the wrong ones cannot move formula and recount together.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tileops.tests.oracle import windows
from tileops.tests.oracle.recount import Recount

_INT32, _INT64 = 4, 8

Params = Mapping[str, Any]
Inputs = Mapping[str, torch.Tensor | None]


@dataclasses.dataclass(frozen=True)
class ByHand:
    """The hand-written case of an op.

    Attributes:
      recount: what a call moves.
      select: selecting tensors of the case's own for a call of the shapes given, by name.
    """

    recount: Callable[[Params, Inputs], Recount]
    select: Callable[[Params, Inputs], dict[str, torch.Tensor]]


def moe_permute_nopad(params: Params, inputs: Inputs) -> Recount:
    """Rows of tokens with a local pair, the ids, the map's entries that the ids name; the local rows and four index
    outputs.
    """
    hidden, ids, expert_map = inputs["hidden_states"], inputs["topk_ids"].tolist(), inputs["expert_map"]
    experts, local_experts = params["num_experts"], params["num_experts_local"]
    local_of = list(range(experts)) if expert_map is None else expert_map.tolist()
    rows_read, map_entries_read, experts_hit, rows_written, pairs = set(), set(), set(), 0, 0
    for token, slots in enumerate(ids):
        for expert in slots:
            pairs += 1
            if not 0 <= expert < experts:
                continue
            if expert_map is not None:
                map_entries_read.add(expert)
            if 0 <= local_of[expert] < local_experts:
                rows_read.add(token)
                experts_hit.add(local_of[expert])
                rows_written += 1
    row_bytes = hidden.shape[1] * hidden.element_size()
    read = len(rows_read) * row_bytes + pairs * _INT32 + len(map_entries_read) * _INT32
    true_offsets = true_sizes = local_experts * _INT32
    first_token_offset, fwd_idx = (local_experts + 1) * _INT64, pairs * _INT32
    return Recount(
        read=read,
        written=rows_written * row_bytes + true_offsets + true_sizes + first_token_offset + fwd_idx,
        terms={
            "local_pairs": rows_written,
            "tokens_read": len(rows_read),
            "experts_hit": len(experts_hit),
            "map_entries_read": len(map_entries_read),
        },
    )


def moe_routing(params: Params, inputs: Inputs) -> dict[str, torch.Tensor]:
    """A skewed routing: low numbers are drawn most, a pair in eight is nobody's, the first token has no expert at all.

    Where there is a map, the last experts are the local ones, numbered backwards.
    """
    experts, local_experts = params["num_experts"], params["num_experts_local"]
    tokens, slots = inputs["topk_ids"].shape
    stream = random.Random(7)
    ids = [
        [int(stream.random() ** 3 * experts) if token and stream.random() < 7 / 8 else -1 for _ in range(slots)]
        for token in range(tokens)
    ]
    found = {"topk_ids": torch.tensor(ids, dtype=torch.int32).view(tokens, slots)}
    if inputs["expert_map"] is not None:
        entries = [experts - 1 - expert if expert >= experts - local_experts else -1 for expert in range(experts)]
        found["expert_map"] = torch.tensor(entries, dtype=torch.int32)
    return found


def _nothing_selects(params: Params, inputs: Inputs) -> dict[str, torch.Tensor]:
    """No tensor of the call selects what it reads: its shapes and parameters do."""
    return {}


BY_HAND: dict[str, ByHand] = {
    "MoePermuteNopadFwdOp": ByHand(moe_permute_nopad, moe_routing),
    **{f"AvgPool{rank}dFwdOp": ByHand(windows.recount_pool, _nothing_selects) for rank in (1, 2, 3)},
    **{f"MaxPool{rank}dFwdOp": ByHand(windows.recount_pool, _nothing_selects) for rank in (1, 2, 3)},
    **{
        f"MaxPool{rank}dIndicesFwdOp": ByHand(windows.recount_pool_with_indices, _nothing_selects) for rank in (1, 2, 3)
    },
    **{f"Conv{rank}dFwdOp": ByHand(windows.recount_convolution, _nothing_selects) for rank in (1, 2, 3)},
}
