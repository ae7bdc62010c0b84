"""Transforms that ops do not take part in."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad

from tileops.ops.errors import OpCallError
from tileops.ops.last_call import LastCall
from tileops.tests.runtime.demo_ops import ScaleFwdOp


def test_a_batch_of_calls_is_not_taken_for_one():
    with pytest.raises(OpCallError, match="ScaleFwdOp: a tensor of the call is batched by torch.vmap"):
        torch.vmap(ScaleFwdOp())(torch.ones(2, 4))


def test_a_derivative_is_never_left_out_silently():
    op, x = ScaleFwdOp(), torch.ones(4)
    with pytest.raises(OpCallError, match="ScaleFwdOp: a tensor of the call carries a derivative"):
        torch.func.jvp(op, (x,), (x,))
    with forward_ad.dual_level():
        with pytest.raises(OpCallError, match="carries a derivative"):
            op(forward_ad.make_dual(x, x))
        assert op(x).tolist() == [2, 2, 2, 2]


def test_a_record_that_was_never_set_up_is_let_go_of_quietly():
    LastCall.__new__(LastCall).__del__()
