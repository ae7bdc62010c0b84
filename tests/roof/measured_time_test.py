"""Which times of a record are times, and what is said of the others."""

import math

import pytest

from tileops.perf.roof import measured_time
from tileops.proto import benchmark_pb2
from tileops.tests.report import builders

UNKNOWN_STATUS = 9


@pytest.mark.requirement("1.2.8")
def test_excluded_copies_are_added_back():
    record = builders.record(ns=1_000, copy_ns=500)
    assert measured_time.actual_time(record) == pytest.approx(1.5e-6)


@pytest.mark.parametrize(
    "ns, copy_ns",
    [
        (1_000_000, -999_000),
        (-5e5, 6e5),
        (-1.0, 0.0),
        (0.0, 0.0),
        (math.nan, 0.0),
        (1_000, math.nan),
        (math.inf, 0.0),
        (1_000, math.inf),
    ],
)
def test_a_time_of_which_a_part_is_none_is_no_time_and_its_record_says_so(ns, copy_ns):
    record = builders.record(ns=ns, copy_ns=copy_ns)
    assert measured_time.actual_time(record) is None
    said = measured_time.defect(record)
    assert f"{ns:g} ns" in said and "cannot be a measured time" in said
    assert (f"copies of {copy_ns:g} ns" in said) == (copy_ns != 0)


@pytest.mark.parametrize(
    "status", [benchmark_pb2.STATUS_SKIPPED, benchmark_pb2.STATUS_ERROR, benchmark_pb2.STATUS_TIMEOUT, UNKNOWN_STATUS]
)
def test_only_a_success_has_a_time(status):
    assert measured_time.actual_time(builders.record(status=status)) is None
    assert measured_time.actual_time(builders.record(status=benchmark_pb2.STATUS_UNSPECIFIED))


def test_a_status_of_a_newer_schema_is_named_and_a_record_that_speaks_is_left_alone():
    said = measured_time.defect(builders.record(status=UNKNOWN_STATUS))
    assert said == "its status, 9, is unknown to this program"
    assert not measured_time.defect(builders.record(status=UNKNOWN_STATUS, message="lost"))
    assert not measured_time.defect(builders.record(status=benchmark_pb2.STATUS_ERROR))
    assert not measured_time.defect(builders.record(ns=None))


def test_a_success_whose_result_was_found_wrong_has_no_time():
    record = builders.record()
    record.correctness.reason = "no reference to compare with"
    assert measured_time.actual_time(record) and not measured_time.defect(builders.record(ns=None))
    record.correctness.checked = True
    record.correctness.reason = "differs"
    assert measured_time.actual_time(record) is None
    assert measured_time.defect(record) == "its result was checked and is wrong: differs"
