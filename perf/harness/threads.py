"""Python threads that an implementation leaves behind: those that compute on would slow down whoever is measured next.

A thread that waits for work is nobody's trouble: PyTorch's compiler keeps one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection

from tileops.perf.clock.activities import ClockError

# How long new threads are watched, and the share of it that one may compute. Seconds; a share.
_WATCH_S = 0.02
_BUSY_SHARE = 0.25
# The kind of clock, in its number's lowest three bits: what the scheduler gave one thread.
_SCHEDULED_OF_THREAD = 0b110
# Threads that a message names. A count.
_TOLD = 3


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


def check(before: Collection[threading.Thread]) -> None:
    """Raises ClockError where a thread that was started since `before` computes on: which."""
    if names := busy(before):
        told = ", ".join(names[:_TOLD]) + (f" and {len(names) - _TOLD} more" if len(names) > _TOLD else "")
        raise ClockError(
            f"threads that were left behind compute on ({told}): what starts a thread ends it, or lets it wait, before it"
            " returns"
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
