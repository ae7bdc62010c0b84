"""PyTorch's process-wide settings: threads, defaults, precisions, kernels of choice, modes, device and stream."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import _pop_mode as _pop_function_mode
from torch.utils._python_dispatch import _pop_mode as _pop_dispatch_mode

from tileops.perf.harness.setting import UNKNOWN, Setting

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


def settings() -> list[Setting]:
    """All of them; those of CUDA's device and libraries once CUDA was used."""
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
