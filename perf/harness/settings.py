"""Process-wide settings, which decide how fast and how exactly everybody computes: read, compared, put back.

An implementation that needs a setting sets it inside its call and resets it before it returns. What it leaves behind
would change the times of those that are measured after it in the same process, the reference's among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileops.perf.clock.activities import ClockError
from tileops.perf.harness import process_settings, torch_settings
from tileops.perf.harness.setting import UNKNOWN, Setting

# Settings that a message names. A count.
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
    now = {setting.name: _read(setting) for setting in process_settings.hooks()}
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
    return [*process_settings.settings(), *torch_settings.settings()]


def _read(setting: Setting) -> Any:
    try:
        return setting.read()
    except (RuntimeError, AttributeError):  # ways of setting precisions were mixed; this PyTorch has no such setting
        return UNKNOWN


def _is_same(one: Any, other: Any) -> bool:
    return one == other or {one, other} == torch_settings.FULL
