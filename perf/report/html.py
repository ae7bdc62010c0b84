"""The report as one HTML page that works offline: plot, table, summaries, provenance."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TextIO

from tileops.perf.report import cells as report_cells
from tileops.perf.report import html_provenance, html_sections, page, summary, text
from tileops.proto import roofline_pb2
from tileops.tools.cli import words

# A list of more impossible rows helps nobody; the table has them all.
_MOST_ERRORS_LISTED = 50
_MOST_EXACT = 2**53

_TEXTS = ("op", "family", "case_id", "label", "implementation", "roof_key")
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
_FIELDS = (*_TEXTS, "message", *_COUNTS, *_READINGS, *_ENUMS, "data_terms", "breaches", "history")


def write_html(head: roofline_pb2.Report, rows: Callable[[], Iterable[roofline_pb2.Row]], out: TextIO) -> None:
    """Writes the page.

    Above `cells.MOST_POINTS` rows the plot has cells instead of points, and
    the table the first rows alone.

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
    data: dict[str, Any] = {
        "fields": _FIELDS,
        "total": head.summary.rows,
        "isPrediction": head.is_prediction,
        "profile": _ceilings(head),
        "roofKeys": sorted(roof_keys),
        "shapes": page.SHAPES,
        "runs": [{"file": words.printable(run.file), "started_at": run.started_at} for run in head.runs],
        "cells": [dataclasses.asdict(cell) for cell in cells.all()] if cells else None,
    }
    page.write(
        out,
        title=f"Roofline: {html_sections.device(head)}",
        body=_body(head, summaries, errors),
        data=data,
        rows=(_row(row) for row, _ in zip(rows(), range(shown))),
        scripts=("base.js", "plot.js", "report.js"),
    )


def _row(row: roofline_pb2.Row) -> str:
    """Returns a row as JSON: its values, in the order of `_FIELDS`."""
    values: list[Any] = [words.printable(getattr(row, name)) for name in _TEXTS]
    values.append(words.printable(text.note(row)))
    # A script's numbers are exact up to here; it shows and divides texts of digits as well.
    counts = [getattr(row, name) for name in _COUNTS]
    values += [count if count <= _MOST_EXACT else str(count) for count in counts]
    values += [getattr(row, name) if row.HasField(name) else None for name in _READINGS]
    values += [text.enum_name(row, name) for name in _ENUMS]
    values.append({words.printable(name): term for name, term in sorted(row.data_terms.items())})
    values.append(
        [(words.printable(breach.roof), breach.implied_per_s, breach.theoretical_per_s) for breach in row.breaches]
    )
    values.append([(point.run, point.actual_time_s) for point in row.history])
    return json.dumps(values, separators=(",", ":"), allow_nan=False)


def _ceilings(head: roofline_pb2.Report) -> dict[str, Any] | None:
    """Returns the profile's ceilings, theoretical and effective, for the plot."""
    if not head.HasField("profile"):
        return None

    def ceiling(theoretical: float, part) -> dict[str, float | None]:
        calibration = None
        if part.HasField("calibration"):
            calibration = part.calibration
        elif head.profile.HasField("assumed_calibration"):
            calibration = head.profile.assumed_calibration
        return {"theoretical": theoretical, "effective": theoretical * calibration if calibration else None}

    hbm = head.profile.hbm
    return {
        "hbm": ceiling(hbm.theoretical_bytes_per_s, hbm),
        "units": {unit.key: ceiling(unit.theoretical_flops_per_s, unit) for unit in head.profile.unit},
    }


def _body(head: roofline_pb2.Report, summaries: summary.Summaries, errors: list[roofline_pb2.Row]) -> Iterator[str]:
    yield html_sections.header(head)
    yield html_sections.errors(head, errors)
    yield html_sections.warnings(head, summaries)
    yield html_sections.chips(head, summaries.predicted)
    yield '<div class="two">'
    yield html_sections.to_win(head, summaries)
    yield html_sections.families(head, summaries)
    yield "</div>"
    yield _PLOT
    if head.summary.rows > report_cells.MOST_POINTS:
        yield (
            f'<p class="warning">{head.summary.rows:,} rows: the plot counts them in cells,'
            f" and the table has the first {report_cells.MOST_POINTS:,}. --op and --family"
            " make a report of fewer.</p>"
        )
    yield _TABLE
    yield html_provenance.provenance(head)
    yield html_sections.GLOSSARY
    yield (
        '<noscript><p class="warning">The plot and the table of rows need JavaScript;'
        " what stands above and below them does not.</p></noscript>"
    )


_PLOT = """\
<h2>Where each row stands <small>solid: the calibrated ceilings; dashed: the theoretical ones; circles: ridge points;
a click on a mark shows its op alone</small></h2>
<div id="plot"></div>
<div id="details" hidden></div>"""

_TABLE = """\
<h2>Rows</h2>
<div class="controls"><input type="search" id="search" placeholder="op, case, note ..." aria-label="search">
<select id="family" aria-label="family"><option value="">all families</option></select>
<select id="implementation" aria-label="implementation"><option value="">all implementations</option></select>
<button type="button" id="op-filter" hidden></button>
<label><input type="checkbox" id="zoom"> zoom the plot to what is shown</label>
<button type="button" id="clear">clear filters</button><output id="count"></output></div>
<div class="scroll"><table id="rows"></table></div>"""
