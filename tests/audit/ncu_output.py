"""What Nsight Compute prints, made up for tests: both pages of its CSV, and the lines around it."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from tileops.audit.counters import RANGE_NAME, READ_METRIC, WRITE_METRIC

_HEAD = [
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
]
RANGE_COLUMNS = [
    "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
]
INSIDE = f"<default domain>:{RANGE_NAME}:none:none:none:none"
PROLOGUE = (
    "==PROF== Connected to process 4711 (/usr/bin/python3.12)\n"
    '==PROF== Profiling "copy_kernel" - 0: 0%....50%....100% - 2 passes\n'
    "==PROF== Disconnected from process 4711\n"
)

Kernel = tuple[str, str, str]  # its name, bytes read and bytes written as printed


def _line(cells: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _identity(at: int, name: str, process: str) -> list[str]:
    return [str(at), process, "python3.12", "127.0.0.1", name, "1", "7", "(256, 1, 1)", "(1024, 1, 1)", "0", "9.0"]


def raw(
    kernels: Sequence[Kernel], unit: str = "byte", ranges: Sequence[str] | None = None, process: str = "4711"
) -> str:
    """The page `raw`; `ranges`, where given, has the Push/Pop range of each kernel."""
    columns = [] if ranges is None else RANGE_COLUMNS
    text = _line([*_HEAD, *columns, READ_METRIC, WRITE_METRIC])
    text += _line([""] * (len(_HEAD) + len(columns)) + [unit, unit])
    for at, (name, read, write) in enumerate(kernels):
        inside = [] if ranges is None else ["", ranges[at]]
        text += _line([*_identity(at, name, process), *inside, read, write])
    return text


def details(kernels: Sequence[Kernel], unit: str = "byte", passes: int = 1) -> str:
    """The page `details`, ncu's default: a line a metric; `passes` repeats each kernel's lines."""
    text = _line([*_HEAD, "Section Name", "Metric Name", "Metric Unit", "Metric Value"])
    for at, (name, read, write) in enumerate(kernels):
        for _ in range(passes):
            for metric, value in ((READ_METRIC, read), (WRITE_METRIC, write)):
                text += _line([*_identity(at, name, "4711"), "Command line profiler metrics", metric, unit, value])
    return text
