"""One line of CSV, as every command here writes it."""

import csv
from collections.abc import Iterable


class _Line:
    """A file whose `write` hands back what it was given."""

    def write(self, line: str) -> str:
        return line


_END = "\r\n"
# The module quotes what holds a character of its line's end. A lone carriage return
# within a cell has to be quoted, too: readers take it for an end of the line.
_line = csv.writer(_Line(), lineterminator=_END).writerow


def line(values: Iterable[object]) -> str:
    """Returns a row of values as one line that ends in a newline; None is an empty cell."""
    return _line(values).removesuffix(_END) + "\n"


def cells(*values: object) -> str:
    """Returns values as a part of a line; a single one must not be empty."""
    return _line(values).removesuffix(_END)
