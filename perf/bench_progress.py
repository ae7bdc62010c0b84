"""A progress bar on stderr, where stderr is a terminal; silence elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def bar(total: int) -> Iterator[Callable[[str], None]]:
    """A bar of `total` steps; the value of the block is called at the end of each step with what comes to show."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich import console, progress  # only a terminal needs it

    columns = (
        progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeElapsedColumn(),
        progress.TextColumn("{task.description}", markup=False),
    )  # fmt: skip
    with progress.Progress(*columns, console=console.Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=total)
        yield lambda text: shown.update(task, advance=1, description=text)
