"""DRAM counters of one call, read from the CSV of Nsight Compute (ncu).

The module reads both CSV pages: `--page raw` has one line per kernel and one column per metric, with the units in a
line of their own; `--page details`, ncu's default, has one line per metric. Counts must be in base units, bytes. A file
that does not hold the whole call is an error.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from tileops.audit import ncu_csv
from tileops.audit.ncu_csv import CounterError

READ_METRIC = "dram__bytes_read.sum"
WRITE_METRIC = "dram__bytes_write.sum"
METRICS = (READ_METRIC, WRITE_METRIC)

# The NVTX range around the audited call. The columns of ranges name it for every kernel of the call.
RANGE_NAME = "tileops-audit-call"
_RANGE_COLUMN = re.compile(r"(Push/Pop|Start/Stop)_Range")
# A cell lists the ranges around a kernel as "domain:name:...". Another range's name may begin or end like ours.
_IN_RANGE = re.compile(rf'(?:^|:){RANGE_NAME}(?=[:"]|\s*$)')
# Two launches of one kernel differ in these columns.
_LAUNCH = ("Kernel Name", "Block Size", "Grid Size")
# A whole number, whose digits a locale may group by three. Bytes have no fraction, so that every sign separates groups.
_COUNT = re.compile(r"[0-9]+|[1-9][0-9]{0,2}(?P<sign>[,. \u00a0\u2009\u202f'\u2019])[0-9]{3}(?:(?P=sign)[0-9]{3})*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counters:
    """What the kernels of one call moved.

    Attributes:
      read_bytes: the sum of their reads. Bytes.
      write_bytes: the sum of their writes. Bytes; None if the file has no writes, which no verdict needs.
      kernels: their names, in order.
      outside: how many kernels ncu profiled outside the call's range. They do not count.
      repeats: how often the same sequence of launches makes up the file: 2 for two equal calls. One call may also
        launch its kernels twice, which only the program that made the call can know.
    """

    read_bytes: int
    write_bytes: int | None
    kernels: tuple[str, ...]
    outside: int = 0
    repeats: int = 1


@dataclasses.dataclass
class _Kernel:
    """One kernel. `found` has (number, unit, line of the file) per metric."""

    identifier: str
    launch: tuple[str, ...]
    ranges: tuple[str, ...]
    line: int
    found: dict[str, tuple[str, str, int]] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.launch[0]

    def bytes(self, metric: str) -> int:
        """Returns the value of a metric. Raises CounterError if it is missing or no number of bytes."""
        if metric not in self.found:
            raise CounterError(
                f"line {self.line}: kernel {self.name} has no {metric}: the file is cut off, or was made without"
                f" --metrics {','.join(METRICS)}"
            )
        text, unit, line = self.found[metric]
        place = f"line {line}: {metric} of kernel {self.name}"
        if unit.strip() != "byte":
            raise CounterError(
                f"{place}: the unit is {unit!r}, and the audit reads bytes only: run ncu with --print-units base"
            )
        if not _COUNT.fullmatch(text.strip()):
            raise CounterError(f"{place}: {text!r} is no number of bytes")
        return int(re.sub("[^0-9]", "", text))


def parse(text: str) -> Counters:
    """Returns the sums of the counters over the call's kernels.

    If the file has NVTX ranges (`ncu --nvtx`), only kernels in the audit's range count. Otherwise all kernels count.

    Raises:
      CounterError: the file has no kernel, lacks reads, has writes of some kernels only, is damaged or cut off, is not in
        bytes, has ranges but not the audit's, or reports an error of ncu.
    """
    kernels = _kernels(*ncu_csv.read(text))
    if not kernels:
        raise CounterError("no kernel was profiled")
    _check_whole(text, kernels)
    inside = _of_the_call(kernels)
    has_writes = any(WRITE_METRIC in kernel.found for kernel in kernels)
    return Counters(
        read_bytes=sum(kernel.bytes(READ_METRIC) for kernel in inside),
        write_bytes=sum(kernel.bytes(WRITE_METRIC) for kernel in inside) if has_writes else None,
        kernels=tuple(kernel.name for kernel in inside),
        outside=len(kernels) - len(inside),
        repeats=_repeats([kernel.launch for kernel in inside]),
    )


def _of_the_call(kernels: list[_Kernel]) -> list[_Kernel]:
    inside = [kernel for kernel in kernels if any(map(_IN_RANGE.search, kernel.ranges))]
    if inside:
        return inside
    others = dict.fromkeys(cell.strip() for kernel in kernels for cell in kernel.ranges if cell.strip())
    if others:
        raise CounterError(
            f"the file has NVTX ranges, but no kernel is in {RANGE_NAME!r}, so the call's kernels are unknown (ranges:"
            f" {', '.join(list(others)[:3])})"
        )
    return kernels


def _check_whole(text: str, kernels: Sequence[_Kernel]) -> None:
    """Raises CounterError if a kernel is missing that ncu says it profiled."""
    here = {kernel.identifier for kernel in kernels}
    profiled = ncu_csv.profiled_ids(text)
    if missing := [one for one in profiled if one not in here]:
        raise CounterError(
            f"the file is cut off: ncu says that it profiled {len(profiled)} kernels, and ID {', '.join(missing)} is not"
            " here"
        )


def _repeats(launches: Sequence[tuple[str, ...]]) -> int:
    """Returns how often the shortest sequence is repeated that makes up all launches."""
    count = len(launches)
    periods = (size for size in range(1, count + 1) if count % size == 0)
    return next(count // size for size in periods if launches[size:] == launches[: count - size])


def _kernels(lines: Sequence[tuple[int, dict[str, str]]], units: dict[str, str]) -> list[_Kernel]:
    """Returns the kernels by process and ID, in order of appearance."""
    kernels: dict[tuple[str, str], _Kernel] = {}
    for number, cells in lines:
        launch = tuple(cells.get(column, "") for column in _LAUNCH)
        ranges = tuple(cell for column, cell in cells.items() if _RANGE_COLUMN.search(column))
        new = _Kernel(identifier=cells["ID"], launch=launch, ranges=ranges, line=number)
        kernel = kernels.setdefault((cells.get("Process ID", ""), new.identifier), new)
        if kernel.launch != launch:
            raise CounterError(
                f"line {number}: ID {cells['ID']} is {' '.join(launch)} here and {' '.join(kernel.launch)} on line"
                f" {kernel.line}: the file is damaged, or of two ncu runs"
            )
        if "Metric Name" in cells:
            found = {cells["Metric Name"]: (cells.get("Metric Value", ""), cells.get("Metric Unit", ""))}
        else:
            found = {metric: (cells[metric], units.get(metric, "")) for metric in METRICS if metric in cells}
        for metric in found.keys() & set(METRICS):
            text, unit = found[metric]
            before = kernel.found.setdefault(metric, (text, unit, number))
            # ncu may print a replayed kernel once per pass, each time with the same numbers.
            if before[:2] != (text, unit):
                raise CounterError(
                    f"line {number}: kernel {kernel.identifier} has {metric} {text} {unit} here and {before[0]}"
                    f" {before[1]} on line {before[2]}"
                )
    return list(kernels.values())
