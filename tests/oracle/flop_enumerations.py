"""FLOP oracle, kind (b): small calls counted by brute force, score by score and pair by pair.

Each enumeration makes its own small calls. What an op computes decides what is counted: the scores that a mask admits
are those that the op's own reference lets through, seen in its output.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator

import torch

from tileops.ops.op import Op
from tileops.tests.oracle.small_calls import SmallCall

_SOFTMAX_A_SCORE = 5  # scale, running max, subtract, exp, sum
_DIVIDE = 1


@dataclasses.dataclass(frozen=True)
class Counted:
    """A small call with its FLOPs, and with its bytes where the enumeration sees every element that moves."""

    call: SmallCall
    flops: int
    nbytes: int | None = None


def attention_calls(op_class: type[Op]) -> Iterator[Counted]:
    """Grouped-query attention over square, rectangular, single-query and empty calls, masked and not."""
    extents = [(1, 1), (3, 3), (2, 5), (1, 4), (4, 4), (0, 3), (2, 0)]
    for (queries, keys), is_causal, groups, batch in itertools.product(extents, (False, True), (0, 1, 2), (0, 2)):
        if is_causal and queries > keys:
            continue  # the op refuses it
        kv_heads, width = 2, 8
        shape = (batch, keys, kv_heads, width)
        q = torch.randn((batch, queries, kv_heads * groups, width), dtype=torch.bfloat16)
        k, v = torch.randn(shape, dtype=torch.bfloat16), torch.randn(shape, dtype=torch.bfloat16)
        flops, rows_read = 0, set()
        for sequence, head in itertools.product(range(batch), range(kv_heads * groups)):
            for query, admitted in enumerate(_admitted(op_class, queries, keys, width, is_causal)):
                for key in admitted:
                    flops += sum(2 for _ in range(width))  # q . k
                    flops += _SOFTMAX_A_SCORE
                    flops += sum(2 for _ in range(width))  # weight times v, added up
                    rows_read.add(("q", sequence, query, head))
                    rows_read.update((name, sequence, key, head // groups) for name in "kv")
                if admitted:
                    flops += sum(_DIVIDE for _ in range(width))
        row_bytes = width * q.element_size()
        yield Counted(SmallCall({"is_causal": is_causal}, (q, k, v)), flops, (len(rows_read) + q[..., 0].numel()) * row_bytes)


def _admitted(op_class: type[Op], queries: int, keys: int, width: int, is_causal: bool) -> list[list[int]]:
    """Keys that each query attends to: with equal scores and unit vectors for values, the output shows the weights."""
    zeros = torch.zeros((1, queries, 1, width), dtype=torch.bfloat16)
    units = torch.eye(keys, width, dtype=torch.bfloat16).view(1, keys, 1, width)
    weights = op_class(is_causal=is_causal, target="torch")(zeros, torch.zeros_like(units), units)
    return [row.nonzero().flatten().tolist() for row in weights[0, :, 0]]


def moe_permute_calls(op_class: type[Op]) -> Iterator[Counted]:
    """Routings with and without a map: experts that receive nothing, ids and map entries out of range, no token at all."""
    routings = [[[0, 3], [3, 2], [1, 1]], [[0, 4], [-1, 2], [1, 1]], []]
    maps = [None, [-1, 0, -1, 1], [-1, 0, 2, 1]]  # the last sends expert 2 to a number that no local expert has
    for routing, entries in itertools.product(routings, maps):
        routed = torch.tensor(routing, dtype=torch.int32).view(len(routing), 2)
        expert_map = None if entries is None else torch.tensor(entries, dtype=torch.int32)
        local_experts = 4 if entries is None else 2
        flops = 0
        for expert in routed.flatten().tolist():
            local = -1 if not 0 <= expert < 4 else expert if entries is None else entries[expert]
            if 0 <= local < local_experts:
                flops += 1  # its expert's count
                flops += 1  # its row: the expert's offset plus its rank
        for _ in range(local_experts):
            flops += 1  # the prefix sum of the counts
        hidden = torch.randn((len(routing), 8), dtype=torch.bfloat16)
        yield Counted(SmallCall({"num_experts": 4, "num_experts_local": local_experts}, (hidden, routed, expert_map)), flops)


ENUMERATIONS: dict[str, Callable[[type[Op]], Iterator[Counted]]] = {
    "GroupedQueryAttentionFwdOp": attention_calls,
    "MoePermuteNopadFwdOp": moe_permute_calls,
}
