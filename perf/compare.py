"""Compares two runs of one device: what got faster, slower, appeared or vanished.

Noise-aware: medians are compared with the spread of their samples. Changed prices
(the formula changed) are told apart from changed times. Exits 1 where a row got
slower by more than --threshold or lost its time, or no row of the base run is in the
new one; 2 if something cannot be read.
"""

import math
from collections.abc import Sequence
from typing import TextIO

from absl import flags

from tileops.perf.comparison import html as compare_html
from tileops.perf.comparison import rows, table, text
from tileops.perf.report import facts as report_facts
from tileops.perf.report import runs
from tileops.perf.runs import duplicates, headers
from tileops.perf.runs import reader as runfile
from tileops.tools.cli import command, errors, output, paths

_BASE = flags.DEFINE_string("base", None, "Run file to compare with, .binpb or .jsonl.")
_NEW = flags.DEFINE_string("new", None, "Run file to judge.")
_THRESHOLD = flags.DEFINE_float(
    "threshold", 0.05, "Change of a median that counts: 0.05 is 5% more time, or 1/1.05 of it.", lower_bound=0.0
)
_FORMAT = flags.DEFINE_enum("format", "table", ["table", "json", "csv", "html"], "Form of the comparison.")
_OUT = flags.DEFINE_string("out", None, "File to write. Default: stdout.")
_DUPLICATES = flags.DEFINE_enum("duplicates", None, duplicates.CHOICES, duplicates.HELP)
_ALL = flags.DEFINE_bool("all", False, "List the rows in which nothing changed, too (table).")


def main(argv: Sequence[str]) -> int:
    """Writes the comparison; returns the exit status."""
    del argv
    for name, value in (("base", _BASE.value), ("new", _NEW.value)):
        if not value:
            raise errors.UserError(f"--{name} names no run file; both --base and --new do")
    if not math.isfinite(_THRESHOLD.value):
        raise errors.UserError(f"--threshold={_THRESHOLD.value} is no change that a time can have")
    files = [paths.user_path(path) for path in (_BASE.value, _NEW.value)]
    output.refuse_input(_OUT.value, files)
    readers = [runfile.read_run(path) for path in files]
    runs.device_name(readers)
    (base_known, base), (new_known, new) = map(_read, readers)
    compared = rows.compare(base_known, new_known, _THRESHOLD.value)
    comparison = text.Comparison(base, new, _THRESHOLD.value, compared)
    if _FORMAT.value != "table":
        for run in (base, new):
            for problem in run.problems:
                command.say(f"{run.file}: {problem}")
        if comparison.warning:
            command.say(comparison.warning)
    output.write(_OUT.value, lambda out: _render(comparison, out))
    return command.EXIT_FOUND if comparison.health == "failed" else command.EXIT_OK


def _read(reader: runfile.RunReader):
    """Returns what a comparison needs to know of a run, and what it says of it."""
    facts = report_facts.RunFacts(reader)

    def noted():
        for record in duplicates.records(reader, _DUPLICATES.value):
            facts.add(record)
            yield record

    known = rows.measured(noted())
    return known, facts.summary(headers.doubt(reader.header.parts))


def _render(comparison: text.Comparison, out: TextIO) -> None:
    if _FORMAT.value == "table":
        table.write_table(comparison, out, every_row=_ALL.value)
    elif _FORMAT.value == "json":
        text.write_json(comparison, out)
    elif _FORMAT.value == "csv":
        text.write_csv(comparison, out)
    else:
        compare_html.write_html(comparison, out)


if __name__ == "__main__":
    command.run(main)
