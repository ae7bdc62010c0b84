"""What a report says of a run: gathered while its records go by."""

from tileops.perf.runs import reader as runfile
from tileops.proto import benchmark_pb2, roofline_pb2


class RunFacts:
    """What a report says of one run, gathered while its records go by."""

    def __init__(self, reader: runfile.RunReader):
        self._reader = reader
        self._records = 0
        self._throttled = 0
        self._sm_clocks = _Range()
        self._memory_clocks = _Range()

    def add(self, record: benchmark_pb2.BenchmarkRecord) -> None:
        """Takes note of a record."""
        self._records += 1
        if not record.HasField("device_state"):
            return
        state = record.device_state
        for reading in (state.start, state.end):
            if reading.HasField("sm_clock_mhz"):
                self._sm_clocks.add(reading.sm_clock_mhz)
            if reading.HasField("memory_clock_mhz"):
                self._memory_clocks.add(reading.memory_clock_mhz)
        if state.start.throttle_reasons or state.end.throttle_reasons:
            self._throttled += 1

    def summary(self, *notes: str) -> roofline_pb2.RunSummary:
        """Returns what is to be said, once the run was read to its end.

        Args:
          notes: Told with the problems; those that say nothing are not.
        """
        reader = self._reader
        header = reader.header
        summary = roofline_pb2.RunSummary(
            file=reader.path.name,
            run_id=header.run_id,
            records=self._records,
            interrupted=reader.footer is None,
            problems=[
                *map(str, reader.problems),
                *header.notes,
                *filter(None, notes),
                *([] if self._records else ["no records"]),
            ],
            command_line=header.command_line,
            throttled_records=self._throttled,
        )
        if header.HasField("started_at"):
            summary.started_at = header.started_at.ToJsonString()
        self._sm_clocks.fill(summary, "sm_clock")
        self._memory_clocks.fill(summary, "memory_clock")
        for field in header.environment.DESCRIPTOR.fields:
            if field.name in summary.DESCRIPTOR.fields_by_name:
                setattr(summary, field.name, getattr(header.environment, field.name))
        return summary


class _Range:
    """The least and the largest of some clock readings, in MHz."""

    def __init__(self):
        self._values: set[int] = set()

    def add(self, mhz: int) -> None:
        self._values.add(mhz)

    def fill(self, summary: roofline_pb2.RunSummary, name: str) -> None:
        if self._values:
            setattr(summary, f"{name}_min_mhz", min(self._values))
            setattr(summary, f"{name}_max_mhz", max(self._values))
