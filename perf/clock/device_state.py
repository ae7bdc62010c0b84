"""Reads a GPU's sensors through NVML. Changes nothing on the device."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import torch

from tileops.perf.clock.measurement import DeviceReading

_LIBRARY = "libnvidia-ml.so.1"
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_SENSOR_GPU = 0
_MOST_PROCESSES = 256
# Bits of nvmlDeviceGetCurrentClocksThrottleReasons that slow a kernel down, with the names nvidia-smi gives them.
_THROTTLE_REASONS = {
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}


class _ProcessInfo(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used_gpu_memory", ctypes.c_ulonglong),
        ("gpu_instance_id", ctypes.c_uint),
        ("compute_instance_id", ctypes.c_uint),
    ]


def read(device: torch.device) -> DeviceReading:
    """Returns the sensors of a CUDA device. Values that the driver does not report (or all, without NVML) are absent."""
    library = _library()
    handle = _handle(library, device)
    if handle is None:
        return DeviceReading()
    power_mw = _number(library, "nvmlDeviceGetPowerUsage", handle)
    state = _number(library, "nvmlDeviceGetPerformanceState", handle)
    reasons = _number(library, "nvmlDeviceGetCurrentClocksThrottleReasons", handle, kind=ctypes.c_ulonglong)
    return DeviceReading(
        sm_clock_mhz=_number(library, "nvmlDeviceGetClockInfo", handle, ctypes.c_int(_CLOCK_SM)),
        memory_clock_mhz=_number(library, "nvmlDeviceGetClockInfo", handle, ctypes.c_int(_CLOCK_MEMORY)),
        temperature_c=_number(library, "nvmlDeviceGetTemperature", handle, ctypes.c_int(_SENSOR_GPU)),
        power_state="" if state is None else f"P{state}",
        power_w=None if power_mw is None else power_mw / 1e3,
        other_processes=_other_processes(library, handle),
        throttle_reasons=tuple(name for bit, name in _THROTTLE_REASONS.items() if (reasons or 0) & bit),
    )


def max_sm_clock_mhz(device: torch.device) -> int | None:
    """Returns the highest SM clock that a CUDA device reports; None if the driver does not say. MHz."""
    library = _library()
    handle = _handle(library, device)
    if handle is None:
        return None
    return _number(library, "nvmlDeviceGetMaxClockInfo", handle, ctypes.c_int(_CLOCK_SM))


def driver_version() -> str:
    """Returns the version of the NVIDIA driver; "" if there is none."""
    library = _library()
    text = ctypes.create_string_buffer(96)
    if library is None or library.nvmlSystemGetDriverVersion(text, ctypes.c_uint(len(text))) != 0:
        return ""
    return text.value.decode()


def _library() -> Any:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        return None
    return library if library.nvmlInit_v2() == 0 else None


def _handle(library: Any, device: torch.device) -> ctypes.c_void_p | None:
    """Returns NVML's handle, by UUID: the numbering of NVML ignores CUDA_VISIBLE_DEVICES."""
    if library is None:
        return None
    uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
    handle = ctypes.c_void_p()
    found = library.nvmlDeviceGetHandleByUUID(ctypes.c_char_p(uuid.encode()), ctypes.byref(handle))
    return handle if found == 0 else None


def _number(library: Any, function: str, handle: ctypes.c_void_p, *args: Any, kind: Any = ctypes.c_uint) -> int | None:
    value = kind()
    found = getattr(library, function)(handle, *args, ctypes.byref(value))
    return value.value if found == 0 else None


def _other_processes(library: Any, handle: ctypes.c_void_p) -> int | None:
    count = ctypes.c_uint(_MOST_PROCESSES)
    processes = (_ProcessInfo * _MOST_PROCESSES)()
    if library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), processes) != 0:
        return None
    return sum(1 for at in range(count.value) if processes[at].pid != os.getpid())
