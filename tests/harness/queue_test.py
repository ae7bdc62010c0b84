"""One queue for several workers: rows stay whole, workers stay with their op, nobody idles while rows are left."""

import dataclasses

import pytest
from hypothesis import given, strategies

from tileops.perf.harness import devices as bench_devices
from tileops.perf.harness import plan, records, run
from tileops.perf.harness import pool as bench_pool
from tileops.perf.harness.run import Queue
from tileops.proto import benchmark_pb2
from tileops.tests.harness import toys


@dataclasses.dataclass(frozen=True)
class Unit:
    key: tuple[str, str, str]


def units(*ops):
    """(op, rows, implementations) each."""
    return [Unit((op, f"row{row}", f"i{at}")) for op, rows, count in ops for row in range(rows) for at in range(count)]


def test_one_worker_takes_them_in_order_and_hears_of_each_new_op():
    wanted = units(("a", 2, 2), ("b", 1, 1))
    queue = Queue(wanted)
    taken = [queue.take("w") for _ in wanted]
    assert [unit for unit, _ in taken] == wanted
    assert [is_other for _, is_other in taken] == [True, False, False, False, True]
    assert queue.take("w") is None


@given(
    ops=strategies.lists(strategies.tuples(strategies.integers(1, 4), strategies.integers(1, 3)), max_size=5),
    turns=strategies.lists(strategies.integers(0, 2), max_size=80),
)
def test_everything_is_taken_once_by_whole_rows_whoever_comes_when(ops, turns):
    wanted = units(*((f"op{at}", *of_op) for at, of_op in enumerate(ops)))
    queue = Queue(wanted)
    taken = []
    for worker in turns + [0, 1, 2] * len(wanted):
        if (found := queue.take(worker)) is not None:
            taken.append((worker, found[0]))
    assert sorted(unit.key for _, unit in taken) == sorted(unit.key for unit in wanted)
    owners = {}
    for worker, unit in taken:
        assert owners.setdefault(unit.key[:2], worker) == worker


def test_a_worker_stays_with_its_op_then_begins_another_then_helps_where_most_is_left():
    queue = Queue(units(("a", 3, 1), ("b", 1, 1), ("c", 6, 1)))
    assert [queue.take(worker)[0].key[0] for worker in ("v", "w", "v", "w", "v", "v")] == ["a", "b", "a", "c", "a", "c"]


class Pool:
    """A pool whose first child cannot be started."""

    def __init__(self):
        self.begun = 0

    def replace(self):
        pass

    def begin(self, task, timeout_s):
        self.begun += 1
        raise bench_pool.ChildDiedError("no process could be started: EOFError: ")


def test_a_process_that_cannot_be_started_costs_its_row():
    op_class = toys.load("implementations")["ScaleFwdOp"]
    case = toys.case(op_class, "small")
    price = records.price_case(op_class, case)
    wanted = [plan.Unit(op_class=op_class, case=case, implementation=name, price=price) for name in ("torch", "honest")]
    pool = Pool()
    found = list(run.run(wanted, [run.Worker(device="cpu", index=0, pool=pool)], 1.0))
    assert [unit for unit, _ in found] == wanted and pool.begun == 2
    for _, record in found:
        assert record.status == benchmark_pb2.STATUS_ERROR and "no process could be started" in record.message
        assert record.flops == price.flops


@pytest.mark.parametrize("text", ["", "gpu", "cuda:", "cuda:0,", "cuda:x", "meta,meta", "cuda:0,cuda:all", "cpu,auto"])
def test_what_is_no_device_is_refused(text):
    with pytest.raises(bench_devices.DeviceError, match="write auto|one kind|each GPU once"):
        bench_devices.check(text)


@pytest.mark.parametrize(
    ("text", "kind", "count", "devices"),
    [
        ("auto", "cpu", 1, ["cpu"]),
        ("auto", "cuda", 1, ["cuda:0"]),
        ("cuda", "cuda", 1, ["cuda:0"]),
        ("cuda:3", "cuda", 1, ["cuda:3"]),
        ("cuda:all", "cuda", 3, ["cuda:0", "cuda:1", "cuda:2"]),
        ("cuda:0,cuda:2", "cuda", 2, ["cuda:0", "cuda:2"]),
        ("cpu,cpu", "cpu", 1, ["cpu", "cpu"]),
    ],
)
def test_devices_of_a_run(text, kind, count, devices):
    bench_devices.check(text)
    assert bench_devices.expand(text, benchmark_pb2.Environment(device_kind=kind, device_count=count)) == devices
