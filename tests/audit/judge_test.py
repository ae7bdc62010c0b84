"""The decision table: what each combination of declaration, measurement, skip and exception is called."""

import pytest

from tileops.audit import counters, judge
from tileops.proto import audit_pb2
from tileops.tests.audit.ncu_output import raw

FAIL, WARN, EXEMPT, SKIPPED, ERROR, NO_VERDICT, PASS = (
    audit_pb2.VERDICT_FAIL,
    audit_pb2.VERDICT_WARN,
    audit_pb2.VERDICT_EXEMPT,
    audit_pb2.VERDICT_SKIPPED,
    audit_pb2.VERDICT_ERROR,
    audit_pb2.VERDICT_NO_VERDICT,
    audit_pb2.VERDICT_PASS,
)
READ = 100_000_000
EXEMPT_BY = "rows past the k-th are predicated away"


def measured(read, kernels=1):
    """Counters of `kernels` kernels that read so many bytes together, by way of ncu's CSV."""
    shares = [read // kernels + (read % kernels if at == 0 else 0) for at in range(kernels)]
    return counters.parse(raw([(f"k{at}", str(share), "0") for at, share in enumerate(shares)]))


@pytest.mark.requirement("4.5.14", "4.5.15", "4.5.16", "4.5.17", "4.5.18")
@pytest.mark.parametrize(
    ("declared", "found", "extra", "verdict"),
    [
        (READ, measured(READ), {}, PASS),
        (READ, measured(READ * 998 // 1000), {}, PASS),
        (READ, measured(READ * 998 // 1000 - 1), {}, FAIL),
        (READ, measured(0), {}, FAIL),
        (READ, measured(READ * 998 // 1000 - 1), {"exemption": EXEMPT_BY}, EXEMPT),
        (READ, measured(READ), {"exemption": EXEMPT_BY}, PASS),
        (READ, measured(3 * READ), {"exemption": EXEMPT_BY}, WARN),
        (READ, measured(READ * 125 // 100), {}, PASS),
        (READ, measured(READ * 125 // 100 + judge.KERNEL_OVERHEAD_BYTES), {}, PASS),
        (READ, measured(READ * 125 // 100 + judge.KERNEL_OVERHEAD_BYTES + 1), {}, WARN),
        (READ, measured(READ * 125 // 100 + 3 * judge.KERNEL_OVERHEAD_BYTES, kernels=3), {}, PASS),
        (64, measured(20_000), {}, PASS),  # a kernel's own code is no second pass
        (None, measured(READ), {}, NO_VERDICT),
        (None, None, {"error": "ncu: no such program"}, ERROR),
        (READ, None, {"error": "ncu: no such program"}, ERROR),
        (READ, None, {}, ERROR),
        (READ, measured(READ // 2), {"error": "copies by the driver"}, ERROR),
        (0, None, {}, SKIPPED),
        (0, measured(READ), {}, SKIPPED),
        (READ, None, {"skip": "interrupted"}, SKIPPED),
        (None, None, {"skip": "interrupted"}, SKIPPED),
    ],
)
def test_the_verdict_follows_the_table(declared, found, extra, verdict):
    assert judge.judge(declared, found, **extra).verdict == verdict


def test_a_formula_inflated_by_5_percent_on_a_100_mb_read_fails():
    found = judge.judge(READ * 105 // 100, measured(READ + 20_000))
    assert found.verdict == FAIL
    assert "0.9526 of the declared, below 0.998" in found.reason


@pytest.mark.requirement("4.5.14")
@pytest.mark.parametrize("kernels", [1, 4])
def test_a_formula_deflated_to_half_is_a_warning(kernels):
    found = judge.judge(READ // 2, measured(READ, kernels))
    assert found.verdict == WARN
    assert "2 of the declared" in found.reason
    assert ("4 kernels, each from cold caches" in found.reason) == (kernels == 4)


@pytest.mark.requirement("4.5.13")
@pytest.mark.parametrize("short", [0.003, 0.01, 0.02])
def test_measured_reads_that_fall_short_of_the_declared_fail(short):
    found = judge.judge(READ, measured(int(READ * (1 - short))))
    assert found.verdict == FAIL
    assert f"{1 - short:.4f} of the declared, below 0.998" in found.reason


@pytest.mark.requirement("4.5.2")
@pytest.mark.parametrize(("read", "verdict"), [(READ // 2, FAIL), (READ, PASS), (2 * READ, WARN)])
def test_writes_never_decide(read, verdict):
    for written in (0, READ // 2, 9 * READ):
        assert judge.judge(READ, counters.parse(raw([("k", str(read), str(written))]))).verdict == verdict


@pytest.mark.parametrize(
    ("declared", "found", "extra", "said"),
    [
        (0, None, {}, "declares no read"),
        (None, measured(1), {}, "eval_roofline_read_bytes"),
        (READ, measured(1), {"exemption": EXEMPT_BY}, EXEMPT_BY),
        (READ, None, {"skip": "interrupted"}, "interrupted"),
        (READ, None, {"error": "no permission"}, "no permission"),
    ],
)
def test_a_verdict_says_why(declared, found, extra, said):
    assert said in judge.judge(declared, found, **extra).reason
