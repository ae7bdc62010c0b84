"""Our own int8 product is exact, in Triton's interpreter."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="Triton is not installed here")

# The interpreter is chosen when the kernel is declared: in a process of its own.
_CHECK = """
import torch
from tileops.perf import calibrate_int8
m, n, k = map(int, {shape!r}.split("x"))
generator = torch.Generator().manual_seed(1)
a = torch.randint(-128, 128, (m, k), dtype=torch.int8, generator=generator)
b = torch.randint(-128, 128, (n, k), dtype=torch.int8, generator=generator)
found = calibrate_int8.product_call(a, b, (64, 32, 32), 3)()
assert torch.equal(found, a.int() @ b.int().t())
"""


# One tile row, several groups of tile rows, a last group that is not full.
@pytest.mark.parametrize("shape", ["64x32x96", "128x96x64", "640x64x32"])
def test_the_product_is_exact(shape):
    done = subprocess.run(
        [sys.executable, "-c", _CHECK.format(shape=shape)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
