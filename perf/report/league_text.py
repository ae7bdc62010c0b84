"""The league of libraries as JSON, as CSV, and as a table for people."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any, TextIO

from tileops.perf.report import columns, league, table, text
from tileops.perf.report import json as report_json
from tileops.perf.report.columns import Column
from tileops.tools.cli import csv_text, words

_CSV_FIELDS = (
    *("op", "family", "case_id", "implementation", "library", "outcome", "time_s", "ratio", "efficiency"),
    *("is_default", "is_fastest", "run", "message"),
)
OURS = "(ours)"
STANDING_TITLES = (
    "library",
    "version",
    "rows",
    "wrong",
    "failed",
    "compared",
    "time / ours",
    "over 2% faster",
    "fastest",
)
WON_TITLES = ("op", "case", "fastest", "time", "our default", "time", "ratio")
EXPLANATION = (
    "time / ours is the geometric mean, over the compared rows, of a library's time over the time of our default in the"
    " same run: below 1 the library is faster. Our default is the implementation that a call takes without libraries."
    " fastest counts rows in which no other implementation is faster."
)


# ---- values


def row_as_dict(row: league.Row) -> dict[str, Any]:
    """Returns a row as JSON has it; None for an absent value."""
    default, fastest = row.default, row.fastest
    return {
        "op": row.op,
        "family": row.family,
        "case_id": row.case_id,
        "run": row.run,
        "default": default and default.implementation,
        "fastest": fastest and fastest.implementation,
        "is_won": row.is_won,
        "entrants": [
            {
                "implementation": each.implementation,
                "library": each.library,
                "outcome": each.outcome.value,
                "time_s": each.time_s,
                "ratio": row.ratio(each),
                "efficiency": each.efficiency,
                "is_default": each.is_default,
                "message": each.message,
            }
            for each in row.entrants
        ],
    }


def standing_as_dict(standing: league.Standing) -> dict[str, Any]:
    """Returns a standing as JSON has it; None for an absent ratio."""
    return {
        "library": standing.library,
        "versions": list(standing.versions),
        "rows": standing.rows,
        "wrong": standing.wrong,
        "failed": standing.failed,
        "impossible": standing.impossible,
        "compared": standing.compared,
        "ratio": standing.ratio,
        "won": standing.won,
        "fastest": standing.fastest,
    }


def write_json(found: league.League, out: TextIO) -> None:
    """Writes the league with one row per line."""
    runs = found.runs
    parts = {
        "device_name": runs[0].device_name if runs else "",
        "runs": [report_json.message_as_dict(run) for run in runs],
        "libraries": [standing_as_dict(standing) for standing in found.standings()],
        "skipped": found.skipped,
        "served": len(found.served()),
        "ours_fastest": found.ours_fastest(),
        "won": len(found.won()),
    }
    rows = (json.dumps(row_as_dict(row), allow_nan=False) for row in found.rows)
    report_json.write_document(parts, rows, out)


def write_csv(found: league.League, out: TextIO) -> None:
    """Writes a line per implementation of each row, with a header line."""
    out.write(csv_text.line(_CSV_FIELDS))
    for row in found.rows:
        fastest = row.fastest
        for each in row.entrants:
            ratio = row.ratio(each)
            values = (
                *(row.op, row.family, row.case_id, each.implementation, each.library, each.outcome.value),
                *(each.time_s, ratio, each.efficiency),
                *(str(flag).lower() for flag in (each.is_default, each is fastest)),
                *(row.run, each.message),
            )
            out.write(csv_text.line("" if value is None else value for value in values))


# ---- words of the table and of the page


def standing_cells(standing: league.Standing) -> tuple[str, ...]:
    """Returns a line of the table of libraries, in the order of `STANDING_TITLES`."""
    failed = standing.failed + standing.impossible
    counts = (standing.rows, standing.wrong, failed, standing.compared)
    ratio = "" if standing.ratio is None else f"{standing.ratio:.3f}"
    shown = (*map(str, counts), ratio, str(standing.won), str(standing.fastest))
    return (standing.library, ", ".join(standing.versions), *shown)


def ours_cells(found: league.League) -> tuple[str, ...]:
    """Returns our line of the table of libraries: the rows that a library serves, and where ours is the fastest."""
    return (OURS, "", str(len(found.served())), "", "", "", "", "", str(found.ours_fastest()))


def entrant_words(row: league.Row, entrant: league.Entrant | None) -> str:
    """Returns an implementation's time and its ratio to our default, as "27.00 us (0.900)", or why it has no time."""
    if entrant is None:
        return ""
    if entrant.time_s is None:
        return entrant.outcome.value
    ratio = row.ratio(entrant)
    return table.microseconds(entrant.time_s) + ("" if ratio is None else f" ({ratio:.3f})")


def won_cells(row: league.Row) -> tuple[str, ...]:
    """Returns a line about a row that an implementation wins, in the order of `WON_TITLES`."""
    fastest, default = row.fastest, row.default
    assert fastest is not None and default is not None  # such a row has both
    return (
        *(row.op, row.case_id, fastest.implementation, table.microseconds(fastest.time_s)),
        *(default.implementation, table.microseconds(default.time_s), f"{row.ratio(fastest):.3f}"),
    )


def note(row: league.Row) -> str:
    """Returns why implementations of libraries have no time on a row; "" if all have one."""
    lacking = [each for each in row.entrants if each.library and each.time_s is None]
    return "; ".join(f"{each.implementation} {each.outcome.value}: {each.message}" for each in lacking)


def hint(found: league.League) -> str:
    """Returns what to do if no run has a library, or no run says which implementation is the default; else ""."""
    if not found.libraries:
        return "no run has a record of a library: ./bazelw run //perf:bench -- --baselines=all measures them"
    if not any(row.default for row in found.served()):
        return (
            "no row has a time of our default in the same run: measure the project's implementations with the libraries"
        )
    return ""


# ---- the table


def write_table(found: league.League, out: TextIO, top: int | None) -> None:
    """Writes the libraries' standings, their rows, and the rows that somebody wins; `top` rows of each, None for all."""
    console = columns.console(out)
    for run in found.runs:
        console.print(words.printable(text.run_in_words(run)))
    most = columns.MOST_ROWS if top is None else min(top, columns.MOST_ROWS)
    if found.libraries:
        standings = [standing_cells(standing) for standing in found.standings()]
        columns.print_summary(STANDING_TITLES, [*standings, ours_cells(found)], console)
        console.print(EXPLANATION)
        console.print()
        _print_rows(_row_columns(found.libraries), found.served(), most, console)
    won = found.won()
    console.print()
    console.print(f"{words.counted(len(won), 'row')} in which some implementation is over 2% faster than our default")
    if won:
        _print_rows(_WON_COLUMNS, won, most, console)
    for library, reason in sorted(found.skipped.items()):
        console.print(words.printable(f"{library} was skipped: {reason}"), style="yellow")
    for line in [hint(found), *text.problems(found.runs)]:
        if line:
            console.print(words.printable(line), style="yellow")


def _row_columns(libraries: Sequence[str]) -> list[Column]:
    def default(row: league.Row) -> str:
        return "" if row.default is None else f"{row.default.implementation} {table.microseconds(row.default.time_s)}"

    def of(library: str) -> Column:
        return Column(library, lambda row: entrant_words(row, row.of(library)), is_number=True)

    return [
        Column("op", lambda row: row.op, is_name=True),
        Column("case", lambda row: row.case_id, is_name=True),
        Column("our default", default, is_number=True),
        *map(of, libraries),
        Column("fastest", lambda row: "" if row.fastest is None else row.fastest.implementation),
        Column("note", note, is_note=True, is_optional=True),
    ]


def _won_column(at: int) -> Column:
    return Column(WON_TITLES[at], lambda row: won_cells(row)[at], is_name=at < 2, is_number=at in (3, 5, 6))


_WON_COLUMNS = [_won_column(at) for at in range(len(WON_TITLES))]


def _print_rows(
    shown_columns: Sequence[Column], rows: Sequence[league.Row], most: int, console: columns.Console
) -> None:
    shown = list(itertools.islice(rows, most))
    columns.print_rows(shown_columns, shown, [""] * len(shown), [columns.Group("", len(shown))], console)
    if len(rows) > len(shown):
        left_out = words.counted(len(rows) - len(shown), "more row")
        console.print(f"{left_out} left out: --top=all shows them, --format=csv and json have all", style="yellow")
