"""Attribution, device-busy time and the sequence check, on activity lists as a profiler gives them."""

import pytest

from tileops.perf.clock.activities import (
    Activity,
    ClockError,
    Kind,
    Launch,
    Range,
    Trace,
    attribute,
    busy_ns,
    check_signature,
    signature,
)

MAIN, OTHER = 417, -112875840


def activity(correlation, start, end, name="k", kind=Kind.KERNEL, stream=7):
    return Activity(kind=kind, name=name, start_ns=start, end_ns=end, stream=stream, correlation=correlation)


def launch(correlation, start, thread=MAIN):
    return Launch(name="cudaLaunchKernel", correlation=correlation, start_ns=start, end_ns=start + 1, thread=thread)


def span(name, start, end, any_thread=False):
    return Range(name=name, start_ns=start, end_ns=end, thread=MAIN, any_thread=any_thread)


def trace(launches, activities, ranges=None):
    ranges = ranges or [span("before0", 0, 100), span("call0", 200, 300, any_thread=True), span("after0", 301, 400)]
    return Trace(ranges=tuple(ranges), launches=tuple(launches), activities=tuple(activities))


def test_a_flush_that_runs_the_call_s_own_kernel_stays_out_of_it():
    fill = "void at::native::vectorized_elementwise_kernel<4, FillFunctor<int>>"
    owned = attribute(
        trace(
            [launch(1, 10), launch(2, 210)],
            [activity(1, 20, 58_020, name=fill), activity(2, 60_000, 64_000, name=fill)],
        )
    )
    assert busy_ns(owned["call0"]) == 4_000
    assert busy_ns(owned["before0"]) == 58_000
    assert owned["after0"] == ()


def test_work_belongs_to_the_range_of_its_launch_even_where_it_runs_later():
    owned = attribute(trace([launch(1, 299)], [activity(1, 350, 390)]))
    assert len(owned["call0"]) == 1


def test_a_graph_launch_owns_all_its_nodes_in_an_order_that_branches_cannot_move():
    one = attribute(trace([launch(9, 210)], [activity(9, 220, 230, "b"), activity(9, 225, 240, "a", stream=8)]))
    two = attribute(trace([launch(9, 210)], [activity(9, 231, 241, "b"), activity(9, 221, 230, "a", stream=8)]))
    assert signature(one["call0"]) == signature(two["call0"]) == (("kernel", "a"), ("kernel", "b"))


def test_fills_and_copies_count():
    owned = attribute(
        trace(
            [launch(1, 210), launch(2, 220)],
            [
                activity(1, 300, 310, "Memset (Device)", Kind.MEMSET),
                activity(2, 320, 350, "Memcpy DtoD (Device -> Device)", Kind.MEMCPY),
            ],
        )
    )
    assert busy_ns(owned["call0"]) == 40


def test_a_thread_of_the_call_may_launch_within_its_window():
    owned = attribute(trace([launch(1, 250, OTHER)], [activity(1, 260, 270)]))
    assert len(owned["call0"]) == 1


@pytest.mark.parametrize("start", [50, 350])
def test_a_thread_that_launches_in_the_harness_s_ranges_is_an_error(start):
    with pytest.raises(ClockError, match="another thread"):
        attribute(trace([launch(1, start, OTHER)], [activity(1, 500, 510, "late")]))


@pytest.mark.parametrize("start", [-5, 150, 500])
def test_a_launch_outside_every_range_is_an_error(start):
    with pytest.raises(ClockError, match="'late' was launched outside"):
        attribute(trace([launch(1, start)], [activity(1, 500, 510, "late")]))


def test_work_without_a_launch_record_is_an_error():
    with pytest.raises(ClockError, match="no launch record"):
        attribute(trace([], [activity(77, 210, 220)]))


def test_a_driver_call_inside_a_runtime_call_is_one_launch():
    owned = attribute(trace([launch(1, 305), launch(1, 299)], [activity(1, 310, 320)]))
    assert len(owned["call0"]) == 1


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        ([], 0),
        ([(0, 10)], 10),
        ([(0, 10), (10, 20)], 20),  # back to back
        ([(0, 10), (50, 60)], 20),  # the gap is host time
        ([(0, 10), (5, 15)], 15),  # two streams at once count once
        ([(0, 100), (10, 20), (30, 40)], 100),  # nested
        ([(30, 40), (0, 10), (5, 31)], 40),  # in any order
    ],
)
def test_busy_time_is_the_union_of_intervals(intervals, expected):
    assert busy_ns([activity(1, start, end) for start, end in intervals]) == expected


@pytest.mark.parametrize(
    ("found", "what"),
    [
        ((("kernel", "a"),), "1 missing"),
        ((("kernel", "a"), ("memset", "m"), ("kernel", "b")), "1 extra"),
        ((("memset", "m"), ("kernel", "a")), "another order"),
        ((("kernel", "a"), ("kernel", "m")), "other activities"),
    ],
)
def test_another_sequence_is_an_error_that_names_both(found, what):
    expected = (("kernel", "a"), ("memset", "m"))
    check_signature(expected, expected, "call 3")
    with pytest.raises(ClockError, match=what) as raised:
        check_signature(expected, found, "call 3")
    assert "call 3" in str(raised.value)
    for kind, name in (*expected, *found):
        assert f"{kind} {name}" in str(raised.value)
