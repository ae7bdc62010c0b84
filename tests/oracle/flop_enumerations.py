"""FLOP oracle, kind (b): calls counted by brute force, score by score and pair by pair.

What an op computes decides what is counted, and is stated here anew: neither its implementation nor its formula is
asked. Small calls are counted element by element; a workload row, too large for that, by arrays in which every score or
pair has a place. A test holds that the two agree on the small calls.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from tileops.tests.oracle import windows
from tileops.tests.oracle.recount import Recount
from tileops.tests.oracle.small_call import SmallCall

Params = Mapping[str, Any]
Inputs = tuple[torch.Tensor | None, ...]

_SOFTMAX_A_SCORE = 5  # scale, running max, subtract, exp, sum
_DIVIDE = 1
_ROWS_AT_A_TIME = 1024


@dataclasses.dataclass(frozen=True)
class Counted:
    """The FLOPs of a call, and its bytes where the enumeration sees every element that moves."""

    flops: int
    bound: Recount | None = None


@dataclasses.dataclass(frozen=True)
class Enumeration:
    """How the calls of an op are counted.

    Attributes:
      calls: the small calls.
      count: of one call with the parameters and inputs given, element by element.
      flops_at_scale: the FLOPs of a call of any size; its data inputs may be on `meta`.
    """

    calls: Callable[[], Iterator[SmallCall]]
    count: Callable[[Params, Inputs], Counted]
    flops_at_scale: Callable[[Params, Inputs], int]


# ---- grouped-query attention


def admitted(queries: int, keys: int, is_causal: bool, query: int) -> list[int]:
    """Keys that one query attends to; a causal mask is aligned at the bottom right, where the last query sees every
    key.
    """
    last = query + (keys - queries) if is_causal else keys - 1
    return [key for key in range(keys) if key <= last]


def attention_calls() -> Iterator[SmallCall]:
    """Square, rectangular, single-query and empty calls, masked and not, over batches, heads and widths that differ."""
    extents = [(1, 1), (3, 3), (2, 5), (1, 4), (0, 3), (2, 0)]
    # batch, heads of k and v, query heads of each, width
    sizes = [(2, 2, 2, 8), (3, 1, 4, 5), (1, 3, 1, 16), (4, 2, 3, 1), (0, 2, 1, 8), (2, 2, 0, 8), (2, 1, 2, 0)]
    for (queries, keys), is_causal, (batch, kv_heads, groups, width) in itertools.product(
        extents, (False, True), sizes
    ):
        if is_causal and queries > keys:
            continue  # the op refuses it
        q = torch.zeros((batch, queries, kv_heads * groups, width), dtype=torch.bfloat16)
        k, v = (torch.zeros((batch, keys, kv_heads, width), dtype=torch.bfloat16) for _ in range(2))
        yield SmallCall({"is_causal": is_causal}, (q, k, v))


def count_attention(params: Params, inputs: Inputs) -> Counted:
    """Every product and add of q k^T and of the weights times v, every step of the softmax; the heads that are read."""
    q, k, v = inputs
    (batch, queries, heads, width), keys, kv_heads = q.shape, k.shape[1], k.shape[2]
    flops, heads_read = 0, set()
    for sequence, head, query in itertools.product(range(batch), range(heads), range(queries)):
        seen = admitted(queries, keys, params["is_causal"], query) if width else []  # no result needs a score
        for key in seen:
            flops += sum(2 for _ in range(width))  # q . k
            flops += _SOFTMAX_A_SCORE
            flops += sum(2 for _ in range(v.shape[3]))  # weight times v, added up
            heads_read.add(("q", sequence, query, head))
            heads_read.update((name, sequence, key, head // (heads // kv_heads)) for name in "kv")
        if seen:
            flops += sum(_DIVIDE for _ in range(v.shape[3]))
    head_bytes = width * q.element_size()
    return Counted(flops, Recount(len(heads_read) * head_bytes, batch * queries * heads * head_bytes))


def attention_flops(params: Params, inputs: Inputs) -> int:
    """The same by the mask as an array of one place a score."""
    q, k, v = inputs
    scores, rows = _scores(q.shape[1], k.shape[1], params["is_causal"])
    sequences_and_heads = q.shape[0] * q.shape[2]
    if 0 in (q.shape[3], v.shape[3]):
        return 0
    each_score = 2 * q.shape[3] + _SOFTMAX_A_SCORE + 2 * v.shape[3]
    return sequences_and_heads * (scores * each_score + rows * v.shape[3] * _DIVIDE)


@functools.cache
def _scores(queries: int, keys: int, is_causal: bool) -> tuple[int, int]:
    """Places of the mask that admit a score, and its rows that have one."""
    scores = rows = 0
    for start in range(0, queries, _ROWS_AT_A_TIME):
        query = np.arange(start, min(start + _ROWS_AT_A_TIME, queries))[:, None]
        key = np.arange(keys)[None, :]
        mask = key - query <= keys - queries if is_causal else np.ones((len(query), keys), dtype=bool)
        scores += int(np.count_nonzero(mask))
        rows += int(np.count_nonzero(mask.any(axis=1)))
    return scores, rows


# ---- mixture-of-experts permutation


def moe_permute_calls() -> Iterator[SmallCall]:
    """Routings with and without a map over numbers of experts, slots and values that differ.

    Experts receive nothing or are the only one; ids and map entries are out of range; two experts have one local
    number; there are no tokens, or no slots.
    """
    # experts, local experts, values a token, slots, routing, map
    inside, outside = [[0, 3], [3, 2], [1, 1]], [[0, 4], [-1, 2], [1, 1]]
    yield from (
        _routed(*one)
        for one in (
            (4, 4, 8, 2, inside, None),
            (4, 4, 8, 2, outside, None),
            (4, 2, 8, 2, inside, [-1, 0, -1, 1]),
            (4, 2, 3, 2, outside, [-1, 0, -1, 1]),
            (4, 2, 8, 2, outside, [-1, 0, 2, 1]),  # expert 2 has a number that no local expert has
            (5, 3, 16, 1, [[0], [1], [4], [3], [1]], [0, 0, -1, 1, 2]),
            (6, 6, 5, 3, [[0, 1, 2], [5, 3, 3]], None),
            (7, 5, 2, 4, [[6, 5, 0, 3]], [4, 3, 2, 1, 0, -1, -1]),
            (1, 1, 8, 2, [[-1, 0]], [0]),
            (4, 4, 8, 2, [], None),
            (4, 2, 8, 2, [], [-1, 0, -1, 1]),
            (4, 4, 8, 0, [[], [], []], None),
        )
    )


def _routed(
    experts: int, local: int, width: int, slots: int, routing: list[list[int]], entries: list[int] | None
) -> SmallCall:
    hidden = torch.zeros((len(routing), width), dtype=torch.bfloat16)
    ids = torch.tensor(routing, dtype=torch.int32).view(len(routing), slots)
    expert_map = None if entries is None else torch.tensor(entries, dtype=torch.int32)
    return SmallCall({"num_experts": experts, "num_experts_local": local}, (hidden, ids, expert_map))


def count_moe_permute(params: Params, inputs: Inputs) -> Counted:
    """The integer adds that are the op's result: a local pair's count and row, a local expert's prefix sum."""
    _, ids, expert_map = inputs
    experts, local_experts = params["num_experts"], params["num_experts_local"]
    entries = range(experts) if expert_map is None else expert_map.tolist()
    flops = 0
    for expert in itertools.chain.from_iterable(ids.tolist()):
        if 0 <= expert < experts and 0 <= entries[expert] < local_experts:
            flops += 1  # its expert's count
            flops += 1  # its row: the expert's offset plus its rank
    for _ in range(local_experts):
        flops += 1  # the prefix sum of the counts
    return Counted(flops)


def moe_permute_flops(params: Params, inputs: Inputs) -> int:
    """The same; a row's pairs are few enough to be taken one by one."""
    return count_moe_permute(params, inputs).flops


# ---- poolings


def count_pool(params: Params, inputs: Inputs) -> Counted:
    """A compare or an add for each tap inside the input, and an average's divides."""
    (x,) = inputs
    found, channels = windows.pooled(params, x), x.shape[0] * x.shape[1]
    return Counted(channels * found.taps_one_by_one() + windows.pool_divides(params, channels * found.outputs))


def pool_flops(params: Params, inputs: Inputs) -> int:
    """The same by an array per axis."""
    (x,) = inputs
    found, channels = windows.pooled(params, x), x.shape[0] * x.shape[1]
    return channels * found.taps() + windows.pool_divides(params, channels * found.outputs)


def _pools() -> dict[str, Enumeration]:
    kinds = {f"AvgPool{rank}dFwdOp": (rank, True) for rank in (1, 2, 3)}
    for rank in (1, 2, 3):
        kinds.update({f"MaxPool{rank}d{kind}FwdOp": (rank, False) for kind in ("", "Indices")})
    return {
        op: Enumeration(functools.partial(windows.pool_calls, *kind), count_pool, pool_flops)
        for op, kind in kinds.items()
    }


def _adaptive(divides: int) -> Enumeration:
    def flops(params: Params, inputs: Inputs) -> int:
        (x,) = inputs
        return windows.count_adaptive(params, x, divides)

    return Enumeration(windows.adaptive_calls, lambda params, inputs: Counted(flops(params, inputs)), flops)


# ---- convolutions


def _convolution(params: Params, inputs: Inputs, taps: Callable[[windows.Windows], int]) -> int:
    """A multiply and an add for each tap inside the input and each channel of the group; the adds of the bias."""
    x, weight, bias = inputs
    found = windows.convolved(params, x, weight)
    filters = x.shape[0] * weight.shape[0]
    return filters * (2 * weight.shape[1] * taps(found) + (0 if bias is None else found.outputs))


def _convolutions() -> dict[str, Enumeration]:
    return {
        f"Conv{rank}dFwdOp": Enumeration(
            functools.partial(windows.convolution_calls, rank),
            lambda params, inputs: Counted(_convolution(params, inputs, windows.Windows.taps_one_by_one)),
            functools.partial(_convolution, taps=windows.Windows.taps),
        )
        for rank in (1, 2, 3)
    }


ENUMERATIONS: dict[str, Enumeration] = {
    "GQADenseFwdOp": Enumeration(attention_calls, count_attention, attention_flops),
    "MoePermuteNopadFwdOp": Enumeration(moe_permute_calls, count_moe_permute, moe_permute_flops),
    **_pools(),
    "AdaptiveAvgPool2dFwdOp": _adaptive(1),
    "AdaptiveMaxPool2dFwdOp": _adaptive(0),
    "AdaptiveMaxPool2dIndicesFwdOp": _adaptive(0),
    "MeanPoolingFwdOp": Enumeration(
        windows.mean_calls, lambda params, inputs: Counted(windows.count_means(params, inputs)), windows.count_means
    ),
    **_convolutions(),
}
