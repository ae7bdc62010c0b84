"""What a flush reads and writes, as far as a machine without a GPU can show it, and which flush a row gets."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tileops.ops import workloads
from tileops.perf.clock import cold_cache
from tileops.perf.clock.measurement import Flush
from tileops.perf.harness import records, rotation
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


def _record(read, total):
    record = records.benchmark_pb2.BenchmarkRecord(bytes=total)
    if read is not None:
        record.read_bytes = read
    return record


def _called(mutated=0):
    class Call:
        @staticmethod
        def bytes_of(*names):
            return mutated if names else 0

    class Op:
        MUTATED_NAMES = ("x",) if mutated else ()
        last_call = Call

    return Op


def test_a_row_is_flushed_in_the_shares_of_its_own_price():
    assert rotation.flush_of_row(_called(), _record(200, 300), ()) == {"flush": Flush.MATCHED, "written_share": 1 / 3}
    assert rotation.flush_of_row(_called(), _record(0, 300), ())["written_share"] == 1
    assert rotation.flush_of_row(_called(), _record(300, 300), ())["written_share"] == 0


def test_what_is_written_in_place_lies_in_the_cache_once():
    assert rotation.flush_of_row(_called(mutated=100), _record(100, 200), ("x",))["written_share"] == 1
    assert rotation.flush_of_row(_called(mutated=100), _record(300, 400), ("x",))["written_share"] == 1 / 3
    # A table of which a call writes a part.
    assert rotation.flush_of_row(_called(mutated=10_000), _record(100, 200), ("x",))["written_share"] == 1
    # An input that another branch of the op writes.
    assert rotation.flush_of_row(_called(mutated=100), _record(100, 200), ())["written_share"] == 1 / 2


@pytest.mark.parametrize("record", [_record(None, 300), _record(0, 0)], ids=["no read half", "no bytes"])
def test_a_row_that_does_not_say_what_it_reads_gets_the_flush_that_never_flatters(record):
    assert rotation.flush_of_row(_called(), record, ()) == {"flush": Flush.DIRTY}


def test_the_share_comes_from_the_call_of_an_op():
    op_class = toys.load("implementations")["ScaleFwdOp"]
    case = toys.case(op_class, "small")
    record = records.new_record(op_class, case, "torch")
    op = called(op_class, case)
    records.set_price(record, op)
    assert rotation.flush_of_row(op, record, ()) == {"flush": Flush.MATCHED, "written_share": 1 / 2}


def called(op_class, case):
    op = workloads.construct(op_class, case, target="torch", device=torch.device("cpu"))
    op(**workloads.build_inputs(op_class, case, torch.device("cpu")))
    return op


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: there is no cache to empty")
@pytest.mark.parametrize("flush", list(Flush))
def test_on_a_gpu_a_cache_says_what_it_leaves(flush):
    cache = cold_cache.ColdCache(torch.device("cuda:0"), flush, 1 / 3)
    cache.empty()
    torch.cuda.synchronize()
    assert cache.written_share == (pytest.approx(1 / 3) if flush is Flush.MATCHED else None)
    assert (cache.buffer_bytes > 0) == (flush is not Flush.NONE)
