"""Measures workload rows and writes their times to a run file, which //perf:roofline reports.

Without flags the bench measures all rows on the GPU; if there is no GPU, it measures the cheapest row of each op on the
CPU. `--device=meta` prices every row without a GPU.

Exit status: 0 if every row was measured; 1 if a row failed, gave a wrong result or timed out, if every row was
skipped (not with --shard), or if a plug-in's implementations serve no row; 2 if a flag or file is wrong.
"""

# ruff: noqa: E402  The handler of Ctrl-C comes before the imports, which take a while.
from __future__ import annotations

import math
import os
import pathlib
import signal
from collections.abc import Sequence


def _leave(number: int, frame: object) -> None:
    """Handles Ctrl-C while there is nothing to put away."""
    del number, frame
    os.write(2, b"bench: interrupted\n")
    os._exit(130)


if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Importing torch takes seconds, and libraries may replace an exception raised meanwhile by another.
    signal.signal(signal.SIGINT, _leave)

from absl import flags

from tileops.manifest.foreign import roots
from tileops.ops import row_index
from tileops.perf.harness import baselines, devices
from tileops.perf.harness import rows as bench_rows
from tileops.perf.runs import json as run_json
from tileops.perf.runs import reader
from tileops.tools.cli import command, errors, globs, nearest, output, paths

_DEVICE = flags.DEFINE_string(
    "device",
    "auto",
    "auto (a GPU if there is one, else the CPU), cuda, cuda:N, several GPUs of one model (cuda:all or cuda:0,cuda:2), cpu,"
    " or meta (prices only).",
)
_SPEC_DIR = flags.DEFINE_multi_string("spec_dir", [], "Folder of a manifest to measure instead of the project's")
_GENERATED_DIR = flags.DEFINE_string(
    "generated_dir", None, "Folder of modules that //codegen:emit --out_dir wrote, in place of --spec_dir."
)
_ROOT = flags.DEFINE_multi_string("root", [], roots.HELP)
_OP = flags.DEFINE_multi_string("op", [], "Globs of op names, comma-separated")
_FAMILY = flags.DEFINE_multi_string("family", [], "Globs of families, comma-separated")
_LABEL = flags.DEFINE_multi_string("label", [], "Globs of workload labels, comma-separated")
_IMPLEMENTATION = flags.DEFINE_list(
    "implementation", ["all"], "Names of implementations. all: every implementation that serves the row."
)
_PLUGIN = flags.DEFINE_multi_string("plugin", [], "Module or .py file that registers implementations")
_BASELINES = flags.DEFINE_list(
    "baselines",
    [],
    "Libraries of others to measure too (docs/baselines.md), or all. A library that is not installed is skipped.",
)
_BASELINES_DIR = flags.DEFINE_string(
    "baselines_dir", None, "Folder of the plug-in files of --baselines. Default: perf/baselines of the project."
)
_OUT = flags.DEFINE_string(
    "out",
    None,
    "Run file to write, .binpb or .jsonl. Earlier measurements are renamed. Default: tileops-run.binpb, or"
    " tileops-prices.binpb for meta.",
)
_RESUME = flags.DEFINE_bool(
    "resume",
    False,
    "Continue the run in --out: measure only rows that are missing or failed. Refused if device, software or a"
    " plug-in's source changed.",
)
_ROW_TIMEOUT_S = flags.DEFINE_float(
    "row_timeout_s", 180.0, "Stop a row with one implementation after this many seconds.", lower_bound=0.1
)
flags.register_validator(_ROW_TIMEOUT_S, math.isfinite, message="must be a number of seconds")
_SHARD = flags.DEFINE_string(
    "shard",
    "1/1",
    "Measure part i of n, as in 2/4. The parts are the same on every machine and take about the same time.",
)
_MAX_ROW_SECONDS = flags.DEFINE_float(
    "max_row_seconds",
    None,
    "Skip rows whose time, estimated from the sizes of their tensors, exceeds this many seconds (0: no limit)."
    " Default: 5 on the CPU, 0 on a GPU.",
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
    "samples", True, "Record every sample, not only median and spread. --nosamples keeps run files small."
)
_REPRODUCIBLE = flags.DEFINE_bool(
    "reproducible", False, "With --device=meta: write nothing that differs between two runs."
)
_LIST = flags.DEFINE_bool("list", False, "Print the rows and their implementations, and measure nothing.")


def main(argv: Sequence[str]) -> int:
    """Does what the flags say; returns the exit status."""
    del argv
    try:
        return _checked()
    except KeyboardInterrupt:
        command.say("interrupted")
        return command.EXIT_INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the status is settled; the interpreter's own end is short


def _checked() -> int:
    """Checks the flags, and answers what needs no op; harness/session.py does the rest."""
    if _REPRODUCIBLE.value and _DEVICE.value != "meta":
        raise errors.UserError("--reproducible needs --device=meta: times differ from run to run")
    if _BASELINES.value and _DEVICE.value == "meta":
        raise errors.UserError("--baselines: not with --device=meta, which prices rows and runs no implementation")
    if _BASELINES_DIR.value and not _BASELINES.value:
        raise errors.UserError("--baselines_dir needs --baselines, which names the libraries, or all")
    libraries = baselines.find(_BASELINES.value, _BASELINES_DIR.value)
    selection = bench_rows.Selection(
        ops=globs.of_flag(_OP.value), families=globs.of_flag(_FAMILY.value), labels=globs.of_flag(_LABEL.value)
    )
    generated = [] if _GENERATED_DIR.value is None else [_GENERATED_DIR.value]
    given = {"spec_dir": _SPEC_DIR.value, "generated_dir": generated, "root": _ROOT.value, "plugin": _PLUGIN.value}
    listed_by = nearest.rows(**given, **_listed_libraries())
    formula_roots = tuple(roots.parse(_ROOT.value).items())
    if formula_roots and not (_SPEC_DIR.value or generated):
        raise errors.UserError("--root says where formulas of another manifest are; name that with --spec_dir")
    devices.check(_DEVICE.value)
    shard = bench_rows.parse_shard(_SHARD.value)
    if not (_PLUGIN.value or libraries or _SPEC_DIR.value or _GENERATED_DIR.value):
        rows = bench_rows.select(row_index.load(), selection, listed_by)
        bench_rows.check_implementations((op for op, _ in rows), _IMPLEMENTATION.value, listed_by)
        # With implementations by name, only a `when` knows which of them serve a row.
        if _LIST.value and bench_rows.ALL in _IMPLEMENTATION.value:
            return _list(bench_rows.part_of_index(rows, _IMPLEMENTATION.value, shard))
    plugins = _plugins()
    out = _OUT.value or ("tileops-prices.binpb" if _DEVICE.value == "meta" else "tileops-run.binpb")
    if not _LIST.value:
        devices.check_driver(_DEVICE.value)
        _check_out(out)

    from tileops.perf.harness import plan, session  # imports torch: that takes seconds

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
        libraries=libraries,
        spec_dirs=_SPEC_DIR.value,
        generated_dir=_GENERATED_DIR.value,
        roots=formula_roots,
        out=out,
        resume=_RESUME.value,
        samples=_SAMPLES.value,
        reproducible=_REPRODUCIBLE.value,
        lists_only=_LIST.value,
    )
    return session.perform(request)


def _listed_libraries() -> dict[str, list[str]]:
    """Returns the flags of libraries, for the command that lists the rows."""
    folder = [] if _BASELINES_DIR.value is None else [_BASELINES_DIR.value]
    return {"baselines": [",".join(_BASELINES.value)] if _BASELINES.value else [], "baselines_dir": folder}


def _check_out(out: str) -> None:
    """Raises UserError if a run cannot be written to a file of this name, or continued in it."""
    path = paths.user_path(out)
    wrong = run_json.wrong_ending(path)
    if wrong and not (_RESUME.value and path.exists()):
        raise errors.UserError(f"--out={out}: {wrong}")

    def is_run(path: pathlib.Path) -> bool:
        if _RESUME.value:
            reader.read_run(path)  # which says what is wrong with the file
            return True
        return reader.header(path) is not None

    output.check(out, is_run)


def _hear_interrupts() -> None:
    """Makes exceptions of Ctrl-C and SIGTERM, from here on."""
    signal.signal(signal.SIGTERM, command.interrupt)  # SIGTERM ends a run as Ctrl-C does
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, command.interrupt)


def _plugins() -> tuple[str, ...]:
    """Returns the names by which the plug-ins are imported. Raises UserError if the file of one is missing."""
    if _SPEC_DIR.value and _GENERATED_DIR.value:
        raise errors.UserError("--spec_dir and --generated_dir exclude each other: the second is made from the first")
    return tuple(map(paths.plugin_path, _PLUGIN.value))


def _list(cases: Sequence[tuple[row_index.IndexedOp, row_index.IndexedCase]]) -> int:
    for op, case in cases:
        print(op.ENTRY, case.case_id, ",".join(bench_rows.implementations(op, _IMPLEMENTATION.value)), sep="\t")
    return command.EXIT_OK


if __name__ == "__main__":
    command.run(main)
