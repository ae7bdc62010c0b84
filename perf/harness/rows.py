"""Which rows a run measures: selection by globs, implementations, the quick rows, and shards for several machines.

The module imports no torch, so that the bench answers wrong flags at once.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tileops.ops.cases import WorkloadCase
from tileops.ops.row_index import IndexedCase, IndexedOp
from tileops.proto import benchmark_pb2
from tileops.tools.cli import errors, globs, nearest

if TYPE_CHECKING:
    from tileops.ops.op import Op
ALL = "all"

Case = tuple["type[Op]", WorkloadCase]


class NamedCase(Protocol):
    """A row of an op: a WorkloadCase, or a line of the project's index."""

    @property
    def case_id(self) -> str:
        """Name of the row within its op."""

    @property
    def label(self) -> str:
        """Name of the workload."""


class Named(Protocol):
    """An op by its names: its class, or a line of the project's index."""

    @property
    def ENTRY(self) -> str:
        """Name of the op."""

    @property
    def FAMILY(self) -> str:
        """Name of the family."""

    @property
    def CASES(self) -> Sequence[NamedCase]:
        """Rows of the op."""

    def implementation_names(self) -> tuple[str, ...]:
        """Returns the names of the op's implementations, the reference first."""


NamedOp = TypeVar("NamedOp", bound=Named)


class SelectionError(errors.UserError):
    """The flags select nothing or name something unknown; the message says which flag."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selection:
    """Globs of the flags; an empty tuple selects everything."""

    ops: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


def select(
    classes: Mapping[str, NamedOp], selection: Selection, listed_by: str = nearest.ROWS
) -> list[tuple[NamedOp, Any]]:
    """Returns the ops and cases that fit all globs, in the catalogue's order.

    Args:
      classes: the ops by name.
      selection: the globs.
      listed_by: the command that lists these ops, for messages.

    Raises:
      SelectionError: a glob fits nothing, or nothing fits all globs.
    """
    check_globs("op", selection.ops, classes, listed_by)
    check_globs("family", selection.families, {op_class.FAMILY for op_class in classes.values()}, listed_by)
    chosen = [
        op_class
        for name, op_class in classes.items()
        if globs.fits(name, *selection.ops) and globs.fits(op_class.FAMILY, *selection.families)
    ]
    labels = {case.label for op_class in chosen for case in op_class.CASES}
    every_label = {case.label for op_class in classes.values() for case in op_class.CASES}
    check_globs("label", selection.labels, every_label, listed_by, shown=labels or every_label)
    cases = [
        (op_class, case) for op_class in chosen for case in op_class.CASES if globs.fits(case.label, *selection.labels)
    ]
    if not cases:
        there_are = (
            f"; of the labels of these ops {nearest.instead(' '.join(selection.labels), labels, listed_by)}"
            if labels
            else ""
        )
        raise SelectionError(f"no row fits --op, --family and --label together{there_are}")
    return cases


def quick(
    cases: Sequence[Case], cost: Callable[[Case], float], serves: Callable[[Case], bool] = lambda case: True
) -> list[Case]:
    """Returns the cheapest case of each op that `serves` accepts, in the given order.

    If `serves` accepts no case of an op, the op's cheapest case is returned. A case without elements is returned only if
    there is no other.
    """
    by_op: dict[str, list[tuple[bool, float, int]]] = {}
    for at, (op_class, case) in enumerate(cases):
        is_empty = not case.output_bytes or any(0 in tensor.shape for tensor in case.tensors)
        by_op.setdefault(op_class.ENTRY, []).append((is_empty, cost((op_class, case)), at))
    chosen = []
    for of_op in by_op.values():
        cheapest, *_ = ranked = [at for *_, at in sorted(of_op)]
        chosen.append(next((at for at in ranked if serves(cases[at])), cheapest))
    return [cases[at] for at in sorted(chosen)]


def check_implementations(classes: Iterable[Named], wanted: Sequence[str], listed_by: str = nearest.ROWS) -> None:
    """Raises SelectionError if no op has an implementation of a wanted name."""
    known = {name for op_class in classes for name in op_class.implementation_names()}
    for name in wanted:
        if name != ALL and name not in known:
            raise SelectionError(
                f"--implementation={name}: no selected op has an implementation of this name;"
                f" {nearest.instead(name, known, listed_by)}"
            )


def implementations(op_class: Named, wanted: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of an op's wanted implementations, the reference first; all if `wanted` is empty or has `all`."""
    names = op_class.implementation_names()
    return names if not wanted or ALL in wanted else tuple(name for name in names if name in wanted)


def check_globs(
    flag: str, wanted: Sequence[str], names: Iterable[str], listed_by: str, shown: Iterable[str] | None = None
) -> None:
    """Raises SelectionError if a glob of a flag fits none of the names; its message suggests `shown` (default: all)."""
    known = sorted(names)
    for glob in wanted:
        if not any(globs.fits(name, glob) for name in known):
            raise SelectionError(f"--{flag}={glob} fits no {flag}; {nearest.instead(glob, shown or known, listed_by)}")


# ---- parts of the rows for several machines: every machine computes the same parts, of about equal cost


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


def parse_shard(text: str) -> Shard:
    """Returns the shard of `i/n` with 1 <= i <= n. Raises SelectionError on any other text."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise SelectionError(f"--shard={text}: write i/n with 1 <= i <= n, as in 1/4")
    return Shard(index=int(found[1]), count=int(found[2]))


def cost_s(price: benchmark_pb2.BenchmarkRecord | IndexedCase, implementations: int) -> float:
    """Returns the cost of a row with this price, relative to other rows. Nominal seconds."""
    return implementations * (_FIXED_S + _CALLS * (price.flops / _FLOPS_PER_S + price.bytes / _BYTES_PER_S))


def part_of_index(
    rows: Sequence[tuple[IndexedOp, IndexedCase]], wanted: Sequence[str], shard: Shard
) -> list[tuple[IndexedOp, IndexedCase]]:
    """Returns the shard's rows of the project's index, for the wanted implementations."""
    costs = [cost_s(case, len(implementations(op, wanted))) for op, case in rows]
    return list(rows) if shard.count == 1 else part(rows, costs, shard)


def part(items: Sequence[Item], costs: Sequence[float], shard: Shard) -> list[Item]:
    """Returns the shard's items, in the given order.

    Each item, the most expensive first, goes to the shard with the least cost so far. An example: costs 5, 4, 3, 2 in 2
    shards give 5 + 2 and 4 + 3. No shard costs more than another by more than its most expensive item. Every item is in
    one shard.
    """
    loads = [0.0] * shard.count
    chosen = []
    for at in sorted(range(len(items)), key=lambda at: (-costs[at], at)):
        least = min(range(shard.count), key=lambda index: (loads[index], index))
        loads[least] += costs[at]
        if least == shard.index - 1:
            chosen.append(at)
    return [items[at] for at in sorted(chosen)]
