"""The CSV that Nsight Compute (ncu) prints, and what ncu says of itself between its lines.

Lines that are not CSV (`==PROF==`, output of the program) are skipped. A file that ends within a line is an error.
"""

from __future__ import annotations

import collections
import csv
import re

# Lines of ncu's own begin so: "==PROF== Connected", "==ERROR== ...".
_VENDOR_LINE = re.compile(r"==(\w+)== ?(.*)")
# ncu prints this per kernel: 'Profiling "copy_kernel" - 0: 0%....50%....100% - 2 passes'. The number is the CSV's ID.
_PROFILING = re.compile(r'Profiling ".*" - (\d+)\b')


class CounterError(Exception):
    """The counters cannot be used; the message says why, and where in the file."""


def read(text: str) -> tuple[list[tuple[int, dict[str, str]]], dict[str, str]]:
    """Returns the CSV of a file.

    Returns:
      The lines of kernels, each as its number in the file (from 1) and its cells by column; and the units by column if
      the page has a line of units.

    Raises:
      CounterError: there is no CSV, it is damaged or cut off, two columns have one name, or ncu reports that the run
        failed: what ncu printed before the failure does not cover the whole call.
    """
    if errors := vendor_lines(text, "ERROR"):
        raise CounterError("; ".join(errors))
    (header, columns), *numbered = _csv_lines(text)
    if twice := [name for name, count in collections.Counter(columns).items() if count > 1]:
        raise CounterError(f"line {header}: two columns are named {twice[0]}, and only one of them can count")
    units: dict[str, str] = {}
    lines = []
    for number, cells in numbered:
        row = dict(zip(columns, cells, strict=True))
        if row["ID"]:
            lines.append((number, row))
        else:  # the line of units on the raw page
            units = row
    return lines, units


def vendor_lines(text: str, kind: str) -> list[str]:
    """Returns ncu's own lines of one kind, such as "ERROR" or "WARNING", without their mark."""
    found = (_VENDOR_LINE.match(line.strip()) for line in text.splitlines())
    return [match[2].strip() for match in found if match and match[1] == kind and match[2].strip()]


def profiled_ids(text: str) -> list[str]:
    """Returns the IDs of the kernels that ncu says it profiled, in order; empty if it does not say."""
    found = (_PROFILING.match(line) for line in vendor_lines(text, "PROF"))
    return list(dict.fromkeys(match[1] for match in found if match))


def _csv_lines(text: str) -> list[tuple[int, list[str]]]:
    """Returns the header and all CSV lines behind it, with line numbers."""
    lines = text.lstrip("\ufeff").splitlines()
    head = next((at for at, line in enumerate(lines) if _is_header(line)), None)
    if head is None:
        warnings = vendor_lines(text, "WARNING")
        raise CounterError(" ".join(warnings) or 'no CSV header ("ID", "Kernel Name") in what ncu printed')
    is_quoted = lines[head].lstrip().startswith('"')
    found: list[tuple[int, list[str]]] = []
    for at, line in enumerate(lines[head:], start=head + 1):
        if not line.strip() or _VENDOR_LINE.match(line) or (is_quoted and not line.startswith('"')):
            continue
        if at > head + 1 and _is_header(line):
            raise CounterError(f"line {at}: a second header: one file holds one ncu run")
        try:
            (cells,) = csv.reader([line], strict=True)
        except csv.Error as error:
            raise CounterError(f"line {at}: the file is cut off or damaged here ({error})") from error
        if found and len(cells) != len(found[0][1]):
            width = len(found[0][1])
            raise CounterError(f"line {at}: the file is cut off or damaged here: {len(cells)} cells of {width}")
        found.append((at, cells))
    if not is_quoted and not text.endswith(("\n", "\r")):  # without quotes, half of a number is a number
        raise CounterError(f"line {found[-1][0]}: the file is cut off: its last line, without quotes, has no end")
    return found


def _is_header(line: str) -> bool:
    cells = [cell.strip().strip('"') for cell in line.split(",")]
    return cells[0] == "ID" and "Kernel Name" in cells
