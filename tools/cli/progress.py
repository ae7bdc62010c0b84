"""The progress of a run on stderr: a display where that is a terminal, a line now and then where it is none."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from tileops.tools.cli import command

# How often a line is said where there is no terminal. Seconds.
_LINE_EVERY_S = 30.0


class Progress:
    """What has been done of a number of steps, what goes on now, and what went wrong so far."""

    def __init__(self, total: int, shown: Any = None, task: Any = None) -> None:
        """`total` steps; `shown` is rich's display and `task` its one task, None where lines are said."""
        self._shown, self._task = shown, task
        self._total, self._done, self._errors, self._step = total, 0, 0, ""
        self._began = time.monotonic()

    def begin(self, text: str) -> None:
        """A step is begun; `text` says which."""
        self._step = text
        if self._shown is not None:
            self._shown.update(self._task, description=text, refresh=True)  # a short step is seen too

    def end(self, is_error: bool = False, is_counted: bool = True) -> None:
        """A step has ended. One that is not counted was none: there is one less to do."""
        self._errors += is_error
        if is_counted:
            self._done += 1
        else:
            self._total -= 1
        if self._shown is not None:
            # By itself the display would forget the pace with each change of the total.
            self._shown.update(self._task, advance=1, counted=f"{self._done}/{self._total}", errors=self._errors)

    def line(self) -> str:
        """Where the run is, in words; the time left as the pace so far tells it."""
        passed_s = time.monotonic() - self._began
        left_s = passed_s * (self._total - self._done) / max(1, self._done)
        left = f"about {left_s / 60:.0f} min" if left_s > 120 else f"about {left_s:.0f} s"
        left = left if self._done else "unknown time"
        return f"{self._done} of {self._total} done, {self._errors} errors, {left} left; now {self._step}"


@contextlib.contextmanager
def bar(total: int) -> Iterator[Progress]:
    """A display of `total` steps: done, errors so far, time taken and left, and the current step."""
    if not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        with _lines(Progress(total)) as told:
            yield told
        return
    from rich import console, progress, table, text  # only a display needs it

    class CurrentStep(progress.ProgressColumn):
        """The current step on one line; the one column that gives way where a terminal is narrow."""

        def render(self, task: progress.Task) -> text.Text:
            return text.Text(task.description, no_wrap=True, overflow="ellipsis")

    def whole() -> table.Column:
        return table.Column(no_wrap=True)

    columns = (
        progress.BarColumn(bar_width=10, table_column=whole()),
        progress.TextColumn("{task.fields[counted]}", table_column=whole()),
        progress.TextColumn("{task.fields[errors]} errors", table_column=whole()),
        progress.TimeElapsedColumn(table_column=whole()),
        progress.TimeRemainingColumn(table_column=whole()),
        progress.TextColumn("left", table_column=whole()),
        CurrentStep(),
    )
    # The time left is told from the pace of the last minutes: rows differ by two orders of magnitude.
    with progress.Progress(
        *columns, console=console.Console(stderr=True), transient=True, speed_estimate_period=300.0
    ) as shown:
        yield Progress(total, shown, shown.add_task("", total=total, counted=f"0/{total}", errors=0))


@contextlib.contextmanager
def _lines(told: Progress) -> Iterator[Progress]:
    """Says a line of `told` now and then while the block runs: by a thread, since a single step can take minutes."""
    ended = threading.Event()

    def say() -> None:
        while not ended.wait(_LINE_EVERY_S):
            command.say(told.line())

    sayer = threading.Thread(target=say, name="tileops-bench-progress", daemon=True)
    sayer.start()
    try:
        yield told
    finally:
        ended.set()
        sayer.join()
