"""Where tensors of a call lie: layouts, output storage, buffers."""

from __future__ import annotations

import pytest
import torch

from tileops.ops import checks
from tileops.ops.checked_call import TensorRecord
from tileops.ops.errors import OpCallError
from tileops.ops.outputs import check_apart
from tileops.tests.runtime.demo_ops import ScaleFwdOp


def test_a_sparse_tensor_is_refused():
    with pytest.raises(OpCallError, match="ScaleFwdOp: input 'x' is laid out as torch.sparse_coo, but ops take"):
        ScaleFwdOp()(torch.eye(3).to_sparse())


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.view(-1), lambda x: x.detach(), lambda x: x.data])
def test_an_output_in_the_storage_of_an_input_is_refused(view):
    op = type("Mine", (ScaleFwdOp,), {})
    op.register("views", lambda op, call, x, ids: view(x))
    with pytest.raises(OpCallError, match="implementation 'views' returned 'y' in the storage of an input"):
        op()(torch.ones(4))


def test_an_output_in_another_part_of_an_inputs_storage_is_refused_also_where_views_are_not_counted():
    op = type("Mine", (ScaleFwdOp,), {})
    op.register("views", lambda op, call, x, ids: x.as_strided((4,), (1,), 4))
    with torch.inference_mode(), pytest.raises(OpCallError, match="returned 'y' in the storage of an input"):
        op()(torch.ones(8)[:4])


def test_a_sparse_output_is_refused():
    op = type("Mine", (ScaleFwdOp,), {})
    op.register("sparse", lambda op, call, x, ids: x.to_sparse())
    with pytest.raises(OpCallError, match="output 'y' is laid out as torch.sparse_coo, but ops take"):
        op()(torch.ones(4))


def test_an_output_whose_elements_share_memory_is_refused_and_a_transposed_one_is_not():
    op = type("Mine", (ScaleFwdOp,), {})
    op.register("expands", lambda op, call, x, ids: torch.ones(1).expand(4))
    with pytest.raises(OpCallError, match="'expands' returned 'y' with elements that share memory"):
        op()(torch.ones(4))
    op.register("transposes", lambda op, call, x, ids: torch.ones(3, 2).t())
    assert op()(torch.ones(2, 3)).stride() == (1, 2)


@pytest.mark.parametrize("strides", [(1, 1), (0, 1), (3, 2)])
def test_a_buffer_whose_elements_share_memory_is_refused(strides):
    buffer = torch.empty(64).as_strided((4, 8), strides)
    with pytest.raises(OpCallError, match="elements of the buffer for 'y' share memory"):
        checks.check_buffer("DemoFwdOp", "y", buffer, TensorRecord((4, 8), "float32"), "cpu")


def test_buffers_with_memory_in_common_are_refused_and_parts_of_one_tensor_are_not():
    whole = torch.empty(4, 8)
    check_apart("DemoFwdOp", {"y": whole[:, ::2], "z": whole[:, 1::2]})
    check_apart("DemoFwdOp", {"y": whole[:, :4], "z": whole[:, 4:]})
    for left, right in ((whole, whole[0, :4]), (whole[:, :5], whole[:, 4:])):
        with pytest.raises(OpCallError, match="DemoFwdOp: the buffers for 'y' and 'z' share memory"):
            check_apart("DemoFwdOp", {"y": left, "z": right})


def test_what_is_passed_as_a_buffer_is_a_tensor_also_for_an_output_that_the_call_lacks():
    with pytest.raises(OpCallError, match="the buffer for output 'z' must be a tensor, but a str was passed"):
        checks.split_buffers("DemoFwdOp", ("y", "z"), (torch.empty(2), "nonsense"))
    with pytest.raises(OpCallError, match="the buffer for output 'y' must be a tensor, but a NoneType was passed"):
        checks.check_buffer("DemoFwdOp", "y", None, TensorRecord((4,), "float32"), "cpu")
