"""Runs an experiment with the bench's clock on a GPU and writes CSV.

--study=flush times calls that move 1 to 200 MB, after each kind of flush and in rotation over many buffers. A good flush
gives the same time as rotation. --study=replay compares device-busy times with CUDA graph replays, on the rows with the
most FLOPs per byte. docs/measuring.md says what follows from the results.

Exit status: 0 if the experiment was made, 2 if a flag is wrong or there is no GPU.
"""

from __future__ import annotations

import csv
import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import IO, Any

from absl import flags

from tileops.tools.cli import command, errors, gpu_driver, output

_STUDY = flags.DEFINE_enum("study", None, ["flush", "replay"], "The experiment.")
_DEVICE = flags.DEFINE_string("device", "cuda:0", "The GPU: cuda or cuda:N.")
_SIZES_MB = flags.DEFINE_list(
    "sizes_mb",
    ["1", "2", "5", "10", "20", "30", "40", "50", "60", "80", "100", "150", "200"],
    "With --study=flush: how many 1e6 bytes a call reads and writes in total.",
)
_ROWS = flags.DEFINE_integer("rows", 10, "With --study=replay: number of rows.", lower_bound=1)
_IMPLEMENTATION = flags.DEFINE_string("implementation", "torch", "With --study=replay: name of the implementation.")
_OUT = flags.DEFINE_string("out", None, "CSV file to write. Default: stdout.")


def main(argv: Sequence[str]) -> int:
    """Runs the experiment; returns the exit status."""
    del argv
    if _STUDY.value is None:
        raise errors.UserError("--study is required: flush or replay")
    try:
        sizes = [float(size) for size in _SIZES_MB.value]
    except ValueError as error:
        raise errors.UserError(f"--sizes_mb: {error}") from error
    if min(sizes) <= 0:
        raise errors.UserError(f"--sizes_mb={min(sizes):g}: a size must be above 0")
    if not re.fullmatch(r"cuda(:\d+)?", _DEVICE.value):
        raise errors.UserError(f"--device={_DEVICE.value}: the experiments need a GPU; write cuda or cuda:N")
    output.check(_OUT.value, ("clock_study", output.form(_OUT.value, None, {".csv": "csv"}, "csv", flag="")))
    no_gpu = errors.UserError(
        f"--device={_DEVICE.value}: the experiments need a GPU, and torch finds no GPU of this name here"
    )
    if not gpu_driver.is_present():
        raise no_gpu

    import torch  # after the flags are checked: it takes seconds

    from tileops.perf.harness import catalogue, records
    from tileops.perf.study import flush, replay

    device = torch.device(_DEVICE.value)
    if not torch.cuda.is_available():
        raise no_gpu
    if _STUDY.value == "flush":
        found: list[Any] = list(flush.readings(device, sizes))
    else:
        cases = records.all_cases(catalogue.load(catalogue.Sources()))
        chosen = replay.compute_heavy(cases, _ROWS.value)
        found = list(replay.readings(chosen, _IMPLEMENTATION.value, device))
    output.write(_OUT.value, lambda out: write_csv(found, out))
    return command.EXIT_OK


def write_csv(found: Iterable[Any], out: IO[str]) -> None:
    """Writes readings of one kind as CSV, one per line. A reading's ratio, if it has one, is the last column."""
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
