"""The clock's experiments, as far as a machine without a GPU can run them."""

import io

import pytest
import torch

from tileops.perf import clock_study
from tileops.perf.clock.measurement import Budget
from tileops.perf.study import flush, replay
from tileops.tests.harness import runs, toys

SHORT = Budget(warmup_s=0.0, measure_s=0.0)


def test_every_access_of_every_size_is_timed_and_its_rate_is_size_over_time():
    found = list(flush.readings(torch.device("cpu"), [0.1, 0.2], SHORT))
    assert [(row.access, row.size_mb) for row in found] == [
        (access, size)
        for size in (0.1, 0.2)
        for access in ("read", "compare", "add", "copy", "widen", "scale", "write")
    ]
    for row in found:
        assert row.p10_us <= row.median_us <= row.p90_us
        assert row.gb_per_s == pytest.approx(row.size_mb * 1e6 / (row.median_us * 1e3))
        assert (row.source, row.flush) == ("HOST_CLOCK", "none")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: there is no cache to flush")
def test_on_a_gpu_every_flush_is_timed_by_its_own_records():
    found = list(flush.readings(torch.device("cuda:0"), [10.0], SHORT))
    assert len(found) == 8 * 5 and {row.source for row in found} == {"CUPTI"}
    assert {row.flush for row in found} == {"none", "clean", "dirty", "matched", "rotation"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: graphs are CUDA's")
def test_on_a_gpu_a_row_is_timed_by_both_clocks():
    op_class = toys.load("implementations")["ScaleFwdOp"]
    (row,) = replay.readings([(op_class, toys.case(op_class, "small"))], "torch", torch.device("cuda:0"), SHORT)
    assert row.note == "" and row.ratio > 0


def test_rows_are_chosen_by_flops_for_each_byte_and_no_op_takes_more_than_half():
    classes = toys.load("implementations")
    cases = [(op_class, case) for op_class in classes.values() for case in op_class.CASES]
    chosen = replay.compute_heavy(cases, 2)
    # 256 x 64 multiplications of halves take half the bytes of those of floats.
    assert [case.label for _, case in chosen] == ["middle", "few"]
    assert replay.compute_heavy(cases, 100)[0][1].label == "middle"


def test_csv_has_a_header_and_leaves_missing_times_empty():
    out = io.StringIO()
    rows = [
        replay.Reading(op="A", case_id="a", implementation="torch", cupti_us=2.0, replay_us=1.6),
        replay.Reading(op="B", case_id="b", implementation="torch", note="cannot be captured"),
    ]
    clock_study.write_csv(rows, out)
    assert out.getvalue().splitlines() == [
        "op,case_id,implementation,cupti_us,cupti_cold_us,replay_us,note,ratio",
        "A,a,torch,2,,1.6,,1.25",
        "B,b,torch,,,,cannot be captured,",
    ]


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        ([], "--study is required"),
        (["--study=flush", "--device=cpu"], "need a GPU"),
        (["--study=flush", "--device=gpu"], "gpu"),
        (["--study=flush", "--sizes_mb=1,x"], "x"),
        (["--study=flush", "--sizes_mb=0"], "above 0"),
    ],
)
def test_bad_usage_is_one_line_and_2(tmp_path, flags, what):
    process = runs.start(tmp_path, *flags, module="tileops.perf.clock_study")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "") and what in err and len(err.splitlines()) == 1
