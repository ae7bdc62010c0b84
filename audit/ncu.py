"""Runs Nsight Compute (ncu): its command line, one run, and what the user can do about its failures."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from tileops.audit import counters, ncu_csv

# A failure's message quotes the end of the program's output, which has the exception. Characters.
_TAIL = 400

# Signs of a failure in the output of ncu or the program, and what to do about it.
_REMEDIES = (
    (
        re.compile("ERR_NVGPUCTRPERM"),
        "only administrators may read counters here: run as root, or load the driver with"
        " NVreg_RestrictProfilingToAdminUsers=0; a container needs --cap-add=SYS_ADMIN",
    ),
    (
        re.compile("LibraryNotLoaded|Failed to initialize the profiler|ERR_NVGPUCTR"),
        "the driver's profiling library does not work here: sandboxed containers (gVisor) and some virtual machines"
        " hide it; run on the host or under a runtime that passes the GPU through",
    ),
    (
        re.compile("(?i)driver resource.*unavailable|another (tool|profiler)|ERR_NVGPUCTRBUSY"),
        "another profiler holds the counters: stop it (DCGM: dcgmi profiling --pause) and run again",
    ),
    (
        re.compile("(?i)No NVIDIA driver|no CUDA-capable device|CUDA_ERROR_NO_DEVICE|Found no NVIDIA driver"),
        "this machine has no GPU: run on a GPU machine with --save_csv, and judge the file here with --from_csv",
    ),
    (re.compile("(?i)out of memory"), "the row does not fit this GPU: choose other rows with --op and --label"),
)


class NcuError(Exception):
    """There is no usable measurement; the message has ncu's own words and what to do."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """An installed ncu.

    Attributes:
      path: the executable.
      version: as ncu prints it; "" if it prints none.
    """

    path: str
    version: str


def find(name: str) -> Program:
    """Returns the ncu of a name or path.

    Raises:
      NcuError: there is no such program, or it does not start.
    """
    path = shutil.which(name)
    if path is None:
        if pathlib.Path(name).exists() and os.sep in name:
            raise NcuError(f"--ncu={name}: the file is no executable: name Nsight Compute's ncu")
        raise NcuError(
            f"{name}: no such program: install NVIDIA Nsight Compute (it comes with the CUDA toolkit), or name its ncu"
            " with --ncu"
        )
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NcuError(f"{path}: does not start: {error}") from error
    version = re.search(r"Version (\S+)", done.stdout)
    return Program(path=path, version=version[1] if version else "")


def command_line(program: Program, log: pathlib.Path, target: Sequence[str]) -> list[str]:
    """Returns the command that profiles what `target` marks, from cold caches and at the clocks as they are."""
    options = (
        "--csv --page raw --print-units base --profile-from-start off --nvtx --replay-mode kernel --cache-control all"
        " --clock-control none --target-processes application-only"
    )
    return [program.path, *options.split(), "--metrics", ",".join(counters.METRICS), "--log-file", str(log), *target]


def profile(program: Program, arguments: Sequence[str], timeout_s: float) -> tuple[str, dict[str, Any]]:
    """Runs one call under ncu in a child process.

    Args:
      program: the ncu to use.
      arguments: flags of profiled_call, without --facts.
      timeout_s: time limit. Seconds.

    Returns:
      ncu's CSV with its other lines, and the facts that profiled_call.run wrote.

    Raises:
      NcuError: the program failed, was not profiled, or took too long.
    """
    with tempfile.TemporaryDirectory(prefix="tileops-audit-") as folder:
        log, facts = pathlib.Path(folder, "ncu.csv"), pathlib.Path(folder, "facts.json")
        status, output = _run(command_line(program, log, _target(arguments, facts)), timeout_s)
        csv = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if status == 0 and not facts.exists() and not csv and not output.strip():
            raise NcuError(
                f"{program.path} printed nothing and did not run the call: is it Nsight Compute's ncu (--ncu)?"
            )
        if status != 0 or not facts.exists():
            raise NcuError(explain(csv, output, status))
        return csv, json.loads(facts.read_text(encoding="utf-8"))


def copies(arguments: Sequence[str], timeout_s: float) -> list[str]:
    """Returns the names of the driver's copies out of device memory that a call makes. They are no kernels: ncu does
    not count them.

    Args:
      arguments, timeout_s: as for `profile`.

    Raises:
      NcuError: the program failed or took too long.
    """
    with tempfile.TemporaryDirectory(prefix="tileops-audit-") as folder:
        facts = pathlib.Path(folder, "facts.json")
        status, output = _run([*_target(arguments, facts), "--list_copies"], timeout_s)
        if status != 0 or not facts.exists():
            raise NcuError(f"without ncu, {explain('', output, status)}")
        return json.loads(facts.read_text(encoding="utf-8"))["copies"]


def _target(arguments: Sequence[str], facts: pathlib.Path) -> list[str]:
    return [sys.executable, "-P", "-m", "tileops.audit.profiled_call", *arguments, f"--facts={facts}"]


def explain(log: str, output: str, status: int) -> str:
    """Returns why a run gave no measurement, in ncu's words, and what to do about it."""
    errors = ncu_csv.vendor_lines(log, "ERROR") or ncu_csv.vendor_lines(output, "ERROR")
    own = "\n".join(line for line in output.splitlines() if not line.startswith("==")).strip()
    parts = list(dict.fromkeys(errors))
    if own:
        parts.append(f"the program's output ends: {' '.join(own[-_TAIL:].split())}")
    said = "; ".join(parts) or f"no message; status {status}"
    return f"{said}{remedy(f'{log} {output}')}"


def remedy(text: str) -> str:
    """Returns what to do about the failure in a text, as the end of a sentence; "" if the failure is unknown."""
    return next((f". To do: {what}" for sign, what in _REMEDIES if sign.search(text)), "")


def _run(command: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Returns status and output of a command. The command and all its children end before this function returns."""
    # The child imports what this process can import; numbers are printed in one locale.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "LC_ALL": "C"}
    # A process group of its own: only the audit hears Ctrl-C, and a kill reaches ncu's child too.
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise NcuError(f"the row took more than {timeout_s:g} s (--row_timeout_s)") from error
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return process.returncode, output
