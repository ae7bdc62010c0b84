"""PyTorch's process-wide settings, which decide how fast and how exactly everybody computes: read, compared, put back.

An implementation that needs a setting sets it inside its call and resets it before it returns. What it leaves behind
would change the times of those that are measured after it in the same process, the reference's among them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import _pop_mode as _pop_function_mode
from torch.utils._python_dispatch import _pop_mode as _pop_dispatch_mode

from tileops.perf.clock.activities import ClockError

# Backends and operations whose float32 products have a precision of their own.
_PRECISIONS = (
    ("generic", "all"), ("cuda", "all"), ("cuda", "matmul"), ("cuda", "conv"), ("cuda", "rnn"),
    ("mkldnn", "all"), ("mkldnn", "matmul"), ("mkldnn", "conv"), ("mkldnn", "rnn"),
)  # fmt: skip
_DEVICE_TYPES = ("cpu", "cuda")
# A precision that was never set, and one that was set back: both are full precision.
_FULL = {"none", "ieee"}
_UNKNOWN = "unknown"
# Settings that a message names. A count.
_TOLD = 3
_CUDNN = ("allow_tf32", "benchmark", "deterministic", "enabled")
_SDP_KERNELS = ("flash", "mem_efficient", "math", "cudnn")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Setting:
    """How a setting is called, read and written; `write` is None for what cannot be written."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], Any] | None = None


def read() -> dict[str, Any]:
    """All settings by name, as they are now."""
    return {setting.name: _read(setting) for setting in _settings()}


def restore(before: Mapping[str, Any]) -> bool:
    """Put back what has changed since `before` was read; whether all of it is as it was then."""
    for _ in range(2):  # some settings write each other
        for setting in _settings():
            if setting.write is None or setting.name not in before:
                continue
            if not _is_same(_read(setting), before[setting.name]):
                setting.write(before[setting.name])
    return not describe(before, read())


def check(before: Mapping[str, Any]) -> None:
    """Raises ClockError where a setting is not what it was when `before` was read: which, and what to do about it."""
    if said := describe(before, read()):
        raise ClockError(said)


def describe(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What differs and what to do about it, in words; "" where nothing does."""
    differing = [name for name, value in before.items() if not _is_same(value, now[name])]
    changed = [f"{name} was left at {now[name]}, and was {before[name]}" for name in differing]
    if not changed:
        return ""
    told = "; ".join(changed[:_TOLD]) + (f"; and {len(changed) - _TOLD} more" if len(changed) > _TOLD else "")
    return f"{told}: what needs a setting sets it inside its call and resets it before it returns"


def _read(setting: _Setting) -> Any:
    try:
        return setting.read()
    except (RuntimeError, AttributeError):  # ways of setting precisions were mixed; this PyTorch has no such setting
        return _UNKNOWN


def _is_same(one: Any, other: Any) -> bool:
    return one == other or {one, other} == _FULL


def _settings() -> list[_Setting]:
    matmul, cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cuda, torch.backends.cudnn
    found = [
        _Setting(name="the number of threads", read=torch.get_num_threads, write=torch.set_num_threads),
        _Setting(name="the number of interop threads", read=torch.get_num_interop_threads),
        _Setting(name="the default dtype", read=torch.get_default_dtype, write=torch.set_default_dtype),
        _Setting(
            name="the depth of torch function modes",
            read=torch._C._len_torch_function_stack, write=_leave_function_modes,
        ),
        _Setting(
            name="the depth of torch dispatch modes",
            read=torch._C._len_torch_dispatch_stack, write=_leave_dispatch_modes,
        ),
        _Setting(name="the default device", read=torch.get_default_device, write=_set_default_device),
        *(
            _Setting(
                name=f"the float32 precision of {backend}'s {what}",
                read=functools.partial(torch._C._get_fp32_precision_getter, backend, what),
                write=functools.partial(torch._C._set_fp32_precision_setter, backend, what),
            )
            for backend, what in _PRECISIONS
            if hasattr(torch._C, "_get_fp32_precision_getter")
        ),
        _Setting(
            name="the float32 matmul precision",
            read=torch.get_float32_matmul_precision, write=_unless_unknown(torch.set_float32_matmul_precision),
        ),
        _attribute(matmul, "allow_tf32", "torch.backends.cuda.matmul"),
        _attribute(matmul, "allow_fp16_reduced_precision_reduction", "torch.backends.cuda.matmul"),
        _attribute(matmul, "allow_bf16_reduced_precision_reduction", "torch.backends.cuda.matmul"),
        _attribute(matmul, "allow_fp16_accumulation", "torch.backends.cuda.matmul"),
        *(_attribute(cudnn, name, "torch.backends.cudnn") for name in _CUDNN),
        *(
            _Setting(
                name=f"scaled dot product attention by {kernel} kernels",
                read=getattr(cuda, f"{kernel}_sdp_enabled"), write=getattr(cuda, f"enable_{kernel}_sdp"),
            )
            for kernel in _SDP_KERNELS
        ),
        _Setting(
            name="the deterministic mode",
            read=torch.get_deterministic_debug_mode, write=torch.set_deterministic_debug_mode,
        ),
        _Setting(name="grad mode", read=torch.is_grad_enabled, write=torch._C._set_grad_enabled),
        _Setting(name="inference mode", read=torch.is_inference_mode_enabled),
    ]  # fmt: skip
    for kind in _DEVICE_TYPES:
        found += [
            _Setting(
                name=f"autocast of {kind}",
                read=functools.partial(torch.is_autocast_enabled, kind),
                write=functools.partial(torch.set_autocast_enabled, kind),
            ),
            _Setting(
                name=f"the autocast dtype of {kind}",
                read=functools.partial(torch.get_autocast_dtype, kind),
                write=functools.partial(torch.set_autocast_dtype, kind),
            ),
        ]
    if torch.cuda.is_initialized():
        found += [
            _Setting(name="the current device", read=torch.cuda.current_device, write=torch.cuda.set_device),
            _Setting(name="the current stream", read=torch.cuda.current_stream, write=torch.cuda.set_stream),
        ]
    return found


def _attribute(owner: Any, name: str, path: str) -> _Setting:
    return _Setting(
        name=f"{path}.{name}",
        read=functools.partial(getattr, owner, name),
        write=_unless_unknown(functools.partial(setattr, owner, name)),
    )


def _unless_unknown(write: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Writes a value that was read; there is none where PyTorch would not tell it."""
    return lambda value: None if value == _UNKNOWN else write(value)


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
