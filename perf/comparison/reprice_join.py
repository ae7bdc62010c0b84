"""Joins recorded times with today's prices: the pure part of //perf:reprice."""

import dataclasses
from collections.abc import Iterable, Sequence

from tileops.proto import benchmark_pb2
from tileops.tools.cli import words

# How many cases a line names; the others are counted.
_MOST_NAMED = 5

# Fields of a record that the op states and no clock measures.
_PRICE_FIELDS = ("flops", "bytes", "read_bytes", "roof_key", "data_terms", "is_lower_bound")

_CaseKey = tuple[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """A field of a case's price that differs from the recorded one.

    Attributes:
      op: The case's op.
      case_id: The case.
      field: Name of the field in `BenchmarkRecord`.
      recorded: Its value in the run file; None if absent.
      today: Its value now; None if absent.
    """

    op: str
    case_id: str
    field: str
    recorded: object
    today: object


@dataclasses.dataclass(frozen=True, kw_only=True)
class Joined:
    """Recorded times under today's prices.

    Attributes:
      records: The recorded ones that have a price today, in their order.
      changes: What differs from the recorded prices, once per case and field.
      vanished: Recorded cases, (op, case_id), that are no workload rows today, of ops that
        have workload rows.
      unknown: Recorded cases of ops that have no workload rows.
      appeared: Cases priced today that were not recorded.
      unpriced: Today's cases that could not be priced, with the message; they count
        neither as vanished nor as appeared.
    """

    records: Sequence[benchmark_pb2.BenchmarkRecord]
    changes: Sequence[Change]
    vanished: Sequence[_CaseKey]
    unknown: Sequence[_CaseKey]
    appeared: Sequence[_CaseKey]
    unpriced: Sequence[tuple[_CaseKey, str]]


def join(recorded: Iterable[benchmark_pb2.BenchmarkRecord], priced: Iterable[benchmark_pb2.BenchmarkRecord]) -> Joined:
    """Gives each recorded case the price that it has today.

    Args:
      recorded: Records of a run, any number of implementations per case.
      priced: Records with today's prices, one or more per case, without times.

    Returns:
      The joined records and what differs. A record keeps everything but its price and
      its family, which come from its op: a converted run may lack both. The arguments are not
      modified.
    """
    today: dict[_CaseKey, benchmark_pb2.BenchmarkRecord] = {}
    failed: dict[_CaseKey, str] = {}
    for record in priced:
        key = (record.op, record.case_id)
        if record.status == benchmark_pb2.STATUS_OK:
            today.setdefault(key, record)
        else:
            failed.setdefault(key, record.message)
    records = []
    changes: dict[tuple[_CaseKey, str], Change] = {}
    recorded_keys: dict[_CaseKey, None] = {}
    for record in recorded:
        key = (record.op, record.case_id)
        recorded_keys[key] = None
        if key not in today:
            continue
        joined = benchmark_pb2.BenchmarkRecord()
        joined.CopyFrom(record)
        joined.family = today[key].family
        for change in _reprice(joined, today[key]):
            changes.setdefault((key, change.field), change)
        records.append(joined)
    ops = {op for op, _ in (*today, *failed)}
    unpriceable = [k for k in recorded_keys if k not in today and k not in failed]
    return Joined(
        records=records,
        changes=list(changes.values()),
        vanished=[k for k in unpriceable if k[0] in ops],
        unknown=[k for k in unpriceable if k[0] not in ops],
        appeared=[k for k in today if k not in recorded_keys],
        unpriced=[(k, message) for k, message in failed.items() if k not in today],
    )


def describe(joined: Joined) -> list[str]:
    """Returns what changed, one line per fact."""
    lines = []
    by_field: dict[tuple[str, str], list[Change]] = {}
    for change in joined.changes:
        by_field.setdefault((change.op, change.field), []).append(change)
    for (op, field), changes in sorted(by_field.items()):
        first = changes[0]
        lines.append(
            f"{op}: {field} changed in {words.counted(len(changes), 'case')}, for example {first.case_id}:"
            f" {_text(first.recorded)} -> {_text(first.today)}"
        )
    for (op, case_id), message in joined.unpriced:
        lines.append(f"{op} {case_id}: cannot be priced today: {message}")
    for op, case_ids in _by_op(joined.vanished).items():
        lines.append(f"{op}: recorded, but not among today's workload rows; left out: {_named(case_ids)}")
    for op, case_ids in _by_op(joined.unknown).items():
        lines.append(f"{op}: recorded, but not an op of this project; left out: {_named(case_ids)}")
    if joined.appeared:
        lines.append(_appeared(joined.appeared))
    if not joined.records:
        lines.append(
            "no recorded row could be priced: rows are found by op and case id. In JUnit the case id is the text in the"
            " brackets of a test's name, as in test_x[llama-8b-decode-bfloat16]"
        )
    return lines


def _by_op(cases: Iterable[_CaseKey]) -> dict[str, list[str]]:
    """Returns the case ids of each op, ops and ids in the order of the cases."""
    found: dict[str, list[str]] = {}
    for op, case_id in cases:
        found.setdefault(op, []).append(case_id)
    return found


def _named(names: Sequence[str]) -> str:
    """Returns the first names, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _appeared(cases: Sequence[_CaseKey]) -> str:
    """Returns one line about cases that were not recorded; a run of some ops lacks most of them."""
    if len(cases) == 1:
        return f"1 workload row was not recorded: {' '.join(cases[0])}"
    if len(cases) <= _MOST_NAMED:
        return f"{len(cases)} workload rows were not recorded: {', '.join(map(' '.join, cases))}"
    by_op = _by_op(cases)
    of_ops = _named([f"{op} {len(case_ids)}" for op, case_ids in by_op.items()])
    return f"{len(cases)} workload rows were not recorded, of {len(by_op)} ops: {of_ops}"


def _reprice(record: benchmark_pb2.BenchmarkRecord, price: benchmark_pb2.BenchmarkRecord) -> list[Change]:
    """Overwrites the record's price; returns what changed."""
    changes = []
    for field in _PRICE_FIELDS:
        recorded, today = _value(record, field), _value(price, field)
        if recorded == today:
            continue
        changes.append(Change(op=record.op, case_id=record.case_id, field=field, recorded=recorded, today=today))
        record.ClearField(field)
        if field == "data_terms":
            record.data_terms.update(today)
        elif today is not None:
            setattr(record, field, today)
    return changes


def _value(record: benchmark_pb2.BenchmarkRecord, field: str) -> object:
    """Returns a price field, detached from the record; None if it is absent."""
    if field == "data_terms":
        return dict(record.data_terms)
    if field == "read_bytes" and not record.HasField(field):
        return None
    return getattr(record, field)


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={term}" for name, term in sorted(value.items()))
    return "absent" if value is None or value == "" else str(value)
