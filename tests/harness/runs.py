"""Runs of the bench with the toy ops: how they are started, and what they leave."""

import os
import pathlib
import subprocess
import sys

from tileops.perf.runs import reader as runfile
from tileops.proto import benchmark_pb2
from tileops.tests.harness import toys

OK, SKIPPED, ERROR, TIMEOUT = (
    benchmark_pb2.STATUS_OK,
    benchmark_pb2.STATUS_SKIPPED,
    benchmark_pb2.STATUS_ERROR,
    benchmark_pb2.STATUS_TIMEOUT,
)
TOY = f"--generated_dir={toys.GENERATED}"


def plugin(name: str) -> str:
    """The flag that adds a plugin of the toy ops."""
    return f"--plugin={toys.plugin(name)}"


def start(folder: pathlib.Path, *flags: str, module: str = "tileops.perf.bench", **options) -> subprocess.Popen:
    """Start a command where the user stands in `folder`, in a process group of its own; options are of `Popen`."""
    environment = dict(os.environ, BUILD_WORKING_DIRECTORY=str(folder))
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    return subprocess.Popen(
        [sys.executable, "-m", module, *flags],
        env=environment,
        text=True,
        start_new_session=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options,
    )


def outcomes(path: pathlib.Path) -> dict[tuple[str, str], benchmark_pb2.BenchmarkRecord]:
    """Records of a run by case and implementation; the newest of each."""
    return {(found.case_id, found.implementation): found for found in runfile.read_run(path).records()}


def whole(path: pathlib.Path) -> bool:
    """Whether a run ended by itself and nothing is wrong with its file."""
    reader = runfile.read_run(path)
    list(reader)
    return reader.footer is not None and not reader.problems


def processes_below(pid: int) -> dict[int, str]:
    """Command lines of the processes that a process started, and of theirs, by id."""
    found = {}
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return found
    for child in children:
        try:
            found[int(child)] = pathlib.Path(f"/proc/{child}/cmdline").read_text()
        except OSError:
            continue  # it has just ended
        found |= processes_below(int(child))
    return found
