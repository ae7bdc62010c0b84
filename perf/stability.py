"""Reports how repeatable the bench is, from two runs of the same rows on one device.

Prints how far the two medians of a row are apart, as a distribution over all rows, and names the rows that differ most.
Also prints how long the harness took per row. Refuses runs of different devices, revisions, drivers or plug-ins, and times
of another clock than CUPTI: --allow_unlike compares them nevertheless.

Exit status: 0 if at least --share of the rows agree within --within; 1 if fewer agree; 2 if a flag or file is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TextIO

from absl import flags

from tileops.perf.comparison import rows as compare_rows
from tileops.perf.comparison import stability_rows
from tileops.perf.runs import duplicates
from tileops.perf.runs import reader as runfile
from tileops.tools.cli import command, errors, fraction, output, paths, words

_BASE = flags.DEFINE_string("base", None, "Run file, .binpb or .jsonl.", required=True)
_NEW = flags.DEFINE_string("new", None, "Run file of the same rows, measured again.", required=True)
_LONGER_THAN_US = flags.DEFINE_float(
    "longer_than_us", 10.0, "Leave out rows with a shorter median. Microseconds.", lower_bound=0.0
)
_WITHIN = fraction.define("within", 0.02, "Two medians agree if they differ by at most this fraction: 2% or 0.02.")
_SHARE = fraction.define("share", 0.95, "Exit with 1 if fewer rows agree than this fraction: 95% or 0.95.")
_WORST = flags.DEFINE_integer("worst", 10, "How many of the rows that differ most to name.", lower_bound=0)
_ALLOW_UNLIKE = flags.DEFINE_bool(
    "allow_unlike", False, "Compare runs of different devices, software or plug-ins; the output names the differences."
)
_DUPLICATES = flags.DEFINE_enum("duplicates", None, duplicates.CHOICES, duplicates.HELP)
_OUT = flags.DEFINE_string("out", None, output.HELP)


class UnlikeError(errors.UserError):
    """Two runs that do not show how repeatable the bench is; the message has a line per difference."""

    has_lines = True


def main(argv: Sequence[str]) -> int:
    """Reports how far the runs are apart; returns the exit status."""
    del argv
    files = [paths.user_path(path) for path in (_BASE.value, _NEW.value)]
    output.check(_OUT.value, ("stability", output.form(_OUT.value, None, {".txt": "table"}, flag="")), files)
    base, new = readers = [runfile.read_run(path) for path in files]
    stability_rows.refuse_one_run(base, new)
    base_known, new_known = (compare_rows.measured(duplicates.records(reader, _DUPLICATES.value)) for reader in readers)
    unlike = stability_rows.unlike(base, new, base_known, new_known)
    if unlike and not _ALLOW_UNLIKE.value:
        why = "these runs do not show how repeatable the bench is; --allow_unlike compares them nevertheless"
        raise UnlikeError("\n".join([*unlike, why]))
    rows = stability_rows.differences(base_known, new_known, _LONGER_THAN_US.value / 1e6)
    if not rows:
        raise errors.UserError(f"no row has a time longer than {_LONGER_THAN_US.value:g} us in both runs")
    left_out = [f"{reader.path.name}: {problem}" for reader in readers for problem in reader.problems]
    told = [*unlike, *stability_rows.unknown(base, new), *left_out]
    output.write(_OUT.value, lambda out: _write(readers, rows, told, out))
    share = stability_rows.share_within(rows, _WITHIN.value)
    return command.EXIT_OK if share >= _SHARE.value else command.EXIT_FOUND


def _write(
    readers: Sequence[runfile.RunReader], rows: Sequence[stability_rows.Difference], told: Sequence[str], out: TextIO
) -> None:
    for line in told:
        print(f"note: {line}", file=out)
    share = stability_rows.share_within(rows, _WITHIN.value)
    print(f"{words.counted(len(rows), 'row')} longer than {_LONGER_THAN_US.value:g} us in both runs", file=out)
    print(f"{share:.1%} within {_WITHIN.value:.1%}; {_SHARE.value:.0%} is wanted", file=out)
    _write_quantiles("difference of medians", stability_rows.quantiles(row.relative for row in rows), "{:.2%}", out)
    for row in rows[: _WORST.value]:
        times = f"{row.base_s * 1e6:.2f} us, then {row.new_s * 1e6:.2f} us"
        print(f"  {row.relative:.2%}  {' '.join(row.key)}: {times}", file=out)
    for reader in readers:
        for implementation, seconds in stability_rows.harness_times(
            duplicates.records(reader, _DUPLICATES.value)
        ).items():
            if seconds:
                what = f"{reader.path.name}: harness time of {len(seconds)} {implementation or 'records'}"
                _write_quantiles(what, stability_rows.quantiles(seconds), "{:.2f} s", out)


def _write_quantiles(what: str, values: Mapping[float, float], form: str, out: TextIO) -> None:
    told = ", ".join(f"{_name(fraction)} {form.format(value)}" for fraction, value in values.items())
    print(f"{what}: {told}", file=out)


def _name(fraction: float) -> str:
    return {0.5: "median", 1.0: "max"}.get(fraction, f"p{fraction * 100:g}")


if __name__ == "__main__":
    command.run(main)
