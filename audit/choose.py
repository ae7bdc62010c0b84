"""The rows to audit: the fewest that take every branch of an op's price which its rows can take."""

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
    """Returns the smallest set of cases that takes every branch which some of `cases` takes, in the given order.

    Of equal sets it prefers cases with more input bytes: a kernel also reads its own code and arguments, which blur the
    verdict less if the call reads more.
    """
    largest: dict[frozenset[int], int] = {}
    for at, case in enumerate(cases):
        taken = frozenset(case.branches)
        if taken not in largest or case.input_bytes > cases[largest[taken]].input_bytes:
            largest[taken] = at
    # A case is not needed if another case takes all of its branches and more.
    useful = [taken for taken in largest if not any(taken < other for other in largest)]
    useful.sort(key=lambda taken: -cases[largest[taken]].input_bytes)
    chosen = _smallest(useful, frozenset().union(*largest))
    if not chosen and cases:  # the price has no branches
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
    """Returns the branches of the op's price that no row of its entry takes, in words."""
    taken = {branch for case in op_class.CASES for branch in case.branches}
    return [text for branch, text in enumerate(op_class.BRANCHES) if branch not in taken]


def _smallest(sets: Sequence[frozenset[int]], wanted: frozenset[int]) -> list[frozenset[int]]:
    """Returns the smallest choice of sets that together hold `wanted`; of equal choices, one of early sets.

    Exact, by branch and bound. An example: of {a, b}, {b, c}, {c}, {a} and wanted {a, b, c} it returns the first two.
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
        # Every solution holds the branch that the fewest sets hold: try only the sets that hold it.
        rarest = min(sorted(missing), key=lambda branch: sum(branch in one for one in sets))
        for one in sorted((one for one in sets if rarest in one), key=lambda one: -len(one & missing)):
            extend([*chosen, one], missing - one)

    extend([], wanted)
    return best
