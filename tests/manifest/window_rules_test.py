"""The output lengths of convolution and pooling against PyTorch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from tileops.manifest.language import primitives

length, stride = st.integers(1, 20), st.integers(1, 6)
kernel, dilation, padding = st.integers(1, 7), st.integers(1, 4), st.integers(0, 5)


def _same(ours, theirs) -> None:
    """Both give one length, or both refuse."""
    try:
        wanted = theirs().shape[-1]
    except RuntimeError:
        with pytest.raises(ValueError, match="."):
            ours()
        return
    assert ours() == wanted


@settings(max_examples=400, deadline=None)
@given(length, kernel, stride, padding, dilation)
def test_conv_out_is_pytorchs(length, kernel, stride, padding, dilation):
    data, weight = torch.empty(1, 1, length, device="meta"), torch.empty(1, 1, kernel, device="meta")
    _same(
        lambda: primitives.conv_out(length, kernel, stride, padding, dilation),
        lambda: functional.conv1d(data, weight, stride=stride, padding=padding, dilation=dilation),
    )


@settings(max_examples=800, deadline=None)
@given(length, kernel, stride, padding, dilation, st.booleans())
def test_pool_out_is_pytorchs(length, kernel, stride, padding, dilation, ceil_mode):
    data = torch.empty(1, 1, 1, length, device="meta")
    _same(
        lambda: primitives.pool_out(length, kernel, stride, padding, dilation, ceil_mode),
        lambda: functional.max_pool2d(data, (1, kernel), (1, stride), (0, padding), (1, dilation), ceil_mode),
    )


def test_the_last_window_must_start_inside_the_axis_or_its_left_padding():
    # Three windows of stride 3 would be the rounded-up count, and the third would start at 6, past 5 + 1 places.
    theirs = functional.max_pool1d(torch.empty(1, 1, 5), 2, 3, 1, 1, True)
    assert primitives.pool_out(5, 2, 3, 1, 1, True) == theirs.shape[-1] == 2


@pytest.mark.parametrize("position", range(5))
def test_no_size_of_a_window_may_be_negative(position):
    sizes = [8, 3, 1, 1, 1]
    sizes[position] = -1
    with pytest.raises(ValueError, match="must"):
        primitives.conv_out(*sizes)
    with pytest.raises(ValueError, match="must"):
        primitives.pool_out(*sizes, False)
