"""The rows of a report while it is made: a temporary SQLite database.

A run may hold a million records, and the order of a report's rows is known only when the last record was read. So each
row is stored at once, as the text that the report will have of it, beside the numbers that rows are chosen and ordered
by. SQLite keeps a few megabytes in memory and the rest in a temporary file.
"""

import contextlib
import math
import sqlite3
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

from tileops.proto import benchmark_pb2, roofline_pb2
from tileops.tools.cli import errors

# The place of a row without the reading that rows are sorted by.
LAST = math.inf

_CREATE = """CREATE TABLE rows (
    number INTEGER PRIMARY KEY, op TEXT, case_id TEXT, implementation TEXT, text BLOB, verdict INTEGER, status INTEGER,
    rank_group INTEGER, rank_time REAL, rank_subgroup INTEGER, reading REAL, sol_time REAL, time REAL,
    UNIQUE (op, case_id, implementation))"""
_PUT = "INSERT OR REPLACE INTO rows VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# The group of a rank that is never the best of its case.
NEVER_BEST = 3
# Every row with its place among the rows of its case, an impossible row behind the others.
_RANKED = f"""(SELECT *, row_number() OVER (
    PARTITION BY op, case_id
    ORDER BY rank_group >= {NEVER_BEST}, verdict = {roofline_pb2.VERDICT_FORMULA_ERROR},
        rank_group, rank_time, rank_subgroup, implementation
    ) AS place FROM rows)"""
# One row of each case, and every formula error: an impossible row is reported, and is never the best of its case.
_BEST = f"{_RANKED} WHERE place = 1 AND rank_group < {NEVER_BEST} OR verdict = {roofline_pb2.VERDICT_FORMULA_ERROR}"
_ORDER = "ORDER BY reading, sol_time, op, case_id, time, implementation"


class StoreError(errors.UserError):
    """The temporary file cannot be written; the message says in which folder and why."""


class Rank(NamedTuple):
    """How good a choice a row is among those of its case: the smallest is best.

    Attributes:
      group: Compared first; `NEVER_BEST` for a row that is no choice.
      time: Compared next.
      subgroup: Compared last; then the implementation's name decides.
    """

    group: int
    time: float
    subgroup: int = 0


class Order(NamedTuple):
    """The place of a row in a report: the smallest first, `LAST` last.

    Rows that are equal in `reading` and `sol_time` go by op, case, time and implementation.
    """

    reading: float
    sol_time: float
    time: float


class RowStore:
    """Rows by op, case and implementation; of each, the one that was put last.

    Its methods are about all rows, or with `best` about one row of each case and every formula error. Used as a context
    manager, it removes its temporary file at the end.
    """

    def __init__(self):
        self._database = sqlite3.connect("", isolation_level=None)
        # Nothing is rolled back, and nothing outlives the process.
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("BEGIN")
        self._database.execute(_CREATE)

    def __enter__(self) -> "RowStore":
        return self

    def __exit__(self, *exception) -> None:
        with contextlib.suppress(sqlite3.Error):  # What a full disk did not take is void.
            self._database.close()

    def put(
        self,
        key: tuple[str, str, str],
        text: bytes,
        verdict: int,
        rank: Rank,
        order: Order,
        status: int = benchmark_pb2.STATUS_UNSPECIFIED,
    ) -> None:
        """Adds a row, in place of one with the same key.

        Args:
          key: Its op, case and implementation.
          text: What `texts` will give for it.
          verdict: A number of `roofline_pb2.Verdict`.
          rank: What the best row of a case is chosen by.
          order: What rows are sorted by.
          status: A number of `benchmark_pb2.Status`, for `outcomes`.

        Raises:
          StoreError: There is no room for the text.
        """
        self._run(_PUT, (*key, text, verdict, status, *rank, *order))

    def count(self, best: bool) -> int:
        """Returns how many rows there are."""
        return self._run(f"SELECT count(*) FROM {_source(best)}").fetchone()[0]

    def texts(self, best: bool) -> Iterator[bytes]:
        """Yields the texts of the rows as their `Order` has them.

        Raises:
          StoreError: There is no room for sorting.
        """
        for row in self._run(f"SELECT number FROM {_source(best)} {_ORDER}"):
            yield self._run("SELECT text FROM rows WHERE number = ?", row).fetchone()[0]

    def summarize(self, best: bool) -> roofline_pb2.Summary:
        """Returns how many rows have each verdict."""
        summary = roofline_pb2.Summary()
        for verdict, count in self._run(f"SELECT verdict, count(*) FROM {_source(best)} GROUP BY verdict"):
            setattr(summary, roofline_pb2.Verdict.Name(verdict).removeprefix("VERDICT_").lower(), count)
            summary.rows += count
        return summary

    def outcomes(self) -> roofline_pb2.Outcomes:
        """Returns how many of all rows failed, whether they are the best of their case or not."""
        counts = dict(self._run("SELECT status, count(*) FROM rows GROUP BY status"))
        return roofline_pb2.Outcomes(
            errors=counts.get(benchmark_pb2.STATUS_ERROR, 0), timeouts=counts.get(benchmark_pb2.STATUS_TIMEOUT, 0)
        )

    def _run(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        try:
            return self._database.execute(statement, values)
        except sqlite3.OperationalError as error:
            raise StoreError(
                f"cannot keep the rows of the report in {tempfile.gettempdir()}: {error}; TMPDIR may name another folder"
            ) from error


def _source(best: bool) -> str:
    return _BEST if best else "rows"
