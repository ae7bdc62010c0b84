"""The devices of a run: what `--device` names, and which rows a device can run in time.

A row is skipped by the sizes of its tensors, before anything is allocated. An example: a row that moves 70 GB on a CPU
with 2 cores at 0.5 GB/s per core takes 70 s per call, and 22 calls take half an hour. No price decides this: a wrong
formula must not hide its row.

The module imports no torch, so that the bench answers wrong flags at once.
"""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
import re

from tileops.ops.cases import WorkloadCase
from tileops.perf.roof import profiles
from tileops.proto import benchmark_pb2
from tileops.tools.cli import errors, gpu_driver

ALL_GPUS = "cuda:all"
# Several devices are named one by one: each of them gets a worker.
_ONE = re.compile(r"cpu|cuda:\d+")
_WHOLE = re.compile(r"auto|meta|cuda|cuda:all")


class DeviceError(errors.UserError):
    """--device names no device; the message says what to write."""


def check(text: str) -> None:
    """Raises DeviceError unless `text` is what --device takes."""
    names = text.split(",")
    if not _WHOLE.fullmatch(text) and not all(_ONE.fullmatch(name) for name in names):
        raise DeviceError(
            f"--device={text}: write auto, cuda, cuda:N, cuda:all, cpu, meta, or several GPUs as in cuda:0,cuda:2"
        )
    if len({name.partition(":")[0] for name in names}) > 1:
        raise DeviceError(f"--device={text}: name devices of one kind, and start a run for each kind")
    gpus = [name for name in names if name.startswith("cuda")]
    if len(set(gpus)) < len(gpus):
        raise DeviceError(f"--device={text}: name each GPU once; two rows at once on one GPU slow each other down")


def check_driver(text: str) -> None:
    """Raises DeviceError if `text`, which `check` accepts, names a GPU and this machine has no GPU driver."""
    if text.startswith("cuda") and not gpu_driver.is_present():
        raise DeviceError(f"--device={text}: this machine has no GPU driver; name another device, such as cpu or meta")


def expand(text: str, environment: benchmark_pb2.Environment) -> list[str]:
    """Returns the devices of --device=`text`, each "cpu" or "cuda:N", on the machine of `environment`."""
    if text in ("auto", "cuda", ALL_GPUS):
        if environment.device_kind == "cpu":
            return ["cpu"]
        return [f"cuda:{index}" for index in range(environment.device_count)]
    return text.split(",")


# ---- what a device can run in time


# What every core reaches; vectorized code reaches several times as much.
_FLOPS_PER_CORE_S = 4e9
# Products of 16-bit floats, for which few CPUs have instructions. Seen on two cores: 7e8 in float16, and 3.5e8 in
# bfloat16 while others used the cores.
_SLOW_FLOPS_PER_CORE_S = {"float16": 3e8, "bfloat16": 1.5e8}
_BYTES_PER_CORE_S = 5e8
# PyTorch makes random values on one core.
_RANDOM_BYTES_S = 3e8
# Calls per row: 1 first check, 2 warm-up, 10 samples, and 3 checks with 3 runs of the reference each.
_CALLS = 22
# The same on a GPU: 2 checks, 2 references, 2 warm-up, 3 recorded to discover the activities, 10 samples.
_GPU_CALLS = 19
# Copies of inputs and outputs that exist at once, since the reference runs in twice the width. Ratios.
_INPUT_COPIES, _OUTPUT_COPIES = 5, 8
# The share of the available memory that a row may take: other programs need some.
_MEMORY_SHARE = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine: its cores, and the memory that is available now. Bytes."""

    cores: int
    memory_bytes: int


def bandwidth(device_name: str) -> float | None:
    """Returns the bytes per second of a GPU by the driver's name of it; None if there is no profile."""
    profile = profiles.select(profiles.load_profiles(), device_name)
    if profile is None:
        return None
    return profile.bandwidth.effective_per_s or profile.bandwidth.theoretical_per_s


def too_long(case: WorkloadCase, bytes_per_s: float, max_seconds: float) -> str | None:
    """Returns why a row must not run on a GPU of this bandwidth, in the form of `too_much`; None if it may.

    Counts the row's calls, and new inputs for each, but no arithmetic.
    """
    seconds = _GPU_CALLS * (2 * case.input_bytes + case.output_bytes) / bytes_per_s
    if seconds > max_seconds:
        return (
            f"too long for this device: at least {_duration(seconds)}, estimated from the sizes of its tensors;"
            f" --max_row_seconds={max_seconds:g} is the limit"
        )
    return None


def this_machine() -> Machine:
    """Returns the cores of this process, and the free memory of the system or of its container, the smaller."""
    memory = [_available_bytes(), *_group_bytes()]
    return Machine(cores=len(os.sched_getaffinity(0)), memory_bytes=min(memory))


def estimate_s(case: WorkloadCase, arithmetic: str, machine: Machine) -> float:
    """Returns the time of a row on the CPU with checks and new inputs, rather too long than too short. Seconds.

    Args:
      case: the row.
      arithmetic: `Op.ARITHMETIC`.
      machine: the CPU.
    """
    moved = (case.input_bytes + case.output_bytes) / _BYTES_PER_CORE_S
    call = (moved + _product_core_s(case, arithmetic)) / machine.cores
    return _CALLS * (call + case.input_bytes / _RANDOM_BYTES_S)


def _product_core_s(case: WorkloadCase, arithmetic: str) -> float:
    """Returns the time of one core for the product of a row's two largest matrices; 0.0 without two. Seconds.

    An example: (M, K) times (K, N) gives (M, N). M * N * K is the root of the product of the three sizes.
    """
    data = [tensor for tensor in case.tensors if tensor.values is None and len(tensor.shape) > 1]
    if arithmetic == "elementwise" or len(data) < 2:
        return 0.0
    *_, second, first = sorted(data, key=lambda tensor: math.prod(tensor.shape))
    # Outputs count as if their elements had the inputs' mean size.
    outputs = case.output_bytes * sum(math.prod(tensor.shape) for tensor in case.tensors) / max(case.input_bytes, 1)
    multiply_adds = math.sqrt(math.prod(first.shape) * math.prod(second.shape) * outputs)
    return 2 * multiply_adds / _SLOW_FLOPS_PER_CORE_S.get(first.dtype, _FLOPS_PER_CORE_S)


def too_much(case: WorkloadCase, arithmetic: str, machine: Machine, max_seconds: float) -> str | None:
    """Returns why a row must not run on this CPU, as "what: how much; limit"; None if it may. `max_seconds` 0: no limit."""
    needed = _INPUT_COPIES * case.input_bytes + _OUTPUT_COPIES * case.output_bytes
    if needed > _MEMORY_SHARE * machine.memory_bytes:
        return (
            f"too large for this machine: about {_size(needed)}; a row may take {_MEMORY_SHARE:.0%} of the memory that"
            f" is available, {_size(_MEMORY_SHARE * machine.memory_bytes)} of {_size(machine.memory_bytes)}"
        )
    seconds = estimate_s(case, arithmetic, machine)
    if max_seconds and seconds > max_seconds:
        return (
            f"too long for this machine: about {_duration(seconds)}, estimated from the sizes of its tensors;"
            f" --max_row_seconds={max_seconds:g} is the limit"
        )
    return None


def _size(count: float) -> str:
    """Returns bytes in the largest unit that leaves a number above 1."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{_number(count)} {unit}"
        count /= 1024
    return f"{_number(count)} TiB"


def _duration(seconds: float) -> str:
    """Returns seconds in the largest unit that leaves a number above 1."""
    for length, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{_number(seconds / length)} {unit}"
    return f"{_number(seconds)} s"


def _number(value: float) -> str:
    """Returns a number with two digits, or with all digits before the point."""
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"


def _available_bytes() -> int:
    for line in pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _group_bytes() -> list[int]:
    """Returns the memory that the container's limit leaves; empty if there is no limit. Bytes."""
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            return [int(pathlib.Path(limit).read_text()) - int(pathlib.Path(used).read_text())]
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return []
