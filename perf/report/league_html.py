"""The league of libraries as one HTML page that works offline: standings, and tables of rows that sort and filter."""

from __future__ import annotations

from typing import Any, TextIO

from tileops.perf.report import league, league_text, page, text
from tileops.tools.cli import words

_FIELDS = ("op", "case_id", "default_name", "default_time_s", "entrants", "fastest", "note")
# Rows that the page holds one by one: more make a browser take seconds.
MOST_ROWS = 20_000


def write_html(found: league.League, out: TextIO) -> None:
    """Writes the page. Above `MOST_ROWS` rows it has the first rows, and says how many it leaves out."""
    served = found.served()
    page.write(
        out,
        "league.html.j2",
        data={"fields": _FIELDS, "libraries": [words.printable(library) for library in found.libraries]},
        rows=(_row(row, found) for row in served[:MOST_ROWS]),
        scripts=("base.js", "league.js"),
        title="Libraries beside our kernels",
        runs=[text.run_in_words(run) for run in found.runs],
        warnings=[
            *(f"{library} was skipped: {reason}" for library, reason in sorted(found.skipped.items())),
            league_text.hint(found),
            *text.problems(found.runs),
        ],
        standing_titles=league_text.STANDING_TITLES,
        standings=[*map(league_text.standing_cells, found.standings()), league_text.ours_cells(found)],
        explanation=league_text.EXPLANATION,
        won_titles=league_text.WON_TITLES,
        won=[league_text.won_cells(row) for row in found.won()[:MOST_ROWS]],
        left_out=max(0, len(served) - MOST_ROWS),
    )


def _row(row: league.Row, found: league.League) -> list[Any]:
    """Returns a row for the script: its values, in the order of `_FIELDS`; of each library its words and its ratio."""
    default, fastest = row.default, row.fastest
    its = [row.of(library) for library in found.libraries]
    return [
        *map(words.printable, (row.op, row.case_id)),
        words.printable(default.implementation) if default else "",
        default.time_s if default else None,
        [[league_text.entrant_words(row, each), None if each is None else row.ratio(each)] for each in its],
        words.printable(fastest.implementation) if fastest else "",
        words.printable(league_text.note(row)),
    ]
