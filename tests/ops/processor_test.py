"""The settings under which tests run as on other processors reach torch."""

import os

import pytest
import torch


def test_torch_computes_by_the_instructions_that_the_settings_name():
    named = os.environ.get("ATEN_CPU_CAPABILITY")
    if named is None:
        pytest.skip("ATEN_CPU_CAPABILITY is not set: torch takes what the processor has")
    assert torch.backends.cpu.get_cpu_capability() == named.upper()


def test_onednn_is_held_to_the_instructions_that_the_settings_name():
    """Its gelu of infinity is NaN by AVX-512 alone."""
    if os.environ.get("ONEDNN_MAX_CPU_ISA") not in ("SSE41", "AVX2"):
        pytest.skip("ONEDNN_MAX_CPU_ISA allows AVX-512, which not every processor has")
    assert torch.nn.functional.gelu(torch.full((64,), torch.inf)).isinf().all()
