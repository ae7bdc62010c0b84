"""The progress of a run on stderr: a live display on a terminal, otherwise a line every 30 seconds."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from tileops.tools.cli import command, words

# Time between two lines if stderr is no terminal. Seconds.
_LINE_EVERY_S = 30.0


class Progress:
    """Counts the steps that are done and the errors so far, and names the current step."""

    def __init__(self, total: int, shown: Any = None, task: Any = None) -> None:
        """Begins with `total` steps. `shown` is rich's display and `task` its one task; None if lines are printed."""
        self._shown, self._task = shown, task
        self._total, self._done, self._errors, self._step = total, 0, 0, ""
        self._began = time.monotonic()

    def begin(self, text: str) -> None:
        """Begins the step that `text` names."""
        self._step = text
        if self._shown is not None:
            self._shown.update(self._task, description=text, refresh=True)  # so that a short step shows

    def end(self, is_error: bool = False, is_counted: bool = True) -> None:
        """Marks the current step as done. If `is_counted` is false, lowers the total instead."""
        self._errors += is_error
        if is_counted:
            self._done += 1
        else:
            self._total -= 1
        if self._shown is not None:
            # `advance` keeps the pace, which the display forgets if the total changes.
            self._shown.update(self._task, advance=1, counted=f"{self._done}/{self._total}", errors=self._errors)

    def line(self) -> str:
        """Returns the state of the run in words, with the time left at the pace so far."""
        passed_s = time.monotonic() - self._began
        left_s = passed_s * (self._total - self._done) / max(1, self._done)
        left = f"about {left_s / 60:.0f} min" if left_s > 120 else f"about {left_s:.0f} s"
        left = left if self._done else "unknown time"
        return (
            f"{self._done} of {self._total} done, {words.counted(self._errors, 'error')}, {left} left; now {self._step}"
        )


@contextlib.contextmanager
def bar(total: int) -> Iterator[Progress]:
    """Shows the progress of `total` steps: done, errors, time taken, time left, current step."""
    if not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        with _lines(Progress(total)) as told:
            yield told
        return
    from rich import console, progress, table, text  # only a display needs it

    class CurrentStep(progress.ProgressColumn):
        """Shows the current step on one line: the only column that a narrow terminal shortens."""

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
    # The time left follows the pace of the last minutes: times of rows differ by two orders of magnitude.
    with progress.Progress(
        *columns, console=console.Console(stderr=True), transient=True, speed_estimate_period=300.0
    ) as shown:
        yield Progress(total, shown, shown.add_task("", total=total, counted=f"0/{total}", errors=0))


@contextlib.contextmanager
def _lines(told: Progress) -> Iterator[Progress]:
    """Prints a line of `told` regularly while the block runs. A thread does so, since one step can take minutes."""
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
