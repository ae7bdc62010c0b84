"""From run files and a profile to the rows of a report, in one pass over the files."""

import collections
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tileops.perf.report import facts as report_facts
from tileops.perf.report import runs
from tileops.perf.report import store as report_store
from tileops.perf.roof import measured_time, pricing, profiles
from tileops.perf.runs import duplicates as run_duplicates
from tileops.perf.runs import former, headers, renames
from tileops.perf.runs import reader as runfile
from tileops.proto import benchmark_pb2, roofline_pb2


class HistoryPoint(NamedTuple):
    """One time of a row's course: index of the run, in the order given; seconds."""

    run: int
    actual_time_s: float


# Returns a row's text in some form of report.
Encoder = Callable[[benchmark_pb2.BenchmarkRecord, pricing.Readings, Sequence[HistoryPoint]], bytes]

_NOT_CHOSEN = frozenset((roofline_pb2.BLANK_REASON_NO_CUPTI, roofline_pb2.BLANK_REASON_WARM_CACHE))
_FAILED = frozenset((benchmark_pb2.STATUS_ERROR, benchmark_pb2.STATUS_TIMEOUT))

# What rows are sorted by, under the names that a user gives, and whether the
# largest come first; rows without that reading come last.
SORT_KEYS: dict[str, tuple[str | None, bool]] = {
    "headroom": ("headroom_s", True),
    "time": ("actual_time_s", True),
    "efficiency": ("efficiency", False),
    "op": (None, False),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Query:
    """Which records a report is made of, and how.

    Attributes:
      selection: Which records.
      profile: The profile that prices them; None if no profile has the device.
      is_prediction: Whether bounds are given instead of times; needs a profile.
      sort: One of `SORT_KEYS`.
      duplicates: One of `duplicates.CHOICES`; None to refuse a run file that has a
        row twice.
    """

    selection: runs.Selection
    profile: profiles.Profile | None
    is_prediction: bool = False
    sort: str = "headroom"
    duplicates: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Collected:
    """The rows of a report, as texts of one form.

    Attributes:
      head: The report but for its rows.
      store: Holds the rows; its maker closes it.
      best: Whether there is one row of each case, beside formula errors.
    """

    head: roofline_pb2.Report
    store: report_store.RowStore
    best: bool

    def texts(self) -> Iterator[bytes]:
        """Yields the text of each row, in order."""
        return self.store.texts(self.best)

    def messages(self) -> Iterator[roofline_pb2.Row]:
        """Yields each row, in order; its text has to be from `message_text`."""
        return map(roofline_pb2.Row.FromString, self.texts())


def collect(
    readers: Sequence[runfile.RunReader], query: Query, encode: Encoder, store: report_store.RowStore
) -> Collected:
    """Reads runs of one device and returns their report.

    The newest record of a case and implementation counts: the record of the run that
    began last, or was given last. With `BEST` there is one row per case, the fastest correct
    one that the selection leaves to choose, and every formula error. A prediction with `BEST` has one row per case, without an
    implementation: the bound is the algorithm's.

    Args:
      readers: The runs, one or more.
      query: Which records, and how.
      encode: Makes the texts.
      store: An empty store, for the rows.

    Raises:
      runs.MixedDevicesError: The runs are of several devices.
      runs.NothingSelectedError: There is a filter, and nothing passes it.
      duplicates.DuplicateError: A file has two successful records of one row, and
        the query does not say which counts.
      runfile.RunFileError: A file cannot be read.
    """
    runs.device_name(readers, query.profile)
    names = runs.Names() if query.selection.is_filter else None
    facts = [report_facts.RunFacts(reader) for reader in readers]
    histories = _Histories() if len(readers) > 1 else None
    places = {id(reader): place for place, reader in enumerate(readers)}
    parts = [reader.header.parts for reader in readers]
    notes = [(runs.place_in_words(reader, readers), headers.doubt(reader.header.parts, parts)) for reader in readers]
    for order, reader in enumerate(runs.oldest_first(readers)):
        place = places[id(reader)]
        is_foreign = runs.lacks_device(reader) and not all(map(runs.lacks_device, readers))
        # A bound may be computed for any device; a time is priced only against its own device's profile.
        asked = dataclasses.replace(query, profile=None) if is_foreign else query
        former_rows = former.load() if renames.applies(reader.header) else frozenset()
        for record in run_duplicates.records(reader, query.duplicates):
            facts[place].add(record)
            if names:
                names.add(record)
            if not query.selection.admits(record):
                continue
            if query.is_prediction:
                _put_bound(query, record, order, encode, store)
            else:
                course = histories.extended(place, record) if histories and not is_foreign else ()
                note = former.NOTE if (record.op, record.case_id) in former_rows else ""
                _put_time(asked, record, note, course, encode, store)
    if names:
        names.refuse_unknown_libraries(query.selection)
    best = query.selection.implementation == runs.BEST
    summary = store.summarize(best)
    if not summary.rows:
        if store.count(best=False):
            raise runs.NothingSelectedError(
                "only libraries have records here: --baselines=all lets --implementation=best choose among them"
            )
        if names:
            names.refuse_empty(query.selection)
        said = [f"{reader.path}: {'; '.join(map(str, ['no records', *reader.problems]))}" for reader in readers]
        raise runs.NothingSelectedError(f"{', '.join(said)}; there is nothing to report")
    outcomes = roofline_pb2.Outcomes() if query.is_prediction else store.outcomes()
    outcomes.lost = sum(reader.lost for reader in readers)
    head = roofline_pb2.Report(
        profile=query.profile.message if query.profile else None,
        is_prediction=query.is_prediction,
        runs=[each.summary(*notes_of_run) for each, notes_of_run in zip(facts, notes)],
        health=health(summary),
        summary=summary,
        outcomes=outcomes,
        # One of each case and every formula error, which no sum is over, are the best.
        adds_implementations=not best and summary.rows > store.count(best=True),
    )
    return Collected(head=head, store=store, best=best)


def health(summary: roofline_pb2.Summary) -> roofline_pb2.Health:
    """Returns the `Health` of a report: failed if a row is a formula error."""
    if summary.formula_error:
        return roofline_pb2.HEALTH_FAILED
    return roofline_pb2.HEALTH_OK


def message_text(
    record: benchmark_pb2.BenchmarkRecord, readings: pricing.Readings, history: Sequence[HistoryPoint]
) -> bytes:
    """Returns a row as a serialized `roofline.Row`: an encoder for `messages`."""
    row = pricing.row_of(record, readings)
    for point in history:
        row.history.add(run=point.run, actual_time_s=point.actual_time_s)
    return row.SerializeToString()


class _Histories:
    """The times of each case and implementation, run after run.

    A course has one clock, that of the newest time. A time that a later record of the
    same run replaces is not in it.
    """

    def __init__(self):
        self._points = collections.defaultdict(list)

    def extended(self, place: int, record: benchmark_pb2.BenchmarkRecord) -> Sequence[HistoryPoint]:
        """Adds the record's time, if it has one; returns its row's course so far."""
        points = self._points[record.op, record.case_id, record.implementation]
        time_s = measured_time.actual_time(record)
        if points and points[-1][1].run == place:
            points.pop()
        if time_s is not None:
            points.append((record.timing.source, HistoryPoint(place, time_s)))
        return [point for source, point in points if source == points[-1][0]]


def _put_time(
    query: Query,
    record: benchmark_pb2.BenchmarkRecord,
    note: str,
    history: Sequence[HistoryPoint],
    encode: Encoder,
    store: report_store.RowStore,
) -> None:
    readings = pricing.read(record, query.profile)
    is_choice = query.selection.implementation != runs.BEST or query.selection.is_choice(record)
    if not is_choice:
        group = report_store.NEVER_BEST
    elif readings.actual_time_s is None:
        group = 2
    else:
        # A time by another clock than CUPTI, or with warm caches, is chosen only if there is no other.
        group = int(readings.blank_reason in _NOT_CHOSEN)
    if readings.actual_time_s is None:
        record.message = record.message or measured_time.defect(record)
    # Among records without a time, a record with a message is preferred.
    subgroup = 2 * (record.status != benchmark_pb2.STATUS_OK) + (not record.message)
    record.message = "; ".join(filter(None, (record.message, note)))
    store.put(
        (record.op, record.case_id, record.implementation),
        encode(record, readings, history),
        readings.verdict,
        report_store.Rank(group, readings.actual_time_s or 0.0, subgroup),
        _order(readings, query.sort),
        # A status of a newer schema is not counted.
        record.status if is_choice and record.status in _FAILED else benchmark_pb2.STATUS_UNSPECIFIED,
    )


def _put_bound(
    query: Query, record: benchmark_pb2.BenchmarkRecord, order: int, encode: Encoder, store: report_store.RowStore
) -> None:
    """Puts the bound of a record; `order` is its run's place among the runs, oldest first."""
    assert query.profile is not None  # a prediction has one
    readings = pricing.read_bound(record, query.profile)
    key = (record.op, record.case_id, record.implementation)
    has_failed = record.status not in measured_time.SUCCESSFUL_STATUSES
    record.ClearField("message")
    if query.selection.implementation == runs.BEST:
        record.ClearField("implementation")
        record.ClearField("library")
    store.put(
        key,
        encode(record, readings, ()),
        readings.verdict,
        # Today's price is that of the newest run. A record that failed before it was priced
        # must not hide a priced one, nor may a record without a bound within one run.
        report_store.Rank(
            int(has_failed and readings.sol_time_s is None), -float(order), int(readings.sol_time_s is None)
        ),
        _order(readings, query.sort),
    )


def _order(readings: pricing.Readings, sort: str) -> report_store.Order:
    """Returns the place of a row in the order of the report.

    Rows without the reading are ordered by SOL time, so predictions have the largest rows
    first, too.
    """
    field, is_descending = SORT_KEYS[sort]
    sol_time_s, time_s = readings.sol_time_s, readings.actual_time_s
    if field is None:
        return report_store.Order(0.0, 0.0, report_store.LAST if time_s is None else time_s)
    reading = getattr(readings, field)
    if reading is None:
        reading = report_store.LAST
    elif is_descending:
        reading = -reading
    return report_store.Order(
        reading,
        report_store.LAST if sol_time_s is None else -sol_time_s,
        report_store.LAST if time_s is None else time_s,
    )
