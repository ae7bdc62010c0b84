"""How fast //perf:roofline reads a run, and in how much memory, as the run grows.

    python -m tileops.tests.report.report_benchmark [RECORDS ...]

Each report is made by a process of its own. Times are of this machine; what
carries over is how they grow, and the memory.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from tileops.perf.runs import framing
from tileops.proto import benchmark_pb2
from tileops.tests.report import builders

_OPS = 200
_FAMILIES = 12
_IMPLEMENTATIONS = ("torch", "triton")
_DEVICE = "NVIDIA H200"


class Cost(NamedTuple):
    """What a report cost: time of the wall and of the CPU in seconds, and the largest
    resident memory in bytes."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int


def write_run(path: pathlib.Path, records: int) -> None:
    """Writes a run of that many records, no two of the same case and implementation."""
    header = builders.header(_DEVICE)
    with open(path, "wb") as file:
        file.write(framing.frame(benchmark_pb2.RunEntry(header=header)))
        for number in range(records):
            record = _record(number)
            file.write(framing.frame(benchmark_pb2.RunEntry(record=record)))
        footer = benchmark_pb2.RunFooter(records=records, ok=records)
        file.write(framing.frame(benchmark_pb2.RunEntry(footer=footer)))


def cost(run: pathlib.Path, *flags: str) -> Cost:
    """Returns what `//perf:roofline --run=run` with these flags costs.

    Raises:
      subprocess.CalledProcessError: It failed.
    """
    command = [sys.executable, "-m", "tileops.perf.roofline", f"--run={run}", *flags]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    cpu_seconds = usage.ru_utime + usage.ru_stime
    return Cost(seconds, cpu_seconds, usage.ru_maxrss * 1024)


def _record(number: int) -> benchmark_pb2.BenchmarkRecord:
    """Returns a measured record; some in each hundred are bound by latency."""
    group, op = divmod(number, _OPS)
    case, implementation = divmod(group, len(_IMPLEMENTATIONS))
    # Spread over three decades, and the same in every run.
    work = 10**6 + number * 7_919 % 1_000 * 10**5
    time_ns = work / 4.8 * (1.1 + number % 17 / 10) / 1e3 + 1_500
    record = builders.record(
        op=f"Synthetic{op:03d}FwdOp",
        family=f"family-{op % _FAMILIES}",
        case_id=f"hidden-{case}-tokens-{number % 7}-bfloat16",
        label=f"hidden-{case}",
        implementation=_IMPLEMENTATIONS[implementation],
        bytes=work,
        flops=work // (1 + number % 5),
        bindings={"M": "4096", "N": "8192"},
        dtypes={"x": "bfloat16"},
        ns=time_ns,
    )
    record.timing.device_busy_p10_ns = time_ns * 0.99
    record.timing.device_busy_p90_ns = time_ns * 1.02
    record.timing.wall_ns = time_ns + 4_000
    return record


def main(argv: list[str]) -> None:
    """Prints a line for each size and form."""
    print(f"{'records':>9} {'form':>5} {'seconds':>8} {'a second':>9} {'of CPU':>8} {'peak MiB':>9}")
    for records in [int(count) for count in argv[1:]] or [10_000, 100_000, 1_000_000]:
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder, "run.binpb")
            write_run(run, records)
            for form in ("table", "json", "csv", "html"):
                spent = cost(run, "--implementation=all", f"--format={form}", f"--out={folder}/report")
                print(
                    f"{records:>9} {form:>5} {spent.seconds:>8.2f}"
                    f" {records / spent.seconds:>9.0f}"
                    f" {records / spent.cpu_seconds:>8.0f} {spent.peak_bytes / 2**20:>9.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv)
