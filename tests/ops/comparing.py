"""Comparison of an implementation with what the same op gives in float64."""

from __future__ import annotations

import torch

# Largest error of an element, relative to its size plus one: the rounding of the result, and for float32 of the sums.
TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 2e-5}
DTYPES = list(TOLERANCE)


def assert_near(found: torch.Tensor, exact: torch.Tensor, scale: float = 1.0) -> None:
    """`found` is `exact` (float64) but for the rounding of its dtype; `scale` is the size of what was added up."""
    assert found.shape == exact.shape
    tolerance = TOLERANCE[found.dtype]
    torch.testing.assert_close(found.double(), exact, atol=tolerance * scale, rtol=tolerance)
