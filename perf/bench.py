"""Runs workload rows and writes what they took to a run file (M4).

Without flags: all rows on the GPU, or where there is none the cheapest row of each op on the CPU. `--device=meta`
prices every row without a GPU. //perf:roofline reports the file. Exits 1 where a row failed, gave a wrong result or
timed out.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import pathlib
import re
import shlex
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence

# The status that shells give a program ended by Ctrl-C.
_EXIT_INTERRUPTED = 130


def _leave(number: int, frame: object) -> None:
    """Handles Ctrl-C where there is nothing to put away."""
    del number, frame
    os.write(2, b"bench: interrupted\n")
    os._exit(_EXIT_INTERRUPTED)


if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Here, before torch is imported: that takes seconds, and an exception in the midst of it can become any other.
    signal.signal(signal.SIGINT, _leave)

from absl import app, flags

from tileops.perf import (
    bench_catalogue,
    bench_emit,
    bench_environment,
    bench_limits,
    bench_pool,
    bench_pricing,
    bench_progress,
    bench_rows,
    bench_run,
    command,
    paths,
    run_writer,
    runfile,
)
from tileops.perf.bench_worker import Describe
from tileops.proto import benchmark_pb2

_DEVICE = flags.DEFINE_string(
    "device", "auto", "auto (the GPU if there is one, else the CPU), cuda, cuda:N, cpu, or meta (prices, no times)."
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
_SHARD = flags.DEFINE_string("shard", "1/1", "Part i of n of the rows, as in 2/4.")
_MAX_ROW_SECONDS = flags.DEFINE_float(
    "max_row_seconds", 5.0, "On the CPU, rows that are priced above this are skipped; 0 sets no limit.", lower_bound=0.0
)
_ROWS = flags.DEFINE_enum(
    "rows", None, ["all", "quick"], "quick: the cheapest row of each op. Default: quick on the CPU, else all."
)
_SAMPLES = flags.DEFINE_bool("samples", True, "Record every sample beside median and spread; --nosamples keeps runs small.")
_REPRODUCIBLE = flags.DEFINE_bool("reproducible", False, "Write nothing that differs between two runs (with meta).")
_LIST = flags.DEFINE_bool("list", False, "Print the rows and their implementations; run nothing.")

# The device whose ceilings a priced run is held against by way of example: its profile is calibrated.
_PREDICTED_DEVICE = "NVIDIA H200"
_DESCRIBE_TIMEOUT_S = 120.0


def main(argv: Sequence[str]) -> int:
    """Run what the flags say; returns the exit status."""
    del argv
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ending a run politely is ending it with Ctrl-C
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return _checked()
    except KeyboardInterrupt:
        command.say("interrupted")
        return _EXIT_INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the status is settled; the interpreter's own end is short


def _checked() -> int:
    """The run, where the flags are right."""
    if not re.fullmatch(r"auto|cpu|meta|cuda(:\d+)?", _DEVICE.value):
        raise app.UsageError(f"--device={_DEVICE.value}: auto, cuda, cuda:N, cpu or meta is wanted")
    if _REPRODUCIBLE.value and _DEVICE.value != "meta":
        raise app.UsageError("--reproducible needs --device=meta: times differ from run to run")
    try:
        with _sources() as sources:
            return _run(sources)
    except (
        bench_catalogue.CatalogueError, bench_emit.EmitError, bench_rows.SelectionError, runfile.RunFileError
    ) as error:  # fmt: skip
        *lines, last = str(error).splitlines()
        for line in lines:
            command.say(line)
        raise app.UsageError(last) from error


@contextlib.contextmanager
def _sources() -> Iterator[bench_catalogue.Sources]:
    """Where the ops come from; emitted modules live as long as the block."""
    if _SPEC_DIR.value and _GENERATED_DIR.value:
        raise app.UsageError("--spec_dir and --generated_dir exclude each other: the first is made into the second")
    plugins = tuple(_plugin(name) for name in _PLUGIN.value)
    if not _SPEC_DIR.value:
        generated = None if _GENERATED_DIR.value is None else str(paths.user_path(_GENERATED_DIR.value))
        yield bench_catalogue.Sources(generated_dir=generated, plugins=plugins)
        return
    with tempfile.TemporaryDirectory(prefix="tileops-generated-") as folder:
        bench_emit.emit([paths.user_path(spec_dir) for spec_dir in _SPEC_DIR.value], pathlib.Path(folder))
        yield bench_catalogue.Sources(generated_dir=folder, plugins=plugins)


def _plugin(name: str) -> str:
    """A file by its absolute path, since children stand elsewhere; a module by its name."""
    return str(paths.user_path(name).absolute()) if name.endswith(".py") else name


def _run(sources: bench_catalogue.Sources) -> int:
    classes = bench_catalogue.load(sources)
    selection = bench_rows.Selection(
        ops=_globs(_OP.value), families=_globs(_FAMILY.value), labels=_globs(_LABEL.value)
    )
    cases = bench_rows.select(classes, selection, bench_rows.parse_shard(_SHARD.value))
    bench_rows.check_implementations((op_class for op_class, _ in cases), _IMPLEMENTATION.value)
    if _LIST.value:
        for op_class, case in cases:
            names = bench_rows.implementations(op_class, _IMPLEMENTATION.value)
            print(op_class.ENTRY, case.case_id, ",".join(names), sep="\t")
        return command.EXIT_OK
    if _DEVICE.value == "meta":
        return _price(cases)
    with bench_pool.pool(sources) as pool:
        return _measure(cases, pool)


def _globs(values: list[str]) -> tuple[str, ...]:
    """The globs of a flag. An empty one stays: it fits nothing, which is said."""
    return tuple(glob.strip() for value in values for glob in value.split(","))


def _price(cases: list[bench_rows.Case]) -> int:
    if _ROWS.value == "quick":
        raise app.UsageError("--rows=quick is for measuring; --device=meta prices all rows in seconds")
    header = _header(bench_environment.describe_prices(_REPRODUCIBLE.value))
    records = []
    with _writer(header, "tileops-prices.binpb") as writer:
        outcomes = _recorded(writer)
        to_do = _to_do([(op_class.ENTRY, case.case_id, "") for op_class, case in cases], outcomes)
        cases = [(op_class, case) for op_class, case in cases if (op_class.ENTRY, case.case_id, "") in to_do]
        with bench_progress.bar(len(cases)) as advance:
            for record in bench_pricing.price_cases(cases):
                writer.write(record)
                records.append(record)
                outcomes[record.op, record.case_id, ""] = record.status
                advance(f"{record.op} {record.case_id}")
    status = _finish(writer.path, records, outcomes)
    _say_next(writer.path, f' --predict --profile="{_PREDICTED_DEVICE}"')
    return status


def _measure(cases: list[bench_rows.Case], pool: bench_pool.Pool) -> int:
    # Asked of a child: this process and the server that children are forked from touch no GPU.
    try:
        described = pool.ask(Describe(device=_DEVICE.value), _DESCRIBE_TIMEOUT_S)
    except (bench_pool.TaskError, bench_pool.ChildDiedError, bench_pool.ChildTimeoutError) as error:
        raise app.UsageError(f"--device={_DEVICE.value}: {error}") from error
    environment = benchmark_pb2.Environment.FromString(described)
    is_cpu = environment.device_kind == "cpu"
    device = _DEVICE.value if ":" in _DEVICE.value else "cpu" if is_cpu else f"{environment.device_kind}:0"
    command.say(f"measuring on {environment.device_name} ({device})")
    units = _units(cases, is_cpu)
    records: list[benchmark_pb2.BenchmarkRecord] = []
    began = time.monotonic()
    with _writer(_header(environment), "tileops-run.binpb") as writer:
        outcomes = _recorded(writer)
        to_do = _to_do([unit.key for unit in units], outcomes)
        units = [unit for unit in units if unit.key in to_do]
        try:
            with bench_progress.bar(len(units)) as advance:
                for unit, record in bench_run.run(units, pool, device, _ROW_TIMEOUT_S.value):
                    if record is not None:
                        if not _SAMPLES.value:
                            record.timing.ClearField("sample_ns")
                        writer.write(record)
                        records.append(record)
                        outcomes[unit.key] = record.status
                    advance(" ".join(unit.key))
        except KeyboardInterrupt:
            writer.interrupt()
            command.say(f"interrupted; {writer.path} holds {writer.counts.records} records, --resume continues it")
            return _EXIT_INTERRUPTED
    status = _finish(writer.path, records, outcomes)
    command.say(f"took {time.monotonic() - began:.0f} s")
    _say_next(writer.path)
    return status


def _say_next(path: pathlib.Path, flags: str = "") -> None:
    """Say how the run is reported: here, or from a zip where the repository is."""
    is_here = "BUILD_WORKING_DIRECTORY" in os.environ or pathlib.Path(__file__).absolute().parents[1].joinpath("bazelw").exists()
    command.say("report it with" if is_here else f"copy {path} to a machine with the repository, and report it there with")
    run = shlex.quote(str(path if is_here else path.name))
    command.say(f"  ./bazelw run //perf:roofline -- --run={run}{flags}")


def _units(cases: list[bench_rows.Case], is_cpu: bool) -> list[bench_run.Unit]:
    """What to run, priced, with the reason where a CPU cannot run it."""
    prices = {id(case): price for (_, case), price in zip(cases, bench_pricing.price_cases(cases), strict=True)}
    machine = bench_limits.this_machine()
    if (_ROWS.value or ("quick" if is_cpu else "all")) == "quick":
        cases = bench_rows.quick(cases, lambda row: bench_limits.estimate_s(prices[id(row[1])], row[1], machine))
    is_named = bench_rows.ALL not in _IMPLEMENTATION.value
    units = []
    for op_class, case in cases:
        price = prices[id(case)]
        skip = bench_limits.too_much(price, case, machine, _MAX_ROW_SECONDS.value) if is_cpu else None
        names = bench_rows.implementations(op_class, _IMPLEMENTATION.value)
        if not op_class.implementation_names():
            names, skip = ("",), "no implementation: bring one with --plugin"
        elif skip and not is_named:  # what would not have run is not skipped
            serving = bench_rows.serving(op_class, case, "cpu")
            names = [name for name in names if name in serving]
        units += [
            bench_run.Unit(
                op_class=op_class, case=case, implementation=name, price=price, skip=skip, is_named=is_named
            )
            for name in names
        ]
    return units


def _header(environment: benchmark_pb2.Environment) -> benchmark_pb2.RunHeader:
    header = benchmark_pb2.RunHeader(environment=environment)
    if not _REPRODUCIBLE.value:
        header.run_id = uuid.uuid4().hex
        header.started_at.GetCurrentTime()
        header.command_line.extend(sys.argv)
    return header


def _writer(header: benchmark_pb2.RunHeader, default: str) -> run_writer.RunWriter:
    path = paths.user_path(_OUT.value or default)
    if not _RESUME.value and path.is_file() and path.stat().st_size:
        _make_way(path)
    return run_writer.RunWriter(path, header, append=_RESUME.value)


def _make_way(path: pathlib.Path) -> None:
    """Keep measurements that a new run would overwrite, under a numbered name; prices are made again in seconds.

    Raises:
      app.UsageError: the file is none of this command's.
    """
    try:
        reader = runfile.read_run(path)
    except runfile.RunFileError:
        reader = None
    if reader is None or not reader.header.schema_version:  # which every writer sets
        raise app.UsageError(f"--out={path}: is there, and is no run file; it is not overwritten")
    if reader.header.environment.device_kind == "meta" or next(reader.records(), None) is None:
        return
    names = (path.with_name(f"{path.stem}.{number}{path.suffix}") for number in itertools.count(1))
    aside = next(name for name in names if not name.exists())
    try:
        path.rename(aside)
    except OSError as error:
        raise app.UsageError(f"cannot move the run in {path} aside to {aside}: {error.strerror}") from error
    command.say(f"the run that was in {path} is now {aside}")


def _recorded(writer: run_writer.RunWriter) -> dict[bench_run.Key, int]:
    """Status of each record that the file already holds; of several with one key the newest counts, as for readers."""
    if not writer.counts.records:
        return {}
    return {
        (found.op, found.case_id, found.implementation): found.status
        for found in runfile.read_run(writer.path).records()
    }


def _to_do(wanted: Iterable[bench_run.Key], outcomes: Mapping[bench_run.Key, int]) -> set[bench_run.Key]:
    """What has no record yet, or has failed: what was in its way may be gone."""
    failed = {key for key in wanted if outcomes.get(key) in bench_run.FAILED}
    if failed:
        command.say(f"retrying {len(failed)} that failed or timed out before")
    return failed | {key for key in wanted if key not in outcomes}


def _finish(
    path: pathlib.Path, records: list[benchmark_pb2.BenchmarkRecord], outcomes: Mapping[bench_run.Key, int]
) -> int:
    """Say what became of the rows; returns the exit status.

    Args:
      path: the run file.
      records: what this command measured or priced.
      outcomes: the last status of everything in the file.
    """
    for line in bench_run.summary(records):
        command.say(line)
    counts = collections.Counter(outcomes.values())
    command.say(
        f"{len(outcomes)} records: {counts[benchmark_pb2.STATUS_OK]} ok, {counts[benchmark_pb2.STATUS_SKIPPED]} skipped,"
        f" {counts[benchmark_pb2.STATUS_ERROR]} errors, {counts[benchmark_pb2.STATUS_TIMEOUT]} timeouts; written to {path}"
    )
    return command.EXIT_FOUND if any(counts[status] for status in bench_run.FAILED) else command.EXIT_OK


if __name__ == "__main__":
    command.run(main)
