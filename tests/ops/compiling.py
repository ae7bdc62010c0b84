"""Compiles what launches ask for, for compute capability 9.0, which needs no GPU; nothing is launched."""

import os
import re
import types

import pytest
import torch

if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("kernels are interpreted in this process; run this file alone", allow_module_level=True)

import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

_H200 = GPUTarget("cuda", 90, 32)


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """PTX of the kernels that launches ask for, by kernel name."""
    found: dict[str, list[str]] = {}
    compile_for_launch = JITFunction.run

    def run(self, *args, grid, warmup, **kwargs):
        kernel = compile_for_launch(self, *args, grid=grid, warmup=True, **kwargs)
        found.setdefault(self.fn.__name__, []).append(kernel.asm["ptx"])
        return kernel

    driver = types.SimpleNamespace(
        get_current_target=lambda: _H200, get_current_device=lambda: 0, get_current_stream=lambda device=None: 0
    )
    monkeypatch.setattr(JITFunction, "run", run)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    triton.runtime.driver.set_active(driver)
    yield found
    triton.runtime.driver.set_active(None)  # whoever asks next finds the machine's own


def empty(*shape, dtype=torch.bfloat16):
    return torch.empty(shape, dtype=dtype)


def assert_wide(ptx):
    """All of a streaming kernel's traffic of vectors goes 16 bytes at a time."""
    assert re.search(r"ld\.global\S*\.v4\.b32", ptx) and re.search(r"st\.global\S*\.v4\.b32", ptx)
