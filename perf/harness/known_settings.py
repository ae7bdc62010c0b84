"""The process-wide settings that the bench knows: the name of each, and how to read and write it.

Settings of the interpreter and the process: hooks, garbage collection, timers, CPUs, environment variables. A hook runs
code of its own while other code is measured. Settings of PyTorch: threads, defaults, precisions, choice of kernels, options
of its compiler, modes, device and stream.
"""

from __future__ import annotations

import contextvars
import copy
import functools
import gc
import os
import pathlib
import re
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.nn import attention
from torch.overrides import _pop_mode as _pop_function_mode
from torch.utils._config_module import _UNSET_SENTINEL as _UNSET
from torch.utils._python_dispatch import _pop_mode as _pop_dispatch_mode

# The value of a setting that cannot be read.
UNKNOWN = "unknown"


class Setting(NamedTuple):
    """One row of a table of settings.

    Attributes:
      name: in words, as messages show it.
      read: returns its value; raises RuntimeError or AttributeError if PyTorch has no such setting.
      write: sets a value that was read; None if the setting cannot be written.
      is_inherited: whether threads that were started meanwhile keep the value, so that writing does not undo it for all.
    """

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], Any] | None = None
    is_inherited: bool = False


class Held:
    """An object that equals only itself, whatever its own __eq__ says."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        """Holds any object."""
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
# Where PyTorch's own modules are.
_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
_RUNNING, _STOPPED = "running", "stopped"


def settings() -> list[Setting]:
    """Returns every setting, hooks included."""
    return [*hooks(), *_of_process(), *_of_torch()]


def _of_process() -> list[Setting]:
    found = [
        Setting("garbage collection", gc.isenabled, _enable_collection),
        Setting("the thresholds of garbage collection", gc.get_threshold, lambda found: gc.set_threshold(*found)),
        Setting("the interval at which threads switch", sys.getswitchinterval, sys.setswitchinterval),
        Setting("flushing of denormal numbers to zero", _flushes_denormals, torch.set_flush_denormal, True),
    ]
    found += [
        Setting("the priority of the process", lambda: os.getpriority(os.PRIO_PROCESS, 0)),
        Setting("the working directory", _working_directory, os.chdir),
        Setting("the environment of PyTorch, Triton and CUDA", _environment, _set_environment, True),
    ]
    if hasattr(os, "sched_getaffinity"):
        found.append(Setting("the CPUs to run on", _affinity, lambda cpus: os.sched_setaffinity(0, cpus), True))
    return found


# By variables whose names begin so, PyTorch, Triton, CUDA and its libraries choose what they run. Their compilers set
# variables of the given endings themselves, which say where files are.
_PREFIXES = (
    *("CUBLAS", "CUDA_DEVICE_", "CUDA_LAUNCH_", "CUDNN_", "MKL_", "NVIDIA_", "OMP_"),
    *("PYTORCH_", "TORCH_", "TORCHDYNAMO_", "TORCHINDUCTOR_", "TRITON_"),
)
_FILE_ENDINGS = ("_DIR", "_PATH")


class Named(dict[str, Any]):
    """Values by name, which a message shows as `NAME=value`."""

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in sorted(self.items())) or "none"


def _environment() -> Named:
    """Returns the variables by which PyTorch and what it uses choose what they run."""
    return Named(
        (name, value)
        for name, value in os.environ.items()
        if name.startswith(_PREFIXES) and not name.endswith(_FILE_ENDINGS)
    )


def _set_environment(found: Named) -> None:
    for name in _environment().keys() - found.keys():
        del os.environ[name]
    os.environ.update(found)


def _working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed
        return UNKNOWN


def hooks() -> list[Setting]:
    """Returns the hooks: code that Python runs at function calls, at garbage collection, or when a timer ends."""
    found = [
        _hook("the profile hook", sys.getprofile, sys.setprofile),
        _hook("the trace hook", sys.gettrace, sys.settrace),
        _hook("the profile hook of new threads", threading.getprofile, threading.setprofile),
        _hook("the trace hook of new threads", threading.gettrace, threading.settrace),
        Setting("the hooks of garbage collection", _collection_hooks, _set_collection_hooks),
        Setting("the Python code in place of PyTorch's operators", _operators),
    ]
    for what, which in _TIMERS:
        read, write = functools.partial(_timer, which), functools.partial(_set_timer, which)
        found.append(Setting(f"the timer of {what}", read, write))
    if sys.version_info >= (3, 12):
        for tool in range(6):
            read, write = functools.partial(sys.monitoring.get_tool, tool), functools.partial(_set_tool, tool)
            found.append(Setting(f"tool {tool} of sys.monitoring", read, write))
    return found


def _hook(name: str, get: Callable[[], Any], put: Callable[[Any], Any]) -> Setting:
    return Setting(name, lambda: Held(get()), lambda held: put(held.value))


def _collection_hooks() -> tuple[Held, ...]:
    return tuple(map(Held, gc.callbacks))


def _set_collection_hooks(found: tuple[Held, ...]) -> None:
    gc.callbacks[:] = [held.value for held in found]


def _operators() -> str:
    """Returns which operators of PyTorch have a Python kernel of torch.library from outside PyTorch; "none" if none.

    PyTorch registers Python kernels too, when a module of its own is imported for the first time. Kernels of the meta
    device compute nothing.
    """
    found = []
    for key in tuple(torch.library._impls):  # such as "aten/silu/CPU"
        if key.startswith("aten/") and not key.endswith("/Meta"):
            _, name, device = key.split("/")
            place = _registered_at(f"aten::{name}", device or "CompositeImplicitAutograd")
            if not place.startswith(_TORCH):
                found.append(f"aten::{name} on {device} ({pathlib.Path(place).name})")
    return ", ".join(sorted(found)) or "none"


def _registered_at(name: str, key: str) -> str:
    """Returns file and line that registered an operator's kernel for a dispatch key; "" if PyTorch does not say."""
    said = re.search(
        rf"^{re.escape(key)}(?:\[alias\])?: registered at (.*?) ::", torch._C._dispatch_dump(name), re.MULTILINE
    )
    return said[1] if said else ""


def _enable_collection(is_enabled: bool) -> None:
    (gc.enable if is_enabled else gc.disable)()


def _timer(which: int) -> str:
    return _RUNNING if any(signal.getitimer(which)) else _STOPPED


def _set_timer(which: int, found: str) -> None:
    if found == _STOPPED:  # how much time a running timer had left is unknown
        signal.setitimer(which, 0)


def _set_tool(tool: int, found: str | None) -> None:
    if sys.version_info >= (3, 12) and found is None:  # which events another tool heard is unknown
        sys.monitoring.set_events(tool, 0)
        sys.monitoring.free_tool_id(tool)


def _flushes_denormals() -> bool:
    """Returns whether this thread flushes denormal numbers to zero. PyTorch has no function for this."""
    return sys.float_info.min / 2 == 0.0


def _affinity() -> tuple[int, ...]:
    return tuple(sorted(os.sched_getaffinity(0)))


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
# Full precision: the value that was never set, and the value that was set back.
FULL = {"none", "ieee"}
_CUDNN = ("allow_tf32", "benchmark", "deterministic", "enabled")
_SDP_KERNELS = ("flash", "mem_efficient", "math", "cudnn")
# More choices of kernels: in words, and the end of the names of PyTorch's functions.
_CHOICES = (
    ("the library of linear algebra", "linalg_preferred_backend"),
    ("the library of matrix products", "blas_preferred_backend"),
    ("the order in which attention looks for a kernel", "sdp_priority_order"),
    ("the reduction of attention in 16 bits", "math_sdp_allow_fp16_bf16_reduction"),
    ("the filling of new memory in deterministic mode", "deterministic_fill_uninitialized_memory"),
)
# Modules with options of PyTorch's compiler. It sets the given one itself.
_COMPILERS = ("torch._dynamo.config", "torch._functorch.config", "torch._inductor.config")
_SET_BY_COMPILER = frozenset({"compile_threads"})


def _of_torch() -> list[Setting]:
    """Returns PyTorch's settings; those of CUDA's device and stream only after CUDA was used."""
    cuda, cudnn, mkldnn, einsum = (getattr(torch.backends, name) for name in ("cuda", "cudnn", "mkldnn", "opt_einsum"))
    matmul = "torch.backends.cuda.matmul"
    modes, dispatch = torch._C._len_torch_function_stack, torch._C._len_torch_dispatch_stack
    precision = torch.get_float32_matmul_precision, _unless_unknown(torch.set_float32_matmul_precision)
    deterministic = torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode
    found = [
        Setting("the number of threads", torch.get_num_threads, torch.set_num_threads),
        Setting("the number of interop threads", torch.get_num_interop_threads),
        Setting("the default dtype", torch.get_default_dtype, torch.set_default_dtype),
        Setting("the depth of torch function modes", modes, _leave_function_modes),
        Setting("the depth of torch dispatch modes", dispatch, _leave_dispatch_modes),
        Setting("the default device", torch.get_default_device, _set_default_device),
        *(_precision(*each) for each in _PRECISIONS if hasattr(torch._C, "_get_fp32_precision_getter")),
        Setting("the float32 matmul precision", *precision),
        _attribute(cuda.matmul, "allow_tf32", matmul),
        _attribute(cuda.matmul, "allow_fp16_reduced_precision_reduction", matmul),
        _attribute(cuda.matmul, "allow_bf16_reduced_precision_reduction", matmul),
        _attribute(cuda.matmul, "allow_fp16_accumulation", matmul),
        *(_attribute(cudnn, name, "torch.backends.cudnn") for name in _CUDNN),
        _attribute(mkldnn, "enabled", "torch.backends.mkldnn"),
        _attribute(einsum, "enabled", "torch.backends.opt_einsum"),
        _attribute(einsum, "strategy", "torch.backends.opt_einsum"),
        *map(_attention, _SDP_KERNELS),
        Setting("the deterministic mode", *deterministic),
        *(_private(*each) for each in _CHOICES),
        *map(_options, _COMPILERS),
        Setting("the implementation of flash attention", lambda: attention.current_flash_attention_impl()),
        Setting("grad mode", torch.is_grad_enabled, torch._C._set_grad_enabled),
        Setting("inference mode", torch.is_inference_mode_enabled),
    ]
    for kind in _DEVICE_TYPES:
        for name, get, put in (
            (f"autocast of {kind}", torch.is_autocast_enabled, torch.set_autocast_enabled),
            (f"the autocast dtype of {kind}", torch.get_autocast_dtype, torch.set_autocast_dtype),
        ):
            found.append(Setting(name, functools.partial(get, kind), functools.partial(put, kind)))
    if torch.cuda.is_initialized():
        found.append(Setting("the current device", torch.cuda.current_device, torch.cuda.set_device))
        found.append(Setting("the current stream", torch.cuda.current_stream, torch.cuda.set_stream))
    return found


def _precision(backend: str, what: str) -> Setting:
    read = functools.partial(torch._C._get_fp32_precision_getter, backend, what)
    write = functools.partial(torch._C._set_fp32_precision_setter, backend, what)
    return Setting(f"the float32 precision of {backend}'s {what}", read, write)


def _attention(kernel: str) -> Setting:
    cuda = torch.backends.cuda
    read, write = getattr(cuda, f"{kernel}_sdp_enabled"), getattr(cuda, f"enable_{kernel}_sdp")
    return Setting(f"scaled dot product attention by {kernel} kernels", read, write)


def _attribute(owner: Any, name: str, path: str) -> Setting:
    write = _unless_unknown(functools.partial(setattr, owner, name))
    return Setting(f"{path}.{name}", functools.partial(getattr, owner, name), write)


def _private(name: str, ending: str) -> Setting:
    read, write = getattr(torch._C, f"_get_{ending}", None), getattr(torch._C, f"_set_{ending}", None)
    if read is None or write is None:  # another PyTorch
        return Setting(name, lambda: UNKNOWN)
    return Setting(name, read, write)


def _options(module: str) -> Setting:
    name = f"the options of {module.removesuffix('.config')}"
    return Setting(name, functools.partial(_changed_options, module), functools.partial(_set_options, module))


def _changed_options(module: str) -> Named:
    """Returns the options of a module that were set to another value than their default; none if it is not loaded."""
    found = Named()
    for name, entry in getattr(sys.modules.get(module), "_config", {}).items():
        value, default = entry.user_override, _default_of(entry)
        if isinstance(value, contextvars.ContextVar):  # newer PyTorch
            value = value.get()
        if value is not _UNSET and value != default and name not in _SET_BY_COMPILER and not name.startswith("_"):
            found[name] = copy.deepcopy(value)  # it may be a list that changes later
    return found


def _default_of(entry: Any) -> Any:
    return entry.default if entry.env_value_default is _UNSET else entry.env_value_default


def _set_options(module: str, found: Named) -> None:
    """Sets the options that were left changed to the values that they had, or to their defaults."""
    config: Any = sys.modules[module]
    names = _changed_options(module).keys() | found.keys()
    config.load_config({name: found.get(name, _default_of(config._config[name])) for name in names})


def _unless_unknown(write: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns `write` that skips UNKNOWN, a value that could not be read."""
    return lambda value: None if value == UNKNOWN else write(value)


def _set_default_device(device: torch.device) -> None:
    torch.set_default_device(None)  # PyTorch's own default, without a mode that intercepts every call
    if torch.get_default_device() != device:
        torch.set_default_device(device)


def _leave_function_modes(depth: int) -> None:
    while torch._C._len_torch_function_stack() > depth:
        _pop_function_mode()


def _leave_dispatch_modes(depth: int) -> None:
    while torch._C._len_torch_dispatch_stack() > depth:
        _pop_dispatch_mode()
