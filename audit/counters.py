"""DRAM counters of a call, from what Nsight Compute printed as CSV.

Both of its pages are read: `--page raw` (a line a kernel, a column a metric, units in a line of their own) and the
default, `--page details` (a line a metric). Lines that are not CSV (`==PROF==`, what the program printed) are passed
over; a file that ends early, or holds a kernel without its counters, is refused rather than summed.
"""

from __future__ import annotations

import csv
import dataclasses
import re
from collections.abc import Iterable, Sequence

from tileops.audit import quantities

READ_METRIC = "dram__bytes_read.sum"
WRITE_METRIC = "dram__bytes_write.sum"
METRICS = (READ_METRIC, WRITE_METRIC)

# The NVTX range around the audited call; in it the columns of ranges name what belongs to the call.
RANGE_NAME = "tileops-audit-call"
_RANGE_COLUMN = re.compile(r"(Push/Pop|Start/Stop)_Range")
# How the vendor's own lines start: "==PROF== Connected", "==ERROR== ...".
_VENDOR_LINE = re.compile(r"==(\w+)== ?(.*)")


class CounterError(Exception):
    """The counters cannot be used; the message says why, and where in the file."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counters:
    """What the kernels of one call moved.

    Attributes:
      read_bytes, write_bytes: sums over them. Bytes.
      kernels: their names, in order.
      outside: how many kernels were profiled outside the call's range, and left out.
    """

    read_bytes: int
    write_bytes: int
    kernels: tuple[str, ...]
    outside: int = 0


@dataclasses.dataclass
class _Kernel:
    """A kernel's lines as they are collected: metric -> (text, unit, line number)."""

    name: str
    is_inside: bool
    line: int
    found: dict[str, tuple[str, str, int]] = dataclasses.field(default_factory=dict)


def parse(text: str) -> Counters:
    """Sum the counters of the call's kernels.

    Where the file tells ranges (`ncu --nvtx`) and the audit's range is among them, kernels outside it are left out;
    otherwise every kernel of the file is the call's.

    Raises:
      CounterError: no kernel, no such metric, a damaged or truncated file, or the vendor's error in its place.
    """
    lines = _csv_lines(text)
    kernels = _kernels(lines)
    if not kernels:
        raise CounterError("no kernel was profiled")
    has_range = any(kernel.is_inside for kernel in kernels.values())
    inside = [kernel for kernel in kernels.values() if kernel.is_inside or not has_range]
    mark = quantities.decimal_mark(number for kernel in kernels.values() for number, _, _ in kernel.found.values())
    return Counters(
        read_bytes=sum(_bytes(kernel, READ_METRIC, mark) for kernel in inside),
        write_bytes=sum(_bytes(kernel, WRITE_METRIC, mark) for kernel in inside),
        kernels=tuple(kernel.name for kernel in inside),
        outside=len(kernels) - len(inside),
    )


def vendor_lines(text: str, kind: str) -> list[str]:
    """What ncu says of itself: the lines of a kind, "ERROR" or "WARNING" for example, without their mark."""
    found = (_VENDOR_LINE.match(line.strip()) for line in text.splitlines())
    return [match[2].strip() for match in found if match and match[1] == kind and match[2].strip()]


def _csv_lines(text: str) -> list[tuple[int, list[str]]]:
    """The header and everything behind it that is CSV, with line numbers."""
    lines = text.lstrip("\ufeff").splitlines()
    head = next((at for at, line in enumerate(lines) if _is_header(line)), None)
    if head is None:
        errors = vendor_lines(text, "ERROR") or vendor_lines(text, "WARNING")
        raise CounterError(" ".join(errors) if errors else 'no CSV header ("ID", "Kernel Name") in what ncu printed')
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
    width = len(found[0][1])
    for at, cells in found:
        if len(cells) != width:
            raise CounterError(f"line {at}: the file is cut off or damaged here: {len(cells)} cells of {width}")
    return found


def _is_header(line: str) -> bool:
    cells = [cell.strip().strip('"') for cell in line.split(",")]
    return cells[0] == "ID" and "Kernel Name" in cells


def _kernels(lines: Sequence[tuple[int, list[str]]]) -> dict[tuple[str, str], _Kernel]:
    """Kernels by (process, ID), in order of appearance."""
    names = lines[0][1]
    ranges = [at for at, name in enumerate(names) if _RANGE_COLUMN.search(name)]
    rows = [(at, dict(zip(names, cells, strict=True)), [cells[column] for column in ranges]) for at, cells in lines[1:]]
    kernels: dict[tuple[str, str], _Kernel] = {}
    units: dict[str, str] = {}
    for at, row, in_ranges in rows:
        if not row["ID"]:  # the raw page's line of units
            units = row
            continue
        key = row.get("Process ID", ""), row["ID"]
        is_inside = any(RANGE_NAME in cell for cell in in_ranges)
        kernel = kernels.setdefault(key, _Kernel(name=row["Kernel Name"], is_inside=is_inside, line=at))
        for metric, number, unit in _readings(row, units):
            before = kernel.found.setdefault(metric, (number, unit, at))
            # A replayed kernel may be printed a pass; what it moved is one and the same.
            if before[:2] != (number, unit):
                raise CounterError(
                    f"line {at}: kernel {row['ID']} has {metric} {number} {unit} here and {before[0]} {before[1]} on line"
                    f" {before[2]}"
                )
    return kernels


def _readings(row: dict[str, str], units: dict[str, str]) -> Iterable[tuple[str, str, str]]:
    """(metric, number, unit) of the audit's metrics on one line."""
    if "Metric Name" in row:
        if row["Metric Name"] in METRICS:
            yield row["Metric Name"], row.get("Metric Value", ""), row.get("Metric Unit", "")
        return
    for metric in METRICS:
        if metric in row:
            yield metric, row[metric], units.get(metric, "")


def _bytes(kernel: _Kernel, metric: str, mark: str) -> int:
    if metric not in kernel.found:
        raise CounterError(
            f"line {kernel.line}: kernel {kernel.name} has no {metric}: the file is cut off, or was made without"
            f" --metrics {','.join(METRICS)}"
        )
    number, unit, line = kernel.found[metric]
    try:
        return quantities.parse_bytes(number, unit, mark)
    except quantities.NumberError as error:
        raise CounterError(f"line {line}: {metric} of kernel {kernel.name}: {error}") from error
