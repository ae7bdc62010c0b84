"""Nsight Compute as a program: its command line, a run of it, and what its failures mean for the user."""

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

# What a message of a failure keeps of the program's own output: its end, where the exception stands. Characters.
_TAIL = 400

# Signs of a failure in ncu's or the program's output, and what to do about it.
_REMEDIES = (
    (
        re.compile("ERR_NVGPUCTRPERM"),
        "counters are for administrators here: run as root, or have one load the driver with"
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
        "there is no GPU on this machine: run there, with --save_csv, and judge the file here with --from_csv",
    ),
    (re.compile("(?i)out of memory"), "the row does not fit this GPU: choose other rows with --op and --label"),
)


class NcuError(Exception):
    """No usable measurement; the message has the vendor's words and what to do."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profiled:
    """What one run of ncu gave.

    Attributes:
      csv: its CSV, with its other lines.
      facts: what the program wrote of its call (profiled_call.run).
    """

    csv: str
    facts: dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """An installed ncu.

    Attributes:
      path: the executable.
      version: as it says itself; "" where it does not.
    """

    path: str
    version: str


def find(name: str) -> Program:
    """The ncu that a name or path means.

    Raises:
      NcuError: there is none, or it does not start.
    """
    path = shutil.which(name)
    if path is None:
        if pathlib.Path(name).exists() and os.sep in name:
            raise NcuError(f"{name}: is there, but no program that may be run: name Nsight Compute's ncu with --ncu")
        raise NcuError(
            f"{name}: no such program: install NVIDIA Nsight Compute (it comes with the CUDA toolkit), or name its ncu"
            " with --ncu"
        )
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NcuError(f"{path}: cannot be run: {error}") from error
    version = re.search(r"Version (\S+)", done.stdout)
    return Program(path=path, version=version[1] if version else "")


def command_line(program: Program, log: pathlib.Path, target: Sequence[str]) -> list[str]:
    """The command that profiles what `target` marks, from cold caches, clocks left alone."""
    return [
        program.path,
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--log-file",
        str(log),
        "--metrics",
        ",".join(counters.METRICS),
        "--profile-from-start",
        "off",
        "--nvtx",
        "--replay-mode",
        "kernel",
        "--cache-control",
        "all",
        "--clock-control",
        "none",
        "--target-processes",
        "application-only",
        *target,
    ]


def profile(program: Program, arguments: Sequence[str], timeout_s: float) -> Profiled:
    """Run one call under ncu in a child process.

    Args:
      program: the ncu to use.
      arguments: flags of profiled_call, but --facts.
      timeout_s: how long it may take. Seconds.

    Raises:
      NcuError: the program failed, was not profiled, or took too long.
    """
    with tempfile.TemporaryDirectory(prefix="tileops-audit-") as folder:
        log, facts = pathlib.Path(folder, "ncu.csv"), pathlib.Path(folder, "facts.json")
        status, output = _run(command_line(program, log, _target(arguments, facts)), timeout_s)
        csv = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if status == 0 and not facts.exists() and not csv and not output.strip():
            raise NcuError(
                f"{program.path} ended without a word and without having run the call: is it Nsight Compute's ncu"
                " (--ncu)?"
            )
        if status != 0 or not facts.exists():
            raise NcuError(explain(csv, output, status))
        return Profiled(csv=csv, facts=json.loads(facts.read_text(encoding="utf-8")))


def copies(arguments: Sequence[str], timeout_s: float) -> list[str]:
    """Names of the copies out of device memory that a call leaves to the driver: no kernels, so that ncu is blind to
    them.

    Args:
      arguments, timeout_s: as of `profile`.

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
    """Why a run gave nothing, in the vendor's words, and what to do about it."""
    errors = ncu_csv.vendor_lines(log, "ERROR") or ncu_csv.vendor_lines(output, "ERROR")
    own = "\n".join(line for line in output.splitlines() if not line.startswith("==")).strip()
    parts = list(dict.fromkeys(errors))
    if own:
        parts.append(f"the program's output ends: {' '.join(own[-_TAIL:].split())}")
    said = "; ".join(parts) or f"no message; status {status}"
    return f"{said}{remedy(f'{log} {output}')}"


def remedy(text: str) -> str:
    """What to do about a failure that the text tells of, as the end of a sentence; "" where nothing is known."""
    return next((f". To do: {what}" for sign, what in _REMEDIES if sign.search(text)), "")


def _run(command: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Status and output of a command; it and all that it started end with this call."""
    # The child finds what this process found, from wherever it was started; numbers come out in one form.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "LC_ALL": "C"}
    # A group of its own: Ctrl-C is the audit's to answer, and an end reaches ncu's child too.
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
        raise NcuError(f"no end within {timeout_s:g} s (--row_timeout_s)") from error
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it may end by itself in between
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return process.returncode, output
