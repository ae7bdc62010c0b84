"""Prices recorded runs again with today's formulas: the times stay, FLOPs, bytes and roof keys are new.

//perf:roofline on the result shows, without a GPU, how an edited formula changes rows that were measured. Stderr names the
changed formulas, the rows whose efficiency moved, rows that became impossible, and rows that vanished or appeared.
Recorded rows that the manifest no longer has are left out and named.

Exit status: 0; 1 if a row became impossible or lost its reading, if a row cannot be priced, or if no recorded row is left;
2 if a flag or file is wrong.
"""

from collections.abc import Iterator, Sequence

from absl import flags

from tileops.perf.comparison import reprice_effect, reprice_join
from tileops.perf.report import runs
from tileops.perf.roof import profiles
from tileops.perf.runs import duplicates, framing, writer
from tileops.perf.runs import json as run_json
from tileops.perf.runs import reader as runfile
from tileops.proto import benchmark_pb2
from tileops.tools.cli import command, errors, output, paths, words

_RUN = flags.DEFINE_multi_string(
    "run",
    [],
    "Run file, .binpb or .jsonl. The newest record of a row counts. Default: the recorded H200 runs of the repository",
)
_OUT = flags.DEFINE_string(
    "out", "tileops-repriced.binpb", "Run file to write, .binpb or .jsonl. A file of another run is not replaced."
)

_DUPLICATES = flags.DEFINE_enum("duplicates", None, duplicates.CHOICES, duplicates.HELP)


def main(argv: Sequence[str]) -> int:
    """Writes the repriced run; returns the exit status."""
    del argv
    files = runs.run_paths(_RUN.value)
    if wrong := run_json.wrong_ending(paths.user_path(_OUT.value)):
        raise errors.UserError(f"--out={_OUT.value}: {wrong}")
    readers = [runfile.read_run(path) for path in files]
    measured = runs.newest_run(readers)
    output.check(_OUT.value, lambda path: runfile.is_earlier_output(path, measured.header, readers), files)
    recorded = runs.newest_records(readers, _DUPLICATES.value)
    for reader in readers:
        for problem in reader.problems:
            command.say(f"{reader.path.name}: {problem}")

    from tileops.perf.harness import records  # imports torch: that takes seconds

    joined = reprice_join.join(recorded, records.price_cases())
    entries = _entries(joined.records, measured, sum(reader.lost for reader in readers))
    is_json = run_json.is_json(paths.user_path(_OUT.value))
    encode = run_json.line if is_json else framing.frame
    output.write(_OUT.value, lambda out: out.writelines(map(encode, entries)), binary=True)
    profile = profiles.select(profiles.load_profiles(), runs.device_name(readers))
    effects = reprice_effect.effects(recorded, joined.records, profile)
    for line in reprice_join.describe(joined) + reprice_effect.describe(effects):
        command.say(line)
    command.say(f"{words.counted(len(joined.records), 'record')} priced again")
    broken = any(effect.is_impossible or effect.is_lost for effect in effects)
    failed = broken or joined.unpriced or not joined.records
    return command.EXIT_FOUND if failed else command.EXIT_OK


def _entries(
    records: Sequence[benchmark_pb2.BenchmarkRecord], measured: runfile.RunReader, lost: int
) -> Iterator[benchmark_pb2.RunEntry]:
    """Yields the records between the header and the end time of the measured run.

    The footer also counts records that damage took, so that readers of the result report the loss.
    """
    header = benchmark_pb2.RunHeader()
    header.CopyFrom(measured.header)
    header.schema_version = runfile.SCHEMA_VERSION
    yield benchmark_pb2.RunEntry(header=header)
    footer = benchmark_pb2.RunFooter()
    for record in records:
        writer.count_record(footer, record)
        yield benchmark_pb2.RunEntry(record=record)
    if measured.footer is not None:
        footer.records += lost
        if measured.footer.HasField("finished_at"):
            footer.finished_at.CopyFrom(measured.footer.finished_at)
        yield benchmark_pb2.RunEntry(footer=footer)


if __name__ == "__main__":
    command.run(main)
