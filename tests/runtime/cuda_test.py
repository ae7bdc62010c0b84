"""Recording and tracing on a GPU: generated kernels around an op, memory that a graph reuses, CUDA graphs."""

from __future__ import annotations

import pytest
import torch

from tileops.ops import catalogue, workloads
from tileops.ops.errors import OpNotAvailableError
from tileops.tests.runtime.composite_ops import RoutedLayerFwdOp
from tileops.tests.runtime.traced_ops import SelectFwdOp

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

OPS = {name: op_class for name, op_class in catalogue.load().items() if op_class.implementation_names()}


def smallest_call(name):
    case = min(OPS[name].CASES, key=lambda case: case.input_bytes + case.output_bytes)
    inputs = workloads.build_inputs(OPS[name], case, "cuda")
    # Positive, so that square roots of variances are no NaN, which equals nothing.
    return workloads.construct(OPS[name], case, device="cuda"), [
        tensor.abs() if tensor is not None and tensor.is_floating_point() else tensor for tensor in inputs.values()
    ]


def as_specified(op, result):
    return op.specified_outputs(op.last_call, result if isinstance(result, tuple) else (result,))


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, **options)


@pytest.mark.parametrize("name", OPS)
def test_every_op_runs_within_a_graph_of_inductor_as_it_does_alone(name):
    op, inputs = smallest_call(name)
    eager, traced = ([None if tensor is None else tensor.clone() for tensor in inputs] for _ in range(2))
    wanted = as_specified(op, op(*eager))
    price = op.eval_roofline()
    found = as_specified(op, compiled(lambda *args: op(*args))(*traced))
    assert op.eval_roofline() == price and op.last_implementation
    for one, other in zip((*found, *traced), (*wanted, *eager), strict=True):
        if other is not None:
            torch.testing.assert_close(one, other)


def test_inductor_puts_kernels_of_its_own_around_an_op():
    op = OPS["RMSNormFwdOp"]([512])
    x, weight = torch.randn(64, 512, device="cuda"), torch.randn(512, device="cuda")
    found = compiled(lambda x, weight: op(x * 2, weight).relu() + 1)(x, weight)
    torch.testing.assert_close(found, op(x * 2, weight).relu() + 1)


def test_values_outlive_the_memory_that_the_graph_had_them_in():
    op = SelectFwdOp()

    def function(table, ids):
        ids = ids + 1
        rows = op(table, ids)
        return rows.sum() + (ids * 3).sum(), ids * 5 + 7  # as large as the ids: their memory may be taken

    table, ids = torch.randn(64, 8, device="cuda"), torch.arange(32, device="cuda")
    compiled(function)(table, ids)
    assert op.last_call.values("ids").tolist() == list(range(1, 33)) and op.eval_roofline() == (0, 32)


def test_a_graph_under_cuda_graphs_keeps_no_values_of_a_replay():
    op = SelectFwdOp()
    function = compiled(lambda table, ids: op(table, ids + 0).relu(), mode="reduce-overhead")
    table = torch.randn(64, 8, device="cuda")
    for step in range(5):
        ids = torch.full((32,), step, device="cuda")
        torch.testing.assert_close(function(table, ids), table[ids].relu())
        kept = op.last_call  # the replays call nothing: it is of the graph's capture, or of a warm-up before it
    with pytest.raises(OpNotAvailableError, match="ran while a CUDA graph was captured"):
        kept.values("ids")


def test_values_of_the_calls_before_a_graph_is_captured_are_kept():
    op = SelectFwdOp()
    function = compiled(lambda table, ids: op(table, ids + 0).relu(), mode="reduce-overhead")
    table = torch.randn(64, 8, device="cuda")
    function(table, torch.full((32,), 3, device="cuda"))  # CUDA graphs warm up first
    assert op.last_call.values("ids").tolist() == [3] * 32


def test_a_captured_call_is_recorded_once_and_no_replay_moves_it():
    op, x = OPS["SiLUAndMulFwdOp"](), torch.randn(16, 64, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        op(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = op(x)
    captured, price = op.last_call, op.eval_roofline()
    assert captured.tensors["x"].shape == (16, 64)
    other = torch.randn(4, 32, device="cuda")
    op(other)
    later = op.last_call
    x.copy_(torch.randn(16, 64, device="cuda"))
    graph.replay()
    torch.cuda.synchronize()
    assert op.last_call is later and op.eval_roofline() != price
    torch.testing.assert_close(y, OPS["SiLUAndMulFwdOp"]()(x))


def test_a_fused_call_on_the_gpu_is_priced_as_the_reference_is():
    inputs = [torch.randn(shape, device="cuda") for shape in ((5, 4), (5, 7), (7, 4, 4))]
    fused, reference = RoutedLayerFwdOp(), RoutedLayerFwdOp(target="torch")
    torch.testing.assert_close(fused(*inputs), reference(*inputs))
    assert fused.last_implementation == "fused" and fused.eval_roofline() == reference.eval_roofline()
    on_gpu = fused.last_call.stages["permute"][0].metadata["ids"]
    assert on_gpu.device.type == "cuda"
