"""Checks compositions across entries: the op of each stage exists, and no op runs itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from tileops.manifest.checks.families import cycles, reachable
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.language.text import shown
from tileops.manifest.model import Entry


def check_stages(
    entries: Iterable[Entry], diagnostics: Diagnostics, others: Callable[[], Collection[str]] | None = None
) -> None:
    """Reports stages that name no op, and ops that run themselves, directly or through others.

    Args:
      entries: all entries read.
      diagnostics: takes the defects.
      others: returns the names of further ops; called if `entries` lack a stage's op. None if not all ops are
        known, as in a build of one family: no name is checked then.
    """
    found = {entry.op: entry for entry in entries}
    named = {op: {stage.op for stage in entry.stages if stage.op} for op, entry in found.items()}
    circular = cycles(named)
    known: Collection[str] | None = None
    for entry in found.values():
        for stage in entry.stages:
            path = f"composition.stages[{stage.position}]"
            if entry.op in circular and (stage.op == entry.op or entry.op in reachable(stage.op, named)):
                entry.report(
                    diagnostics, path, "M070", f"{shown(stage.op)} runs {entry.op}, which would then run itself"
                )
            elif stage.op and stage.op not in found and others is not None:
                known = others() if known is None else known
                if stage.op not in known:
                    message = f"no op {shown(stage.op)}; a stage names one of the entries, or a kernel"
                    entry.report(diagnostics, path, "M070", message)
