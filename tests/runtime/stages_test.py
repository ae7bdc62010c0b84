"""call.stages: the checked calls that a composite's sub-ops completed."""

from __future__ import annotations

import concurrent.futures
import contextvars
import threading

import pytest
import torch

from tileops.ops.errors import OpCallError
from tileops.ops.implementations import implementation
from tileops.ops.stages import Stage, stage
from tileops.tests.runtime import entry_formulas
from tileops.tests.runtime.composite_calls import E, H, I, M, counts, layer_inputs, routed_inputs, variant
from tileops.tests.runtime.composite_ops import (
    BlockFwdOp,
    CombineFwdOp,
    DenseFwdOp,
    GroupedFwdOp,
    LayerFwdOp,
    PermuteFwdOp,
    RoutedLayerFwdOp,
    RouterFwdOp,
)


@pytest.mark.requirement("2.2.21")
def test_stages_are_recorded_by_name_in_order_and_with_repeats():
    op, inputs = LayerFwdOp(target="torch"), layer_inputs()
    op(**inputs)
    call = op.last_call
    assert counts(call) == {"scores": 1, "route": 1, "permute": 1, "experts": 2, "combine": 1, "shared": 0}
    up, down = call.stages["experts"]
    assert up.tensors["w"].shape == (E, H, I) and down.tensors["w"].shape == (E, I, H)
    assert [one.op for one in call.stages["scores"]] == ["DenseFwdOp"]


@pytest.mark.requirement("2.2.21", "4.7.3")
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
    with pytest.raises(KeyError, match="LayerFwdOp: stage 'activation' is run by the kernel 'acme_relu'; only"):
        op.last_call.stages["activation"]
    with pytest.raises(KeyError, match="LayerFwdOp has no stage 'expert'; stages that an op runs: scores, route"):
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
    once = {"route": 1, "permute": 1, "experts": 1, "combine": 1}
    assert [counts(one) for one in op.last_call.stages["layer"]] == [once, once]


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


def test_a_call_of_an_op_that_no_stage_names_is_refused():
    op = variant(lambda self, call, hidden, logits, w: DenseFwdOp()(hidden, w[0]))()
    with pytest.raises(
        OpCallError, match=r"a sub-op DenseFwdOp was called, but none of its stages \(route \(RouterFwdOp\)"
    ):
        op(**routed_inputs())


def test_two_stages_of_one_op_have_to_be_told_apart():
    class Layer(LayerFwdOp):
        @implementation("unnamed")
        def _unnamed(self, call, hidden, gate, up, down, shared):
            return DenseFwdOp()(hidden, gate)

    with pytest.raises(OpCallError, match="its stages scores and shared are of that op; name the one meant"):
        Layer()(**layer_inputs())


@pytest.mark.parametrize("name", ["combine", "elsewhere"])
def test_a_stage_named_for_another_op_is_refused(name):
    def function(self, call, hidden, logits, w):
        with stage(name):
            RouterFwdOp(2)(logits)

    with pytest.raises(OpCallError, match=f"RouterFwdOp was called as stage '{name}', but the composition's"):
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


def test_the_generated_class_lists_its_composition():
    assert LayerFwdOp.STAGES[0] == Stage(name="scores", op="DenseFwdOp")
    assert LayerFwdOp.STAGES[4] == Stage(name="activation", kernel="acme_relu")
    assert LayerFwdOp.STAGES[6] == Stage(name="shared", op="DenseFwdOp", optional=True)
    assert entry_formulas.layer.__name__ in LayerFwdOp.FUNC
