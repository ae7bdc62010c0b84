"""Ops under torch.compile, torch.export and fake tensors: one operator a call, and nothing of it eagerly."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from tileops.ops import catalogue, library, workloads
from tileops.ops.errors import OpCallError, OpNotAvailableError
from tileops.ops.implementations import implementation
from tileops.tests.runtime import entry_classes
from tileops.tests.runtime.composite_ops import LayerFwdOp
from tileops.tests.runtime.traced_ops import AccumulateFwdOp, ClearFwdOp, ProjectFwdOp, SelectFwdOp, SplitFwdOp

OPS = {name: op_class for name, op_class in catalogue.load().items() if op_class.implementation_names()}
_LARGEST_ROW = 1 << 20  # bytes of inputs and outputs

# Calls of the ops whose smallest row is larger: (parameters, inputs).
SMALL = {
    "AddFwdOp": ({"alpha": 2}, lambda: (randn(3, 1, dtype=torch.float16), randn(1, 4, dtype=torch.float16))),
    "GEMMFwdOp": ({}, lambda: (randn(8, 16, dtype=torch.float16), randn(4, 16, dtype=torch.float16))),
    "SumFwdOp": ({"dim": [0, -1], "keepdim": True}, lambda: (randn(3, 4, 5),)),
    "MeanFwdOp": ({"dim": [0, -1], "keepdim": True}, lambda: (randn(3, 4, 5),)),
    "AmaxFwdOp": ({"dim": [0, -1]}, lambda: (randn(3, 4, 5),)),
    "AminFwdOp": ({"dim": [0, -1]}, lambda: (randn(3, 4, 5),)),
    "ProdFwdOp": ({"dim": -1}, lambda: (randn(3, 4, 5),)),
    "VectorNormFwdOp": ({"ord": 1, "dim": [0, -1]}, lambda: (randn(3, 4, 5),)),
    "AvgPool2dFwdOp": ({"kernel_size": 2}, lambda: (randn(1, 2, 5, 6),)),
    **{
        f"Adaptive{kind}FwdOp": ({"output_size": (2, 3)}, lambda: (randn(1, 2, 5, 6, dtype=torch.float16),))
        for kind in ("AvgPool2d", "MaxPool2d", "MaxPool2dIndices")
    },
    "MeanPoolingFwdOp": ({"chunk_size": 32, "accum_dtype": torch.float32}, lambda: [randn(1, 70, 2, 3), None, None]),
    "FP8QuantPerTokenGroupFwdOp": ({}, lambda: (randn(1, 3, 2, 64),)),
    "FP8QuantPerBlockFwdOp": ({}, lambda: (randn(5, 130),)),
    "INT4QuantPerGroupFwdOp": ({"group_size": 8}, lambda: (randn(3, 16, dtype=torch.float16),)),
    **{
        f"MaxPool{rank}d{kind}FwdOp": ({"kernel_size": 2}, lambda rank=rank: (randn(1, 2, *(5, 6, 4)[:rank]),))
        for rank in (1, 2, 3)
        for kind in ("", "Indices")
    },
    "Conv1dFwdOp": ({}, lambda: [randn(*one, dtype=torch.float16) for one in ((1, 2, 9), (3, 2, 4), (3,))]),
    "Conv2dFwdOp": ({}, lambda: [randn(*one) for one in ((1, 2, 9, 8), (3, 2, 4, 3), (3,))]),
    "Conv3dFwdOp": ({}, lambda: [randn(*one) for one in ((1, 2, 5, 6, 7), (3, 2, 2, 3, 4), (3,))]),
    "GQADenseFwdOp": ({}, lambda: [randn(1, 5, n, 8, dtype=torch.float16) for n in (4, 2, 2)]),
}


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).to(dtype)


def small_call(name):
    """(op, inputs) of a call that is cheap on a CPU."""
    if name in SMALL:
        params, inputs = SMALL[name]
        return OPS[name](**params), list(inputs())
    case = min(OPS[name].CASES, key=lambda case: case.input_bytes + case.output_bytes)
    if case.input_bytes + case.output_bytes > _LARGEST_ROW:
        pytest.fail(f"{name}: its smallest row {case.case_id} is too large for this test: add a call to SMALL")
    op = workloads.construct(OPS[name], case)
    # Positive, so that square roots of variances are no NaN, which equals nothing.
    return op, [abs_of(tensor) for tensor in workloads.build_inputs(OPS[name], case, "cpu").values()]


def abs_of(tensor):
    return tensor.abs() if tensor is not None and tensor.is_floating_point() else tensor


def cloned(inputs):
    return [None if tensor is None else tensor.clone() for tensor in inputs]


def outputs_of(op, result):
    """The part of each output that the op defines."""
    return op.specified_outputs(op.last_call, result if isinstance(result, tuple) else (result,))


def same(found, wanted):
    """Whether two lists of tensors (or None) are equal, NaN to NaN."""
    pairs = zip(found, wanted, strict=True)
    return all(one is other if one is None or other is None else _same(one, other) for one, other in pairs)


def _same(one, other):
    is_same = (one == other) | ((one != one) & (other != other)) if one.shape == other.shape else torch.tensor(False)
    return one.dtype == other.dtype and bool(is_same.all())


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, **{"backend": "aot_eager", **options})


def operators_of(function, *inputs):
    """What torch.compile makes of a function: its result, and the project's operators in the graph."""
    found = []

    def backend(graph, example_inputs):
        targets = [node.target for node in graph.graph.nodes]
        found.extend(target for target in targets if getattr(target, "namespace", "") == library.NAMESPACE)
        return graph

    from torch._dynamo.backends.common import aot_autograd

    return compiled(function, backend=aot_autograd(fw_compiler=backend))(*inputs), found


# ---- every op of the project


@pytest.mark.parametrize("name", OPS)
def test_every_op_passes_opcheck(name):
    op, inputs = small_call(name)
    results = torch.library.opcheck(library.operator(type(op)), (op.handle, *inputs))
    assert set(results.values()) == {"SUCCESS"} and len(results) == 4


@pytest.mark.parametrize("name", OPS)
def test_every_op_compiles_into_one_graph_with_one_operator_and_the_same_results(name):
    op, inputs = small_call(name)
    eager_inputs, traced_inputs = cloned(inputs), cloned(inputs)
    wanted = op(*eager_inputs)
    price, call = op.eval_roofline(), op.last_call
    result, operators = operators_of(lambda *args: op(*args), *traced_inputs)
    assert same(outputs_of(op, result), outputs_of(op, wanted)) and same(traced_inputs, eager_inputs)
    if not op.MUTATED_NAMES:  # those are functionalized under another operator's name
        assert operators == [library.operator(type(op))]
    assert op.last_call is not call and op.eval_roofline() == price
    assert op.last_call.tensors == call.tensors and op.last_call.indices == call.indices


@pytest.mark.parametrize("name", OPS)
def test_every_op_works_on_fake_and_on_meta_tensors_and_returns_the_declared_types(name):
    op, inputs = small_call(name)
    wanted = op(*cloned(inputs))
    call = op.last_call
    with FakeTensorMode() as mode:
        fakes = [None if tensor is None else mode.from_tensor(tensor) for tensor in inputs]
        inside = op(*fakes)
    outside = op(*fakes) if inputs else inside  # a fake tensor is one outside of its mode as well
    assert op.last_call is call  # nothing ran
    with torch.device("meta"):  # where an op without inputs works
        meta = op(*[None if tensor is None else tensor.to("meta") for tensor in inputs])
    for result in (inside, outside, meta):
        assert [one is None for one in as_tuple(result)] == [one is None for one in as_tuple(wanted)]
        for found, real in zip(present(result), present(wanted), strict=True):
            assert (found.shape, found.dtype) == (real.shape, real.dtype)
    assert all(isinstance(found, FakeTensor) for result in (inside, outside) for found in present(result))
    assert all(found.device.type == "meta" for found in present(meta))


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


def present(result):
    return [one for one in as_tuple(result) if one is not None]


def test_a_dispatch_mode_sees_an_op_as_one_operator():
    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            functions.append(func)
            return func(*args, **(kwargs or {}))

    functions, (op, inputs) = [], small_call("RMSNormFwdOp")
    with Seen():
        result = op(*inputs)
    assert functions == [library.operator(type(op))] and same([result], [op(*inputs)])


# ---- the schema


def test_the_schema_is_generated_from_the_signature():
    buffers = "Tensor(a0!)? out_left, Tensor(a1!)? out_right"
    assert f"(str handle, Tensor x, {buffers}) -> (Tensor, Tensor, Tensor)" == SplitFwdOp.SCHEMA
    assert AccumulateFwdOp.SCHEMA == "(str handle, Tensor(a0!) total, Tensor x) -> Tensor"
    assert ClearFwdOp.SCHEMA == "(str handle, Tensor(a0!) x) -> ()" and ClearFwdOp.RETURNED_NAMES == ()
    assert ProjectFwdOp.SCHEMA == "(str handle, Tensor x, Tensor weight) -> Tensor"
    assert OPS["RMSNormFwdOp"].SCHEMA == "(str handle, Tensor x, Tensor? weight) -> Tensor"
    for op_class in (*OPS.values(), SplitFwdOp, AccumulateFwdOp, ClearFwdOp, ProjectFwdOp):
        operator = library.operator(op_class)
        assert str(operator._schema) == f"{library.NAMESPACE}::{op_class.ENTRY}{op_class.SCHEMA}"


# ---- effects


@pytest.mark.parametrize("inplace", [True, False])
def test_a_written_input_is_written_in_the_graph_and_handed_back(inplace):
    op = AccumulateFwdOp(inplace)

    def function(total, x):
        before = total * 1
        result = op(total, x)
        return before, result, total + 1, result is total

    total, x = randn(3), randn(4)[:3]
    wanted = total + x
    traced = total.clone()
    before, result, after, is_input = compiled(function)(traced, x)
    assert is_input is inplace
    assert same([before, result, after], [total, wanted, (wanted if inplace else total) + 1])
    assert same([traced], [wanted if inplace else total])
    assert (result.data_ptr() == traced.data_ptr()) is inplace


def test_an_op_that_only_writes_its_input_has_an_operator_that_returns_nothing():
    op, x = ClearFwdOp(), randn(3)
    result = compiled(lambda x: op(x))(x)
    assert x.tolist() == [0, 0, 0] and result.data_ptr() == x.data_ptr()


def test_batch_norm_in_training_writes_its_statistics_in_the_graph():
    op = OPS["BatchNormFwdOp"](training=True)
    inputs = [randn(4, 3), torch.zeros(3), torch.ones(3)]
    eager, traced = cloned(inputs), cloned(inputs)
    wanted = (*op(*eager), eager[1] * 2)

    def function(x, mean, variance):
        return *op(x, mean, variance), mean * 2  # reads what the op wrote

    assert same(compiled(function)(*traced), wanted) and same(traced, eager)
    assert not same(traced[1:], inputs[1:])


@pytest.mark.parametrize("counts", [True, False])
def test_buffers_are_filled_and_an_absent_output_is_none(counts):
    op, x = SplitFwdOp(counts), randn(2, 6)
    wanted = op(x)
    assert (wanted[2] is None) is not counts
    assert same(compiled(lambda x: op(x))(x), wanted)
    buffers = torch.empty(2, 3), torch.empty(2, 3)
    result = compiled(lambda x, left, right: op(x, out=(left, right)))(x, *buffers)
    assert same(result, wanted) and same(buffers, wanted[:2])
    assert [found.data_ptr() for found in result[:2]] == [buffer.data_ptr() for buffer in buffers]


@pytest.mark.parametrize(
    "halves",
    [
        lambda x: [half.t().contiguous().t() for half in x.clone().chunk(2, dim=1)],  # tensors of their own, transposed
        lambda x: x.clone().chunk(2, dim=1),  # views of one storage
    ],
)
@pytest.mark.parametrize("rows", [1, 2])
def test_what_an_operator_returns_is_contiguous_and_nothing_elses_storage(halves, rows):
    op_class = type("SplitFwdOp", (SplitFwdOp,), {})
    op_class.register("halves", lambda op, call, x: (*halves(x), None))
    op, x = op_class(), randn(rows, 6)
    wanted = op(x)
    traced = library.operator(op_class)(op.handle, x, None, None)
    assert same(traced[:2], wanted[:2]) and all(tensor.is_contiguous() for tensor in traced)
    assert len({tensor.untyped_storage().data_ptr() for tensor in (x, *traced[:2])}) == 3


def test_a_construction_time_tensor_is_an_input_of_the_graph():
    op = ProjectFwdOp(randn(3, 4))
    x, weight = randn(2, 3), op.constants["weight"]

    def function(x):
        weight.mul_(2)  # what the op reads has to be what is there by then
        return op(x)

    wanted = x @ (weight * 2)
    torch.testing.assert_close(compiled(function)(x), wanted)
    assert op.last_call.tensors["weight"].shape == (3, 4)


# ---- dynamic shapes, backends, export


def test_one_graph_serves_all_sizes():
    op, ran = OPS["GEMMFwdOp"](), []

    def backend(graph, example_inputs):
        ran.append(graph)
        return graph

    function = compiled(lambda a, b: op(a, b) + 1, backend=backend, dynamic=True)
    for m, n, k in ((3, 4, 5), (6, 7, 8), (9, 10, 11)):
        a, b = randn(m, k, dtype=torch.float16), randn(n, k, dtype=torch.float16)
        assert same([function(a, b)], [op(a, b) + 1])
        function(a, b)
        assert op.last_call.indices == {"M": m, "N": n, "K": k, "T": "float16"}
    assert len(ran) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backends_that_generate_no_code_serve_it(backend):
    op, inputs = small_call("MoePermuteNopadFwdOp")
    assert same(compiled(lambda *args: op(*args), backend=backend)(*inputs), op(*inputs))


def test_inductor_serves_it():
    # Of the op alone: a kernel of inductor's own takes a C++ compiler a minute here.
    op, x, weight = OPS["RMSNormFwdOp"]([8]), randn(5, 8), randn(8)
    assert same([compiled(lambda x, weight: op(x, weight), backend="inductor")(x, weight)], [op(x, weight)])


@pytest.mark.parametrize("strict", [False, True])
def test_export_keeps_the_operator(strict):
    op = OPS["RMSNormFwdOp"]([8])

    class Model(torch.nn.Module):
        def forward(self, x):
            return op(x) + 1

    x = randn(5, 8)
    program = torch.export.export(Model(), (x,), strict=strict)
    assert library.operator(type(op)) in [node.target for node in program.graph.nodes]
    assert same([program.module()(x)], [op(x) + 1])


def test_ops_called_directly_through_their_operator_are_checked():
    op = OPS["GEMMFwdOp"]()
    with pytest.raises(OpCallError, match="axis 1 of 'b' is declared 'K'"):
        library.operator(type(op))(op.handle, randn(2, 3, dtype=torch.float16), randn(5, 4, dtype=torch.float16))


@pytest.mark.parametrize(("dynamic", "size"), [(False, "3"), (True, "s")])
def test_a_call_that_does_not_fit_says_so_while_it_is_traced(dynamic, size):
    op = OPS["GEMMFwdOp"]()
    function = torch.compile(lambda a, b: op(a, b), fullgraph=True, backend="eager", dynamic=dynamic)
    with pytest.raises(Exception, match=f"GEMMFwdOp: axis 1 of 'b' is declared 'K', which is {size}"):
        function(randn(2, 3, dtype=torch.float16), randn(5, 4, dtype=torch.float16))


# ---- what is recorded


def test_a_call_in_a_graph_is_recorded_for_its_own_instance():
    one, other = OPS["SumFwdOp"](0), OPS["SumFwdOp"](0)
    function = compiled(lambda x: (one(x), other(x[:2])))
    function(randn(3, 4))
    assert one.last_call.tensors["input"].shape == (3, 4) and other.last_call.tensors["input"].shape == (2, 4)


def test_instances_of_other_settings_are_told_apart_by_one_compiled_function():
    x, function = randn(4, 4), compiled(lambda op, x: op(x))
    for dim in (0, 1, 0):
        op = OPS["SumFwdOp"](dim)
        assert same([function(op, x)], [x.sum(dim)])


def test_a_composite_in_a_graph_records_its_stages():
    op, stream = LayerFwdOp(target="torch"), torch.Generator().manual_seed(0)
    inputs = [torch.randn(shape, generator=stream) for shape in ((5, 4), (4, 7), (7, 4, 6), (7, 6, 4))]
    wanted = op(*inputs)
    price = op.eval_roofline()
    torch.testing.assert_close(compiled(lambda *args: op(*args))(*inputs), wanted)
    assert len(op.last_call.stages["experts"]) == 2 and op.eval_roofline() == price


def test_values_outlive_the_memory_that_the_graph_had_them_in():
    op = SelectFwdOp()

    def function(table, ids):
        ids = ids * 1  # made in the graph, which may write over it after its last use
        rows = op(table, ids)
        return rows, ids.mul_(0)

    compiled(function)(randn(8, 3), torch.tensor([1, 5, 5]))
    assert op.last_call.values("ids").tolist() == [1, 5, 5] and op.eval_roofline() == (0, 2)
    ids = torch.tensor([1, 5, 5])
    library.operator(SelectFwdOp)(op.handle, randn(8, 3), ids)
    ids.data.zero_()  # as a generated kernel does, past the count of writes
    assert op.last_call.values("ids").tolist() == [1, 5, 5]


# ---- autograd


def test_a_call_that_wants_a_gradient_is_refused_and_not_silently_detached():
    op, x = OPS["SumFwdOp"](), randn(3).requires_grad_()
    message = r"SumFwdOp: a tensor of the call requires a gradient, but ops have no derivative: call it under"
    with pytest.raises(OpCallError, match=message):
        op(x)
    with pytest.raises(Exception, match=message):
        compiled(lambda x: op(x))(x)
    with FakeTensorMode() as mode, pytest.raises(OpCallError, match=message):
        op(mode.from_tensor(x))
    with pytest.raises(OpCallError, match="ProjectFwdOp: a tensor of the call requires a gradient"):
        ProjectFwdOp(randn(3, 4).requires_grad_())(randn(2, 3))


def test_a_call_that_wants_no_gradient_takes_parameters():
    op, x = OPS["SumFwdOp"](), torch.nn.Parameter(randn(3))
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert not op(x).requires_grad
            assert same([compiled(lambda x: op(x))(x)], [x.sum()])
    assert same([op(x.detach())], [x.detach().sum()])


# ---- eager calls


def test_an_eager_call_passes_no_operator_and_registers_none(monkeypatch):
    classes = entry_classes.generated("traced.yaml")
    generated = classes.ProjectFwdOp
    op_class = type("ProjectFwdOp", (generated,), {"_torch": implementation("torch")(ProjectFwdOp._torch)})
    monkeypatch.setattr(library, "in_graph", None)
    op_class(randn(3, 4))(torch.nn.Parameter(randn(2, 3), requires_grad=False))
    assert generated not in library._OPERATORS


def test_an_operator_goes_with_its_class_and_a_second_entry_of_its_name_has_its_own():
    gc.collect()
    library.operator(ProjectFwdOp)
    other = entry_classes.generated("traced.yaml").ProjectFwdOp
    operator = library.operator(other)
    assert operator.name() == f"{library.NAMESPACE}::ProjectFwdOp_2" and operator is not library.operator(ProjectFwdOp)
    del other, operator
    gc.collect()
    schemas = torch._C._jit_get_schemas_for_operator
    assert not schemas(f"{library.NAMESPACE}::ProjectFwdOp_2") and schemas(f"{library.NAMESPACE}::ProjectFwdOp")


# ---- handles


def test_a_handle_says_its_settings_and_finds_its_op():
    one = OPS["SumFwdOp"]([1, 2], dtype=torch.float32, target="torch")
    assert one.handle.startswith("SumFwdOp(dim=(1, 2), keepdim=False, dtype='float32', target='torch')")
    two = OPS["SumFwdOp"]([1, 2], dtype=torch.float32, target="torch")
    assert two.handle != one.handle and two.handle.startswith(one.handle.split(" #")[0])
    assert library.instance(one.handle) is one and library.instance(two.handle) is two


def test_a_graph_whose_op_is_gone_says_what_to_construct():
    op = OPS["SumFwdOp"](0)
    handle, operator = op.handle, library.operator(type(op))
    del op
    gc.collect()
    with pytest.raises(OpNotAvailableError, match=r"a graph calls the op SumFwdOp\(dim=0, .* construct it"):
        operator(handle, randn(3))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda op: pickle.loads(pickle.dumps(op))])
def test_a_copy_of_an_op_compiles_as_itself(again):
    op = OPS["SumFwdOp"](0)
    other = again(op)
    assert other.handle != op.handle
    compiled(lambda x: other(x))(randn(3))
    assert other.last_call.tensors["input"].shape == (3,)
    with pytest.raises(OpNotAvailableError):
        op.last_call


def test_a_setting_that_says_its_address_is_no_other_processes_setting():
    class Thing(OPS["SumFwdOp"]):
        def __init__(self, thing):
            super(OPS["SumFwdOp"].__mro__[1], self).__init__({"thing": thing}, None)

    assert f" of process {library._PROCESS}" in Thing(object()).handle
