"""The report as one HTML page that works offline: plot, table, summaries, provenance."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from tileops.perf.report import cells as report_cells
from tileops.perf.report import page, summary, text
from tileops.perf.roof import profiles
from tileops.proto import gpu_profile_pb2, roofline_pb2
from tileops.tools.cli import words

_OPS_TO_WIN = 5
# A list of more impossible rows helps nobody; the table has them all.
_MOST_ERRORS_LISTED = 50
# A script's numbers are exact up to here; it shows and divides texts of digits as well.
_MOST_EXACT = 2**53

# What each verdict means, in the order that a reader wants them.
_MEANINGS = {
    "formula_error": "faster than physics allows: the formula counts too much",
    "anomaly": "above 105%: the formula or the calibration is wrong",
    "below": "below 80%: the headroom says what it is worth",
    "at_ceiling": "80% or more: done",
    "latency_bound": "at most 105%, and launch overhead dominates; a faster kernel will not show",
    "blank": "cannot be priced honestly; the reason is given",
    "predicted": "a bound, not a measurement",
}

_TEXTS = ("op", "family", "case_id", "label", "implementation", "library", "roof_key")
_COUNTS = ("flops", "bytes")
_READINGS = (
    "actual_time_s",
    "memory_time_s",
    "compute_time_s",
    "sol_time_s",
    "efficiency",
    "headroom_s",
    "achieved_bytes_per_s",
    "achieved_flops_per_s",
    "arithmetic_intensity",
)
_ENUMS = ("bound", "verdict", "blank_reason")
_FIELDS = (*_TEXTS, "message", *_COUNTS, *_READINGS, *_ENUMS, "latency_bound", "data_terms", "breaches", "history")


def write_html(head: roofline_pb2.Report, rows: Callable[[], Iterable[roofline_pb2.Row]], out: TextIO) -> None:
    """Writes the page.

    Above `cells.MOST_POINTS` rows the plot has cells instead of points, and the table has the first rows alone.

    Args:
      head: The report but for its rows.
      rows: Returns the rows, in order, each time that it is called.
      out: Where to.
    """
    summaries = summary.Summaries()
    cells = report_cells.Cells() if head.summary.rows > report_cells.MOST_POINTS else None
    errors: list[roofline_pb2.Row] = []
    roof_keys = set()
    for row in rows():
        summaries.add(row)
        roof_keys.add(row.roof_key)
        if cells:
            cells.add(row)
        if row.breaches and len(errors) < _MOST_ERRORS_LISTED:
            errors.append(row)
    shown = min(head.summary.rows, report_cells.MOST_POINTS)
    ceilings = _ceilings(head.profile) if head.HasField("profile") else {}
    counts = {name: getattr(head.summary, name) for name in _MEANINGS if name != "predicted"}
    if head.is_prediction:
        counts = {"predicted": summaries.predicted, "blank": counts["blank"] - summaries.predicted}
    page.write(
        out,
        "report.html.j2",
        data={
            "fields": _FIELDS,
            "total": head.summary.rows,
            "isPrediction": head.is_prediction,
            "profile": _for_script(ceilings) if ceilings else None,
            "roofKeys": sorted(roof_keys),
            "shapes": page.SHAPES,
            "runs": [{"file": words.printable(run.file), "started_at": run.started_at} for run in head.runs],
            "cells": [dataclasses.asdict(cell) for cell in cells.all()] if cells else None,
        },
        rows=(_row(row) for row, _ in zip(rows(), range(shown))),
        scripts=("base.js", "plot.js", "report.js"),
        title=f"Roofline: {_device(head)}",
        head=head,
        health=text.enum_name(head, "health"),
        health_in_words=text.health(head),
        errors=[f"{text.row_name(row)}: {text.breach(breach)}" for row in errors for breach in row.breaches],
        unlisted_errors=head.summary.formula_error - len(errors),
        warnings=[
            profiles.assumption_in_words(head.profile),
            text.summing_hint(head),
            *text.blank_hints(summaries.blanks),
            *text.problems(head.runs),
        ],
        counts=counts,
        meanings=_MEANINGS,
        ops_to_win=[] if head.is_prediction else summaries.most_to_win(_OPS_TO_WIN),
        families=summaries.families(),
        most_points=report_cells.MOST_POINTS,
        sources=[("source", each) for each in head.profile.source] + [("note", each) for each in head.profile.note],
        ceilings=[ceiling.in_words() for ceiling in ceilings.values()],
    )


def _device(head: roofline_pb2.Report) -> str:
    """Returns which device the report is about."""
    if head.is_prediction:
        return f"bounds for {head.profile.gpu}"
    run = head.runs[0]
    return run.device_name or run.device_kind or "unknown device"


def _row(row: roofline_pb2.Row) -> list[Any]:
    """Returns a row for the script: its values, in the order of `_FIELDS`."""
    values: list[Any] = [words.printable(getattr(row, name)) for name in _TEXTS]
    values.append(words.printable(text.note(row)))
    # A script's numbers are exact up to here; it shows and divides texts of digits as well.
    counts = [getattr(row, name) for name in _COUNTS]
    values += [count if count <= _MOST_EXACT else str(count) for count in counts]
    values += [getattr(row, name) if row.HasField(name) else None for name in _READINGS]
    values += [text.enum_name(row, name) for name in _ENUMS]
    values.append(row.latency_bound)
    values.append({words.printable(name): term for name, term in sorted(row.data_terms.items())})
    values.append(
        [(words.printable(breach.roof), breach.implied_per_s, breach.ceiling_per_s) for breach in row.breaches]
    )
    values.append([(point.run, point.actual_time_s) for point in row.history])
    return values


@dataclasses.dataclass(frozen=True)
class _Ceiling:
    """One ceiling of the profile: `part` is its memory or one of its units, `highest` its rate at the highest clock."""

    name: str
    theoretical: float
    highest: float
    unit: str
    part: Any
    assumed: float | None

    @property
    def effective(self) -> float | None:
        calibration = self.part.calibration if self.part.HasField("calibration") else self.assumed
        return self.theoretical * calibration if calibration else None

    def in_words(self) -> tuple[str, ...]:
        """Returns a line of the table of ceilings."""
        said = "not measured"
        if self.part.HasField("calibration"):
            said = f"{self.part.calibration:.2%}"
        elif self.assumed:
            said = f"{self.assumed:.2%}, assumed"
        source = ". ".join(filter(None, (self.part.source, self.part.condition, self.part.doubt)))
        rates = [self._rate(rate) for rate in (self.theoretical, self.highest, self.effective)]
        return self.name, *rates[:2], said, rates[2], source

    def _rate(self, per_s: float | None) -> str:
        return "" if per_s is None else f"{per_s / 1e12:,.4g} {self.unit}"


def _ceilings(profile: gpu_profile_pb2.GpuProfile) -> dict[str, _Ceiling]:
    """Returns the profile's ceilings by name, the memory's first."""
    assumed = profile.assumed_calibration if profile.HasField("assumed_calibration") else None

    def ceiling(name: str, theoretical: float, unit: str, part: Any, clock_mhz: float = 0.0) -> _Ceiling:
        highest = theoretical * profiles.clock_headroom(profile, clock_mhz)
        return _Ceiling(name, theoretical, highest, unit, part, assumed)

    hbm = ceiling("hbm", profile.hbm.theoretical_bytes_per_s, "TB/s", profile.hbm)
    units = [ceiling(u.key, u.theoretical_flops_per_s, "TFLOP/s", u, u.clock_mhz) for u in profile.unit]
    return {each.name: each for each in (hbm, *units)}


def _for_script(ceilings: dict[str, _Ceiling]) -> dict[str, Any]:
    rates = {name: {"theoretical": each.theoretical, "effective": each.effective} for name, each in ceilings.items()}
    return {"hbm": rates.pop("hbm"), "units": rates}
