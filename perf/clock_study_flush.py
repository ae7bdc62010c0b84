"""What emptying the cache does to a time: calls of several sizes under each kind of flush."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import torch

from tileops.perf.clock.measure import measure
from tileops.perf.clock.measurement import Budget, Flush

_ELEMENT = torch.float32
_ELEMENT_SIZE = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """One call under one flush.

    Attributes:
      access: "copy", "add", "read" or "write".
      size_mb: what the call reads and writes together. 1e6 bytes.
      flush: what was done before each call.
      median_us, p10_us, p90_us: device-busy time. Microseconds.
      gb_per_s: size over median. 1e9 bytes per second.
      source: the clock.
    """

    access: str
    size_mb: float
    flush: str
    median_us: float
    p10_us: float
    p90_us: float
    gb_per_s: float
    source: str


def readings(device: torch.device, sizes_mb: Sequence[float], budget: Budget | None = None) -> Iterator[Reading]:
    """Time each access of each size under each flush; a CPU has none."""
    flushes = [Flush.NONE] if device.type == "cpu" else [Flush.NONE, Flush.CLEAN, Flush.DIRTY]
    for size_mb in sizes_mb:
        for access, make in _ACCESSES.items():
            call = make(device, size_mb)
            for flush in flushes:
                found = measure(call, device=device, budget=budget, flush=flush)
                yield Reading(
                    access=access,
                    size_mb=size_mb,
                    flush=flush.name.lower(),
                    median_us=found.device_busy_ns / 1e3,
                    p10_us=found.device_busy_p10_ns / 1e3,
                    p90_us=found.device_busy_p90_ns / 1e3,
                    gb_per_s=size_mb * 1e6 / found.device_busy_ns,
                    source=found.source.name,
                )


def _tensor(device: torch.device, size_mb: float, share: int) -> torch.Tensor:
    """Random values; `share` tensors of this size make up the whole."""
    return torch.randn(round(size_mb * 1e6 / share / _ELEMENT_SIZE), dtype=_ELEMENT, device=device)


def _copy(device: torch.device, size_mb: float) -> Callable[[], object]:
    source, target = (_tensor(device, size_mb, 2) for _ in range(2))
    return lambda: target.copy_(source)


def _add(device: torch.device, size_mb: float) -> Callable[[], object]:
    one, other, target = (_tensor(device, size_mb, 3) for _ in range(3))
    return lambda: torch.add(one, other, out=target)


def _read(device: torch.device, size_mb: float) -> Callable[[], object]:
    source = _tensor(device, size_mb, 1)
    return lambda: torch.amax(source)


def _write(device: torch.device, size_mb: float) -> Callable[[], object]:
    target = _tensor(device, size_mb, 1)
    return lambda: target.fill_(1.5)


_ACCESSES: dict[str, Callable[[torch.device, float], Callable[[], object]]] = {
    "copy": _copy, "add": _add, "read": _read, "write": _write
}  # fmt: skip
