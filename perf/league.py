"""Compares libraries of others with the project's own implementations, row by row, in runs of //perf:bench --baselines.

Without --run it reads the runs of an NVIDIA H200 that this repository holds. All times of a row are of one run.

Exit status: 0; 2 if a flag or file is wrong.
"""

from collections.abc import Sequence
from typing import TextIO

from absl import flags

from tileops.perf.report import facts, league, league_html, league_text, runs
from tileops.perf.roof import profiles
from tileops.perf.runs import duplicates
from tileops.perf.runs import reader as runfile
from tileops.tools.cli import command, errors, globs, output

_RUN = flags.DEFINE_multi_string(
    "run",
    [],
    "Run file, .binpb or .jsonl. The newest run with a library on a row counts. Default: the recorded H200 runs.",
)
_FORMAT = flags.DEFINE_enum("format", None, ["table", "json", "csv", "html"], output.FORMAT_HELP)
_OUT = flags.DEFINE_string("out", None, output.HELP)
_OP = flags.DEFINE_multi_string("op", [], "Globs of op names, comma-separated")
_FAMILY = flags.DEFINE_multi_string("family", [], "Globs of families, comma-separated")
_BASELINES = flags.DEFINE_list("baselines", [runs.ALL], "Libraries to compare, or all.")
_TOP = flags.DEFINE_string("top", "40", "How many rows each list of the table shows: a number or all.")
_DUPLICATES = flags.DEFINE_enum("duplicates", None, duplicates.CHOICES, duplicates.HELP)


def main(argv: Sequence[str]) -> int:
    """Writes the league; returns the exit status."""
    del argv
    form = output.form(_OUT.value, _FORMAT.value)
    if form != "table" and flags.FLAGS["top"].present:
        raise errors.UserError(f"--top needs --format=table; {form} has every row")
    top = output.count_or_all("top", _TOP.value)
    files = runs.run_paths(_RUN.value)
    output.check(_OUT.value, ("league", form), files)
    readers = [runfile.read_run(path) for path in files]
    selection = runs.Selection(
        ops=globs.of_flag(_OP.value),
        families=globs.of_flag(_FAMILY.value),
        implementation=runs.ALL,
        libraries=_BASELINES.value or [runs.ALL],
    )
    profile = profiles.select(profiles.load_profiles(), runs.device_name(readers))
    found = league.collect(
        readers, [facts.RunFacts(reader) for reader in readers], selection, profile, _DUPLICATES.value
    )
    if form != "table":
        for run in found.runs:
            for problem in run.problems:
                command.say(f"{run.file}: {problem}")
        if hint := league_text.hint(found):
            command.say(hint)
    output.write(_OUT.value, lambda out: _render(found, form, top, out))
    return command.EXIT_OK


def _render(found: league.League, form: str, top: int | None, out: TextIO) -> None:
    if form == "table":
        league_text.write_table(found, out, top)
    elif form == "json":
        league_text.write_json(found, out)
    elif form == "csv":
        league_text.write_csv(found, out)
    else:
        league_html.write_html(found, out)


if __name__ == "__main__":
    command.run(main)
