"""Compares two runs of one device: which rows became faster or slower, appeared or vanished.

A row changed if its median moved by more than --threshold and the spreads of its samples do not overlap. A changed price
(its formula changed) is reported apart from a changed time.

Exit status: 0 if no row became slower; 1 if a row became slower or lost its time, or no row of the base run is in the new
run; 2 if a flag or file is wrong.
"""

from collections.abc import Sequence
from typing import TextIO

from absl import flags

from tileops.perf.comparison import html as compare_html
from tileops.perf.comparison import rows, table, text
from tileops.perf.report import facts as report_facts
from tileops.perf.report import runs
from tileops.perf.runs import duplicates, headers
from tileops.perf.runs import reader as runfile
from tileops.tools.cli import command, fraction, output, paths

_BASE = flags.DEFINE_string("base", None, "Run file to compare with, .binpb or .jsonl.", required=True)
_NEW = flags.DEFINE_string("new", None, "Run file to judge, .binpb or .jsonl.", required=True)
_THRESHOLD = fraction.define("threshold", 0.05, "Report medians that changed by more than this fraction: 5% or 0.05.")
_FORMAT = flags.DEFINE_enum("format", None, ["table", "json", "csv", "html"], output.FORMAT_HELP)
_OUT = flags.DEFINE_string("out", None, output.HELP)
_DUPLICATES = flags.DEFINE_enum("duplicates", None, duplicates.CHOICES, duplicates.HELP)
_ALL = flags.DEFINE_bool("all", False, "List unchanged rows as well. For --format=table.")


def main(argv: Sequence[str]) -> int:
    """Writes the comparison; returns the exit status."""
    del argv
    form = output.form(_OUT.value, _FORMAT.value)
    files = [paths.user_path(path) for path in (_BASE.value, _NEW.value)]
    output.check(_OUT.value, ("compare", form), files)
    readers = [runfile.read_run(path) for path in files]
    runs.device_name(readers)
    (base_known, base), (new_known, new) = map(_read, readers)
    compared = rows.compare(base_known, new_known, _THRESHOLD.value)
    comparison = text.Comparison(base, new, _THRESHOLD.value, compared)
    if form != "table":
        for run in (base, new):
            for problem in run.problems:
                command.say(f"{run.file}: {problem}")
        if comparison.warning:
            command.say(comparison.warning)
    output.write(_OUT.value, lambda out: _render(comparison, form, out))
    return command.EXIT_FOUND if comparison.health == "failed" else command.EXIT_OK


def _read(reader: runfile.RunReader):
    """Returns the measurements of a run by row, and the run's summary."""
    facts = report_facts.RunFacts(reader)

    def noted():
        for record in duplicates.records(reader, _DUPLICATES.value):
            facts.add(record)
            yield record

    known = rows.measured(noted())
    return known, facts.summary(headers.doubt(reader.header.parts))


def _render(comparison: text.Comparison, form: str, out: TextIO) -> None:
    if form == "table":
        table.write_table(comparison, out, every_row=_ALL.value)
    elif form == "json":
        text.write_json(comparison, out)
    elif form == "csv":
        text.write_csv(comparison, out)
    else:
        compare_html.write_html(comparison, out)


if __name__ == "__main__":
    command.run(main)
