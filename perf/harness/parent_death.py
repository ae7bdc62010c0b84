"""Ends this process when its parent ends, however that came about."""

from __future__ import annotations

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1


def follow() -> None:
    """Have the system kill this process with the one that started it, be it stuck in whatever call. Linux alone does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
