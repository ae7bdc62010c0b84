"""Our own int8 product is exact, in Triton's interpreter."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="Triton is not installed here")

# One tile row, several groups of tile rows, tiles and depths that are not full.
_SHAPES = [(64, 32, 96), (128, 96, 64), (640, 64, 32), (100, 50, 48)]

# The interpreter is chosen when the kernel is declared: in a process of its own.
_CHECK = f"""
import torch
from tileops.perf.calibration import int8 as calibrate_int8
for m, n, k in {_SHAPES}:
    generator = torch.Generator().manual_seed(1)
    a = torch.randint(-128, 128, (m, k), dtype=torch.int8, generator=generator)
    b = torch.randint(-128, 128, (n, k), dtype=torch.int8, generator=generator)
    found = calibrate_int8.product_call(a, b, (64, 32, 32), 3)()
    assert torch.equal(found, a.int() @ b.int().t()), (m, n, k)
"""


def test_the_product_is_exact():
    done = subprocess.run(
        [sys.executable, "-c", _CHECK],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
