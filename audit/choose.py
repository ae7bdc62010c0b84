"""The rows to audit: as few as take every branch of an op's price that its rows take at all."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tileops.ops.cases import WorkloadCase
from tileops.perf.harness.rows import Case, SelectionError
from tileops.tools.cli import nearest

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


def with_case_ids(rows: Sequence[Case], globs: Sequence[str], listed_by: str = nearest.ROWS) -> list[Case]:
    """The rows of which the case id fits one of `globs`; all of them where there are none.

    Raises:
      SelectionError: a glob fits none of them.
    """
    for glob in globs:
        if not any(fnmatch.fnmatchcase(case.case_id, glob) for _, case in rows):
            known = (case.case_id for _, case in rows)
            raise SelectionError(
                f"--case={glob} fits none of the selected rows; {nearest.instead(glob, known, listed_by)}"
            )
    return [
        (op_class, case)
        for op_class, case in rows
        if not globs or any(fnmatch.fnmatchcase(case.case_id, glob) for glob in globs)
    ]


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
