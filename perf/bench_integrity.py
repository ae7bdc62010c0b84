"""Whether the tools that measure and compare are still the ones that were there before any op's code ran.

The clock binds what it calls when it is imported, so that most replacements change nothing for it; one that is found is
an error all the same: whoever replaces a clock means to, and what else was changed is not known.
"""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

import torch

from tileops.perf import bench_correctness
from tileops.perf.clock import activities, cold_cache, measure, profiler, samples
from tileops.perf.clock.activities import ClockError

# What a measurement rests on: these of other people's modules, and everything that can be called of our own.
_NAMED: tuple[tuple[ModuleType, tuple[str, ...]], ...] = (
    (time, ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns")),
    (torch.cuda, ("synchronize", "Event", "Stream")),
    (torch.profiler, ("profile", "record_function")),
    (torch, ("equal", "isfinite")),
)
_OWN = (activities, bench_correctness, cold_cache, measure, profiler, samples)


def _watched() -> dict[str, Any]:
    named = {f"{module.__name__}.{name}": getattr(module, name, None) for module, names in _NAMED for name in names}
    own = {
        f"{module.__name__}.{name}": value for module in _OWN for name, value in vars(module).items() if callable(value)
    }
    return named | own


_ORIGINAL = _watched()


def replaced() -> list[str]:
    """Names of what is no longer what it was when this module was imported, sorted."""
    now = _watched()
    return sorted(name for name, value in _ORIGINAL.items() if now.get(name) is not value)


def check() -> None:
    """Raises ClockError where something that a measurement rests on was replaced."""
    if names := replaced():
        raise ClockError(f"{', '.join(names)} was replaced by another function, so no time can be trusted")
