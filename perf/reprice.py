"""Prices recorded runs again by today's formulas: same times, new (flops, bytes,
roof key).

//perf:roofline on the result shows, without a GPU, what an edited formula makes
of rows that were measured. Which formulas changed, which rows that moved and by how
much, which it made impossible, and what vanished or appeared is said on stderr.
Exits 1 if a row is impossible at today's price and was not, or if a recorded case
is still a workload row and cannot be priced.
"""

from collections.abc import Sequence

from absl import app
from absl import flags

from tileops.perf import bench_catalogue
from tileops.perf import bench_pricing
from tileops.perf import command
from tileops.perf import paths
from tileops.perf import profiles
from tileops.perf import report_runs
from tileops.perf import reprice_effect
from tileops.perf import reprice_join
from tileops.perf import run_writer
from tileops.perf import runfile

_RUN = flags.DEFINE_multi_string(
    "run",
    [],
    "Run file, .binpb or .jsonl; repeatable, then the newest record of a case and"
    " implementation counts. Default: every recorded H200 file of the repository.",
)
_OUT = flags.DEFINE_string(
    "out", "tileops-repriced.binpb", "Run file to write, .binpb or .jsonl."
)


def main(argv: Sequence[str]) -> int:
    """Writes the repriced run; returns the exit status."""
    del argv
    try:
        readers = [runfile.read_run(path) for path in report_runs.run_paths(_RUN.value)]
        recorded = report_runs.newest_records(readers)
        joined = reprice_join.join(recorded, bench_pricing.price_cases())
        _write(joined, report_runs.newest_run(readers))
        profile = profiles.select(
            profiles.load_profiles(), report_runs.device_name(readers)
        )
    except (
        runfile.RunFileError,
        profiles.ProfileError,
        report_runs.MixedDevicesError,
        report_runs.NoRecordedRunsError,
        bench_catalogue.CatalogueError,
    ) as error:
        raise app.UsageError(str(error)) from error
    effects = reprice_effect.effects(recorded, joined.records, profile)
    for line in reprice_join.describe(joined) + reprice_effect.describe(effects):
        command.say(line)
    command.say(
        f"{len(joined.records)} records priced again, written to"
        f" {paths.user_path(_OUT.value)}"
    )
    impossible = any(effect.is_impossible for effect in effects)
    return command.EXIT_FOUND if joined.unpriced or impossible else command.EXIT_OK


def _write(joined: reprice_join.Joined, measured: runfile.RunReader) -> None:
    """Writes the records under the header and end time of the run they are from."""
    with run_writer.RunWriter(paths.user_path(_OUT.value), measured.header) as writer:
        for record in joined.records:
            writer.write(record)
        if measured.footer is None:
            writer.interrupt()
        else:
            writer.close(measured.footer.finished_at)


if __name__ == "__main__":
    command.run(main)
