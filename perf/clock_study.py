"""Experiments with the bench's clock on a GPU: what the flush does to a time, and how the clock agrees with another.

--study=flush times calls that read and write in several shares, of 1 to 200 MB, after each kind of flush and in
rotation over many buffers, which is what a flush ought to give. --study=replay compares device-busy times with those of
CUDA graph replays on the rows with the most FLOPs for each byte. Prints CSV. docs/measuring.md says what follows from
it.
"""

from __future__ import annotations

import csv
import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import IO, Any

from absl import app, flags

from tileops.tools.cli import command, output

_STUDY = flags.DEFINE_enum("study", None, ["flush", "replay"], "Which experiment.")
_DEVICE = flags.DEFINE_string("device", "cuda:0", "cuda:N.")
_SIZES_MB = flags.DEFINE_list(
    "sizes_mb",
    ["1", "2", "5", "10", "20", "30", "40", "50", "60", "80", "100", "150", "200"],
    "flush: what a call reads and writes together, in 1e6 bytes.",
)
_ROWS = flags.DEFINE_integer("rows", 10, "replay: number of rows.", lower_bound=1)
_IMPLEMENTATION = flags.DEFINE_string("implementation", "torch", "replay: which implementation of them.")
_OUT = flags.DEFINE_string("out", None, "CSV file to write. Default: stdout.")


def main(argv: Sequence[str]) -> int:
    """Run the experiment; returns the exit status."""
    del argv
    if _STUDY.value is None:
        raise app.UsageError("--study=flush or --study=replay is wanted")
    try:
        sizes = [float(size) for size in _SIZES_MB.value]
    except ValueError as error:
        raise app.UsageError(f"--sizes_mb: {error}") from error
    if min(sizes) <= 0:
        raise app.UsageError(f"--sizes_mb={min(sizes):g}: a size is above 0")
    if not re.fullmatch(r"cuda(:\d+)?", _DEVICE.value):
        raise app.UsageError(f"--device={_DEVICE.value}: cuda or cuda:N is wanted: the experiments need a GPU")

    import torch  # after the flags are checked: it takes seconds

    from tileops.perf.harness import catalogue, records
    from tileops.perf.study import flush, replay

    device = torch.device(_DEVICE.value)
    if device.type != "cuda" or not torch.cuda.is_available():
        raise app.UsageError(f"--device={_DEVICE.value}: the experiments need a GPU, and torch sees none of that name")
    if _STUDY.value == "flush":
        found: list[Any] = list(flush.readings(device, sizes))
    else:
        cases = records.all_cases(catalogue.load(catalogue.Sources()))
        chosen = replay.compute_heavy(cases, _ROWS.value)
        found = list(replay.readings(chosen, _IMPLEMENTATION.value, device))
    try:
        output.write(_OUT.value, lambda out: write_csv(found, out))
    except output.OutputError as error:
        raise app.UsageError(str(error)) from error
    return command.EXIT_OK


def write_csv(found: Iterable[Any], out: IO[str]) -> None:
    """Write readings of one kind, a line each, with a header; a ratio, where they have one, is the last column."""
    writer = csv.writer(out, lineterminator="\n")
    for at, reading in enumerate(found):
        cells = dataclasses.asdict(reading)
        if hasattr(reading, "ratio"):
            cells["ratio"] = reading.ratio
        if at == 0:
            writer.writerow(cells)
        writer.writerow(f"{cell:.6g}" if isinstance(cell, float) else cell for cell in cells.values())


if __name__ == "__main__":
    command.run(main)
