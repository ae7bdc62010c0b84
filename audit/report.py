"""An audit as protobuf messages: rows, premises, and counts of verdicts."""

from __future__ import annotations

import collections
from collections.abc import Iterable

from tileops.audit import judge
from tileops.audit.calls import DeclaredCall
from tileops.audit.counters import Counters
from tileops.audit.exceptions import ReadException
from tileops.proto import audit_pb2

Verdict = audit_pb2.Verdict

# The order of a report: verdicts that ask for work come first.
_ORDER = (
    audit_pb2.VERDICT_FAIL,
    audit_pb2.VERDICT_ERROR,
    audit_pb2.VERDICT_NO_VERDICT,
    audit_pb2.VERDICT_WARN,
    audit_pb2.VERDICT_EXEMPT,
    audit_pb2.VERDICT_SKIPPED,
    audit_pb2.VERDICT_PASS,
)
# Verdicts that rest on a comparison with counters.
_JUDGED = frozenset((audit_pb2.VERDICT_PASS, audit_pb2.VERDICT_FAIL, audit_pb2.VERDICT_WARN, audit_pb2.VERDICT_EXEMPT))


def new_report() -> audit_pb2.AuditReport:
    """Returns a report with premises and tolerances, without rows."""
    return audit_pb2.AuditReport(
        premises=judge.PREMISES,
        tolerances=audit_pb2.Tolerances(
            shortfall=judge.SHORTFALL, excess=judge.EXCESS, kernel_overhead_bytes=judge.KERNEL_OVERHEAD_BYTES
        ),
    )


def row(
    declared: DeclaredCall,
    *,
    implementation: str = "",
    counters: Counters | None = None,
    skip: str = "",
    error: str = "",
    exception: ReadException | None = None,
) -> audit_pb2.AuditRow:
    """Returns a judged row. `exception` is the configured exception that the call meets; the rest is as for `judge`."""
    error = declared.error or error
    exemption = "" if exception is None else exception.reason
    found = judge.judge(declared.read_bytes, counters, skip=skip, error=error, exemption=exemption)
    made = audit_pb2.AuditRow(
        op=declared.op_class.ENTRY,
        family=declared.op_class.FAMILY,
        case_id=declared.case.case_id,
        implementation=implementation,
        verdict=found.verdict,
        reason=found.reason,
        exemption_condition=exception.when if exception is not None else "",
        branches=[declared.op_class.BRANCHES[branch] for branch in declared.case.branches],
        data_terms=declared.data_terms,
        premises=_premises(found.verdict, exception),
    )
    if declared.read_bytes is not None:
        made.declared_read_bytes = declared.read_bytes
    if counters is not None:
        made.measured_read_bytes = counters.read_bytes
        if counters.write_bytes is not None:
            made.measured_write_bytes = counters.write_bytes
        made.kernels = len(counters.kernels)
        made.kernel_names.extend(counters.kernels)
    return made


def _premises(verdict: audit_pb2.Verdict, exception: ReadException | None) -> list[int]:
    """Returns the positions of the premises that a verdict rests on. The second fails inside an exception."""
    if verdict not in _JUDGED:
        return []
    return [at for at, premise in enumerate(judge.PREMISES) if exception is None or premise != judge.MUST_FETCH]


def name(verdict: audit_pb2.Verdict) -> str:
    """Returns a verdict as the report shows it, such as "NO-VERDICT"."""
    return Verdict.Name(verdict).removeprefix("VERDICT_").replace("_", "-")


def counts(rows: Iterable[audit_pb2.AuditRow]) -> dict[str, int]:
    """Returns the number of rows per verdict, 0 included."""
    found = collections.Counter(one.verdict for one in rows)
    return {name(verdict): found[verdict] for verdict in _ORDER}


def is_measured(found: audit_pb2.AuditReport) -> bool:
    """Returns whether any row has counters."""
    return any(one.HasField("measured_read_bytes") for one in found.rows)


def ratio(one: audit_pb2.AuditRow) -> float | None:
    """Returns measured over declared reads; None if either is missing or no read is declared."""
    if not one.HasField("measured_read_bytes") or not one.declared_read_bytes:
        return None
    return one.measured_read_bytes / one.declared_read_bytes


def in_order(rows: Iterable[audit_pb2.AuditRow]) -> list[audit_pb2.AuditRow]:
    """Returns the rows with verdicts that ask for work first, otherwise as given."""
    return sorted(rows, key=lambda one: _ORDER.index(one.verdict))
