"""Settings of the interpreter and of the process that other code runs by: hooks, garbage collection, timers, CPUs.

Hooks are those of them that run code of their own while others are measured.
"""

from __future__ import annotations

import functools
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch

from tileops.perf.harness.setting import Held, Setting

_TIMERS = (
    ("real time", signal.ITIMER_REAL),
    ("the process's own time", signal.ITIMER_VIRTUAL),
    ("profiling", signal.ITIMER_PROF),
)
_RUNNING, _STOPPED = "running", "stopped"


def settings() -> list[Setting]:
    """All of them, hooks included."""
    return [
        *hooks(),
        Setting(name="garbage collection", read=gc.isenabled, write=_enable_collection),
        Setting(name="the thresholds of garbage collection", read=gc.get_threshold, write=_set_thresholds),
        Setting(name="the interval at which threads switch", read=sys.getswitchinterval, write=sys.setswitchinterval),
        Setting(
            name="flushing of denormal numbers to zero",
            read=_flushes_denormals,
            write=torch.set_flush_denormal,
            is_inherited=True,
        ),
        *(
            [Setting(name="the CPUs to run on", read=_affinity, write=_set_affinity, is_inherited=True)]
            if hasattr(os, "sched_getaffinity")
            else []
        ),
    ]


def hooks() -> list[Setting]:
    """What runs code whenever Python calls a function, collects garbage, or a time is over."""
    return [
        _hook("the profile hook", sys.getprofile, sys.setprofile),
        _hook("the trace hook", sys.gettrace, sys.settrace),
        _hook("the profile hook of new threads", threading.getprofile, threading.setprofile),
        _hook("the trace hook of new threads", threading.gettrace, threading.settrace),
        Setting(name="the hooks of garbage collection", read=_collection_hooks, write=_set_collection_hooks),
        *(
            Setting(
                name=f"the timer of {what}",
                read=functools.partial(_timer, which),
                write=functools.partial(_set_timer, which),
            )
            for what, which in _TIMERS
        ),
        *(
            Setting(
                name=f"tool {tool} of sys.monitoring",
                read=functools.partial(sys.monitoring.get_tool, tool),
                write=functools.partial(_set_tool, tool),
            )
            for tool in (range(6) if hasattr(sys, "monitoring") else ())  # from Python 3.12 on
        ),
    ]


def _hook(name: str, get: Callable[[], Any], put: Callable[[Any], Any]) -> Setting:
    return Setting(name=name, read=lambda: Held(get()), write=lambda held: put(held.value))


def _collection_hooks() -> tuple[Held, ...]:
    return tuple(map(Held, gc.callbacks))


def _set_collection_hooks(found: tuple[Held, ...]) -> None:
    gc.callbacks[:] = [held.value for held in found]


def _enable_collection(is_enabled: bool) -> None:
    (gc.enable if is_enabled else gc.disable)()


def _set_thresholds(found: tuple[int, int, int]) -> None:
    gc.set_threshold(*found)


def _timer(which: int) -> str:
    return _RUNNING if any(signal.getitimer(which)) else _STOPPED


def _set_timer(which: int, found: str) -> None:
    if found == _STOPPED:  # what was left of one that ran is not known
        signal.setitimer(which, 0)


def _set_tool(tool: int, found: str | None) -> None:
    if found is None:  # what another one's tool was to be told is not known
        sys.monitoring.set_events(tool, 0)
        sys.monitoring.free_tool_id(tool)


def _flushes_denormals() -> bool:
    """Whether this thread does: PyTorch does not tell."""
    return sys.float_info.min / 2 == 0.0


def _affinity() -> tuple[int, ...]:
    return tuple(sorted(os.sched_getaffinity(0)))


def _set_affinity(found: tuple[int, ...]) -> None:
    os.sched_setaffinity(0, found)
