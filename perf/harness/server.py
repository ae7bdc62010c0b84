"""Ends this process when its parent ends. Imported by the server that children are forked from, and by its children.

By itself the server ends when no process holds its pipe any more. A child that hangs does hold the pipe, and both would
outlive a parent that was killed, with the child still on the device.
"""

from __future__ import annotations

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1


def follow() -> None:
    """Has the system kill this process when its parent ends, whatever call it is stuck in. Only Linux does that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


follow()
