"""Reads run files against a GPU profile and reports how far from the speed of
light each row is.

Without flags: the runs recorded on an H200 in this repository. Exits 1 if a row
is physically impossible (a formula error), 2 if something cannot be read.
"""

import os
import sys
from collections.abc import Sequence
from typing import TextIO

from absl import flags

from tileops.perf.report import html as report_html
from tileops.perf.report import json as report_json
from tileops.perf.report import rows, runs, table
from tileops.perf.report import store as report_store
from tileops.perf.roof import profiles
from tileops.perf.runs import duplicates
from tileops.perf.runs import reader as runfile
from tileops.proto import roofline_pb2
from tileops.tools.cli import command, errors, globs, output

_RUN = flags.DEFINE_multi_string(
    "run",
    [],
    "Run file, .binpb or .jsonl; repeatable. Default: every recorded H200 file of"
    " the repository. The newest record of a case and implementation counts.",
)
_PROFILE = flags.DEFINE_string(
    "profile", None, "GPU profile: a device name or a .textproto file. Default: the one that names the measured device."
)
_FORMAT = flags.DEFINE_enum("format", "table", ["table", "json", "csv", "html"], "Form of the report.")
_OUT = flags.DEFINE_string("out", None, "File to write. Default: stdout.")
_OP = flags.DEFINE_multi_string("op", [], "Globs of op names, separated by commas; repeatable.")
_FAMILY = flags.DEFINE_multi_string("family", [], "Globs of families, separated by commas; repeatable.")
_IMPLEMENTATION = flags.DEFINE_string(
    "implementation", runs.BEST, "An implementation's name, 'all', or 'best': the fastest correct one of each case."
)
_SORT = flags.DEFINE_enum(
    "sort",
    "headroom",
    sorted(rows.SORT_KEYS),
    "headroom: most time to win first. time: slowest first. efficiency: lowest first. op: by name.",
)
_TOP = flags.DEFINE_string(
    "top",
    "40",
    "How many rows the table shows: a number, or 'all'. By headroom, rows below the"
    " ceiling come first. Sums and counts are always of all rows.",
)
_PREDICT = flags.DEFINE_bool(
    "predict",
    False,
    "Leave measured times out and give each row's SOL time on --profile, whatever"
    " was measured: a bound, not a measurement.",
)
_ASSUME_CALIBRATION = flags.DEFINE_float(
    "assume_calibration",
    None,
    "Fraction, in (0, 1], of each theoretical value that the profile has no measured"
    " fraction for; the report says that it was assumed. Default: such readings stay"
    " blank (uncalibrated).",
)
_DUPLICATES = flags.DEFINE_enum("duplicates", None, duplicates.CHOICES, duplicates.HELP)
_REPRODUCIBLE = flags.DEFINE_bool("reproducible", False, "Leave out run id, time, host and revision.")

# What --reproducible leaves out of each run's summary.
_VARYING_FIELDS = ("run_id", "started_at", "hostname_hash", "project_revision", "project_dirty", "command_line")

_ENCODERS = {
    "table": rows.message_text,
    "json": report_json.json_row,
    "csv": report_json.csv_row,
    "html": rows.message_text,
}


def main(argv: Sequence[str]) -> int:
    """Makes the report; returns the exit status."""
    del argv
    top = _top()
    with report_store.RowStore() as store:
        collected = _collect(store)
        if not _is_shown_as_table():
            for run in collected.head.runs:
                for problem in run.problems:
                    command.say(f"{run.file}: {problem}")
            assumption = profiles.assumption_in_words(collected.head.profile)
            if assumption:
                command.say(assumption)
        output.write(_OUT.value, lambda out: _render(collected, top, out))
    failed = collected.head.health == roofline_pb2.HEALTH_FAILED
    return command.EXIT_FOUND if failed else command.EXIT_OK


def _top() -> int | None:
    """Returns how many rows the table shows; None for all. Raises errors.UserError."""
    if _FORMAT.value != "table" and flags.FLAGS["top"].present:
        raise errors.UserError(f"--top is of --format=table; {_FORMAT.value} has every row")
    if _TOP.value == "all":
        return None
    if not (_TOP.value.isascii() and _TOP.value.isdigit() and int(_TOP.value) > 0):
        raise errors.UserError(f"--top={_TOP.value}: a number above 0 is wanted, or all")
    return int(_TOP.value)


def _collect(store: report_store.RowStore) -> rows.Collected:
    files = runs.run_paths(_RUN.value)
    output.refuse_input(_OUT.value, files)
    readers = [runfile.read_run(path) for path in files]
    query = rows.Query(
        selection=runs.Selection(
            ops=globs.of_flag(_OP.value), families=globs.of_flag(_FAMILY.value), implementation=_IMPLEMENTATION.value
        ),
        profile=_assumed(_profile_for(readers)),
        is_prediction=_PREDICT.value,
        sort=_SORT.value,
        duplicates=_DUPLICATES.value,
    )
    collected = rows.collect(readers, query, _ENCODERS[_FORMAT.value], store)
    if _REPRODUCIBLE.value:
        for run in collected.head.runs:
            for field in _VARYING_FIELDS:
                run.ClearField(field)
    return collected


def _is_shown_as_table() -> bool:
    """Whether the table, which names the problems of files itself, is seen by whoever sees stderr."""
    if _FORMAT.value != "table" or _OUT.value is not None or sys.stdout is None:
        return False
    if sys.stdout.isatty():
        return True
    # One file or pipe for both: a job's log, `2>&1`.
    return sys.stderr is not None and os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())


def _profile_for(readers: Sequence[runfile.RunReader]) -> profiles.Profile | None:
    if _PROFILE.value is None:
        device_name = runs.device_name(readers)
        profile = profiles.select(profiles.load_profiles(), device_name)
        if profile is None and _PREDICT.value:
            raise errors.UserError(
                f"no profile names the device {device_name!r}; say with --profile which GPU to predict for"
            )
        return profile
    profile = profiles.find_profile(_PROFILE.value)
    for warning in profile.warnings:
        command.say(warning)
    device_name = runs.device_name(readers, profile)
    if not _PREDICT.value and not device_name:
        instead = f"with --predict, --profile={_PROFILE.value!r} gives bounds instead"
        for reader in filter(runs.lacks_device, readers):
            if reader.problems:
                damage = "; ".join(map(str, reader.problems))
                raise errors.UserError(f"{reader.path}: {damage}; {instead}")
        raise errors.UserError(f"the runs name no device to have been measured on; {instead}")
    if not _PREDICT.value and not profile.matches(device_name):
        raise errors.UserError(
            f"--profile={_PROFILE.value} is of {profile.gpu!r}, the run was measured"
            f" on {device_name!r}; with --predict it gives bounds instead"
        )
    return profile


def _assumed(profile: profiles.Profile | None) -> profiles.Profile | None:
    if profile is None or _ASSUME_CALIBRATION.value is None:
        return profile
    return profiles.assume(profile, _ASSUME_CALIBRATION.value)


def _render(collected: rows.Collected, top: int | None, out: TextIO) -> None:
    if _FORMAT.value == "table":
        table.write_table(collected.head, collected.messages(), out, top, winnable_first=_SORT.value == "headroom")
    elif _FORMAT.value == "json":
        report_json.write_json(collected.head, collected.texts(), out)
    elif _FORMAT.value == "csv":
        report_json.write_csv(collected.texts(), out)
    else:
        report_html.write_html(collected.head, collected.messages, out)


if __name__ == "__main__":
    command.run(main)
