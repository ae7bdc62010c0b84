"""Reports how close each row of run files comes to the speed of light of its GPU.

Without flags it reports the runs of an NVIDIA H200 that this repository holds.

Exit status: 0 if every row is possible; 1 if a row is physically impossible (a formula error); 2 if a flag or file is
wrong.
"""

import os
import pathlib
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
from tileops.tools.cli import command, errors, fraction, globs, nearest, output

_RUN = flags.DEFINE_multi_string(
    "run",
    [],
    "Run file, .binpb or .jsonl. The newest record of a row counts. Default: the recorded H200 runs of the repository",
)
_PROFILE = flags.DEFINE_string(
    "profile", None, "GPU profile: a device name or a .textproto file. Default: the profile of the measured device."
)
_FORMAT = flags.DEFINE_enum("format", None, ["table", "json", "csv", "html"], output.FORMAT_HELP)
_OUT = flags.DEFINE_string("out", None, output.HELP)
_OP = flags.DEFINE_multi_string("op", [], "Globs of op names, comma-separated")
_FAMILY = flags.DEFINE_multi_string("family", [], "Globs of families, comma-separated")
_IMPLEMENTATION = flags.DEFINE_string(
    "implementation",
    runs.BEST,
    "Name of an implementation, all, or best: the fastest correct implementation of each row. It leaves out"
    " libraries that --baselines does not name.",
)
_BASELINES = flags.DEFINE_list(
    "baselines", [], "Libraries among which --implementation=best chooses too, or all (docs/baselines.md)."
)
_SORT = flags.DEFINE_enum(
    "sort",
    "headroom",
    sorted(rows.SORT_KEYS),
    "headroom: most time to win first. time: slowest first. efficiency: lowest first. op: by name.",
)
_TOP = flags.DEFINE_string(
    "top", "40", "How many rows the table shows: a number or all. Sums and counts include every row."
)
_PREDICT = flags.DEFINE_bool(
    "predict", False, "Ignore measured times and give each row's SOL time on --profile: a bound, not a measurement."
)
_ASSUME_CALIBRATION = fraction.define_share(
    "assume_calibration",
    "Fraction of the theoretical value to assume if the profile has no measured fraction, as 85% or 0.85. Default: leave"
    " such rows blank (uncalibrated).",
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
    form = output.form(_OUT.value, _FORMAT.value)
    if _BASELINES.value and (_IMPLEMENTATION.value != runs.BEST or _PREDICT.value):
        raise errors.UserError(
            "--baselines has an effect only with --implementation=best and without --predict; leave it out"
        )
    top = _top(form)
    files = runs.run_paths(_RUN.value)
    output.check(_OUT.value, ("roofline", form), files)
    with report_store.RowStore() as store:
        collected = _collect(files, form, store)
        if not _is_shown_as_table(form):
            for run in collected.head.runs:
                for problem in run.problems:
                    command.say(f"{run.file}: {problem}")
            assumption = profiles.assumption_in_words(collected.head.profile)
            if assumption:
                command.say(assumption)
        output.write(_OUT.value, lambda out: _render(collected, form, top, out))
    failed = collected.head.health == roofline_pb2.HEALTH_FAILED
    return command.EXIT_FOUND if failed else command.EXIT_OK


def _top(form: str) -> int | None:
    """Returns how many rows the table shows; None for all. Raises errors.UserError."""
    if form != "table" and flags.FLAGS["top"].present:
        raise errors.UserError(f"--top needs --format=table; {form} has every row")
    return output.count_or_all("top", _TOP.value)


def _collect(files: Sequence[pathlib.Path], form: str, store: report_store.RowStore) -> rows.Collected:
    readers = [runfile.read_run(path) for path in files]
    query = rows.Query(
        selection=runs.Selection(
            ops=globs.of_flag(_OP.value),
            families=globs.of_flag(_FAMILY.value),
            implementation=_IMPLEMENTATION.value,
            libraries=_BASELINES.value,
            listed_by=_listed_by(),
        ),
        profile=_assumed(_profile_for(readers)),
        is_prediction=_PREDICT.value,
        sort=_SORT.value,
        duplicates=_DUPLICATES.value,
    )
    collected = rows.collect(readers, query, _ENCODERS[form], store)
    if _REPRODUCIBLE.value:
        for run in collected.head.runs:
            for field in _VARYING_FIELDS:
                run.ClearField(field)
    return collected


def _listed_by() -> str:
    """Returns the command that lists what this command reads, without its filters."""
    chosen = {"run": _RUN.value, "profile": [_PROFILE.value]}
    given = {name: values for name, values in chosen.items() if flags.FLAGS[name].present}
    program = "predict" if flags.FLAGS["predict"].default else "roofline"
    more = ["--predict"] if _PREDICT.value and program == "roofline" else []
    return nearest.reported(program, more, **given)


def _is_shown_as_table(form: str) -> bool:
    """Returns whether the reader of stderr sees the table, which names the problems of files itself."""
    if form != "table" or _OUT.value is not None or sys.stdout is None:
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
            why = f"no profile names the device {device_name!r}" if device_name else "a run of prices names no device"
            gpus = profiles.candidates(profiles.load_profiles(), device_name)
            raise errors.UserError(f"{why}; name the GPU to predict for with --profile ({gpus})")
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
        raise errors.UserError(f"the runs do not name the device that they were measured on; {instead}")
    if not _PREDICT.value and not profile.matches(device_name):
        raise errors.UserError(
            f"--profile={_PROFILE.value} describes {profile.gpu!r}, but the run was measured on {device_name!r};"
            " with --predict it gives bounds instead"
        )
    return profile


def _assumed(profile: profiles.Profile | None) -> profiles.Profile | None:
    if profile is None or _ASSUME_CALIBRATION.value is None:
        return profile
    return profiles.assume(profile, _ASSUME_CALIBRATION.value)


def _render(collected: rows.Collected, form: str, top: int | None, out: TextIO) -> None:
    if form == "table":
        table.write_table(collected.head, collected.messages(), out, top, winnable_first=_SORT.value == "headroom")
    elif form == "json":
        report_json.write_json(collected.head, collected.texts(), out)
    elif form == "csv":
        report_json.write_csv(collected.texts(), out)
    else:
        report_html.write_html(collected.head, collected.messages, out)


if __name__ == "__main__":
    command.run(main)
