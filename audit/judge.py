"""Verdicts: the reads that DRAM counters saw against the read half that an op's formula declares.

The write side is never judged: writes still in the L2 when a kernel ends are not in its counters.
"""

from __future__ import annotations

import dataclasses

from tileops.audit.counters import Counters
from tileops.proto import audit_pb2

# How far measured reads may fall short of the declared ones and still cover them, as a fraction of the declared:
# a formula may charge a whole input of which the algorithm reads up to 1% less (the metric's definition allows that),
# and 1% is left to the counters, whose own error is far smaller (an H200 read 1.00007 of a 256 MiB copy's source).
# Any claim that is 2.1% too high is caught, so 5% is with room to spare.
SHORTFALL = 0.02

# How far they may exceed it before that is worth a word, as a fraction of the declared. Reading one of four equal
# inputs a second time makes 25%; ragged tiles and sector rounding of a single pass stay well below.
EXCESS = 0.25

# What a kernel reads beside its tensors: its code, arguments and constants, and counters count whole sectors. A copy
# kernel of an H200 read 20 kB beyond its source; twice that for kernels with more code. Bytes a kernel.
KERNEL_OVERHEAD_BYTES = 40_000

COLD_CACHES = (
    "each kernel is replayed alone from cold caches (ncu --cache-control all): what one kernel leaves in the L2 for the"
    " next is read again, so a call of several kernels reads more than it does in use, never less"
)
MUST_FETCH = (
    "every conforming implementation must fetch what the formula charges: no input has positions whose values decide"
    " nothing and that a kernel may skip, except where a configured exception says so"
)
PREMISES = (COLD_CACHES, MUST_FETCH)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judgement:
    """A verdict and why."""

    verdict: int
    reason: str = ""


def judge(
    declared: int | None, counters: Counters | None, *, skip: str = "", error: str = "", exemption: str = ""
) -> Judgement:
    """The verdict on one row.

    Args:
      declared: the read half that the op declares for the call; None where it declares none. Bytes.
      counters: what was measured; None where nothing was.
      skip: why the row never ran; "" where it did.
      error: why there is no usable measurement; "" where there is one.
      exemption: the reason of the configured exception whose condition holds for the call; "" where there is none.
    """
    if skip:
        return Judgement(verdict=audit_pb2.VERDICT_SKIPPED, reason=skip)
    if declared == 0:
        return Judgement(verdict=audit_pb2.VERDICT_SKIPPED, reason="the formula declares no read")
    if error or counters is None:
        return Judgement(verdict=audit_pb2.VERDICT_ERROR, reason=error or "nothing was measured")
    if declared is None:
        return Judgement(
            verdict=audit_pb2.VERDICT_NO_VERDICT,
            reason="no read half is declared: state it in the op's eval_roofline_read_bytes()",
        )
    ratio = counters.read_bytes / declared
    if is_short(declared, counters.read_bytes):
        short = f"measured reads are {ratio:.3f} of the declared, below {1 - SHORTFALL:.2f}"
        if exemption:
            return Judgement(verdict=audit_pb2.VERDICT_EXEMPT, reason=f"{short}: {exemption}")
        return Judgement(
            verdict=audit_pb2.VERDICT_FAIL, reason=f"{short}: the formula claims reads that the call did not make"
        )
    if is_excess(declared, counters):
        count = len(counters.kernels)
        cause = f"{count} kernels, each from cold caches, or more than one pass" if count > 1 else "more than one pass"
        return Judgement(
            verdict=audit_pb2.VERDICT_WARN, reason=f"measured reads are {ratio:.3g} of the declared: {cause}"
        )
    return Judgement(verdict=audit_pb2.VERDICT_PASS)


def is_short(declared: int, measured: int) -> bool:
    """Whether measured reads (bytes) fall short of the declared ones (bytes) beyond the tolerance."""
    return measured < declared * (1 - SHORTFALL)


def is_excess(declared: int, counters: Counters) -> bool:
    """Whether they far exceed the declared ones (bytes)."""
    return counters.read_bytes > declared * (1 + EXCESS) + KERNEL_OVERHEAD_BYTES * len(counters.kernels)
