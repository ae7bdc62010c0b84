"""A progress display on stderr, where stderr is a terminal; silence elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any


class Progress:
    """What has been done of a known number of steps, what goes on now, and what went wrong so far."""

    def __init__(self, shown: Any = None, task: Any = None) -> None:
        """`shown` is rich's display and `task` its one task; None shows nothing."""
        self._shown, self._task = shown, task
        self._errors = 0

    def begin(self, text: str) -> None:
        """A step is begun; `text` says which."""
        if self._shown is not None:
            self._shown.update(self._task, description=text, refresh=True)  # a short step is seen too

    def end(self, is_error: bool = False) -> None:
        """A step has ended."""
        self._errors += is_error
        if self._shown is not None:
            self._shown.update(self._task, advance=1, errors=self._errors)


@contextlib.contextmanager
def bar(total: int) -> Iterator[Progress]:
    """A display of `total` steps: done, errors so far, time taken and left, and the current step."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    from rich import console, progress  # only a terminal needs it

    columns = (
        progress.BarColumn(bar_width=20), progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[errors]} errors"), progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(), progress.TextColumn("left"),
        progress.TextColumn("{task.description}", markup=False),
    )  # fmt: skip
    # The time left is told from the pace of the last minutes: rows differ by two orders of magnitude.
    with progress.Progress(
        *columns, console=console.Console(stderr=True), transient=True, speed_estimate_period=300.0
    ) as shown:
        yield Progress(shown, shown.add_task("", total=total, errors=0))
