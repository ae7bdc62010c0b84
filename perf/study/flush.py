"""Times calls of several sizes under each kind of flush, and in rotation.

In rotation a call cycles through buffers of several times the cache without a flush. It finds what calls like it left,
as it does in use. A flush should give the same time.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from tileops.perf.clock.measure import measure
from tileops.perf.clock.measurement import Budget, Flush, Measurement

# Size of all buffers of a rotation, several times any GPU's last-level cache. 1e6 bytes.
_ROTATION_MB = 400.0
ROTATION = "rotation"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """Times of one call under one flush.

    Attributes:
      access: what the call does (`_ACCESSES`).
      size_mb: reads plus writes of the call. 1e6 bytes.
      flush: the flush before each call; "rotation" if the call cycled through buffers instead.
      median_us, p10_us, p90_us: device-busy time. Microseconds.
      gb_per_s: size / median. 1e9 bytes per second.
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
    """Times each access of each size under each flush and in rotation. A CPU has neither: each access is timed once."""
    for size_mb in sizes_mb:
        for access, (make, written_share) in _ACCESSES.items():
            if device.type == "cpu" and access in _NEED_GPU:
                continue
            calls = [make(device, size_mb)]
            for flush in Flush if device.type != "cpu" else [Flush.NONE]:
                share = written_share if flush is Flush.MATCHED else None
                found = measure(calls[0], device=device, budget=budget, flush=flush, written_share=share)
                yield _reading(access, size_mb, flush.name.lower(), found)
            if device.type != "cpu":
                calls += [make(device, size_mb) for _ in range(math.ceil(_ROTATION_MB / size_mb))]
                turns = itertools.cycle(calls)

                def call(turns: Iterator[Callable[[], Any]] = turns) -> Any:
                    return next(turns)()

                found = measure(call, device=device, budget=budget, flush=Flush.NONE)
                yield _reading(access, size_mb, ROTATION, found)


def _reading(access: str, size_mb: float, flush: str, found: Measurement) -> Reading:
    return Reading(
        access=access,
        size_mb=size_mb,
        flush=flush,
        median_us=found.device_busy_ns / 1e3,
        p10_us=found.device_busy_p10_ns / 1e3,
        p90_us=found.device_busy_p90_ns / 1e3,
        gb_per_s=size_mb * 1e6 / found.device_busy_ns,
        source=found.source.name,
    )


def _tensor(device: torch.device, size_mb: float, share: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Returns random values of this share of the size."""
    return torch.randn(round(size_mb * 1e6 * share / dtype.itemsize), device=device).to(dtype)


def _copy(device: torch.device, size_mb: float) -> Callable[[], object]:
    source, target = (_tensor(device, size_mb, 1 / 2) for _ in range(2))
    return lambda: torch.neg(source, out=target)  # a kernel: the driver would make a copy itself


def _add(device: torch.device, size_mb: float) -> Callable[[], object]:
    one, other, target = (_tensor(device, size_mb, 1 / 3) for _ in range(3))
    return lambda: torch.add(one, other, out=target)


def _add_with_hints(device: torch.device, size_mb: float) -> Callable[[], object]:
    from tileops.perf.study import kernels  # Triton is imported only if there is a GPU

    one, other, target = (_tensor(device, size_mb, 1 / 3, torch.bfloat16) for _ in range(3))
    return lambda: kernels.add_with_hints(one, other, target)


def _compare(device: torch.device, size_mb: float) -> Callable[[], object]:
    one, other = (_tensor(device, size_mb, 4 / 9) for _ in range(2))
    target = torch.empty(one.shape, dtype=torch.bool, device=device)
    return lambda: torch.eq(one, other, out=target)


def _widen(device: torch.device, size_mb: float) -> Callable[[], object]:
    source = _tensor(device, size_mb, 1 / 3, torch.bfloat16)
    target = torch.empty(source.shape, dtype=torch.float32, device=device)
    return lambda: target.copy_(source)


def _scale(device: torch.device, size_mb: float) -> Callable[[], object]:
    target = _tensor(device, size_mb, 1 / 2)
    return lambda: target.mul_(-1.0)


def _read(device: torch.device, size_mb: float) -> Callable[[], object]:
    source = _tensor(device, size_mb, 1)
    return lambda: torch.amax(source)


def _write(device: torch.device, size_mb: float) -> Callable[[], object]:
    target = _tensor(device, size_mb, 1)
    return lambda: target.fill_(1.5)


# Makers of calls that move so many 1e6 bytes, and the share of written lines among touched lines. A scaling in place
# reads and writes the same lines, so its share is 1.
_ACCESSES: dict[str, tuple[Callable[[torch.device, float], Callable[[], object]], float]] = {
    "read": (_read, 0.0),
    "compare": (_compare, 1 / 9),
    "add": (_add, 1 / 3),
    "copy": (_copy, 1 / 2),
    "widen": (_widen, 2 / 3),
    "scale": (_scale, 1.0),
    "write": (_write, 1.0),
    "hinted": (_add_with_hints, 1 / 3),
}
_NEED_GPU = frozenset({"hinted"})
