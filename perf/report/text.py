"""How reports put things in words: enum values, counts, rows, untrusted text."""

import functools

from google.protobuf import descriptor

from tileops.proto import roofline_pb2
from tileops.tools.cli import words


def enum_name(message, field: str) -> str | None:
    """Returns an enum field's value as reports write it.

    In lower case and without the enum's prefix: VERDICT_AT_CEILING is
    "at_ceiling". None where the field is unspecified.
    """
    names = enum_names(message.DESCRIPTOR.fields_by_name[field].enum_type)
    return names[getattr(message, field)]


@functools.cache
def enum_names(enum: descriptor.EnumDescriptor) -> dict[int, str | None]:
    """Returns the name of each value as reports write it; None for the unspecified."""
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return {value.number: value.name.removeprefix(prefix).lower() if value.number else None for value in enum.values}


def row_name(row: roofline_pb2.Row) -> str:
    """Returns which row it is: op, case and, where it has one, implementation."""
    return " ".join(part for part in (row.op, row.case_id, row.implementation) if part)


def breach(exceeded: roofline_pb2.Breach) -> str:
    """Returns what is impossible about a rate."""
    unit = "TB/s" if exceeded.roof == "hbm" else "TFLOP/s"
    return (
        f"implies {exceeded.implied_per_s / 1e12:.4g} {unit} of {exceeded.roof}, whose"
        f" theoretical ceiling is {exceeded.theoretical_per_s / 1e12:.4g} {unit}"
    )


def note(row: roofline_pb2.Row) -> str:
    """Returns what the record says of itself, or else why its row is blank: which roof is missing, or warm caches."""
    if row.blank_reason == roofline_pb2.BLANK_REASON_WARM_CACHE and not row.message:
        return "no flush, or a clean one, came before the calls: their data may have been in the L2"
    if row.message or row.blank_reason != roofline_pb2.BLANK_REASON_NO_ROOF:
        return row.message
    if row.roof_key:
        return f"the profile has no unit {row.roof_key}"
    return "the op declares no roof"


def uncalibrated_hint(rows: int) -> str:
    """Returns what a user can do about rows that lack a calibration; "" for none."""
    if not rows:
        return ""
    return (
        f"{words.counted(rows, 'row')} blank for want of a measured calibration:"
        " --assume_calibration=0.85 reads them against 85% of the theoretical figures, and says so"
    )


def health(head: roofline_pb2.Report) -> str:
    """Returns a report's health in words, and what it lacks: as in "ok (no formula error); 1 measurement failed"."""
    outcomes, errors = head.outcomes, head.summary.formula_error
    said = f"{enum_name(head, 'health')} ({words.counted(errors, 'formula error') if errors else 'no formula error'})"
    lacks = []
    if outcomes.errors:
        lacks.append(f"{words.counted(outcomes.errors, 'measurement')} failed")
    if outcomes.timeouts:
        lacks.append(f"{words.counted(outcomes.timeouts, 'measurement')} timed out")
    if outcomes.lost:
        lacks.append(f"{words.counted(outcomes.lost, 'record')} lost to damage")
    return said + (f"; {', '.join(lacks)}" if lacks else "")


def summing_hint(head: roofline_pb2.Report) -> str:
    """Returns that sums add the implementations of a case, where they do; else ""."""
    if not head.adds_implementations:
        return ""
    return "sums add all implementations of a case: --implementation=best counts each case once, by its fastest"


def verdict(row: roofline_pb2.Row) -> str:
    """Returns the verdict on a row in words, with the reason of a blank one."""
    verdict_name = (enum_name(row, "verdict") or "").replace("_", " ")
    reason = enum_name(row, "blank_reason")
    return f"{verdict_name}: {reason}" if reason else verdict_name


def kind(row: roofline_pb2.Row) -> str:
    """Returns what reports show a row as: "predicted", or the name of its verdict."""
    return "predicted" if is_predicted(row) else enum_name(row, "verdict") or ""


def is_predicted(row: roofline_pb2.Row) -> bool:
    """Whether the row has a bound and lacks nothing but a measured time."""
    no_time = row.blank_reason == roofline_pb2.BLANK_REASON_NO_TIME
    return no_time and row.HasField("sol_time_s")
