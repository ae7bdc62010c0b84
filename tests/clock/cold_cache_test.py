"""What a flush reads and writes, as far as a machine without a GPU can show it, and which flush a row gets."""

import types

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tileops.ops import catalogue, workloads
from tileops.perf.clock import cold_cache
from tileops.perf.clock.measurement import Flush
from tileops.perf.harness import rotation
from tileops.tests.harness import toys

WORDS = 24 * cold_cache._RUN


@given(share=st.floats(0, 1))
def test_a_sweep_never_leaves_fewer_written_lines_than_the_call_but_for_rounding(share):
    reads, writes = cold_cache.shares(share)
    assert min(reads, writes) <= 1 and reads <= 16 and writes <= 33
    assert share - 0.031 <= writes / (reads + writes) <= share + 0.25


@pytest.mark.parametrize(
    ("share", "wanted"),
    [
        (0, (1, 0)),
        (1 / 17, (16, 1)),
        (1 / 9, (8, 1)),
        (1 / 5, (3, 1)),
        (1 / 4, (3, 1)),
        (1 / 3, (2, 1)),
        (0.34, (2, 1)),
        (0.36, (1, 1)),
        (1 / 2, (1, 1)),
        (2 / 3, (1, 2)),
        (1, (0, 1)),
    ],
)
def test_what_reads_so_much_for_each_write_is_matched_exactly(share, wanted):
    assert cold_cache.shares(share) == wanted


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_outside_0_to_1_is_refused(share):
    with pytest.raises(ValueError, match="from 0 to 1"):
        cold_cache.shares(share)


@pytest.mark.parametrize(("reads", "writes"), [(0, 1), (1, 0), (1, 1), (2, 1), (3, 1), (8, 1), (16, 1), (1, 2), (1, 7)])
def test_a_sweep_writes_its_share_of_the_buffer(reads, writes):
    buffer = torch.randint(2**30, 2**31, (WORDS,), dtype=torch.int32) | 0x42424242
    before = buffer.view(torch.uint8).clone()
    cold_cache._sweep(buffer, reads, writes)()
    is_line_written = (buffer.view(torch.uint8) != before).view(-1, 128).any(1)
    assert float(is_line_written.float().mean()) == pytest.approx(writes / (reads + writes), abs=0.02)


def _moved(inputs, outputs, *, written=(), aliases=(), on_cpu=()):
    """Returns what a call moves whose tensors have so many bytes."""
    call = types.SimpleNamespace(
        inputs={name: types.SimpleNamespace(bytes=size) for name, size in inputs.items()},
        outputs={name: types.SimpleNamespace(bytes=size) for name, size in outputs.items()},
        aliases=dict.fromkeys(aliases),
    )
    return rotation.moved_by(types.SimpleNamespace(CPU_NAMES=on_cpu), call, written)


def _share(*args, **kwargs):
    found = rotation.flush_of_row(_moved(*args, **kwargs))
    assert found["flush"] is Flush.MATCHED
    return found["written_share"]


@pytest.mark.requirement("5.2.1")
def test_a_row_is_flushed_in_the_shares_of_the_tensors_that_it_reads_and_writes():
    assert _share({"a": 100, "b": 100}, {"y": 100}) == 1 / 3
    assert _share({}, {"y": 300}) == 1
    assert _share({"a": 300}, {"y": 0}) == 0
    # A tensor on the CPU is in no cache of the GPU.
    assert _share({"a": 100, "seed": 8}, {"y": 100}, on_cpu=("seed",)) == 1 / 2


def test_what_is_written_in_place_lies_in_the_cache_once():
    assert _share({"x": 100}, {"y": 100}, written=("x",), aliases=("y",)) == 1
    assert _share({"x": 100, "w": 200}, {"y": 100}, written=("x",), aliases=("y",)) == 1 / 3
    # Running statistics beside an output.
    assert _share({"x": 100, "mean": 100}, {"y": 100}, written=("mean",)) == 2 / 3
    # An input that another branch of the op writes.
    assert _share({"x": 100}, {"y": 100}) == 1 / 2


def test_a_row_without_data_gets_the_flush_that_never_flatters():
    assert rotation.flush_of_row(_moved({"a": 0}, {"y": 0})) == {"flush": Flush.DIRTY}


def test_the_sizes_come_from_the_checked_call_of_an_op():
    op_class = toys.load("implementations")["ScaleFwdOp"]
    case = toys.case(op_class, "small")
    op = workloads.construct(op_class, case, target="torch", device=torch.device("cpu"))
    call = op.check(**workloads.build_inputs(op_class, case, torch.device("cpu")))
    moved = rotation.moved_by(op, call, ())
    assert (moved.touched, moved.stored) == (case.input_bytes + case.output_bytes, case.output_bytes)


def test_an_output_that_is_its_input_counts_once():
    op_class = catalogue.load()["ReLUFwdOp"]
    case = op_class.CASES[0]
    op = op_class(inplace=True, target="torch")
    call = op.check(**workloads.build_inputs(op_class, case, torch.device("cpu")))
    assert rotation.moved_by(op, call, ("input",)) == rotation.Moved(
        touched=case.input_bytes, stored=case.input_bytes, written=("input",)
    )
