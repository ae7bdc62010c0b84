"""Runs workload rows and writes what they took to a run file (M4).

Without flags: all rows on the GPU, or where there is none the cheapest row of each op on the CPU. `--device=meta`
prices every row without a GPU. //perf:roofline reports the file. Exits 1 where a row failed, gave a wrong result or
timed out, where nothing was measured since every row was skipped, and where nothing of a plug-in serves a row.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import math
import os
import pathlib
import signal
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

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
from tileops.perf.harness import devices as bench_devices
from tileops.perf.harness import rows as bench_rows
from tileops.perf.harness import shards
from tileops.perf.roof import profiles
from tileops.perf.runs import reader
from tileops.perf.runs import writer as run_writer
from tileops.proto import benchmark_pb2
from tileops.tools.cli import command, later, nearest, paths

if TYPE_CHECKING:
    from tileops.ops.implementations import Implementation

# Imported when first used, since they import torch.
bench_asked = later.module("tileops.perf.harness.asked")
bench_catalogue = later.module("tileops.perf.harness.catalogue")
bench_emit = later.module("tileops.ops.emitting")
bench_ending = later.module("tileops.perf.harness.ending")
bench_environment = later.module("tileops.perf.harness.environment")
bench_files = later.module("tileops.perf.harness.files")
bench_header = later.module("tileops.perf.harness.header")
bench_plan = later.module("tileops.perf.harness.plan")
bench_pool = later.module("tileops.perf.harness.pool")
bench_pricing = later.module("tileops.perf.harness.pricing")
bench_progress = later.module("tileops.perf.harness.progress")
bench_run = later.module("tileops.perf.harness.run")
bench_worker = later.module("tileops.perf.harness.worker")

_DEVICE = flags.DEFINE_string(
    "device",
    "auto",
    "auto (the GPU if there is one, else the CPU), cuda, cuda:N, cpu, or meta (prices, no times). Several GPUs of one"
    " model share the rows: cuda:all, or by number, as in cuda:0,cuda:2.",
)
_SPEC_DIR = flags.DEFINE_multi_string("spec_dir", [], "Manifest outside the project to measure instead; repeatable.")
_GENERATED_DIR = flags.DEFINE_string("generated_dir", None, "What //codegen:emit made of such a manifest before.")
_OP = flags.DEFINE_multi_string("op", [], "Globs of op names, comma-separated; repeatable.")
_FAMILY = flags.DEFINE_multi_string("family", [], "Globs of families, comma-separated; repeatable.")
_LABEL = flags.DEFINE_multi_string("label", [], "Globs of workload labels, comma-separated; repeatable.")
_IMPLEMENTATION = flags.DEFINE_list("implementation", ["all"], "Names of implementations, or all that serve a row.")
_PLUGIN = flags.DEFINE_multi_string("plugin", [], "Module or .py file to import first; repeatable.")
_OUT = flags.DEFINE_string(
    "out",
    None,
    "Run file to write, .binpb or .jsonl; measurements that are in it are moved aside. Default: tileops-run.binpb, for"
    " prices tileops-prices.binpb.",
)
_RESUME = flags.DEFINE_bool("resume", False, "Continue the run in --out: what is missing or failed is measured.")
_ROW_TIMEOUT_S = flags.DEFINE_float(
    "row_timeout_s", 180.0, "Longest that one implementation may take on one row.", lower_bound=0.1
)
flags.register_validator(_ROW_TIMEOUT_S, math.isfinite, message="must be a number of seconds")
_SHARD = flags.DEFINE_string(
    "shard", "1/1", "Part i of n of the rows, as in 2/4: the same on every machine, and of about equal length."
)
_MAX_ROW_SECONDS = flags.DEFINE_float(
    "max_row_seconds",
    None,
    "Rows that their price says take longer are skipped, with that reason; 0 sets no limit. A GPU is judged by its"
    " profile's ceilings, which says what a row takes at least. Default: 5 on the CPU, --row_timeout_s on a GPU.",
    lower_bound=0.0,
)
flags.register_validator(
    _MAX_ROW_SECONDS,
    lambda value: value is None or math.isfinite(value),
    message="must be a number of seconds; 0 sets no limit",
)
_ROWS = flags.DEFINE_enum(
    "rows", None, ["all", "quick"], "quick: the cheapest row of each op. Default: quick on the CPU, else all."
)
_SAMPLES = flags.DEFINE_bool(
    "samples", True, "Record every sample beside median and spread; --nosamples keeps runs small."
)
_REPRODUCIBLE = flags.DEFINE_bool("reproducible", False, "Write nothing that differs between two runs (with meta).")
_LIST = flags.DEFINE_bool("list", False, "Print the rows and their implementations; run nothing.")

Record = benchmark_pb2.BenchmarkRecord

# The device whose ceilings a priced run is held against by way of example: its profile is calibrated.
_PREDICTED_DEVICE = "NVIDIA H200"
_DESCRIBE_TIMEOUT_S = 120.0


def main(argv: Sequence[str]) -> int:
    """Run what the flags say; returns the exit status."""
    del argv
    try:
        return _checked()
    except KeyboardInterrupt:
        command.say("interrupted")
        return _EXIT_INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the status is settled; the interpreter's own end is short


def _checked() -> int:
    """The run, where the flags are right."""
    if _REPRODUCIBLE.value and _DEVICE.value != "meta":
        raise app.UsageError("--reproducible needs --device=meta: times differ from run to run")
    try:
        bench_devices.check(_DEVICE.value)
        shard = shards.parse(_SHARD.value)
        if not (_PLUGIN.value or _SPEC_DIR.value or _GENERATED_DIR.value):
            rows = shards.of_rows(_selected(row_index.load()), _IMPLEMENTATION.value, shard)
            # Which of several named implementations serve a row, their `when` says.
            if _LIST.value and bench_rows.ALL in _IMPLEMENTATION.value:
                return _list(rows)
        plugins = _plugins()
        _import_torch()
        with _sources(plugins) as sources:
            return _run(sources, shard)
    except (
        app.UsageError,
        bench_devices.DeviceError,
        bench_rows.SelectionError,
        profiles.ProfileError,
        reader.RunFileError,
    ) as error:
        _refuse(error)  # without the names of the next clause, which torch would be imported for
    except (bench_catalogue.CatalogueError, bench_emit.EmitError) as error:
        _refuse(error)


def _refuse(error: Exception) -> NoReturn:
    """Raises an error as bad usage, whose message is the last of its lines."""
    *lines, last = str(error).splitlines()
    for line in lines:
        command.say(line)
    raise app.UsageError(last) from error


def _import_torch() -> None:
    """Imports what is imported later; from here on Ctrl-C and SIGTERM are exceptions."""
    later.load(
        bench_asked,
        bench_catalogue,
        bench_emit,
        bench_ending,
        bench_environment,
        bench_files,
        bench_header,
        bench_plan,
        bench_pool,
        bench_pricing,
        bench_progress,
        bench_run,
        bench_worker,
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ending a run politely is ending it with Ctrl-C
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _plugins() -> tuple[str, ...]:
    if _SPEC_DIR.value and _GENERATED_DIR.value:
        raise app.UsageError("--spec_dir and --generated_dir exclude each other: the first is made into the second")
    return tuple(_plugin(name) for name in _PLUGIN.value)


@contextlib.contextmanager
def _sources(plugins: tuple[str, ...]) -> Iterator[bench_catalogue.Sources]:
    """Where the ops come from; emitted modules live as long as the block."""
    if not _SPEC_DIR.value:
        generated = None if _GENERATED_DIR.value is None else str(paths.user_path(_GENERATED_DIR.value))
        yield bench_catalogue.Sources(generated_dir=generated, plugins=plugins)
        return
    with tempfile.TemporaryDirectory(prefix="tileops-generated-") as folder:
        bench_emit.emit([paths.user_path(spec_dir) for spec_dir in _SPEC_DIR.value], pathlib.Path(folder))
        yield bench_catalogue.Sources(generated_dir=folder, plugins=plugins)


def _plugin(name: str) -> str:
    path = paths.plugin_path(name)
    if name.endswith(".py") and not os.path.isfile(path):
        raise app.UsageError(f"--plugin={name}: there is no file {path}; a .py file or the name of a module is wanted")
    return path


def _selected(classes: Mapping[str, bench_rows.Named]) -> list[tuple[bench_rows.Named, bench_rows.NamedCase]]:
    """The rows that the flags select. Raises SelectionError."""
    selection = bench_rows.Selection(ops=_globs(_OP.value), families=_globs(_FAMILY.value), labels=_globs(_LABEL.value))
    generated = [] if _GENERATED_DIR.value is None else [_GENERATED_DIR.value]
    listed_by = nearest.rows(spec_dir=_SPEC_DIR.value, generated_dir=generated, plugin=_PLUGIN.value)
    cases = bench_rows.select(classes, selection, listed_by)
    bench_rows.check_implementations((op_class for op_class, _ in cases), _IMPLEMENTATION.value, listed_by)
    return cases


def _list(cases: Sequence[tuple[bench_rows.Named, bench_rows.NamedCase]]) -> int:
    for op_class, case in cases:
        names = bench_rows.implementations(op_class, _IMPLEMENTATION.value)
        print(op_class.ENTRY, case.case_id, ",".join(names), sep="\t")
    return command.EXIT_OK


def _run(sources: bench_catalogue.Sources, shard: shards.Shard) -> int:
    brought: dict[bench_asked.Name, str] = {}
    classes = bench_catalogue.load(sources, on_idle=_say_idle, brought=brought)
    plugins, files = bench_header.plugins(sources, _PLUGIN.value, _SPEC_DIR.value)
    sources = dataclasses.replace(sources, plugin_files=files)
    choice = bench_plan.Choice(
        implementations=_IMPLEMENTATION.value,
        rows=_ROWS.value,
        shard=shard,
        max_row_s=_MAX_ROW_SECONDS.value,
        row_timeout_s=_ROW_TIMEOUT_S.value,
    )
    cases = _selected(classes)
    asked = bench_asked.asked(dict.fromkeys(op_class for op_class, _ in cases), choice.implementations, brought)
    if _LIST.value:
        return _list_serving(cases, choice, asked, brought)
    if _DEVICE.value == "meta":
        return _price(bench_plan.part(cases, choice), choice, plugins)
    with contextlib.ExitStack() as pools:
        status = _measure(
            cases,
            choice,
            plugins,
            lambda: pools.enter_context(bench_pool.pool(sources)),
            lambda path, rows: _say_unserved(asked, bench_files.served(path, rows), rows, brought, choice),
        )
    return status


def _list_serving(
    cases: list[bench_rows.Case],
    choice: bench_plan.Choice,
    asked: Mapping[bench_asked.Name, Implementation],
    brought: Mapping[bench_asked.Name, str],
) -> int:
    """Print the rows of a run; of implementations that were asked for, those that serve each."""
    kind = bench_environment.kind(_DEVICE.value)
    cases = bench_plan.part(cases, choice) if choice.rows is None else bench_plan.rows(cases, choice, kind)
    served = set()
    for op_class, case in cases:
        names = bench_rows.implementations(op_class, choice.implementations)
        if any((op_class.ENTRY, name) in asked for name in names) and kind != "meta":
            serving = bench_rows.serving(op_class, case, kind)
            names = tuple(name for name in names if name in serving)
            served |= {(op_class.ENTRY, name) for name in names}
        print(op_class.ENTRY, case.case_id, ",".join(names), sep="\t")
    if kind != "meta":  # prices are of no implementation
        _say_unserved(asked, served, [(op_class.ENTRY, case.case_id) for op_class, case in cases], brought, choice)
    return command.EXIT_OK


def _say_unserved(
    asked: Mapping[bench_asked.Name, Implementation],
    served: Collection[bench_asked.Name],
    rows: Collection[tuple[str, str]],
    brought: Mapping[bench_asked.Name, str],
    choice: bench_plan.Choice,
) -> bool:
    """Say which implementations were asked for and serve none of the rows, each an op and a case.

    Returns:
      Whether a plug-in got no row at all; False of a part of a run, since other parts have other rows.
    """
    counts = collections.Counter(op for op, _ in rows)
    here = {key: each for key, each in asked.items() if key[0] in counts}
    for line in bench_asked.unserved(here, served, counts, brought):
        command.say(line)
    return choice.shard.count == 1 and bool(bench_asked.idle_plugins(here, served, brought))


def _say_idle(plugin: str) -> None:
    command.say(
        f"--plugin={plugin}: registers no implementation of an op of this run; one is registered by a line such as"
        ' catalogue.load()["RMSNormFwdOp"].register("mine", function)'
    )


def _globs(values: list[str]) -> tuple[str, ...]:
    """The globs of a flag. An empty one stays: it fits nothing, which is said."""
    return tuple(glob.strip() for value in values for glob in value.split(","))


def _price(cases: list[bench_rows.Case], choice: bench_plan.Choice, plugins: Sequence[benchmark_pb2.Plugin]) -> int:
    if _ROWS.value == "quick":
        raise app.UsageError("--rows=quick is for measuring; --device=meta prices all rows in seconds")
    environment = bench_environment.describe_prices(_REPRODUCIBLE.value)
    header = bench_header.header(environment, plugins, choice.shard, _REPRODUCIBLE.value)
    records = []
    with _writer(header, "tileops-prices.binpb") as writer:
        outcomes = bench_files.recorded(writer)
        to_do = bench_files.to_do([(op_class.ENTRY, case.case_id, "") for op_class, case in cases], outcomes)
        cases = [(op_class, case) for op_class, case in cases if (op_class.ENTRY, case.case_id, "") in to_do]
        with bench_progress.bar(len(cases)) as progress:
            for op_class, case in cases:
                progress.begin(f"{op_class.ENTRY} {case.case_id}")
                record = bench_pricing.price_case(op_class, case)
                writer.write(record)
                records.append(record)
                outcomes[record.op, record.case_id, ""] = record.status
                progress.end(record.status in bench_run.FAILED)
    return bench_ending.finish(
        writer.path, records, outcomes, choice.shard, f' --predict --profile="{_PREDICTED_DEVICE}"'
    )


def _measure(
    cases: list[bench_rows.Case],
    choice: bench_plan.Choice,
    plugins: Sequence[benchmark_pb2.Plugin],
    make_pool: Callable[[], bench_pool.Pool],
    say_unserved: Callable[[pathlib.Path, set[tuple[str, str]]], bool],
) -> int:
    # Asked of a child: this process and the server that children are forked from touch no GPU.
    first = make_pool()
    try:
        described = first.ask(bench_worker.Describe(device=_DEVICE.value), _DESCRIBE_TIMEOUT_S)
    except (bench_pool.TaskError, bench_pool.ChildDiedError, bench_pool.ChildTimeoutError) as error:
        raise app.UsageError(f"--device={_DEVICE.value}: {error}") from error
    environment = benchmark_pb2.Environment.FromString(described)
    devices = bench_devices.expand(_DEVICE.value, environment)
    first.replace()  # it may have touched each of them
    workers = [
        bench_run.Worker(device=device, index=index, pool=make_pool() if index else first)
        for index, device in enumerate(devices)
    ]
    command.say(f"measuring on {environment.device_name} ({', '.join(devices)})")
    units = bench_plan.units(cases, choice, environment)
    rows = {unit.key[:2] for unit in units}
    records: list[Record] = []
    began = time.monotonic()
    with _writer(bench_header.header(environment, plugins, choice.shard), "tileops-run.binpb") as writer:
        outcomes = bench_files.recorded(writer)
        to_do = bench_files.to_do([unit.key for unit in units], outcomes)
        units = [unit for unit in units if unit.key in to_do]
        if outcomes and environment.device_kind == "cpu":
            units = bench_plan.served(units)
        try:
            with bench_progress.bar(len(units)) as progress:
                ended = bench_run.run(
                    units, workers, _ROW_TIMEOUT_S.value, begin=lambda unit: progress.begin(" ".join(unit.key))
                )
                for unit, record in ended:
                    if record is not None:
                        if not _SAMPLES.value and record.HasField("timing"):  # asking for an absent one makes it
                            record.timing.ClearField("sample_ns")
                        writer.write(record)
                        records.append(record)
                        outcomes[unit.key] = record.status
                    is_counted = record is not None  # the summary counts records, too
                    progress.end(is_counted and record.status in bench_run.FAILED, is_counted)
        except KeyboardInterrupt:
            writer.interrupt()
            command.say(f"interrupted; {writer.path} holds {writer.counts.records} records, --resume continues it")
            return _EXIT_INTERRUPTED
        except bench_pool.RunEndedError as error:
            writer.interrupt()
            command.say(
                f"{error}; {writer.path} holds {reader.records_counted(writer.counts.records)}: begin another run, or put"
                " the file back and continue this one with --resume"
            )
            return command.EXIT_FOUND
    command.say(f"took {time.monotonic() - began:.0f} s")
    is_idle = say_unserved(writer.path, rows)
    status = bench_ending.finish(writer.path, records, outcomes, choice.shard)
    return command.EXIT_FOUND if is_idle else status


def _writer(header: benchmark_pb2.RunHeader, default: str) -> run_writer.RunWriter:
    return bench_files.writer(paths.user_path(_OUT.value or default), header, resume=_RESUME.value)


if __name__ == "__main__":
    command.run(main)
