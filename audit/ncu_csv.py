"""The CSV that Nsight Compute prints, line by line, and what it says of itself between the lines.

Lines that are not CSV (`==PROF==`, what the program printed) are passed over; a file that ends within a line is
refused.
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import re
from collections.abc import Sequence

# How the vendor's own lines start: "==PROF== Connected", "==ERROR== ...".
_VENDOR_LINE = re.compile(r"==(\w+)== ?(.*)")
# What it says of each kernel: 'Profiling "copy_kernel" - 0: 0%....50%....100% - 2 passes'. The number is the CSV's ID.
_PROFILING = re.compile(r'Profiling ".*" - (\d+)\b')


class CounterError(Exception):
    """The counters cannot be used; the message says why, and where in the file."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """A line of a kernel.

    Attributes:
      number: where it stands in the file, from 1.
      cells: by column.
    """

    number: int
    cells: dict[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """The CSV of a file.

    Attributes:
      columns: their names, in order.
      units: by column, where the page has a line of units; empty elsewhere.
      lines: those of kernels, in order.
    """

    columns: tuple[str, ...]
    units: dict[str, str]
    lines: tuple[Line, ...]


def read(text: str) -> Table:
    """The CSV of a file.

    Raises:
      CounterError: there is none, it is damaged or cut off, two columns have one name, or ncu says of the run that it
        failed: what it printed before that is no measurement of the whole call.
    """
    if errors := vendor_lines(text, "ERROR"):
        raise CounterError("; ".join(errors))
    numbered = _csv_lines(text)
    columns = numbered[0][1]
    if twice := [name for name, count in collections.Counter(columns).items() if count > 1]:
        raise CounterError(f"line {numbered[0][0]}: two columns are named {twice[0]}; which of them counts is not said")
    units: dict[str, str] = {}
    lines = []
    for number, cells in numbered[1:]:
        row = dict(zip(columns, cells, strict=True))
        if row["ID"]:
            lines.append(Line(number=number, cells=row))
        else:  # the raw page's line of units
            units = row
    return Table(columns=tuple(columns), units=units, lines=tuple(lines))


def vendor_lines(text: str, kind: str) -> list[str]:
    """What ncu says of itself: the lines of a kind, "ERROR" or "WARNING" for example, without their mark."""
    found = (_VENDOR_LINE.match(line.strip()) for line in text.splitlines())
    return [match[2].strip() for match in found if match and match[1] == kind and match[2].strip()]


def profiled_ids(text: str) -> list[str]:
    """IDs of the kernels that ncu says it profiled, in order; empty where it does not say."""
    found = (_PROFILING.match(line) for line in vendor_lines(text, "PROF"))
    return list(dict.fromkeys(match[1] for match in found if match))


def _csv_lines(text: str) -> list[tuple[int, list[str]]]:
    """The header and everything behind it that is CSV, with line numbers."""
    lines = text.lstrip("\ufeff").splitlines()
    head = next((at for at, line in enumerate(lines) if _is_header(line)), None)
    if head is None:
        warnings = vendor_lines(text, "WARNING")
        raise CounterError(" ".join(warnings) or 'no CSV header ("ID", "Kernel Name") in what ncu printed')
    is_quoted = lines[head].lstrip().startswith('"')
    found = []
    for at, line in enumerate(lines[head:], start=head + 1):
        if not line.strip() or _VENDOR_LINE.match(line) or (is_quoted and not line.startswith('"')):
            continue
        if at > head + 1 and _is_header(line):
            raise CounterError(f"line {at}: a second header: one file holds one ncu run")
        try:
            (cells,) = csv.reader([line], strict=True)
        except csv.Error as error:
            raise CounterError(f"line {at}: the file is cut off or damaged here ({error})") from error
        found.append((at, cells))
    _check_shape(found, is_whole=is_quoted or text.endswith(("\n", "\r")))
    return found


def _check_shape(found: Sequence[tuple[int, list[str]]], is_whole: bool) -> None:
    width = len(found[0][1])
    for at, cells in found:
        if len(cells) != width:
            raise CounterError(f"line {at}: the file is cut off or damaged here: {len(cells)} cells of {width}")
    if not is_whole:  # without quotes, half of a number is a number
        raise CounterError(f"line {found[-1][0]}: the file is cut off: its last line, without quotes, has no end")


def _is_header(line: str) -> bool:
    cells = [cell.strip().strip('"') for cell in line.split(",")]
    return cells[0] == "ID" and "Kernel Name" in cells
