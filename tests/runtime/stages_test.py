"""call.stages: the checked calls that a composite's sub-ops completed, and how a fused call comes by them."""

from __future__ import annotations

import concurrent.futures
import contextvars
import gc
import threading

import pytest
import torch

from tileops.ops.errors import OpCallError, OpNotAvailableError
from tileops.ops.implementations import implementation
from tileops.ops.stages import Stage, stage
from tileops.tests.runtime import entry_formulas
from tileops.tests.runtime.composite_ops import (
    BlockFwdOp, CombineFwdOp, DenseFwdOp, GroupedFwdOp, LayerFwdOp, PermuteFwdOp, RoutedLayerFwdOp, RouterFwdOp,
)  # fmt: skip

M, H, I, E = 5, 4, 6, 7


def layer_inputs(shared=False, seed=0):
    """Inputs of LayerFwdOp. Few tokens and many experts, so that some experts get no row."""
    stream = torch.Generator().manual_seed(seed)
    shapes = {"hidden": (M, H), "gate": (H, E), "up": (E, H, I), "down": (E, I, H), **({"shared": (H, H)} if shared else {})}
    return {name: torch.randn(shape, generator=stream) for name, shape in shapes.items()}


def routed_inputs(seed=0):
    """Inputs of RoutedLayerFwdOp and BlockFwdOp."""
    stream = torch.Generator().manual_seed(seed)
    shapes = {"hidden": (M, H), "logits": (M, E), "w": (E, H, H)}
    return {name: torch.randn(shape, generator=stream) for name, shape in shapes.items()}


def on_meta(inputs, *kept):
    return {name: tensor if name in kept else tensor.to("meta") for name, tensor in inputs.items()}


def counts(call):
    """How many calls each stage made."""
    return {name: len(calls) for name, calls in call.stages.items()}


def facts(call):
    """A call and its stages as plain values that can be compared."""
    values = {name: call.values(name).tolist() for name in call.metadata}
    inner = {name: [facts(one) for one in calls] for name, calls in call.stages.items()}
    return call.op, dict(call.params), dict(call.indices), dict(call.tensors), values, inner


# ---- recorded


def test_stages_are_recorded_by_name_in_order_and_with_repeats():
    op, inputs = LayerFwdOp(target="torch"), layer_inputs()
    op(**inputs)
    call = op.last_call
    assert counts(call) == {"scores": 1, "route": 1, "permute": 1, "experts": 2, "combine": 1, "shared": 0}
    up, down = call.stages["experts"]
    assert up.tensors["w"].shape == (E, H, I) and down.tensors["w"].shape == (E, I, H)
    assert [one.op for one in call.stages["scores"]] == ["DenseFwdOp"]


def test_a_deciding_value_reaches_the_formula_through_a_stage():
    op, inputs = LayerFwdOp(target="torch"), layer_inputs()
    op(**inputs)
    hit = (inputs["hidden"] @ inputs["gate"]).topk(2, dim=1).indices.unique().numel()
    assert 2 <= hit < E
    flops = 2 * M * H * E + 5 * M * E + 2 * M + 2 * (2 * 2 * M * H * I) + 2 * 2 * M * H
    assert op.eval_roofline() == (flops, 4 * (M * H + H * E + M * H + 2 * H * I * hit))


def test_an_optional_stage_is_there_when_it_ran_and_empty_when_not():
    op = LayerFwdOp(target="torch")
    op(**layer_inputs(shared=True))
    assert counts(op.last_call)["shared"] == 1
    op(**layer_inputs())
    assert op.last_call.stages["shared"] == []


def test_a_stage_that_a_kernel_runs_has_no_checked_calls_and_says_so():
    op = LayerFwdOp(target="torch")
    op(**layer_inputs())
    with pytest.raises(KeyError, match="LayerFwdOp: stage 'activation' is run by the kernel 'acme_relu'; only ops make"):
        op.last_call.stages["activation"]
    with pytest.raises(KeyError, match="LayerFwdOp has no stage 'expert'; stages that an op runs: scores, route, permute"):
        op.last_call.stages["expert"]


def test_an_op_that_is_no_composite_has_no_stages():
    op = DenseFwdOp()
    op(torch.ones(2, 3), torch.ones(3, 2))
    assert dict(op.last_call.stages) == {}
    with pytest.raises(KeyError, match="DenseFwdOp has no stage 'x'; stages that an op runs: none"):
        op.last_call.stages["x"]


def test_calls_inside_a_nested_composite_are_its_own():
    op = BlockFwdOp(target="torch")
    op(**routed_inputs())
    assert counts(op.last_call) == {"layer": 2}
    assert [counts(one) for one in op.last_call.stages["layer"]] == [{"route": 1, "permute": 1, "experts": 1, "combine": 1}] * 2


def test_what_an_op_calls_inside_a_stage_is_its_own():
    class Helped(CombineFwdOp):
        @implementation("helped")
        def _helped(self, call, y, place, weights):
            DenseFwdOp()(torch.ones(1, 1), torch.ones(1, 1))  # of no concern to the composite
            return CombineFwdOp._torch(self, call, y, place, weights)

    class Layer(RoutedLayerFwdOp):
        @implementation("helping")
        def _helping(self, call, hidden, logits, w):
            ids, weights = RouterFwdOp(2)(logits)
            rows, sizes, place = PermuteFwdOp(E)(hidden, ids)
            return Helped()(GroupedFwdOp()(rows, w, sizes), place, weights)

    op = Layer()
    op(**routed_inputs())
    assert counts(op.last_call) == {"route": 1, "permute": 1, "experts": 1, "combine": 1}


def test_sub_ops_keep_last_calls_of_their_own():
    router = RouterFwdOp(2)

    class Layer(RoutedLayerFwdOp):
        @implementation("mine")
        def _mine(self, call, hidden, logits, w):
            ids, weights = router(logits)
            rows, sizes, place = PermuteFwdOp(E)(hidden, ids)
            return CombineFwdOp()(GroupedFwdOp()(rows, w, sizes), place, weights)

    op = Layer()
    op(**routed_inputs())
    assert op.last_call.stages["route"] == [router.last_call]


def variant(function):
    """A RoutedLayerFwdOp class with another implementation."""
    return type("Variant", (RoutedLayerFwdOp,), {"_variant": implementation("variant")(function)})


def test_a_call_of_an_op_that_no_stage_names_is_refused():
    op = variant(lambda self, call, hidden, logits, w: DenseFwdOp()(hidden, w[0]))()
    with pytest.raises(OpCallError, match=r"RoutedLayerFwdOp: a sub-op DenseFwdOp was called, and none of its stages \(route \(RouterFwdOp\)"):
        op(**routed_inputs())


def test_two_stages_of_one_op_have_to_be_told_apart():
    class Layer(LayerFwdOp):
        @implementation("unnamed")
        def _unnamed(self, call, hidden, gate, up, down, shared):
            return DenseFwdOp()(hidden, gate)

    with pytest.raises(OpCallError, match="its stages scores and shared are of that op; name the one meant with `with stage"):
        Layer()(**layer_inputs())


@pytest.mark.parametrize("name", ["combine", "elsewhere"])
def test_a_stage_named_for_another_op_is_refused(name):
    def function(self, call, hidden, logits, w):
        with stage(name):
            RouterFwdOp(2)(logits)

    with pytest.raises(OpCallError, match=f"RouterFwdOp was called as stage '{name}', and the composition's stages are"):
        variant(function)()(**routed_inputs())


def test_naming_a_stage_outside_of_a_composite_changes_nothing():
    with stage("scores"):
        op = DenseFwdOp()
        op(torch.ones(2, 3), torch.ones(3, 2))
    assert op.eval_roofline()[0] == 24


def test_a_stage_that_fails_fails_the_call_and_leaves_the_last_one(monkeypatch):
    op = LayerFwdOp(target="torch")
    op(**layer_inputs())
    before = op.last_call
    monkeypatch.setattr(GroupedFwdOp, "fails", True)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        op(**layer_inputs(shared=True))
    assert op.last_call is before and counts(before)["experts"] == 2
    monkeypatch.setattr(GroupedFwdOp, "fails", False)
    op(**layer_inputs())
    assert counts(op.last_call)["experts"] == 2  # nothing of the failed call was left behind


def test_a_sub_op_call_that_failed_is_not_recorded():
    def function(self, call, hidden, logits, w):
        with pytest.raises(OpCallError):
            RouterFwdOp(E + 1)(logits)
        return RoutedLayerFwdOp._torch(self, call, hidden, logits, w)

    op = variant(function)()
    op(**routed_inputs())
    assert counts(op.last_call)["route"] == 1


def test_a_sub_op_in_a_thread_belongs_to_the_call_whose_context_it_runs_in():
    def function(self, call, hidden, logits, w):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            ids, weights = pool.submit(contextvars.copy_context().run, RouterFwdOp(2), logits).result()
            pool.submit(RouterFwdOp(2), logits).result()  # in the thread's own context: nobody's stage
        rows, sizes, place = PermuteFwdOp(E)(hidden, ids)
        return CombineFwdOp()(GroupedFwdOp()(rows, w, sizes), place, weights)

    op = variant(function)()
    op(**routed_inputs())
    assert counts(op.last_call) == {"route": 1, "permute": 1, "experts": 1, "combine": 1}


def test_threads_record_stages_of_their_own_calls():
    op, barrier = LayerFwdOp(target="torch"), threading.Barrier(8)

    def work(seed):
        barrier.wait()
        for _ in range(5):
            op(**layer_inputs(shared=seed % 2 == 1, seed=seed))
        return counts(op.last_call), op.eval_roofline()

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    for seed, (made, price) in enumerate(found):
        assert made == {"scores": 1, "route": 1, "permute": 1, "experts": 2, "combine": 1, "shared": seed % 2}
        op(**layer_inputs(shared=seed % 2 == 1, seed=seed))
        assert price == op.eval_roofline()


# ---- completed after a fused call


@pytest.mark.parametrize("shared", [False, True])
def test_a_fused_call_is_priced_as_the_reference_is(shared):
    fused, reference, inputs = LayerFwdOp(), LayerFwdOp(target="torch"), layer_inputs(shared)
    torch.testing.assert_close(fused(**inputs), reference(**inputs))
    assert fused.last_call.implementation == "fused"
    assert counts(fused.last_call) == counts(reference.last_call)
    assert facts(fused.last_call) == facts(reference.last_call)
    assert fused.eval_roofline() == reference.eval_roofline()


def test_completing_runs_routing_for_real_and_nothing_else(monkeypatch):
    op, inputs = LayerFwdOp(), layer_inputs()
    op(**inputs)
    monkeypatch.setattr(RouterFwdOp, "runs", 0)
    monkeypatch.setattr(GroupedFwdOp, "runs", 0)
    op.eval_roofline()
    assert (RouterFwdOp.runs, GroupedFwdOp.runs) == (1, 0)
    op.eval_roofline()
    assert RouterFwdOp.runs == 1  # completed once


def test_nothing_is_completed_until_a_formula_asks(monkeypatch):
    monkeypatch.setattr(RouterFwdOp, "runs", 0)
    op = LayerFwdOp()
    op(**layer_inputs())
    assert RouterFwdOp.runs == 0


def test_completing_moves_no_last_call():
    router = RouterFwdOp(2)

    class Layer(RoutedLayerFwdOp):
        @implementation("torch")
        def _torch(self, call, hidden, logits, w):
            ids, weights = router(logits)
            rows, sizes, place = PermuteFwdOp(E)(hidden, ids)
            return CombineFwdOp()(GroupedFwdOp()(rows, w, sizes), place, weights)

    op = Layer()
    op(**routed_inputs())
    call = op.last_call
    assert call.implementation == "fused" and counts(call)["route"] == 1
    assert op.last_call is call
    with pytest.raises(OpNotAvailableError, match="no call has completed"):
        router.last_call


def test_a_nested_and_repeated_composite_is_completed():
    inputs = routed_inputs()
    fused, reference = BlockFwdOp(depth=3), BlockFwdOp(depth=3, target="torch")
    fused(**inputs)
    reference(**inputs)
    assert counts(fused.last_call) == {"layer": 3}
    assert facts(fused.last_call) == facts(reference.last_call)
    assert fused.eval_roofline() == reference.eval_roofline()


def test_a_fused_stage_within_a_composite_is_completed(monkeypatch):
    monkeypatch.setattr(BlockFwdOp, "inner", "fused")
    mixed, reference, inputs = BlockFwdOp(target="torch"), RoutedLayerFwdOp(target="torch"), routed_inputs()
    mixed(**inputs)
    reference(**inputs)
    first, second = mixed.last_call.stages["layer"]
    assert first.implementation == "fused" and counts(second) == counts(reference.last_call)
    assert facts(first) == facts(reference.last_call)


def test_a_partly_fused_call_is_completed_as_a_whole():
    def function(self, call, hidden, logits, w):
        RouterFwdOp(2)(logits)  # the rest is one kernel
        return RoutedLayerFwdOp._fused(self, call, hidden, logits, w)

    op, reference, inputs = variant(function)(), RoutedLayerFwdOp(target="torch"), routed_inputs()
    op(**inputs)
    reference(**inputs)
    assert facts(op.last_call) == facts(reference.last_call)


def test_an_optional_stage_that_an_implementation_fused_is_completed():
    class Layer(LayerFwdOp):
        @implementation("mostly")
        def _mostly(self, call, hidden, gate, up, down, shared):
            out = LayerFwdOp._torch(self, call, hidden, gate, up, down, None)
            return out if shared is None else out + hidden @ shared

    mostly, reference, inputs = Layer(), LayerFwdOp(target="torch"), layer_inputs(shared=True)
    mostly(**inputs)
    reference(**inputs)
    assert counts(mostly.last_call)["shared"] == 1 and facts(mostly.last_call) == facts(reference.last_call)


def test_metadata_of_a_stage_that_is_the_composites_own_is_stale_when_that_is_written():
    op, inputs = BlockFwdOp(), routed_inputs()
    op(**inputs)
    layer = op.last_call.stages["layer"][0]
    assert layer.values("logits").tolist() == inputs["logits"].tolist()
    inputs["logits"].neg_()
    with pytest.raises(OpNotAvailableError, match="RoutedLayerFwdOp: 'logits' was written after the call"):
        layer.values("logits")


def test_a_second_fused_call_is_priced_by_its_own_routing():
    op, reference = LayerFwdOp(), LayerFwdOp(target="torch")
    prices = []
    for seed in range(6):
        inputs = layer_inputs(seed=seed)
        op(**inputs)
        reference(**inputs)
        assert op.eval_roofline() == reference.eval_roofline()
        prices.append(op.eval_roofline())
    assert len(set(prices)) > 1


def test_data_that_decides_and_is_gone_is_an_error_that_names_it():
    op, inputs = LayerFwdOp(), layer_inputs()
    op(**inputs)
    inputs["gate"].add_(1)
    with pytest.raises(OpNotAvailableError, match="depend on the data of gate, which is not at hand") as refused:
        op.eval_roofline()
    assert "PermuteFwdOp: the values of 'ids'" in str(refused.value) or "GroupedFwdOp: the values of 'sizes'" in str(refused.value)
    op(**layer_inputs())
    gc.collect()
    with pytest.raises(OpNotAvailableError, match="depend on the data of gate, hidden"):
        op.eval_roofline()


def test_data_that_decides_nothing_is_not_needed():
    op, reference, inputs = RoutedLayerFwdOp(), RoutedLayerFwdOp(target="torch"), routed_inputs()
    op(**inputs)
    reference(**inputs)
    inputs["hidden"].zero_()  # permuted, and of no influence on how many rows an expert gets
    del inputs["w"]
    assert facts(op.last_call) == facts(reference.last_call)


def test_inputs_are_not_kept_alive_for_the_stages():
    import weakref

    op, inputs = LayerFwdOp(), layer_inputs()
    op(**inputs)
    held = [weakref.ref(tensor) for tensor in inputs.values()]
    del inputs
    assert [ref() for ref in held] == [None] * 4


def test_metadata_written_since_the_call_is_an_error():
    op, inputs = RoutedLayerFwdOp(), routed_inputs()
    op(**inputs)
    inputs["logits"].neg_()
    with pytest.raises(OpNotAvailableError, match="'logits' was written after the call"):
        op.eval_roofline()


def test_a_call_on_meta_completes_its_stages_with_routing_for_real():
    op, reference, inputs = RoutedLayerFwdOp(), RoutedLayerFwdOp(target="torch"), routed_inputs()
    op(**on_meta(inputs, "logits"))
    reference(**inputs)
    assert op.last_call.device == "meta" and facts(op.last_call) == facts(reference.last_call)
    assert op.eval_roofline() == reference.eval_roofline()


def test_a_call_on_meta_without_the_deciding_values_says_what_to_do():
    op = RoutedLayerFwdOp()
    op(**on_meta(routed_inputs()))
    assert counts(op.last_call)["experts"] == 1  # their shapes are known all the same
    with pytest.raises(OpNotAvailableError, match="RoutedLayerFwdOp: the values of 'logits' .* pass it on the cpu with its values"):
        op.eval_roofline()
    layer = LayerFwdOp()
    layer(**on_meta(layer_inputs()))
    with pytest.raises(OpNotAvailableError, match="depend on the data of gate, hidden"):
        layer.eval_roofline()


def test_a_buffer_takes_part_in_completing():
    op, reference, inputs = RoutedLayerFwdOp(), RoutedLayerFwdOp(target="torch"), routed_inputs()
    out = torch.empty(M, H)
    assert op(**inputs, out=out) is out
    reference(**inputs)
    assert facts(op.last_call) == facts(reference.last_call)


def test_a_composite_without_an_implementation_cannot_tell_its_stages():
    op = RoutedLayerFwdOp.__base__()
    op(**on_meta(routed_inputs(), "logits"))
    with pytest.raises(OpNotAvailableError, match="RoutedLayerFwdOp: its stages decide the price, and it has no reference"):
        op.eval_roofline()


def test_a_reference_that_leaves_a_required_stage_out_has_no_price():
    class Forgetful(RoutedLayerFwdOp.__base__):
        @implementation("torch")
        def _torch(self, call, hidden, logits, w):
            return RoutedLayerFwdOp._fused(self, call, hidden, logits, w)

    op = Forgetful()
    op(**routed_inputs())
    with pytest.raises(OpNotAvailableError, match="'torch' is the reference, and no sub-op call completed in some of its"):
        op.eval_roofline()


# ---- glue between the stages


def with_glue(glue):
    """A routed layer whose reference passes its ids through `glue`, with a fused implementation beside it."""

    class Glued(RoutedLayerFwdOp.__base__):
        @implementation("torch")
        def _torch(self, call, hidden, logits, w):
            ids, weights = RouterFwdOp(call.params["k"])(logits)
            rows, sizes, place = PermuteFwdOp(call.indices["E"])(hidden, glue(ids))
            return CombineFwdOp()(GroupedFwdOp()(rows, w, sizes), place, weights)

        @implementation("fused")
        def _fused(self, call, hidden, logits, w):
            return torch.empty(hidden.shape[0], w.shape[2])

    return Glued


def written_in_place(ids):
    other = torch.zeros_like(ids)
    other.copy_(ids).add_(1)
    return other.remainder_(E)


def read_before_it_is_written(ids):
    other = ids + 0
    before = other * 1
    other.add_(1)
    return other * 0 + before


def written_through_a_view(ids):
    other = torch.empty(ids.numel(), dtype=ids.dtype, device=ids.device)
    other.view(ids.shape).copy_(ids)
    return other.view(ids.shape)


def of_a_shape_that_values_decide(ids):
    chosen = ids.flatten().nonzero().flatten()
    spread = torch.zeros(ids.numel(), dtype=ids.dtype, device=ids.device)
    spread[chosen] = ids.flatten()[chosen]
    return spread.view(ids.shape)


def decided_in_python(ids):
    return ids + 1 if int(ids.max()) < E - 1 else ids.flip(0)


@pytest.mark.parametrize(
    "glue",
    [
        lambda ids: ids.long().flatten().view(ids.shape).to(torch.int32),
        lambda ids: torch.cat([ids[:1], ids[1:]]),
        lambda ids: torch.stack(ids.unbind(0)),
        lambda ids: torch.where(ids > 2, ids, torch.full((), 1, dtype=torch.int32, device=ids.device)),
        lambda ids: (ids + torch.arange(ids.shape[1], device=ids.device)).clamp(max=E - 1).int(),
        written_in_place,
        read_before_it_is_written,
        of_a_shape_that_values_decide,
        decided_in_python,
    ],
)  # fmt: skip
def test_glue_on_the_way_to_metadata_is_followed(glue):
    fused, reference, inputs = with_glue(glue)(), with_glue(glue)(target="torch"), routed_inputs()
    fused(**inputs)
    reference(**inputs)
    assert facts(fused.last_call) == facts(reference.last_call)


def test_a_write_through_a_view_is_refused_and_not_guessed():
    op, inputs = with_glue(written_through_a_view)(), routed_inputs()
    op(**inputs)
    with pytest.raises(OpNotAvailableError, match="wrote to a view"):
        op.eval_roofline()


def test_a_reference_that_cannot_be_followed_on_shapes_says_so():
    op, inputs = with_glue(lambda ids: torch.from_numpy(ids.numpy()))(), routed_inputs()
    op(**inputs)
    with pytest.raises(OpNotAvailableError, match="its reference 'torch' cannot be followed on shapes alone"):
        op.eval_roofline()


def test_a_stage_that_fails_when_run_for_real_says_so(monkeypatch):
    op, inputs = RoutedLayerFwdOp(), routed_inputs()
    op(**inputs)

    def broken(self, call, logits):
        raise RuntimeError("no kernel image")

    monkeypatch.setitem(RouterFwdOp._implementations, "torch", implementation("torch")(broken)._tileops_implementation)
    with pytest.raises(OpNotAvailableError, match="the stage that makes them could not be run for real: RuntimeError: no kernel image"):
        op.eval_roofline()


def test_the_generated_class_lists_its_composition():
    assert LayerFwdOp.STAGES[0] == Stage(name="scores", op="DenseFwdOp")
    assert LayerFwdOp.STAGES[4] == Stage(name="activation", kernel="acme_relu")
    assert LayerFwdOp.STAGES[6] == Stage(name="shared", op="DenseFwdOp", optional=True)
    assert entry_formulas.layer.__name__ in LayerFwdOp.FUNC
