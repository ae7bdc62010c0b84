"""Verdicts: reads measured by DRAM counters against the read half that an op's formula declares.

Writes are never judged: counters miss writes that are still in the L2 when a kernel ends.
"""

from __future__ import annotations

from typing import NamedTuple

from tileops.audit.counters import Counters
from tileops.proto import audit_pb2

# How far measured reads may fall short of the declared reads. A fraction of the declared. It is for the counters alone.
# In the recorded audit of the H200 none of 92 rows falls short at all: the least reads 1.000015 of the declared. Rows that
# read the same two inputs of 34 MB in one pass differ among themselves by 0.2% (1.0001 to 1.0022), so that is the smallest
# difference that means something.
SHORTFALL = 0.002

# Measured reads above this excess are a WARN. A fraction of the declared. Reading one of four equal inputs a second time
# makes 25%; ragged tiles and sector rounding of a single pass stay well below.
EXCESS = 0.25

# What a kernel reads beside its tensors: code, arguments and constants, in whole sectors. On an H200 a copy kernel read
# 20 kB beyond its source; this is twice that, for kernels with more code. Bytes per kernel.
KERNEL_OVERHEAD_BYTES = 40_000

COLD_CACHES = (
    "each kernel is replayed alone from cold caches (ncu --cache-control all): what one kernel leaves in the L2 for the"
    " next is read again, so a call of several kernels reads more than it does in use, never less"
)
MUST_FETCH = (
    "every conforming implementation must fetch what the formula charges: no input has positions whose values decide"
    " nothing and that a kernel may skip, except inside a configured exception"
)
PREMISES = (COLD_CACHES, MUST_FETCH)


class Judgement(NamedTuple):
    """A verdict and its reason."""

    verdict: audit_pb2.Verdict
    reason: str = ""


def judge(
    declared: int | None, counters: Counters | None, *, skip: str = "", error: str = "", exemption: str = ""
) -> Judgement:
    """Returns the verdict on one row.

    Args:
      declared: the read half that the op declares for the call; None if it declares none. Bytes.
      counters: the measured counters; None if nothing was measured.
      skip: why the row never ran; "" if it ran.
      error: why there is no usable measurement; "" if there is one.
      exemption: the reason of the configured exception whose condition the call meets; "" if it meets none.
    """
    if skip:
        return Judgement(audit_pb2.VERDICT_SKIPPED, skip)
    if declared == 0:
        return Judgement(audit_pb2.VERDICT_SKIPPED, "the formula declares no read")
    if error or counters is None:
        return Judgement(audit_pb2.VERDICT_ERROR, error or "nothing was measured")
    if declared is None:
        return Judgement(
            audit_pb2.VERDICT_NO_VERDICT, "no read half is declared: declare it in the op's eval_roofline_read_bytes()"
        )
    ratio, count = counters.read_bytes / declared, len(counters.kernels)
    if counters.read_bytes < declared * (1 - SHORTFALL):
        short = f"measured reads are {ratio:.4f} of the declared, below {1 - SHORTFALL:g}"
        if exemption:
            return Judgement(audit_pb2.VERDICT_EXEMPT, f"{short}: {exemption}")
        return Judgement(audit_pb2.VERDICT_FAIL, f"{short}: the formula claims reads that the call did not make")
    if counters.read_bytes > declared * (1 + EXCESS) + KERNEL_OVERHEAD_BYTES * count:
        cause = f"{count} kernels, each from cold caches, or more than one pass" if count > 1 else "more than one pass"
        return Judgement(audit_pb2.VERDICT_WARN, f"measured reads are {ratio:.3g} of the declared: {cause}")
    return Judgement(audit_pb2.VERDICT_PASS)
