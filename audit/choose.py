"""The rows to audit: as few as take every branch of an op's price that its rows take at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tileops.ops.cases import WorkloadCase
from tileops.perf.harness import rows
from tileops.tools.cli import globs, nearest

if TYPE_CHECKING:
    from tileops.ops.op import Op


def cover(cases: Sequence[WorkloadCase]) -> list[WorkloadCase]:
    """The smallest set of cases that takes every branch which some of `cases` takes, in the given order.

    Where there is a choice, cases that bind more bytes are taken: the more a call reads, the less what a kernel reads
    beside its tensors blurs the verdict.
    """
    largest: dict[frozenset[int], int] = {}
    for at, case in enumerate(cases):
        taken = frozenset(case.branches)
        if taken not in largest or case.input_bytes > cases[largest[taken]].input_bytes:
            largest[taken] = at
    # A case whose branches another takes too is never needed.
    useful = [taken for taken in largest if not any(taken < other for other in largest)]
    useful.sort(key=lambda taken: -cases[largest[taken]].input_bytes)
    chosen = _smallest(useful, frozenset().union(*largest))
    if not chosen and cases:  # an entry that tells no calls apart, generated without branches
        chosen = list(largest)[:1]
    return [cases[at] for at in sorted(largest[taken] for taken in chosen)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """Which rows an audit measures.

    Attributes:
      selection: globs of ops, families and labels.
      case_ids: globs of case ids; empty for every case.
      implementation: the implementation to audit; "" for the one that the op chooses.
      every_row: whether to take all rows, not only those that cover every branch of a price.
      listed_by: the command that lists the rows, for messages.
    """

    selection: rows.Selection
    case_ids: Sequence[str]
    implementation: str
    every_row: bool
    listed_by: str

    def by_op(self, classes: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Returns the selected rows by op. Raises SelectionError."""
        selected = with_case_ids(rows.select(classes, self.selection, self.listed_by), self.case_ids, self.listed_by)
        if self.implementation:
            rows.check_implementations((op for op, _ in selected), [self.implementation], self.listed_by)
        found: dict[str, list[Any]] = {}
        for op, case in selected:
            found.setdefault(op.ENTRY, []).append(case)
        return found

    def to_measure(self, classes: Mapping[str, Any], by_op: Mapping[str, list[Any]]) -> list[tuple[Any, Any]]:
        """Returns ops with the rows to measure, of those that `by_op` returned."""
        return [
            (classes[op], case) for op, cases in by_op.items() for case in (cases if self.every_row else cover(cases))
        ]


def print_rows(chosen: Iterable[tuple[Any, Any]]) -> None:
    """Prints each row with the branches of the price that it takes."""
    for op, case in chosen:
        print(op.ENTRY, case.case_id, "; ".join(op.BRANCHES[at] for at in case.branches), sep="\t")


def with_case_ids(
    selected: Sequence[rows.Case], wanted: Sequence[str], listed_by: str = nearest.ROWS
) -> list[rows.Case]:
    """Returns the rows whose case id fits one of the `wanted` globs; all rows without globs.

    Raises:
      SelectionError: a glob fits none of them.
    """
    rows.check_globs("case", wanted, [case.case_id for _, case in selected], listed_by)
    return [(op_class, case) for op_class, case in selected if globs.fits(case.case_id, *wanted)]


def unreached(op_class: type[Op]) -> list[str]:
    """The branches of the op's price that no row of its entry takes, in words."""
    taken = {branch for case in op_class.CASES for branch in case.branches}
    return [text for branch, text in enumerate(op_class.BRANCHES) if branch not in taken]


def _smallest(sets: Sequence[frozenset[int]], wanted: frozenset[int]) -> list[frozenset[int]]:
    """The smallest choice of sets that together hold `wanted`; of equal ones one that prefers early sets. Exact, by
    branch and bound.
    """
    best: list[frozenset[int]] = list(sets)

    def extend(chosen: list[frozenset[int]], missing: frozenset[int]) -> None:
        nonlocal best
        if not missing:
            best = min(best, list(chosen), key=len)
            return
        most = max(len(one & missing) for one in sets)
        if len(chosen) + -(-len(missing) // most) >= len(best):
            return
        # Whatever is chosen holds the branch that the fewest sets hold.
        rarest = min(sorted(missing), key=lambda branch: sum(branch in one for one in sets))
        for one in sorted((one for one in sets if rarest in one), key=lambda one: -len(one & missing)):
            extend([*chosen, one], missing - one)

    extend([], wanted)
    return best
