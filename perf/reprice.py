"""Prices recorded runs again by today's formulas: same times, new (flops, bytes,
roof key).

//perf:roofline on the result shows, without a GPU, what an edited formula makes
of rows that were measured. Which formulas changed, which rows that moved and by how
much, which it made impossible, and what vanished or appeared is said on stderr.
Exits 1 if a row is impossible at today's price and was not, if one had a reading and
has none, if a workload row cannot be priced, or if no recorded row could be. Recorded
cases that are no workload rows any more are left out and named, and no failure while
others remain: rows come and go with the manifest.
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
from tileops.tools.cli import command, errors, later, output, paths, words

# Imported when first used, since they import torch.
bench_records = later.module("tileops.perf.harness.records")

_RUN = flags.DEFINE_multi_string(
    "run",
    [],
    "Run file, .binpb or .jsonl; repeatable, then the newest record of a case and"
    " implementation counts. Default: every recorded H200 file of the repository.",
)
_OUT = flags.DEFINE_string("out", "tileops-repriced.binpb", "Run file to write, .binpb or .jsonl.")

_DUPLICATES = flags.DEFINE_enum("duplicates", None, duplicates.CHOICES, duplicates.HELP)


def main(argv: Sequence[str]) -> int:
    """Writes the repriced run; returns the exit status."""
    del argv
    files = runs.run_paths(_RUN.value)
    output.refuse_input(_OUT.value, files)
    if wrong := run_json.wrong_ending(paths.user_path(_OUT.value)):
        raise errors.UserError(f"--out={_OUT.value}: {wrong}")
    readers = [runfile.read_run(path) for path in files]
    recorded = runs.newest_records(readers, _DUPLICATES.value)
    for reader in readers:
        for problem in reader.problems:
            command.say(f"{reader.path.name}: {problem}")
    joined = reprice_join.join(recorded, bench_records.price_cases())
    entries = _entries(joined.records, runs.newest_run(readers), sum(reader.lost for reader in readers))
    is_json = run_json.is_json(paths.user_path(_OUT.value))
    encode = run_json.line if is_json else framing.frame
    output.write(_OUT.value, lambda out: out.writelines(map(encode, entries)), binary=True)
    profile = profiles.select(profiles.load_profiles(), runs.device_name(readers))
    effects = reprice_effect.effects(recorded, joined.records, profile)
    for line in reprice_join.describe(joined) + reprice_effect.describe(effects):
        command.say(line)
    command.say(
        f"{words.counted(len(joined.records), 'record')} priced again, written to {paths.user_path(_OUT.value)}"
    )
    broken = any(effect.is_impossible or effect.is_lost for effect in effects)
    failed = broken or joined.unpriced or not joined.records
    return command.EXIT_FOUND if failed else command.EXIT_OK


def _entries(
    records: Sequence[benchmark_pb2.BenchmarkRecord], measured: runfile.RunReader, lost: int
) -> Iterator[benchmark_pb2.RunEntry]:
    """Yields the records under the header and end time of the run they are from.

    The footer counts what damage took, too, so that readers of the result hear of it.
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
