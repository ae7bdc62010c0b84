"""Finds out whether this machine has a GPU driver, without torch, which takes seconds to import."""

import ctypes
import os


def is_present() -> bool:
    """Returns whether the driver of an NVIDIA or AMD GPU is here. Without a driver, torch sees no GPU."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return os.path.exists("/dev/kfd")
    return True
