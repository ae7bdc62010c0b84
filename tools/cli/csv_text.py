"""One line of CSV, as every command writes it."""

import csv
from collections.abc import Iterable


class _Line:
    """A file whose `write` returns the line."""

    def write(self, line: str) -> str:
        return line


_END = "\r\n"
# Python quotes cells with a character of the line's end. With this end it also quotes a lone
# carriage return, which readers take for the end of a line.
_line = csv.writer(_Line(), lineterminator=_END).writerow


def line(values: Iterable[object]) -> str:
    """Returns a row of values as one line that ends in a newline; None is an empty cell."""
    return _line(values).removesuffix(_END) + "\n"


def cells(*values: object) -> str:
    """Returns values as a part of a line. A single value must not be empty."""
    return _line(values).removesuffix(_END)
