"""Finds what an implementation leaves behind: changed settings, and threads or processes that go on computing.

Process-wide settings decide how fast and how exactly every implementation computes. An implementation that needs a
setting sets it inside its call and resets it before it returns. Otherwise it changes the times of all implementations
that the same process measures next, the reference included. Threads and processes that go on computing slow these down. One
that waits for work does not; PyTorch's compiler keeps such threads and processes.
"""

from __future__ import annotations

import pathlib
import threading
import time
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from tileops.perf.clock.activities import ClockError
from tileops.perf.harness import known_settings
from tileops.perf.harness.known_settings import UNKNOWN, Setting

# Settings, threads or processes that a message names. A count.
_SHOWN = 3
_OWN_TASKS = pathlib.Path("/proc/self/task")


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
    return one == other or (isinstance(one, str) and isinstance(other, str) and {one, other} == known_settings.FULL)


# ---- threads and processes


# How long new threads and processes are watched, and the share of that time which one may compute. Seconds; a share.
_WATCH_S = 0.02
_BUSY_SHARE = 0.25
# The lowest three bits of a Linux clock id: CPU time of one thread, and of one process.
_SCHEDULED_OF_THREAD = 0b110
_SCHEDULED_OF_PROCESS = 0b010
# In the command of processes in which PyTorch compiles. They start when something is first compiled, for seconds.
_COMPILE_WORKER = b"compile_worker"


class Process(NamedTuple):
    """A child process by its id, as messages show it."""

    native_id: int

    @property
    def name(self) -> str:
        """Returns what tells a process from a thread."""
        return f"process {self.native_id}"


def alive() -> frozenset[threading.Thread | Process]:
    """Returns all threads that Python knows, and the child processes, those of PyTorch's compiler excepted."""
    return frozenset([*threading.enumerate(), *_children()])


def busy(before: Collection[threading.Thread | Process]) -> list[str]:
    """Returns the sorted names of threads and processes that were started since `before` and are computing now."""
    started = {each: _computed_s(each) for each in alive() - frozenset(before)}
    if not started:
        return []
    time.sleep(_WATCH_S)
    return sorted(
        each.name for each, computed in started.items() if _computed_s(each) - computed > _BUSY_SHARE * _WATCH_S
    )


def check_threads(before: Collection[threading.Thread | Process]) -> None:
    """Raises ClockError if a thread or process that was started since `before` is still computing, and names it."""
    if names := busy(before):
        shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        raise ClockError(
            f"threads or processes that the call left behind are still computing ({shown}): end each, or let it wait,"
            " before the call returns"
        )


def _children() -> list[Process]:
    """Returns the child processes; none on a system without /proc."""
    found = []
    for listed in _OWN_TASKS.glob("*/children"):
        try:
            children = listed.read_text(encoding="ascii").split()
        except OSError:  # the thread has ended
            continue
        for child in children:
            try:
                command = pathlib.Path("/proc", child, "cmdline").read_bytes()
            except OSError:  # the process has ended
                continue
            if _COMPILE_WORKER not in command:
                found.append(Process(int(child)))
    return found


def _computed_s(each: threading.Thread | Process) -> float:
    """Returns the CPU time of a thread or process; 0 if it has ended. Seconds."""
    if each.native_id is None:  # not begun
        return 0.0
    # The id of Linux's clock. time.pthread_getcpuclockid would crash on a thread that has ended.
    kind = _SCHEDULED_OF_PROCESS if isinstance(each, Process) else _SCHEDULED_OF_THREAD
    try:
        return time.clock_gettime(~each.native_id << 3 | kind)
    except OSError:
        return 0.0
