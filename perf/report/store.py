"""The rows of a report while it is made: their texts on disk, their order in memory.

A run may hold a million records, and a report has its rows in an order that is
known only when the last record was read. So each row is written at once, as the
text that the report will have of it, to a temporary file; what stays in memory is
its case and the numbers that rows are chosen and ordered by: some 200 bytes a row.
"""

import array
import contextlib
import math
import os
import struct
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

import numpy

from tileops.proto import benchmark_pb2, roofline_pb2
from tileops.tools.cli import errors

# Where a row stands that lacks what rows are sorted by.
LAST = math.inf

_NO_ROW = -1
_BUFFER_BYTES = 2**20

# One row of the table: the same layout for struct, which writes it row by row,
# and for numpy, which reads it column by column.
_ENTRY = struct.Struct("<QLBLLBdBdddB")
_COLUMNS = numpy.dtype(
    [
        ("offset", "<u8"),
        ("length", "<u4"),
        ("verdict", "u1"),
        ("op", "<u4"),
        ("implementation", "<u4"),
        ("group", "u1"),
        ("rank_time", "<f8"),
        ("subgroup", "u1"),
        ("reading", "<f8"),
        ("sol_time", "<f8"),
        ("time", "<f8"),
        ("status", "u1"),
    ]
)


class StoreError(errors.UserError):
    """The temporary file cannot be written; the message says where and why."""


class Rank(NamedTuple):
    """How good a choice a row is among those of its case: the smallest is best.

    Attributes:
      group: Compared first; 0 to 255.
      time: Compared next.
      subgroup: Compared last, 0 to 255; then the implementation's name decides.
    """

    group: int
    time: float
    subgroup: int = 0


class Order(NamedTuple):
    """Where a row stands in a report: the smallest first, `LAST` last.

    Rows that are equal in `reading` and `sol_time` go by op, case, time and
    implementation.
    """

    reading: float
    sol_time: float
    time: float


class RowStore:
    """Rows by op, case and implementation; of each, the one that was put last.

    Used as a context manager, it removes its temporary file at the end.
    """

    def __init__(self):
        self._spool = tempfile.TemporaryFile(  # noqa: SIM115 -- __exit__ closes it
            buffering=_BUFFER_BYTES, prefix="tileops-report-"
        )
        self._end = 0
        self._table = bytearray()
        self._names: dict[str, int] = {}
        # The case of each row; the first row of each op and case; and the row of
        # the same case's next implementation.
        self._cases: list[str] = []
        self._first: dict[str, dict[str, int]] = {}
        self._next = array.array("q")

    def __enter__(self) -> "RowStore":
        return self

    def __exit__(self, *exception) -> None:
        with contextlib.suppress(OSError):  # What a full disk did not take is void.
            self._spool.close()

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
          rank: What `best` chooses by.
          order: What `ordered` sorts by.
          status: A number of `benchmark_pb2.Status`, for `outcomes`.

        Raises:
          StoreError: There is no room for the text.
        """
        op, case_id, implementation = key
        op_number = self._names.setdefault(op, len(self._names))
        number = self._names.setdefault(implementation, len(self._names))
        entry = (self._end, len(text), verdict, op_number, number, *rank, *order, status)
        try:
            self._spool.write(text)
        except OSError as error:
            raise _no_room(error) from error
        self._end += len(text)
        row = self._find(op, case_id, number)
        if row < len(self._cases):
            _ENTRY.pack_into(self._table, row * _ENTRY.size, *entry)
        else:
            self._table += _ENTRY.pack(*entry)
            self._cases.append(case_id)
            self._next.append(_NO_ROW)

    def _find(self, op: str, case_id: str, implementation: int) -> int:
        """Returns the row of a key; the number of rows where it is new."""
        end = len(self._cases)
        rows = self._first.get(op)
        if rows is None:
            rows = self._first[op] = {}
        row = rows.setdefault(case_id, end)
        while row < end and self._number_of_implementation(row) != implementation:
            if self._next[row] == _NO_ROW:
                self._next[row] = end
            row = self._next[row]
        return row

    def _number_of_implementation(self, row: int) -> int:
        return _ENTRY.unpack_from(self._table, row * _ENTRY.size)[4]

    def all(self) -> numpy.ndarray:
        """Returns the numbers of all rows."""
        return numpy.arange(len(self._cases))

    def best(self) -> numpy.ndarray:
        """Returns one row of each case, and every formula error beside it.

        An impossible row is reported, and is never the best of its case.
        """
        names = list(self._names)
        table = numpy.frombuffer(self._table, _COLUMNS)
        impossible = table["verdict"] == roofline_pb2.VERDICT_FORMULA_ERROR
        chosen = numpy.nonzero(impossible)[0].tolist()

        def rank(row: int) -> tuple:
            _, _, _, _, implementation, *of_row, _, _, _, _ = _ENTRY.unpack_from(self._table, row * _ENTRY.size)
            return *of_row, names[implementation]

        for rows in self._first.values():
            for first in rows.values():
                candidates = [row for row in self._chain(first) if not impossible[row]]
                if len(candidates) == 1:
                    chosen += candidates
                elif candidates:
                    chosen.append(min(candidates, key=rank))
        return numpy.array(chosen, numpy.int64)

    def _chain(self, row: int) -> Iterator[int]:
        """Yields the rows of a case, from its first."""
        while row != _NO_ROW:
            yield row
            row = self._next[row]

    def ordered(self, rows: numpy.ndarray) -> numpy.ndarray:
        """Returns the rows as their `Order` has them."""
        # Names by their place in the alphabet, since numbers sort faster.
        places = numpy.empty(len(self._names), numpy.int64)
        places[[self._names[name] for name in sorted(self._names)]] = numpy.arange(len(self._names))
        # Every sort keeps what is equal as it was: the last key sorts first.
        columns = numpy.frombuffer(self._table, _COLUMNS)[rows]
        rows = rows[numpy.lexsort((places[columns["implementation"]], columns["time"]))]
        by_case = sorted(rows.tolist(), key=self._cases.__getitem__)
        rows = numpy.array(by_case, numpy.int64)
        columns = numpy.frombuffer(self._table, _COLUMNS)[rows]
        return rows[numpy.lexsort((places[columns["op"]], columns["sol_time"], columns["reading"]))]

    def texts(self, rows: numpy.ndarray) -> Iterator[bytes]:
        """Yields the text of each row.

        Raises:
          StoreError: There is no room for the last of the texts.
        """
        try:
            self._spool.flush()
        except OSError as error:
            raise _no_room(error) from error
        file = self._spool.fileno()
        for row in rows.tolist():
            offset, length, *_ = _ENTRY.unpack_from(self._table, row * _ENTRY.size)
            yield os.pread(file, length, offset)

    def summarize(self, rows: numpy.ndarray) -> roofline_pb2.Summary:
        """Counts rows by verdict."""
        verdicts = numpy.frombuffer(self._table, _COLUMNS)["verdict"][rows]
        summary = roofline_pb2.Summary(rows=len(rows))
        for verdict, count in enumerate(numpy.bincount(verdicts).tolist()):
            if count:
                name = roofline_pb2.Verdict.Name(verdict)
                setattr(summary, name.removeprefix("VERDICT_").lower(), count)
        return summary

    def outcomes(self) -> roofline_pb2.Outcomes:
        """Counts the rows that failed, those that no report of the best has included."""
        counts = numpy.bincount(
            numpy.frombuffer(self._table, _COLUMNS)["status"], minlength=benchmark_pb2.STATUS_TIMEOUT + 1
        )
        return roofline_pb2.Outcomes(
            errors=int(counts[benchmark_pb2.STATUS_ERROR]), timeouts=int(counts[benchmark_pb2.STATUS_TIMEOUT])
        )


def _no_room(error: OSError) -> StoreError:
    return StoreError(
        f"cannot keep the rows of the report in {tempfile.gettempdir()}:"
        f" {error.strerror}; TMPDIR may name another folder"
    )
