"""Which rows a run measures: selection by globs, the quick subset, and their implementations."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from tileops.ops.cases import WorkloadCase
from tileops.ops.errors import OpNotAvailableError
from tileops.tools.cli import later, nearest

if TYPE_CHECKING:
    from tileops.ops.op import Op

workloads = later.module("tileops.ops.workloads")  # which imports torch

ALL = "all"

Case = tuple["type[Op]", WorkloadCase]


class NamedCase(Protocol):
    """A row of an op: a WorkloadCase, or a line of the project's index."""

    case_id: str
    label: str


class Named(Protocol):
    """An op by its names: its class, or a line of the project's index."""

    ENTRY: str
    FAMILY: str
    CASES: Sequence[NamedCase]

    def implementation_names(self) -> tuple[str, ...]:
        """Names of the op's implementations, the reference first."""


NamedOp = TypeVar("NamedOp", bound=Named)


class SelectionError(Exception):
    """Flags that select nothing or contradict the catalogue; the message says which."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selection:
    """Globs; an empty tuple lets everything through."""

    ops: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


def select(
    classes: Mapping[str, NamedOp], selection: Selection, listed_by: str = nearest.ROWS
) -> list[tuple[NamedOp, NamedCase]]:
    """Cases that pass every glob, in the catalogue's order.

    Args:
      classes: the ops by name.
      selection: the globs.
      listed_by: the command that lists these ops, for messages.

    Raises:
      SelectionError: a glob fits nothing, or the globs together do.
    """
    _check_globs("op", selection.ops, classes, listed_by)
    _check_globs("family", selection.families, {op_class.FAMILY for op_class in classes.values()}, listed_by)
    chosen = [
        op_class
        for name, op_class in classes.items()
        if _fits(name, selection.ops) and _fits(op_class.FAMILY, selection.families)
    ]
    labels = {case.label for op_class in chosen for case in op_class.CASES}
    every_label = {case.label for op_class in classes.values() for case in op_class.CASES}
    _check_globs("label", selection.labels, every_label, listed_by, told=labels or every_label)
    cases = [(op_class, case) for op_class in chosen for case in op_class.CASES if _fits(case.label, selection.labels)]
    if not cases:
        there_are = (
            f"; of the labels of these ops {nearest.instead(' '.join(selection.labels), labels, listed_by)}"
            if labels
            else ""
        )
        raise SelectionError(f"no row fits --op, --family and --label together{there_are}")
    return cases


def quick(cases: Sequence[Case], cost: Callable[[Case], float]) -> list[Case]:
    """The cheapest case of each op, in the given order; one without elements where there is no other: it shows little."""
    best: dict[str, tuple[bool, float, int]] = {}
    for at, (op_class, case) in enumerate(cases):
        is_empty = not case.output_bytes or any(0 in tensor.shape for tensor in case.tensors)
        price = (is_empty, cost((op_class, case)), at)
        best[op_class.ENTRY] = min(price, best.get(op_class.ENTRY, price))
    return [cases[at] for at in sorted(at for _, _, at in best.values())]


def check_implementations(classes: Iterable[Named], wanted: Sequence[str], listed_by: str = nearest.ROWS) -> None:
    """Raises SelectionError where no op has an implementation of a wanted name."""
    known = {name for op_class in classes for name in op_class.implementation_names()}
    for name in wanted:
        if name != ALL and name not in known:
            raise SelectionError(
                f"--implementation={name}: no selected op has one of that name; {nearest.instead(name, known, listed_by)}"
            )


def implementations(op_class: Named, wanted: Sequence[str]) -> tuple[str, ...]:
    """Names of the op's implementations that are wanted (`all` or none named: every one), the reference first."""
    names = op_class.implementation_names()
    return names if not wanted or ALL in wanted else tuple(name for name in names if name in wanted)


def serving(op_class: type[Op], case: WorkloadCase, device: str) -> tuple[str, ...]:
    """Names of the implementations that serve a case on `device`, judged without a tensor of data there.

    One whose `when` raises counts as serving: its row has to say so, and no other's.
    """
    call = workloads.construct(op_class, case).check(**workloads.build_inputs(op_class, case, "meta"))
    call.device = device
    names = []
    for name in op_class.implementation_names():
        try:
            workloads.construct(op_class, case, target=name).select(call)
        except OpNotAvailableError:
            continue
        except (Exception, SystemExit):
            pass
        names.append(name)
    return tuple(names)


def _check_globs(
    flag: str, globs: Sequence[str], names: Iterable[str], listed_by: str, told: Iterable[str] | None = None
) -> None:
    """Raises SelectionError where a glob fits none of the names; `told` are those that help, all of them by default."""
    known = sorted(names)
    for glob in globs:
        if not any(fnmatch.fnmatchcase(name, glob) for name in known):
            raise SelectionError(f"--{flag}={glob} fits no {flag}; {nearest.instead(glob, told or known, listed_by)}")


def _fits(name: str, globs: Sequence[str]) -> bool:
    return not globs or any(fnmatch.fnmatchcase(name, glob) for glob in globs)
