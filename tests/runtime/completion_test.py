"""call.stages where a fused implementation served the call: completed on shapes alone, routing for real."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from tileops.ops.errors import OpNotAvailableError
from tileops.ops.implementations import implementation
from tileops.tests.runtime.composite_calls import E, H, M, counts, facts, layer_inputs, on_meta, routed_inputs, variant
from tileops.tests.runtime.composite_ops import (
    BlockFwdOp,
    CombineFwdOp,
    GroupedFwdOp,
    LayerFwdOp,
    PermuteFwdOp,
    RoutedLayerFwdOp,
    RouterFwdOp,
)


@pytest.mark.parametrize("shared", [False, True])
def test_a_fused_call_is_priced_as_the_reference_is(shared):
    fused, reference, inputs = LayerFwdOp(), LayerFwdOp(target="torch"), layer_inputs(shared)
    torch.testing.assert_close(fused(**inputs), reference(**inputs))
    assert fused.last_implementation == "fused"
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
    assert op.last_implementation == "fused" and counts(call)["route"] == 1
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
    assert first._served_by == "fused" and counts(second) == counts(reference.last_call)
    assert facts(first) == facts(reference.last_call)


def staged(hidden, ids, w):
    """Permutation and experts of a routed layer."""
    rows, sizes, place = PermuteFwdOp(E)(hidden, ids)
    return GroupedFwdOp()(rows, w, sizes), place


def routes_alone(self, call, hidden, logits, w):
    RouterFwdOp(2)(logits)  # the rest is one kernel
    return RoutedLayerFwdOp._fused(self, call, hidden, logits, w)


def by_halves(self, call, hidden, logits, w):
    ids, weights = RouterFwdOp(2)(logits)
    parts = [staged(hidden[part], ids[part], w) for part in (slice(2), slice(2, M))]
    return torch.cat([CombineFwdOp()(y, place, weights[at * 2 :][: 2 + at]) for at, (y, place) in enumerate(parts)])


def one_token_by_stages(self, call, hidden, logits, w):
    ids, weights = RouterFwdOp(2)(logits[:1])
    y, place = staged(hidden[:1], ids, w)
    CombineFwdOp()(y, place, weights)
    return RoutedLayerFwdOp._fused(self, call, hidden, logits, w)


def twice(self, call, hidden, logits, w):
    RoutedLayerFwdOp._torch(self, call, hidden, logits, w)
    return RoutedLayerFwdOp._torch(self, call, hidden, logits, w)


@pytest.mark.parametrize("function", [routes_alone, by_halves, one_token_by_stages, twice])
def test_the_price_does_not_depend_on_which_implementation_served(function):
    op, reference, inputs = variant(function)(), RoutedLayerFwdOp(target="torch"), routed_inputs()
    torch.testing.assert_close(op(**inputs), reference(**inputs))
    assert op.last_implementation == "variant"
    assert op.eval_roofline() == reference.eval_roofline()
    assert facts(op.last_call) == facts(reference.last_call)


def test_calls_that_completed_stand_where_the_reference_would_have_called_alike():
    def function(self, call, hidden, logits, w):
        ids, weights = RouterFwdOp(2)(logits.flip(1))  # not the reference's routing
        made.append((ids, PermuteFwdOp(E)(hidden, ids)))
        return RoutedLayerFwdOp._fused(self, call, hidden, logits.flip(1), w)

    made: list = []
    op = variant(function)()
    op(**routed_inputs())
    stages = op.last_call.stages
    assert stages["permute"][0].values("ids").tolist() == made[0][0].tolist()
    assert len(stages["experts"]) == len(stages["combine"]) == 1  # as the reference would have called them


def test_stages_that_completed_alike_need_no_data(monkeypatch):
    op = variant(RoutedLayerFwdOp._torch)()
    op(**routed_inputs())  # which are gone by now
    gc.collect()
    monkeypatch.setattr(RouterFwdOp, "runs", 0)
    assert op.eval_roofline() and RouterFwdOp.runs == 0


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
    assert "GroupedFwdOp: the values of 'sizes' decide the price" in str(refused.value)
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


@pytest.mark.parametrize("seed", range(20))
def test_data_that_decides_and_is_gone_is_not_guessed_where_there_is_little_to_guess(seed):
    stream = torch.Generator().manual_seed(seed)
    shapes = {
        "hidden": (2, 2),
        "gate": (2, 2),
        "up": (2, 2, 3),
        "down": (2, 3, 2),
    }  # two experts: one guess in two is right
    inputs = {name: torch.randn(shape, generator=stream) for name, shape in shapes.items()}
    op = LayerFwdOp(k=1)
    op(**inputs)
    inputs["hidden"].neg_()
    with pytest.raises(OpNotAvailableError, match="depend on the data of hidden"):
        op.eval_roofline()


def test_random_numbers_on_the_way_to_metadata_are_an_error_and_are_not_used_up():
    op = with_glue(lambda ids: (ids + (torch.rand(ids.shape, device=ids.device) > 0.5)) % E)()
    op(**routed_inputs())
    before = torch.get_rng_state()
    with pytest.raises(OpNotAvailableError, match="depend on random numbers that were drawn on the way"):
        op.eval_roofline()
    assert torch.equal(torch.get_rng_state(), before)


def test_inputs_are_not_kept_alive_for_the_stages():
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
    assert op.last_implementation == "" and facts(op.last_call) == facts(reference.last_call)
    assert op.eval_roofline() == reference.eval_roofline()


def test_a_call_on_meta_without_the_deciding_values_says_what_to_do():
    op = RoutedLayerFwdOp()
    op(**on_meta(routed_inputs()))
    assert counts(op.last_call)["experts"] == 1  # their shapes are known all the same
    with pytest.raises(OpNotAvailableError, match="the values of 'logits' .* pass it on the cpu with its values"):
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
    with pytest.raises(OpNotAvailableError, match="its stages decide the price, and it has no reference"):
        op.eval_roofline()


def test_a_reference_that_leaves_a_required_stage_out_has_no_price():
    class Forgetful(RoutedLayerFwdOp.__base__):
        @implementation("torch")
        def _torch(self, call, hidden, logits, w):
            return RoutedLayerFwdOp._fused(self, call, hidden, logits, w)

    op = Forgetful()
    op(**routed_inputs())
    with pytest.raises(OpNotAvailableError, match="'torch' is the reference, and no sub-op call completed"):
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
)
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
    with pytest.raises(OpNotAvailableError, match="could not be run for real: RuntimeError: no kernel image"):
        op.eval_roofline()
