"""Facts of a run for a report, gathered while its records are read."""

from tileops.perf.runs import reader as runfile
from tileops.proto import benchmark_pb2, roofline_pb2


class RunFacts:
    """Facts of one run for a report, gathered while its records are read."""

    def __init__(self, reader: runfile.RunReader):
        self._reader = reader
        self._records = 0
        self._throttled = 0
        self._clocks: dict[str, set[int]] = {"sm_clock": set(), "memory_clock": set()}

    def add(self, record: benchmark_pb2.BenchmarkRecord) -> None:
        """Takes note of a record."""
        self._records += 1
        if not record.HasField("device_state"):
            return
        state = record.device_state
        for reading in (state.start, state.end):
            for name, seen in self._clocks.items():
                if reading.HasField(f"{name}_mhz"):
                    seen.add(getattr(reading, f"{name}_mhz"))
        if state.start.throttle_reasons or state.end.throttle_reasons:
            self._throttled += 1

    def summary(self, *notes: str) -> roofline_pb2.RunSummary:
        """Returns the summary of the run, once it was read to its end.

        Args:
          notes: Added to the problems; empty ones are left out.
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
            baselines=header.baselines,
            throttled_records=self._throttled,
        )
        if header.HasField("started_at"):
            summary.started_at = header.started_at.ToJsonString()
        for name, seen in self._clocks.items():
            if seen:
                setattr(summary, f"{name}_min_mhz", min(seen))
                setattr(summary, f"{name}_max_mhz", max(seen))
        for field in header.environment.DESCRIPTOR.fields:
            if field.name in summary.DESCRIPTOR.fields_by_name:
                setattr(summary, field.name, getattr(header.environment, field.name))
        return summary
