"""The process-wide settings that are known: how each is called, read and written.

Settings of the interpreter and of the process: hooks, garbage collection, timers, CPUs. Hooks run code of their own
while others are measured. Settings of PyTorch: threads, defaults, precisions, kernels of choice, modes, device and
stream.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import _pop_mode as _pop_function_mode
from torch.utils._python_dispatch import _pop_mode as _pop_dispatch_mode

# Of a setting that could not be read.
UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One row of a table of settings.

    Attributes:
      name: in words, as a message says them.
      read: its value now; it may raise RuntimeError or AttributeError where there is no such setting.
      write: gives it a value that was read; None for what cannot be written.
      is_inherited: whether threads that were started meanwhile keep it, so that writing it does not undo it for all.
    """

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], Any] | None = None
    is_inherited: bool = False


class Held:
    """Somebody's object as a value: equal to the very same object's alone, whatever that says of itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        """Of any object."""
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)

    def __str__(self) -> str:
        return str(getattr(self.value, "__qualname__", type(self.value).__name__))

    __repr__ = __str__


# ---- of the interpreter and the process


_TIMERS = (
    ("real time", signal.ITIMER_REAL),
    ("the process's own time", signal.ITIMER_VIRTUAL),
    ("profiling", signal.ITIMER_PROF),
)
_RUNNING, _STOPPED = "running", "stopped"


def settings() -> list[Setting]:
    """Returns every setting, hooks included."""
    return [*_of_process(), *_of_torch()]


def _of_process() -> list[Setting]:
    return [
        *hooks(),
        Setting(name="garbage collection", read=gc.isenabled, write=_enable_collection),
        Setting(name="the thresholds of garbage collection", read=gc.get_threshold, write=_set_thresholds),
        Setting(name="the interval at which threads switch", read=sys.getswitchinterval, write=sys.setswitchinterval),
        Setting(
            name="flushing of denormal numbers to zero",
            read=_flushes_denormals,
            write=torch.set_flush_denormal,
            is_inherited=True,
        ),
        *(
            [Setting(name="the CPUs to run on", read=_affinity, write=_set_affinity, is_inherited=True)]
            if hasattr(os, "sched_getaffinity")
            else []
        ),
    ]


def hooks() -> list[Setting]:
    """What runs code whenever Python calls a function, collects garbage, or a time is over."""
    return [
        _hook("the profile hook", sys.getprofile, sys.setprofile),
        _hook("the trace hook", sys.gettrace, sys.settrace),
        _hook("the profile hook of new threads", threading.getprofile, threading.setprofile),
        _hook("the trace hook of new threads", threading.gettrace, threading.settrace),
        Setting(name="the hooks of garbage collection", read=_collection_hooks, write=_set_collection_hooks),
        *(
            Setting(
                name=f"the timer of {what}",
                read=functools.partial(_timer, which),
                write=functools.partial(_set_timer, which),
            )
            for what, which in _TIMERS
        ),
        *_tools(),
    ]


def _hook(name: str, get: Callable[[], Any], put: Callable[[Any], Any]) -> Setting:
    return Setting(name=name, read=lambda: Held(get()), write=lambda held: put(held.value))


def _collection_hooks() -> tuple[Held, ...]:
    return tuple(map(Held, gc.callbacks))


def _set_collection_hooks(found: tuple[Held, ...]) -> None:
    gc.callbacks[:] = [held.value for held in found]


def _enable_collection(is_enabled: bool) -> None:
    (gc.enable if is_enabled else gc.disable)()


def _set_thresholds(found: tuple[int, int, int]) -> None:
    gc.set_threshold(*found)


def _timer(which: int) -> str:
    return _RUNNING if any(signal.getitimer(which)) else _STOPPED


def _set_timer(which: int, found: str) -> None:
    if found == _STOPPED:  # what was left of one that ran is not known
        signal.setitimer(which, 0)


def _tools() -> list[Setting]:
    if sys.version_info < (3, 12):
        return []
    return [
        Setting(
            name=f"tool {tool} of sys.monitoring",
            read=functools.partial(sys.monitoring.get_tool, tool),
            write=functools.partial(_set_tool, tool),
        )
        for tool in range(6)
    ]


def _set_tool(tool: int, found: str | None) -> None:
    if sys.version_info >= (3, 12) and found is None:  # which events another tool was to hear is not known
        sys.monitoring.set_events(tool, 0)
        sys.monitoring.free_tool_id(tool)


def _flushes_denormals() -> bool:
    """Whether this thread does: PyTorch does not tell."""
    return sys.float_info.min / 2 == 0.0


def _affinity() -> tuple[int, ...]:
    return tuple(sorted(os.sched_getaffinity(0)))


def _set_affinity(found: tuple[int, ...]) -> None:
    os.sched_setaffinity(0, found)


# ---- of PyTorch


# Backends and operations whose float32 products have a precision of their own.
_PRECISIONS = (
    ("generic", "all"),
    ("cuda", "all"),
    ("cuda", "matmul"),
    ("cuda", "conv"),
    ("cuda", "rnn"),
    ("mkldnn", "all"),
    ("mkldnn", "matmul"),
    ("mkldnn", "conv"),
    ("mkldnn", "rnn"),
)
_DEVICE_TYPES = ("cpu", "cuda")
# A precision that was never set, and one that was set back: both are full precision.
FULL = {"none", "ieee"}
_CUDNN = ("allow_tf32", "benchmark", "deterministic", "enabled")
_SDP_KERNELS = ("flash", "mem_efficient", "math", "cudnn")


def _of_torch() -> list[Setting]:
    """Returns PyTorch's settings; those of CUDA's device and libraries once CUDA was used."""
    matmul, cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cuda, torch.backends.cudnn
    found = [
        Setting(name="the number of threads", read=torch.get_num_threads, write=torch.set_num_threads),
        Setting(name="the number of interop threads", read=torch.get_num_interop_threads),
        Setting(name="the default dtype", read=torch.get_default_dtype, write=torch.set_default_dtype),
        Setting(
            name="the depth of torch function modes",
            read=torch._C._len_torch_function_stack,
            write=_leave_function_modes,
        ),
        Setting(
            name="the depth of torch dispatch modes",
            read=torch._C._len_torch_dispatch_stack,
            write=_leave_dispatch_modes,
        ),
        Setting(name="the default device", read=torch.get_default_device, write=_set_default_device),
        *(
            Setting(
                name=f"the float32 precision of {backend}'s {what}",
                read=functools.partial(torch._C._get_fp32_precision_getter, backend, what),
                write=functools.partial(torch._C._set_fp32_precision_setter, backend, what),
            )
            for backend, what in _PRECISIONS
            if hasattr(torch._C, "_get_fp32_precision_getter")
        ),
        Setting(
            name="the float32 matmul precision",
            read=torch.get_float32_matmul_precision,
            write=_unless_unknown(torch.set_float32_matmul_precision),
        ),
        _attribute(matmul, "allow_tf32", "torch.backends.cuda.matmul"),
        _attribute(matmul, "allow_fp16_reduced_precision_reduction", "torch.backends.cuda.matmul"),
        _attribute(matmul, "allow_bf16_reduced_precision_reduction", "torch.backends.cuda.matmul"),
        _attribute(matmul, "allow_fp16_accumulation", "torch.backends.cuda.matmul"),
        *(_attribute(cudnn, name, "torch.backends.cudnn") for name in _CUDNN),
        _attribute(torch.backends.mkldnn, "enabled", "torch.backends.mkldnn"),
        _attribute(torch.backends.opt_einsum, "enabled", "torch.backends.opt_einsum"),
        _attribute(torch.backends.opt_einsum, "strategy", "torch.backends.opt_einsum"),
        *(
            Setting(
                name=f"scaled dot product attention by {kernel} kernels",
                read=getattr(cuda, f"{kernel}_sdp_enabled"),
                write=getattr(cuda, f"enable_{kernel}_sdp"),
            )
            for kernel in _SDP_KERNELS
        ),
        Setting(
            name="the deterministic mode",
            read=torch.get_deterministic_debug_mode,
            write=torch.set_deterministic_debug_mode,
        ),
        Setting(name="grad mode", read=torch.is_grad_enabled, write=torch._C._set_grad_enabled),
        Setting(name="inference mode", read=torch.is_inference_mode_enabled),
    ]
    for kind in _DEVICE_TYPES:
        found += [
            Setting(
                name=f"autocast of {kind}",
                read=functools.partial(torch.is_autocast_enabled, kind),
                write=functools.partial(torch.set_autocast_enabled, kind),
            ),
            Setting(
                name=f"the autocast dtype of {kind}",
                read=functools.partial(torch.get_autocast_dtype, kind),
                write=functools.partial(torch.set_autocast_dtype, kind),
            ),
        ]
    if torch.cuda.is_initialized():
        found += [
            Setting(name="the current device", read=torch.cuda.current_device, write=torch.cuda.set_device),
            Setting(name="the current stream", read=torch.cuda.current_stream, write=torch.cuda.set_stream),
        ]
    return found


def _attribute(owner: Any, name: str, path: str) -> Setting:
    return Setting(
        name=f"{path}.{name}",
        read=functools.partial(getattr, owner, name),
        write=_unless_unknown(functools.partial(setattr, owner, name)),
    )


def _unless_unknown(write: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Writes a value that was read; there is none where PyTorch would not tell it."""
    return lambda value: None if value == UNKNOWN else write(value)


def _set_default_device(device: torch.device) -> None:
    torch.set_default_device(None)  # PyTorch's own, by no mode that every call would go through
    if torch.get_default_device() != device:
        torch.set_default_device(device)


def _leave_function_modes(depth: int) -> None:
    while torch._C._len_torch_function_stack() > depth:
        _pop_function_mode()


def _leave_dispatch_modes(depth: int) -> None:
    while torch._C._len_torch_dispatch_stack() > depth:
        _pop_dispatch_mode()
