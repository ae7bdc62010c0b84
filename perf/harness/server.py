"""Ends this process when its parent ends. The server from which children are forked imports this module.

Without it the server ends when no process has its pipe open. A child that hangs keeps the pipe open, so both would
outlive a killed parent, with the child still on the device.
"""

from __future__ import annotations

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1


def follow() -> None:
    """Lets Linux kill this process when its parent ends, even inside a system call. Other systems have no such call."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


follow()
