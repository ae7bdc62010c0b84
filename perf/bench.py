"""Runs workload rows and writes their times to a run file (M4).

Without flags the bench measures all rows on the GPU; if there is no GPU, it measures the cheapest row of each op on the
CPU. `--device=meta` prices every row without a GPU. //perf:roofline reports the file. The exit status is 1 if a row
failed, gave a wrong result or timed out, if every row was skipped, and if a plug-in's implementations serve no row.
"""

# ruff: noqa: E402  Ctrl-C is heard before the imports, which take a while.
from __future__ import annotations

import math
import os
import signal
from collections.abc import Sequence
from typing import NoReturn

# The status that shells give a program ended by Ctrl-C.
_EXIT_INTERRUPTED = 130


def _leave(number: int, frame: object) -> None:
    """Handles Ctrl-C where there is nothing to put away."""
    del number, frame
    os.write(2, b"bench: interrupted\n")
    os._exit(_EXIT_INTERRUPTED)


if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until torch is imported: that takes seconds, and an exception in the midst of it can become any other.
    signal.signal(signal.SIGINT, _leave)

from absl import app, flags

from tileops.ops import row_index
from tileops.perf.harness import devices
from tileops.perf.harness import rows as bench_rows
from tileops.perf.roof import profiles
from tileops.tools.cli import command, globs, nearest, paths

_DEVICE = flags.DEFINE_string(
    "device",
    "auto",
    "auto (the GPU if there is one, else the CPU), cuda, cuda:N, cpu, or meta (prices, no times). Several GPUs of one"
    " model share the rows: cuda:all, or by number, as in cuda:0,cuda:2.",
)
_SPEC_DIR = flags.DEFINE_multi_string("spec_dir", [], "Folder of another manifest to measure instead; repeatable.")
_GENERATED_DIR = flags.DEFINE_string(
    "generated_dir", None, "Folder of modules that //codegen:emit made of such a manifest."
)
_OP = flags.DEFINE_multi_string("op", [], "Globs of op names, comma-separated; repeatable.")
_FAMILY = flags.DEFINE_multi_string("family", [], "Globs of families, comma-separated; repeatable.")
_LABEL = flags.DEFINE_multi_string("label", [], "Globs of workload labels, comma-separated; repeatable.")
_IMPLEMENTATION = flags.DEFINE_list(
    "implementation", ["all"], "Names of implementations. all: every one that serves a row."
)
_PLUGIN = flags.DEFINE_multi_string("plugin", [], "Module or .py file to import first; repeatable.")
_OUT = flags.DEFINE_string(
    "out",
    None,
    "Run file to write, .binpb or .jsonl. Measurements that the file already holds are moved aside. Default:"
    " tileops-run.binpb, or tileops-prices.binpb with --device=meta.",
)
_RESUME = flags.DEFINE_bool("resume", False, "Continue the run in --out: measure the rows that are missing or failed.")
_ROW_TIMEOUT_S = flags.DEFINE_float(
    "row_timeout_s", 180.0, "Longest time for one implementation on one row. Seconds.", lower_bound=0.1
)
flags.register_validator(_ROW_TIMEOUT_S, math.isfinite, message="must be a number of seconds")
_SHARD = flags.DEFINE_string(
    "shard",
    "1/1",
    "Measure part i of n of the rows, as in 2/4. The parts are the same on every machine and take about equal time.",
)
_MAX_ROW_SECONDS = flags.DEFINE_float(
    "max_row_seconds",
    None,
    "Skip rows whose estimated time exceeds this many seconds (0: no limit). On a GPU the estimate is the roofline"
    " lower bound. Default: 5 on the CPU, --row_timeout_s on a GPU.",
    lower_bound=0.0,
)
flags.register_validator(
    _MAX_ROW_SECONDS,
    lambda value: value is None or math.isfinite(value),
    message="must be a number of seconds; 0 sets no limit",
)
_ROWS = flags.DEFINE_enum(
    "rows", None, ["all", "quick"], "quick: the cheapest row of each op. Default: quick on the CPU, all on a GPU."
)
_SAMPLES = flags.DEFINE_bool(
    "samples", True, "Record every sample beside median and spread. --nosamples keeps run files small."
)
_REPRODUCIBLE = flags.DEFINE_bool(
    "reproducible", False, "With --device=meta: write nothing that differs between two runs."
)
_LIST = flags.DEFINE_bool("list", False, "Print the rows and their implementations; run nothing.")


def main(argv: Sequence[str]) -> int:
    """Does what the flags say; returns the exit status."""
    del argv
    try:
        return _checked()
    except KeyboardInterrupt:
        command.say("interrupted")
        return _EXIT_INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the status is settled; the interpreter's own end is short


def _checked() -> int:
    """Checks the flags, and answers by itself what needs no op; the rest is harness/session.py's."""
    if _REPRODUCIBLE.value and _DEVICE.value != "meta":
        raise app.UsageError("--reproducible needs --device=meta: times differ from run to run")
    selection = bench_rows.Selection(
        ops=globs.of_flag(_OP.value), families=globs.of_flag(_FAMILY.value), labels=globs.of_flag(_LABEL.value)
    )
    generated = [] if _GENERATED_DIR.value is None else [_GENERATED_DIR.value]
    listed_by = nearest.rows(spec_dir=_SPEC_DIR.value, generated_dir=generated, plugin=_PLUGIN.value)
    try:
        devices.check(_DEVICE.value)
        shard = bench_rows.parse_shard(_SHARD.value)
        if not (_PLUGIN.value or _SPEC_DIR.value or _GENERATED_DIR.value):
            rows = bench_rows.select(row_index.load(), selection, listed_by)
            bench_rows.check_implementations((op for op, _ in rows), _IMPLEMENTATION.value, listed_by)
            # Which of several named implementations serve a row, their `when` says.
            if _LIST.value and bench_rows.ALL in _IMPLEMENTATION.value:
                return _list(bench_rows.part_of_index(rows, _IMPLEMENTATION.value, shard))
        plugins = _plugins()
    except (devices.DeviceError, bench_rows.SelectionError) as error:
        _refuse(error)

    from tileops.perf.harness import plan, session  # which import torch: that takes seconds

    _hear_interrupts()
    choice = plan.Choice(
        implementations=_IMPLEMENTATION.value,
        rows=_ROWS.value,
        shard=shard,
        max_row_s=_MAX_ROW_SECONDS.value,
        row_timeout_s=_ROW_TIMEOUT_S.value,
    )
    request = session.Request(
        device=_DEVICE.value,
        selection=selection,
        listed_by=listed_by,
        choice=choice,
        plugins=plugins,
        plugin_names=_PLUGIN.value,
        spec_dirs=_SPEC_DIR.value,
        generated_dir=_GENERATED_DIR.value,
        out=_OUT.value,
        resume=_RESUME.value,
        samples=_SAMPLES.value,
        reproducible=_REPRODUCIBLE.value,
        lists_only=_LIST.value,
    )
    try:
        return session.perform(request)
    except (*session.ERRORS, profiles.ProfileError) as error:
        _refuse(error)


def _refuse(error: Exception) -> NoReturn:
    """Raises an error as bad usage, whose message is the last of its lines."""
    *lines, last = str(error).splitlines()
    for line in lines:
        command.say(line)
    raise app.UsageError(last) from error


def _hear_interrupts() -> None:
    """Makes exceptions of Ctrl-C and SIGTERM, from here on."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ending a run politely is ending it with Ctrl-C
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _plugins() -> tuple[str, ...]:
    """Returns --plugin as they are imported. Raises UsageError if a file is not there."""
    if _SPEC_DIR.value and _GENERATED_DIR.value:
        raise app.UsageError("--spec_dir and --generated_dir exclude each other: the first is made into the second")
    return tuple(_plugin(name) for name in _PLUGIN.value)


def _plugin(name: str) -> str:
    path = paths.plugin_path(name)
    if name.endswith(".py") and not os.path.isfile(path):
        raise app.UsageError(f"--plugin={name}: there is no file {path}; a .py file or the name of a module is wanted")
    return path


def _list(cases: Sequence[tuple[row_index.IndexedOp, row_index.IndexedCase]]) -> int:
    for op, case in cases:
        print(op.ENTRY, case.case_id, ",".join(bench_rows.implementations(op, _IMPLEMENTATION.value)), sep="\t")
    return command.EXIT_OK


if __name__ == "__main__":
    command.run(main)
