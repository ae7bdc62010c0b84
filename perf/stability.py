"""Tells how repeatable the bench is: two runs of the same rows on one device, and what the harness took for a row.

Prints the distribution of the relative difference between the two medians of a row, the rows that are farthest apart,
and the time from handing a row to its process to having its record. Exits 1 where fewer than --share of the rows are
within --within of each other. Two runs that measured different things (another device model, revision, driver, plugin),
or with another clock than CUPTI, say nothing of the bench: they are refused unless --allow_unlike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TextIO

from absl import flags

from tileops.perf.comparison import rows as compare_rows
from tileops.perf.comparison import stability_rows
from tileops.perf.runs import duplicates
from tileops.perf.runs import reader as runfile
from tileops.tools.cli import command, errors, output, paths

_BASE = flags.DEFINE_string("base", None, "Run file.")
_NEW = flags.DEFINE_string("new", None, "Run file of the same rows, measured again.")
_LONGER_THAN_US = flags.DEFINE_float("longer_than_us", 10.0, "Shorter medians are left out.", lower_bound=0.0)
_WITHIN = flags.DEFINE_float("within", 0.02, "Medians that are no farther apart agree: a fraction.", lower_bound=0.0)
_SHARE = flags.DEFINE_float("share", 0.95, "The fraction of rows that has to agree.", lower_bound=0.0, upper_bound=1.0)
_WORST = flags.DEFINE_integer("worst", 10, "Rows to name, the farthest apart first.", lower_bound=0)
_ALLOW_UNLIKE = flags.DEFINE_bool(
    "allow_unlike", False, "Hold runs against each other that differ in more than when they were made; says in what."
)
_DUPLICATES = flags.DEFINE_enum("duplicates", None, duplicates.CHOICES, duplicates.HELP)
_OUT = flags.DEFINE_string("out", None, "File to write. Default: stdout.")


def main(argv: Sequence[str]) -> int:
    """Say how far the runs are apart; returns the exit status."""
    del argv
    for name, value in (("base", _BASE.value), ("new", _NEW.value)):
        if not value:
            raise errors.UserError(f"--{name} names no run file; both --base and --new do")
    base, new = readers = [runfile.read_run(paths.user_path(path)) for path in (_BASE.value, _NEW.value)]
    stability_rows.refuse_one_run(base, new)
    base_known, new_known = (compare_rows.measured(duplicates.records(reader, _DUPLICATES.value)) for reader in readers)
    unlike = stability_rows.unlike(base, new, base_known, new_known)
    if unlike and not _ALLOW_UNLIKE.value:
        raise errors.UserError(f"{'; '.join(unlike)}: that tells no repeatability; --allow_unlike goes on anyhow")
    rows = stability_rows.differences(base_known, new_known, _LONGER_THAN_US.value / 1e6)
    if not rows:
        raise errors.UserError("the two runs have no row in common that both timed and that is long enough")
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
    print(f"{len(rows)} rows longer than {_LONGER_THAN_US.value:g} us in both runs", file=out)
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
