"""op.last_call: of a completed call, of one instance, of one context; and what keeps a call alive."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import gc
import pickle
import queue
import threading
import weakref

import pytest
import torch

from tileops.ops import last_call
from tileops.ops.errors import OpCallError, OpNotAvailableError
from tileops.ops.implementations import implementation
from tileops.tests.runtime.demo_ops import ScaleFwdOp
from tileops.tests.runtime.traced_ops import AccumulateFwdOp, SplitFwdOp


def rows(op):
    """The number of rows of the last call; 0 where there is none."""
    try:
        return op.last_call.tensors["x"].shape[0]
    except OpNotAvailableError:
        return 0


# ---- completed calls


def test_an_instance_has_a_last_call_of_its_own():
    one, other = ScaleFwdOp(), ScaleFwdOp()
    one(torch.ones(3))
    assert (rows(one), rows(other)) == (3, 0)


@pytest.mark.requirement("4.4.1d")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_call_that_fails_in_the_implementation_leaves_the_last_one(error):
    class Failing(ScaleFwdOp):
        fails = False

    def function(op, call, x, ids):
        if op.fails:
            raise error("stop")
        return x * 2

    Failing.register("failing", function)
    op = Failing()
    op(torch.ones(3))
    before, op.fails = op.last_call, True
    with pytest.raises(error):
        op(torch.ones(4))
    assert op.last_call is before


def test_a_call_whose_outputs_are_not_as_declared_leaves_the_last_one():
    class Careless(ScaleFwdOp):
        pass

    Careless.register("careless", lambda op, call, x, ids: x.clone() if x.shape[0] == 3 else x.double())
    op = Careless()
    op(torch.ones(3))
    before = op.last_call
    with pytest.raises(OpCallError):
        op(torch.ones(4))
    assert op.last_call is before


def test_checking_a_call_is_no_call():
    op = ScaleFwdOp()
    op.check(torch.ones(3))
    assert rows(op) == 0


def test_of_nested_calls_of_one_instance_the_outer_completes_last():
    class Recursive(ScaleFwdOp):
        pass

    inner = []

    def halve(op, call, x, ids):
        if x.shape[0] > 1:
            op(x[: x.shape[0] // 2].clone())
            inner.append(rows(op))
        return x * 2

    Recursive.register("recursive", halve)
    op = Recursive()
    op(torch.ones(8))
    assert inner == [1, 2, 4] and rows(op) == 8


def test_a_call_that_a_formula_holds_is_not_changed_by_later_ones():
    op = ScaleFwdOp()
    op(torch.ones(3))
    held = op.last_call
    op(torch.ones(4, dtype=torch.float64))
    assert held.tensors["x"] == ((3,), "float32") and op.last_call.tensors["x"] == ((4,), "float64")


def test_a_write_that_pytorch_does_not_see_is_counted_on_what_the_call_may_write():
    class Accumulate(AccumulateFwdOp):
        @implementation("kernel")
        def _kernel(self, call, total, x):
            total.numpy()[...] += x.numpy()
            return total

    class Split(SplitFwdOp):
        @implementation("kernel")
        def _kernel(self, call, x, left, right):
            left.numpy()[...], right.numpy()[...] = x.chunk(2, dim=1)
            return left, right, None

    total, x, left, right = torch.zeros(3), torch.ones(3), torch.empty(2, 3), torch.empty(2, 3)
    Accumulate()(total, x)
    Split()(torch.ones(2, 6), out=(left, right))
    assert total.tolist() == [1, 1, 1] and right.tolist() == [[1, 1, 1]] * 2
    assert [tensor._version for tensor in (total, x, left, right)] == [1, 0, 1, 1]


# ---- contexts


def test_tasks_do_not_see_each_others_calls():
    op = ScaleFwdOp()

    async def work(size):
        seen = []
        for step in range(3):
            op(torch.ones(size + step))
            await asyncio.sleep(0)  # the other tasks run
            seen.append(op.eval_roofline()[0])
        return seen

    async def main():
        return await asyncio.gather(*(work(10 * n) for n in range(1, 6)))

    assert asyncio.run(main()) == [[10 * n, 10 * n + 1, 10 * n + 2] for n in range(1, 6)]
    assert rows(op) == 0


def test_a_task_starts_from_its_creators_view_and_never_moves_it():
    op = ScaleFwdOp()

    async def child():
        before = rows(op)
        op(torch.ones(5))
        return before, rows(op)

    async def main():
        op(torch.ones(3))
        return await asyncio.create_task(child()), rows(op)

    assert asyncio.run(main()) == ((3, 5), 3)


def test_a_worker_that_runs_in_a_copy_of_the_context_can_price_the_callers_call():
    op = ScaleFwdOp()

    async def main():
        op(torch.ones(3))
        return await asyncio.to_thread(op.eval_roofline)

    assert asyncio.run(main())[0] == 3


def test_a_context_of_ones_own_keeps_its_calls():
    op, context = ScaleFwdOp(), contextvars.copy_context()
    context.run(op, torch.ones(4))
    assert rows(op) == 0 and context.run(rows, op) == 4


# ---- lifetime


def test_a_call_and_its_tensors_are_freed_when_the_next_one_completes():
    op, ids = ScaleFwdOp(), torch.tensor([1, 2])
    op(torch.ones(2), ids)
    held = weakref.ref(ids)
    del ids
    assert held() is not None
    op(torch.ones(2))
    assert held() is None


def test_a_call_is_freed_with_its_op_in_every_context_that_still_lives():
    op, ids = ScaleFwdOp(), torch.tensor([1])
    tasks, done, ready = queue.Queue(), threading.Event(), threading.Event()
    tasks.put((op, torch.tensor([2])))
    held = [weakref.ref(ids), weakref.ref(tasks.queue[0][1])]

    def work():
        op, ids = tasks.get()
        op(torch.ones(2), ids)
        del op, ids
        ready.set()
        done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    op(torch.ones(2), ids)
    del ids
    assert [tensor() is None for tensor in held] == [False, False]
    del op
    freed = [tensor() is None for tensor in held]
    done.set()
    thread.join()
    assert freed == [True, True]


def test_a_call_is_freed_when_its_thread_or_task_ends():
    op, ids = ScaleFwdOp(), [torch.tensor([1]), torch.tensor([2])]
    held = [weakref.ref(tensor) for tensor in ids]

    async def task():
        op(torch.ones(2), ids[1])

    thread = threading.Thread(target=lambda: op(torch.ones(2), ids[0]))
    thread.start()
    thread.join()
    asyncio.run(task())
    del thread
    ids.clear()
    gc.collect()
    assert [tensor() is None for tensor in held] == [True, True]


def test_an_op_that_takes_over_a_dead_ops_variable_sees_none_of_its_calls():
    op = ScaleFwdOp()
    op(torch.ones(3))
    key = op._last._key
    del op
    gc.collect()
    assert key in last_call._FREE
    takers = [ScaleFwdOp() for _ in range(len(last_call._FREE))]
    (taker,) = (taker for taker in takers if taker._last._key is key)
    assert rows(taker) == 0
    taker(torch.ones(4))
    assert rows(taker) == 4


def test_ops_that_come_and_go_leave_no_variables_behind():
    for _ in range(3):
        ScaleFwdOp()(torch.ones(2))
    before = len(contextvars.copy_context())
    for _ in range(50):
        ScaleFwdOp()(torch.ones(2))
    assert len(contextvars.copy_context()) == before


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda op: pickle.loads(pickle.dumps(op))])
def test_a_copy_of_an_op_has_completed_no_call(again):
    op = ScaleFwdOp(factor=3)
    op(torch.ones(3))
    other = again(op)
    assert rows(other) == 0 and other.params == {"factor": 3}
    other(torch.ones(4))
    assert (rows(op), rows(other)) == (3, 4)


# ---- CUDA graphs


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
def test_a_replay_of_a_cuda_graph_moves_no_last_call():
    op, x = ScaleFwdOp(target="torch"), torch.ones(3, device="cuda")
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        op(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = op(x)
    call = op.last_call
    assert call.tensors["x"].shape == (3,)
    op(torch.ones(5, device="cuda"))
    later = op.last_call
    graph.replay()
    assert op.last_call is later and y.tolist() == [2, 2, 2]
