"""DRAM counters of a call, from what Nsight Compute printed as CSV.

Both of its pages are read: `--page raw` (a line a kernel, a column a metric, units in a line of their own) and the
default, `--page details` (a line a metric). What is no measurement of the whole call is refused rather than summed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from tileops.audit import ncu_csv, quantities
from tileops.audit.ncu_csv import CounterError

READ_METRIC = "dram__bytes_read.sum"
WRITE_METRIC = "dram__bytes_write.sum"
METRICS = (READ_METRIC, WRITE_METRIC)

# The NVTX range around the audited call; in it the columns of ranges name what belongs to the call.
RANGE_NAME = "tileops-audit-call"
_RANGE_COLUMN = re.compile(r"(Push/Pop|Start/Stop)_Range")
# A cell has the ranges around a kernel, each as "domain:name:..."; another range's name may begin or end like ours.
_IN_RANGE = re.compile(rf'(?:^|:){RANGE_NAME}(?=[:"]|\s*$)')
# What tells a launch of a kernel from others of it.
_LAUNCH = ("Kernel Name", "Block Size", "Grid Size")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counters:
    """What the kernels of one call moved.

    Attributes:
      read_bytes: what they read, together. Bytes.
      write_bytes: what they wrote, together. Bytes; None if the file counts no writes, which no verdict needs.
      kernels: their names, in order.
      outside: how many kernels were profiled outside the call's range, and left out.
      repeats: how often the same launches follow one another, all of them, in one order: 2 for two calls. A call may
        also launch its kernels twice, so only who made it can tell.
    """

    read_bytes: int
    write_bytes: int | None
    kernels: tuple[str, ...]
    outside: int = 0
    repeats: int = 1


@dataclasses.dataclass
class _Kernel:
    """A kernel's lines as they are collected: metric -> the number and its line."""

    identifier: str
    launch: tuple[str, ...]
    ranges: tuple[str, ...]
    line: int
    found: dict[str, tuple[quantities.Printed, int]] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.launch[0]

    @property
    def is_inside(self) -> bool:
        return any(_IN_RANGE.search(cell) for cell in self.ranges)


def parse(text: str) -> Counters:
    """Sum the counters of the call's kernels.

    Where the file tells ranges (`ncu --nvtx`), kernels outside the audit's range are left out; where it tells none,
    every kernel of the file is the call's.

    Raises:
      CounterError: no kernel, no metric of reads, writes of some kernels alone, a damaged or truncated file, ranges
        of which none is the audit's, or the vendor's error.
    """
    kernels = _kernels(ncu_csv.read(text))
    if not kernels:
        raise CounterError("no kernel was profiled")
    _check_whole(text, kernels)
    inside = _of_the_call(kernels)
    counted = [
        metric for metric in METRICS if metric == READ_METRIC or any(metric in kernel.found for kernel in kernels)
    ]
    wanted = [_printed(kernel, metric) for metric in counted for kernel in inside]
    lines = {kernel.line for kernel in inside}
    others = [printed for kernel in kernels if kernel.line not in lines for printed, _ in kernel.found.values()]
    try:
        values = quantities.parse_all(wanted, others)
    except quantities.NumberError as error:
        raise CounterError(str(error)) from error
    return Counters(
        read_bytes=sum(values[: len(inside)]),
        write_bytes=sum(values[len(inside) :]) if WRITE_METRIC in counted else None,
        kernels=tuple(kernel.name for kernel in inside),
        outside=len(kernels) - len(inside),
        repeats=_repeats([kernel.launch for kernel in inside]),
    )


def _of_the_call(kernels: Sequence[_Kernel]) -> list[_Kernel]:
    inside = [kernel for kernel in kernels if kernel.is_inside]
    if inside:
        return inside
    others = dict.fromkeys(cell.strip() for kernel in kernels for cell in kernel.ranges if cell.strip())
    if others:
        raise CounterError(
            f"the file tells NVTX ranges, and no kernel is in {RANGE_NAME!r}: which kernels are the call's is not known"
            f" (there are {', '.join(list(others)[:3])})"
        )
    return list(kernels)


def _check_whole(text: str, kernels: Sequence[_Kernel]) -> None:
    """Refuses a file that lacks kernels of which ncu says that it profiled them."""
    here = {kernel.identifier for kernel in kernels}
    profiled = ncu_csv.profiled_ids(text)
    if missing := [one for one in profiled if one not in here]:
        raise CounterError(
            f"the file is cut off: ncu says that it profiled {len(profiled)} kernels, and ID {', '.join(missing)} is not"
            " here"
        )


def _repeats(launches: Sequence[tuple[str, ...]]) -> int:
    """How often the shortest sequence stands here that, repeated, makes all of them."""
    count = len(launches)
    periods = (size for size in range(1, count + 1) if count % size == 0)
    return next(count // size for size in periods if launches[size:] == launches[: count - size])


def _kernels(table: ncu_csv.Table) -> list[_Kernel]:
    """Kernels by process and ID, in order of appearance."""
    ranges = [name for name in table.columns if _RANGE_COLUMN.search(name)]
    kernels: dict[tuple[str, str], _Kernel] = {}
    for line in table.lines:
        cells = line.cells
        launch = tuple(cells.get(column, "") for column in _LAUNCH)
        new = _Kernel(
            identifier=cells["ID"], launch=launch, ranges=tuple(cells[name] for name in ranges), line=line.number
        )
        kernel = kernels.setdefault((cells.get("Process ID", ""), new.identifier), new)
        if kernel.launch != launch:
            raise CounterError(
                f"line {line.number}: ID {cells['ID']} is {' '.join(launch)} here and {' '.join(kernel.launch)} on line"
                f" {kernel.line}: the file is damaged, or of two ncu runs"
            )
        _collect(kernel, line, table.units)
    return list(kernels.values())


def _collect(kernel: _Kernel, line: ncu_csv.Line, units: dict[str, str]) -> None:
    """Adds the audit's metrics on one line to what is known of a kernel."""
    cells = line.cells
    if "Metric Name" in cells:
        metric = cells["Metric Name"]
        readings = [(metric, cells.get("Metric Value", ""), cells.get("Metric Unit", ""))] if metric in METRICS else []
    else:
        readings = [(metric, cells[metric], units.get(metric, "")) for metric in METRICS if metric in cells]
    for metric, text, unit in readings:
        place = f"line {line.number}: {metric} of kernel {kernel.name}"
        before, at = kernel.found.setdefault(
            metric, (quantities.Printed(text=text, unit=unit, place=place), line.number)
        )
        # A replayed kernel may be printed a pass; what it moved is one and the same.
        if (before.text, before.unit) != (text, unit):
            raise CounterError(
                f"line {line.number}: kernel {kernel.identifier} has {metric} {text} {unit} here and {before.text}"
                f" {before.unit} on line {at}"
            )


def _printed(kernel: _Kernel, metric: str) -> quantities.Printed:
    if metric not in kernel.found:
        raise CounterError(
            f"line {kernel.line}: kernel {kernel.name} has no {metric}: the file is cut off, or was made without"
            f" --metrics {','.join(METRICS)}"
        )
    return kernel.found[metric][0]
