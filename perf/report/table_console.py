"""The console that tables for people are printed on: a terminal, a file or a pipe."""

import shutil
from typing import TextIO

from rich import console as rich_console

# Rows above which a table is cut. Laying one out takes a millisecond and several
# kilobytes, and nobody reads so many.
MOST_ROWS = 2_000

# Where nobody watches the width (a file, a pipe), no line is cut.
_UNLIMITED_WIDTH = 10_000


class Console(rich_console.Console):
    """Rich's console, but for its habit of exiting with 1 where a reader left."""

    def on_broken_pipe(self) -> None:
        raise  # The BrokenPipeError that this is called for.


def new(out: TextIO) -> Console:
    """Returns a console that writes to `out`; colours and a width are a terminal's alone."""
    watched = out.isatty()
    terminal = shutil.get_terminal_size()
    return Console(
        file=out,
        # Both, since rich takes a terminal that can do little for 80 columns wide.
        width=terminal.columns if watched else _UNLIMITED_WIDTH,
        height=terminal.lines,
        force_terminal=None if watched else False,
        # Nothing in a report is rich's markup; "[" is a bracket.
        markup=False,
        emoji=False,
        highlight=False,
    )
