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


def assert_rounded(found: torch.Tensor, expected: torch.Tensor, least: float = 0.0) -> None:
    """`found` is `expected` but for the rounding of its dtype, a subnormal's own included; integers and bools are
    equal.

    Args:
      found, expected: of one shape and dtype.
      least: an error that is allowed whatever the size.
    """
    assert found.dtype == expected.dtype and found.shape == expected.shape
    if not found.dtype.is_floating_point:
        assert torch.equal(found, expected)
        return
    tolerance = TOLERANCE[found.dtype]
    absolute = max(least, tolerance * torch.finfo(found.dtype).tiny)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=absolute, equal_nan=True)


def assert_zeros_have_the_same_sign(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Where both are 0, both are of one sign, which no comparison of numbers tells."""
    zeros = (found == 0) & (expected == 0)
    assert torch.equal(torch.signbit(found[zeros]), torch.signbit(expected[zeros]))
