"""Rows with two successful records in one run file: refused, unless the user says which record counts.

Example: records 3 and 9 of a file are both of SiLUFwdOp, case a, by triton, and both
STATUS_OK. The report of the row would depend on which record counts, so readers refuse
the file and name both places; with --duplicates=fastest the faster record counts.

An error followed by a success is what `--resume` writes: these are not duplicates.
"""

import array
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy

from tileops.perf.roof import measured_time
from tileops.perf.runs import reader as runfile
from tileops.proto import benchmark_pb2
from tileops.tools.cli import words

HELP = "Which record counts if a file has several successful records of one row. Default: refuse such a file."

# Python's hashes are signed; the table has them without a sign.
_HASH_MASK = 2**64 - 1


class DuplicateError(runfile.RunFileError):
    """A run file with two successful records of one row; the message says where both are."""


class _Found(NamedTuple):
    """One of several successful records of a row.

    Attributes:
      number: Its place among the records of the file, from 1.
      place: Where it begins.
      time_s: Its measured time; infinite if it has no time. Seconds.
    """

    number: int
    place: str
    time_s: float

    def __str__(self) -> str:
        return f"record {self.number} (at {self.place})"


_Key = tuple[str, str, str]

# What is chosen, by name; of equal times the later record, as of any two records.
_CHOICES: dict[str, Callable[[list[_Found]], _Found]] = {
    "fastest": lambda found: min(reversed(found), key=lambda each: each.time_s),
    # A record without a time does not count as the slowest.
    "slowest": lambda found: max(reversed(found), key=lambda each: (each.time_s < math.inf, each.time_s)),
    "first": lambda found: found[0],
    "last": lambda found: found[-1],
}
CHOICES = tuple(_CHOICES)


def records(reader: runfile.RunReader, choice: str | None = None) -> Iterator[benchmark_pb2.BenchmarkRecord]:
    """Yields the records of a run, of each row at most one successful one.

    With a choice, `reader.problems` says at the end how many records were left out.

    Args:
      reader: The run.
      choice: One of `CHOICES`; None to refuse a file that has more of a row.

    Raises:
      DuplicateError: There is no choice and the file needs one; raised behind the last
        record.
      runfile.RunFileError: The file cannot be read.
    """
    if choice is None:
        hashes = array.array("Q")
        for record in reader.records():
            _note(record, hashes)
            yield record
        if found := _exact(reader, hashes):
            raise DuplicateError(
                f"{_described(reader, found)}; say which counts with --duplicates={'|'.join(CHOICES)}, or take one out"
            )
        return
    left_out = {
        each.number for found in _duplicates(reader).values() for each in found if each != _CHOICES[choice](found)
    }
    for number, _, record in reader.numbered_records():
        if number not in left_out:
            yield record
    if left_out:
        what = f"{words.counted(len(left_out), 'record')} of rows that were measured twice are left out"
        reader.problems.append(runfile.Problem(None, f"{what} (--duplicates={choice})"))


def _duplicates(reader: runfile.RunReader) -> dict[_Key, list[_Found]]:
    """Returns the successful records of each row that has more than one, in the file's order."""
    hashes = array.array("Q")
    for record in reader.records():
        _note(record, hashes)
    return _exact(reader, hashes)


def _described(reader: runfile.RunReader, found: dict[_Key, list[_Found]]) -> str:
    """Returns the first row that was measured twice, and how many others were."""
    key, (one, other, *_) = next(iter(found.items()))
    name = " ".join(part for part in key if part)
    more = len(found) - 1
    others = f", and {words.counted(more, 'more row')}" if more else ""
    return f"{reader.path}: {name} was measured twice, in {one} and {other}{others}"


def _note(record: benchmark_pb2.BenchmarkRecord, hashes: array.array) -> None:
    """Adds the hash of a successful record's row: 8 bytes, since a file may hold a million."""
    if record.status in measured_time.SUCCESSFUL_STATUSES:
        hashes.append(hash(_key(record)) & _HASH_MASK)


def _exact(reader: runfile.RunReader, hashes: array.array) -> dict[_Key, list[_Found]]:
    """Returns the rows behind equal hashes that are one row; reads the file again if there are any."""
    values, counts = numpy.unique(numpy.frombuffer(hashes, numpy.uint64), return_counts=True)
    suspects = set(values[counts > 1].tolist())
    found: dict[_Key, list[_Found]] = {}
    if not suspects:
        return found
    for number, place, record in reader.numbered_records():
        if record.status not in measured_time.SUCCESSFUL_STATUSES:
            continue
        key = _key(record)
        if hash(key) & _HASH_MASK in suspects:
            time_s = measured_time.actual_time(record)
            found.setdefault(key, []).append(_Found(number, place, math.inf if time_s is None else time_s))
    return {key: each for key, each in found.items() if len(each) > 1}


def _key(record: benchmark_pb2.BenchmarkRecord) -> _Key:
    return record.op, record.case_id, record.implementation
