"""Finds what an implementation leaves behind in the process: changed settings, and threads that go on computing.

Process-wide settings decide how fast and how exactly every implementation computes. An implementation that needs a
setting sets it inside its call and resets it before it returns. Otherwise it changes the times of all implementations
that the same process measures next, the reference included. Threads that go on computing slow these down. A thread that
waits for work does not; PyTorch's compiler keeps such a thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from typing import Any

from tileops.perf.clock.activities import ClockError
from tileops.perf.harness import known_settings
from tileops.perf.harness.known_settings import UNKNOWN, Setting

# Settings or threads that a message names. A count.
_SHOWN = 3


def read() -> dict[str, Any]:
    """Returns the current values of all settings by name."""
    return {setting.name: _read(setting) for setting in known_settings.settings()}


def restore(before: Mapping[str, Any]) -> bool:
    """Writes back what changed since `before` was read; returns whether every setting has its old value in all threads."""
    is_whole = True
    for _ in range(2):  # some settings write each other
        for setting in known_settings.settings():
            if setting.write is None or setting.name not in before:
                continue
            if not _is_same(_read(setting), before[setting.name]):
                setting.write(before[setting.name])
                is_whole = is_whole and not setting.is_inherited
    return is_whole and not describe(before, read())


def check(before: Mapping[str, Any]) -> None:
    """Raises ClockError if a setting changed since `before` was read. The message names the setting and the remedy."""
    if said := describe(before, read()):
        raise ClockError(said)


def check_hooks(before: Mapping[str, Any]) -> None:
    """Checks hooks alone, as `check` does, fast enough to run after every timed call.

    A hook that one call leaves could compute before the next call is timed, and be gone when all calls are over.
    """
    now = {setting.name: _read(setting) for setting in known_settings.hooks()}
    if said := describe({name: before[name] for name in now}, now):
        raise ClockError(said)


def describe(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Returns which settings differ and what to do about it, in words; "" if none differs."""
    differing = [name for name, value in before.items() if not _is_same(value, now[name])]
    changed = [f"{name} was left at {now[name]}, and was {before[name]}" for name in differing]
    if not changed:
        return ""
    shown = "; ".join(changed[:_SHOWN]) + (f"; and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else "")
    return f"{shown}: set what the call needs inside the call, and reset it before the call returns"


def _read(setting: Setting) -> Any:
    try:
        return setting.read()
    except (
        RuntimeError,
        AttributeError,
    ):  # two ways of setting precisions were mixed, or this PyTorch has no such setting
        return UNKNOWN


def _is_same(one: Any, other: Any) -> bool:
    return one == other or {one, other} == known_settings.FULL


# ---- threads


# How long new threads are watched, and the share of that time which a thread may compute. Seconds; a share.
_WATCH_S = 0.02
_BUSY_SHARE = 0.25
# The lowest three bits of a Linux clock id: CPU time of one thread.
_SCHEDULED_OF_THREAD = 0b110


def alive() -> frozenset[threading.Thread]:
    """Returns all threads that Python knows."""
    return frozenset(threading.enumerate())


def busy(before: Collection[threading.Thread]) -> list[str]:
    """Returns the sorted names of threads that were started since `before` and are computing now."""
    started = {thread: _computed_s(thread) for thread in threading.enumerate() if thread not in before}
    if not started:
        return []
    time.sleep(_WATCH_S)
    return sorted(
        thread.name for thread, computed in started.items() if _computed_s(thread) - computed > _BUSY_SHARE * _WATCH_S
    )


def check_threads(before: Collection[threading.Thread]) -> None:
    """Raises ClockError if a thread that was started since `before` is still computing. The message names it."""
    if names := busy(before):
        shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        raise ClockError(
            f"threads that the call left behind are still computing ({shown}): end such a thread, or let it wait, before"
            " the call returns"
        )


def _computed_s(thread: threading.Thread) -> float:
    """Returns the CPU time of a thread; 0 if it has ended. Seconds."""
    if thread.native_id is None:  # not begun
        return 0.0
    # The id of Linux's clock of this thread. time.pthread_getcpuclockid would crash on a thread that has ended.
    try:
        return time.clock_gettime(~thread.native_id << 3 | _SCHEDULED_OF_THREAD)
    except OSError:
        return 0.0
