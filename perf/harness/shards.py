"""Parts of a run's rows for several machines: the same wherever they are made, and of about equal length."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import TypeVar

from tileops.ops.row_index import IndexedCase, IndexedOp
from tileops.perf.harness import rows as bench_rows
from tileops.perf.harness.rows import SelectionError
from tileops.proto import benchmark_pb2

# What a row is taken to cost where the parts are made, whatever machine runs them: they must agree on the parts, so
# only prices count, not the machine. Each implementation takes a second to build, check and warm up, then 400 calls at
# the pace of a GPU of today. Only ratios matter.
_FIXED_S = 1.0
_CALLS = 400
_FLOPS_PER_S = 1e14
_BYTES_PER_S = 2e12

Item = TypeVar("Item")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """Part `index` (from 1) of `count`."""

    index: int = 1
    count: int = 1


def parse(text: str) -> Shard:
    """`i/n` with 1 <= i <= n. Raises SelectionError on anything else."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise SelectionError(f"--shard={text}: i/n is wanted, 1 <= i <= n, as in 1/4")
    return Shard(index=int(found[1]), count=int(found[2]))


def cost_s(price: benchmark_pb2.BenchmarkRecord | IndexedCase, implementations: int) -> float:
    """What a row with this price weighs against others. Nominal seconds."""
    return implementations * (_FIXED_S + _CALLS * (price.flops / _FLOPS_PER_S + price.bytes / _BYTES_PER_S))


def of_rows(
    rows: Sequence[tuple[IndexedOp, IndexedCase]], wanted: Sequence[str], shard: Shard
) -> list[tuple[IndexedOp, IndexedCase]]:
    """The shard's rows of the project's index, for those implementations that are wanted."""
    costs = [cost_s(case, len(bench_rows.implementations(op, wanted))) for op, case in rows]
    return list(rows) if shard.count == 1 else part(rows, costs, shard)


def part(items: Sequence[Item], costs: Sequence[float], shard: Shard) -> list[Item]:
    """The shard's items, in the given order: the dearest first, each goes to the shard with the least so far.

    No shard is longer than another by more than its dearest item. The parts of all shards make up the whole.
    """
    loads = [0.0] * shard.count
    chosen = []
    for at in sorted(range(len(items)), key=lambda at: (-costs[at], at)):
        least = min(range(shard.count), key=lambda index: (loads[index], index))
        loads[least] += costs[at]
        if least == shard.index - 1:
            chosen.append(at)
    return [items[at] for at in sorted(chosen)]
