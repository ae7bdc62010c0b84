"""What an implementation may leave behind in the process: changed settings, and threads that compute on.

Process-wide settings decide how fast and how exactly every implementation computes. An implementation that needs a
setting sets it inside its call and resets it before it returns. Otherwise it would change the times of those that are
measured after it in the same process, the reference's among them. Threads that compute on would slow them down; a
thread that waits for work does not, and PyTorch's compiler keeps such a thread.
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
_TOLD = 3


def read() -> dict[str, Any]:
    """All settings by name, as they are now."""
    return {setting.name: _read(setting) for setting in _settings()}


def restore(before: Mapping[str, Any]) -> bool:
    """Put back what has changed since `before` was read; whether all of it is as it was then, for every thread."""
    is_whole = True
    for _ in range(2):  # some settings write each other
        for setting in _settings():
            if setting.write is None or setting.name not in before:
                continue
            if not _is_same(_read(setting), before[setting.name]):
                setting.write(before[setting.name])
                is_whole = is_whole and not setting.is_inherited
    return is_whole and not describe(before, read())


def check(before: Mapping[str, Any]) -> None:
    """Raises ClockError where a setting is not what it was when `before` was read: which, and what to do about it."""
    if said := describe(before, read()):
        raise ClockError(said)


def check_hooks(before: Mapping[str, Any]) -> None:
    """As `check`, of hooks alone: soon done, after any call that is timed.

    One that a call leaves could compute before the next call is timed, and be gone when all of them are over.
    """
    now = {setting.name: _read(setting) for setting in known_settings.hooks()}
    if said := describe({name: before[name] for name in now}, now):
        raise ClockError(said)


def describe(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What differs and what to do about it, in words; "" where nothing does."""
    differing = [name for name, value in before.items() if not _is_same(value, now[name])]
    changed = [f"{name} was left at {now[name]}, and was {before[name]}" for name in differing]
    if not changed:
        return ""
    told = "; ".join(changed[:_TOLD]) + (f"; and {len(changed) - _TOLD} more" if len(changed) > _TOLD else "")
    return f"{told}: what needs a setting sets it inside its call and resets it before it returns"


def _settings() -> list[Setting]:
    return known_settings.settings()


def _read(setting: Setting) -> Any:
    try:
        return setting.read()
    except (RuntimeError, AttributeError):  # ways of setting precisions were mixed; this PyTorch has no such setting
        return UNKNOWN


def _is_same(one: Any, other: Any) -> bool:
    return one == other or {one, other} == known_settings.FULL


# ---- threads


# How long new threads are watched, and the share of it that one may compute. Seconds; a share.
_WATCH_S = 0.02
_BUSY_SHARE = 0.25
# The kind of clock, in its number's lowest three bits: what the scheduler gave one thread.
_SCHEDULED_OF_THREAD = 0b110


def alive() -> frozenset[threading.Thread]:
    """All that Python knows of, as they are now."""
    return frozenset(threading.enumerate())


def busy(before: Collection[threading.Thread]) -> list[str]:
    """Names of threads that were started since `before` and compute while nobody waits for them, sorted."""
    started = {thread: _computed_s(thread) for thread in threading.enumerate() if thread not in before}
    if not started:
        return []
    time.sleep(_WATCH_S)
    return sorted(
        thread.name for thread, computed in started.items() if _computed_s(thread) - computed > _BUSY_SHARE * _WATCH_S
    )


def check_threads(before: Collection[threading.Thread]) -> None:
    """Raises ClockError where a thread that was started since `before` computes on: which."""
    if names := busy(before):
        told = ", ".join(names[:_TOLD]) + (f" and {len(names) - _TOLD} more" if len(names) > _TOLD else "")
        raise ClockError(
            f"threads that were left behind compute on ({told}): what starts a thread ends it, or lets it wait, before"
            " it returns"
        )


def _computed_s(thread: threading.Thread) -> float:
    """CPU time of a thread; 0 of one that has ended. Seconds."""
    if thread.native_id is None:  # not begun
        return 0.0
    # Linux's clock of the thread of that number, whose own name for it (time.pthread_getcpuclockid) may crash where it
    # has ended.
    try:
        return time.clock_gettime(~thread.native_id << 3 | _SCHEDULED_OF_THREAD)
    except OSError:
        return 0.0
