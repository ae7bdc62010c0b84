"""Ops called from many threads and tasks at once: each sees its own calls, and what they share is made once."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading

import pytest
import torch

from tileops.ops import catalogue, library
from tileops.tests.runtime import entry_classes
from tileops.tests.runtime.composite_ops import RoutedLayerFwdOp
from tileops.tests.runtime.demo_ops import ScaleFwdOp

OPS = catalogue.load()
_THREADS = 8


def in_threads(work, count=_THREADS):
    """Results of work(0), work(1), ..., each in a thread, all started at the same moment."""
    barrier = threading.Barrier(count)

    def started(number):
        barrier.wait()
        return work(number)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(started, range(count)))


def test_each_thread_prices_its_own_calls_of_shared_ops():
    # Triton kernels may serve a CPU under an interpreter, which is not made for threads.
    gemm, total = OPS["GEMMFwdOp"](target="torch"), OPS["SumFwdOp"](0, target="torch")

    def work(number):
        size, found = number + 1, []
        for step in range(20):
            a = torch.ones(size + step, 2, dtype=torch.float16)
            gemm(a, a)
            total(a)
            found.append((gemm.eval_roofline()[0], total.last_call.tensors["input"].shape))
        return found

    for number, found in enumerate(in_threads(work)):
        sizes = [number + 1 + step for step in range(20)]
        assert found == [(2 * 2 * size * size, (size, 2)) for size in sizes]


def test_a_failing_thread_disturbs_no_other():
    op = ScaleFwdOp(factor=3)

    def work(number):
        for step in range(20):
            if number % 2:
                with pytest.raises(RuntimeError, match="thirteen"):
                    op(torch.full((7,), 13.0))
            else:
                op(torch.ones(number + step + 1))
                assert op.eval_roofline()[0] == number + step + 1
        return True

    assert in_threads(work) == [True] * _THREADS


def test_stages_are_completed_by_many_threads_as_by_one():
    op, stream = RoutedLayerFwdOp(), torch.Generator().manual_seed(0)
    inputs = [torch.randn(shape, generator=stream) for shape in ((5, 4), (5, 7), (7, 4, 4))]
    op(*inputs)
    call, price = op.last_call, op.eval_roofline()
    op(*inputs)
    shared = op.last_call  # not completed yet; all threads ask for it

    counts = {name: len(calls) for name, calls in call.stages.items()}
    assert in_threads(lambda _: {name: len(calls) for name, calls in shared.stages.items()}) == [counts] * _THREADS
    assert op.eval_roofline() == price


def test_tasks_price_their_own_calls():
    op = OPS["SumFwdOp"](target="torch")

    async def work(size):
        for _ in range(10):
            op(torch.ones(size))
            await asyncio.sleep(0)
            assert op.last_call.tensors["input"].shape == (size,)
        return op.eval_roofline()[0]

    async def main():
        return await asyncio.gather(*(work(size) for size in range(1, 9)))

    assert asyncio.run(main()) == list(range(1, 9))


def test_handles_of_ops_made_at_once_are_distinct():
    made = [op for ops in in_threads(lambda number: [OPS["SumFwdOp"](0) for _ in range(50)]) for op in ops]
    assert len({op.handle for op in made}) == len(made)
    assert all(library.instance(op.handle) is op for op in made)


def test_an_operator_that_threads_first_ask_for_at_once_is_registered_once():
    entry = entry_classes.generated("traced.yaml").SplitFwdOp
    operators = in_threads(lambda number: library.operator(entry))
    assert len({id(operator) for operator in operators}) == 1


def test_a_compiled_function_called_from_threads_records_for_each():
    op, x = OPS["SumFwdOp"](0, target="torch"), torch.ones(3, 2)
    torch._dynamo.reset()
    function = torch.compile(lambda x: op(x), fullgraph=True, backend="aot_eager", dynamic=True)
    function(x)

    def work(number):
        rows = number + 2
        for _ in range(5):
            function(torch.ones(rows, 2))
        return op.last_call.tensors["input"].shape

    assert in_threads(work, 4) == [(number + 2, 2) for number in range(4)]
    assert op.last_call.tensors["input"].shape == (3, 2)
