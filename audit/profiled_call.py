"""The program that runs under Nsight Compute (ncu). It makes one call of one row, and only that call is profiled.

Inputs, compilation and autotuning come before the profiled range. The program writes facts of the call to a JSON file,
because ncu captures the program's output.

With --list_copies the program runs without ncu and lists the driver's copies, which are no kernels: ncu does not count
them.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import pathlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tileops.audit import calls, exceptions
from tileops.audit.counters import RANGE_NAME
from tileops.ops import workloads
from tileops.ops.cases import WorkloadCase
from tileops.ops.op import Op
from tileops.perf.clock import device_state, profiler
from tileops.perf.clock.activities import Kind
from tileops.perf.harness import catalogue
from tileops.perf.harness.inputs import RowInputs

# Calls before the profiled one: the first compiles and tunes, the next ones run the tuned kernel. A count.
_WARMUP_CALLS = 3
# The profiler's names of copies that read device memory: "Memcpy DtoD (Device -> Device)".
_FROM_DEVICE = re.compile("Memcpy (Dto|PtoP)")


def main(argv: list[str]) -> None:
    """Runs the call that the flags name, and writes its facts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--op", required=True)
    parser.add_argument("--case_id", required=True)
    parser.add_argument("--implementation", default="")
    parser.add_argument("--device", required=True)
    parser.add_argument("--facts", type=pathlib.Path, required=True)
    parser.add_argument("--list_copies", action="store_true")
    parser.add_argument("--generated_dir")
    parser.add_argument("--plugin", action="append", default=[])
    flags = parser.parse_args(argv)
    sources = catalogue.Sources(generated_dir=flags.generated_dir, plugins=tuple(flags.plugin))
    op_class = catalogue.load(sources)[flags.op]
    case = next(case for case in op_class.CASES if case.case_id == flags.case_id)
    device = torch.device(flags.device)
    copies: list[str] = []
    profiled = functools.partial(_recorded, copies) if flags.list_copies else _profiled
    facts = run(
        op_class, case, flags.implementation or None, device, profiled if device.type == "cuda" else _unprofiled
    )
    if flags.list_copies:
        facts["copies"] = copies
    flags.facts.write_text(json.dumps(facts), encoding="utf-8")


def run(
    op_class: type[Op],
    case: WorkloadCase,
    implementation: str | None,
    device: torch.device,
    profiled: Callable[[torch.device], contextlib.AbstractContextManager[None]],
) -> dict[str, Any]:
    """Makes one call of a row inside `profiled(device)`, after warm-up calls outside it.

    Returns:
      implementation: the implementation that served the call.
      declared_read_bytes: the read half that the op declares for this very call; None if it declares none.
      conditions: whether this very call meets the conditions of its op's exceptions, by their text.
      calls: 1, so that kernels which one call launches twice are not taken for two calls.
      device_name, driver_version, torch_version: the device and the software.
    """
    inputs = RowInputs(op_class, case, device)
    op = workloads.construct(op_class, case, target=implementation, device=device)
    for _ in range(_WARMUP_CALLS):
        op(**inputs.tensors)
    inputs.fill(0)  # if the call writes its inputs, it finds them as a first call does
    with profiled(device):
        op(**inputs.tensors)
    is_gpu = device.type == "cuda"
    return {
        "implementation": op.last_implementation,
        "declared_read_bytes": calls.read_half(op),
        "conditions": exceptions.conditions(exceptions.EXCEPTIONS, op.last_call),
        "calls": 1,
        "device_name": torch.cuda.get_device_name(device) if is_gpu else device.type,
        "driver_version": device_state.driver_version() if is_gpu else "",
        "torch_version": torch.__version__,
    }


@contextlib.contextmanager
def _profiled(device: torch.device) -> Iterator[None]:
    """Marks what ncu profiles with `--profile-from-start off`, in a range that its CSV names with `--nvtx`."""
    torch.cuda.synchronize(device)
    torch.cuda.profiler.start()
    torch.cuda.nvtx.range_push(RANGE_NAME)
    try:
        yield
        torch.cuda.synchronize(device)
    finally:
        torch.cuda.nvtx.range_pop()
        torch.cuda.profiler.stop()


@contextlib.contextmanager
def _recorded(copies: list[str], device: torch.device) -> Iterator[None]:
    """Collects the names of the driver's copies out of device memory."""
    del device
    session = profiler.Session()
    with session.recording():
        yield
    activities = session.trace().activities
    copies += [one.name for one in activities if one.kind is Kind.MEMCPY and _FROM_DEVICE.match(one.name)]


@contextlib.contextmanager
def _unprofiled(device: torch.device) -> Iterator[None]:
    """Profiles nothing: the device has no counters."""
    del device
    yield


if __name__ == "__main__":
    main(sys.argv[1:])
