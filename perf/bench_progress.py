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
    from rich import console, progress, table, text  # only a terminal needs it

    class CurrentStep(progress.ProgressColumn):
        """The current step on one line; the one column that gives way where a terminal is narrow."""

        def render(self, task: progress.Task) -> text.Text:
            return text.Text(task.description, no_wrap=True, overflow="ellipsis")

    def whole() -> table.Column:
        return table.Column(no_wrap=True)

    columns = (
        progress.BarColumn(bar_width=10, table_column=whole()), progress.MofNCompleteColumn(table_column=whole()),
        progress.TextColumn("{task.fields[errors]} errors", table_column=whole()),
        progress.TimeElapsedColumn(table_column=whole()), progress.TimeRemainingColumn(table_column=whole()),
        progress.TextColumn("left", table_column=whole()), CurrentStep(),
    )  # fmt: skip
    # The time left is told from the pace of the last minutes: rows differ by two orders of magnitude.
    with progress.Progress(
        *columns, console=console.Console(stderr=True), transient=True, speed_estimate_period=300.0
    ) as shown:
        yield Progress(shown, shown.add_task("", total=total, errors=0))
