"""Words of reports: enum values, rows, reasons, hints."""

import functools
from collections.abc import Iterable, Mapping

from google.protobuf import descriptor

from tileops.proto import roofline_pb2
from tileops.tools.cli import words


def enum_name(message, field: str) -> str | None:
    """Returns an enum field's value as reports write it.

    In lower case and without the enum's prefix: VERDICT_AT_CEILING is
    "at_ceiling". None for an unspecified value.
    """
    names = enum_names(message.DESCRIPTOR.fields_by_name[field].enum_type)
    return names[getattr(message, field)]


@functools.cache
def enum_names(enum: descriptor.EnumDescriptor) -> dict[int, str | None]:
    """Returns the name of each value as reports write it; None for the unspecified."""
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return {value.number: value.name.removeprefix(prefix).lower() if value.number else None for value in enum.values}


def row_name(row: roofline_pb2.Row) -> str:
    """Returns the name of a row: op, case and, if it has one, implementation."""
    return " ".join(part for part in (row.op, row.case_id, row.implementation) if part)


def breach(exceeded: roofline_pb2.Breach) -> str:
    """Returns which rate is impossible, and which ceiling it exceeds."""
    unit = "TB/s" if exceeded.roof == "hbm" else "TFLOP/s"
    said = (
        f"implies {exceeded.implied_per_s / 1e12:.4g} {unit} of {exceeded.roof}, whose"
        f" theoretical ceiling is {exceeded.ceiling_per_s / 1e12:.4g} {unit}"
    )
    if exceeded.ceiling_per_s != exceeded.theoretical_per_s:
        said += f" at the device's highest clock ({exceeded.theoretical_per_s / 1e12:.4g} {unit} as stated)"
    return said


def note(row: roofline_pb2.Row) -> str:
    """Returns what the record says of itself, or else why its row is blank: which roof is missing, or warm caches."""
    if row.blank_reason == roofline_pb2.BLANK_REASON_WARM_CACHE and not row.message:
        return "no flush, or only a clean one, came before the calls, so their data may have been in the L2"
    if row.message or row.blank_reason != roofline_pb2.BLANK_REASON_NO_ROOF:
        return row.message
    if row.roof_key:
        return f"the profile has no unit {row.roof_key}"
    return "the op declares no roof"


# What a user can do about blank rows, by reason.
_HINTS: dict[int, str] = {
    roofline_pb2.BLANK_REASON_NO_CUPTI: "only times of the GPU's activity records count: measure with CUPTI, on a GPU",
    roofline_pb2.BLANK_REASON_WARM_CACHE: "measure from cold caches: flush before each call",
    roofline_pb2.BLANK_REASON_ZERO_BYTES: "the op's formula gives no bytes: correct its entry in the manifest",
    roofline_pb2.BLANK_REASON_NO_PROFILE: "write a profile of the device (docs/profiles.md), or name one with --profile",
    roofline_pb2.BLANK_REASON_NO_ROOF: "add the unit to the profile, or a roof key to the op; the row's note says which",
    roofline_pb2.BLANK_REASON_UNCALIBRATED: (
        "measure the profile with //perf:calibrate, or --assume_calibration=0.85 reads them against 85% of the"
        " theoretical figures, and says so"
    ),
    roofline_pb2.BLANK_REASON_NO_TIME: (
        "nothing was timed, or the measurement failed, and the row's note says why: measure them, or --predict gives"
        " bounds"
    ),
}


def blank_hints(rows: Mapping[int, int]) -> list[str]:
    """Returns a line per reason that rows are blank for: how many rows, and what to do.

    Args:
      rows: How many rows are blank, by reason.
    """
    names = enum_names(roofline_pb2.BlankReason.DESCRIPTOR)
    return [
        f"{words.counted(rows[reason], 'row')} blank ({names[reason]}): {_HINTS[reason]}" for reason in sorted(rows)
    ]


def run_in_words(run: roofline_pb2.RunSummary) -> str:
    """Returns one line about a run: its device, file, records, day and software."""
    facts = [
        run.device_name or run.device_kind or "unknown device",
        run.file,
        words.counted(run.records, "record"),
        run.started_at[:10],
        run.driver_version and f"driver {run.driver_version}",
        run.torch_version and f"torch {run.torch_version}",
        run.project_revision[:12],
        libraries(run),
    ]
    return "  ".join(filter(None, facts))


def libraries(run: roofline_pb2.RunSummary) -> str:
    """Returns which libraries a run loaded, with their versions, and which it skipped; "" without --baselines."""
    loaded = ", ".join(f"{each.library} {each.version}" for each in run.baselines if not each.skipped)
    skipped = ", ".join(each.library for each in run.baselines if each.skipped)
    return "; ".join(filter(None, (loaded and f"libraries {loaded}", skipped and f"skipped {skipped}")))


def problems(runs: Iterable[roofline_pb2.RunSummary]) -> list[str]:
    """Returns what was wrong with run files, a line per problem that names its file."""
    return [f"{run.file}: {problem}" for run in runs for problem in run.problems]


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
    """Returns a line that says that sums add the implementations of a case; "" if they do not."""
    if not head.adds_implementations:
        return ""
    return "sums add all implementations of a case: --implementation=best counts each case once, by its fastest"


def verdict(row: roofline_pb2.Row) -> str:
    """Returns the verdict on a row in words, with the reason of a blank row and the label of a latency-bound one."""
    said = (enum_name(row, "verdict") or "").replace("_", " ")
    if reason := enum_name(row, "blank_reason"):
        said += f": {reason}"
    if row.latency_bound and row.verdict != roofline_pb2.VERDICT_LATENCY_BOUND:
        said += ", latency bound"
    return said


def kind(row: roofline_pb2.Row) -> str:
    """Returns what reports show a row as: "predicted", or the name of its verdict."""
    return "predicted" if is_predicted(row) else enum_name(row, "verdict") or ""


def is_predicted(row: roofline_pb2.Row) -> bool:
    """Returns whether the row has a bound and lacks nothing but a measured time."""
    no_time = row.blank_reason == roofline_pb2.BLANK_REASON_NO_TIME
    return no_time and row.HasField("sol_time_s")
