"""One command of the bench, from checked flags to exit status: it lists, prices or measures rows.

perf/bench.py reads the flags and imports this module only when it needs the ops, which import torch for seconds.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import pathlib
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from tileops.ops import emitting
from tileops.ops.implementations import Implementation
from tileops.perf.harness import baselines, catalogue, devices, environment, files, plan, pool, records, run
from tileops.perf.harness import rows as bench_rows
from tileops.perf.harness import worker as bench_worker
from tileops.perf.runs import writer as run_writer
from tileops.proto import benchmark_pb2
from tileops.tools.cli import command, errors, paths, progress, words

Record = benchmark_pb2.BenchmarkRecord

# The report of a priced run is suggested for this device, since its profile is calibrated.
_PREDICTED_DEVICE = "NVIDIA H200"
_DESCRIBE_TIMEOUT_S = 120.0
# Some libraries compile code when they are imported.
_LIBRARY_TIMEOUT_S = 300.0


class RequestError(errors.UserError):
    """The flags ask for something that the bench cannot do; the message names the flag."""

    has_lines = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What the flags ask for.

    Attributes:
      device: --device.
      selection: which rows.
      listed_by: the command that lists the rows of the same ops, for messages.
      choice: what to do with the rows.
      plugins: --plugin, as imported.
      plugin_names: --plugin, as the user wrote them, in the same order.
      libraries: --baselines.
      spec_dirs: --spec_dir.
      generated_dir: --generated_dir; None without.
      roots: package and folder of each --root.
      out: --out; None for the default.
      resume, samples, reproducible: the flags of these names.
      lists_only: --list.
    """

    device: str
    selection: bench_rows.Selection
    listed_by: str
    choice: plan.Choice
    out: str
    plugins: tuple[str, ...] = ()
    plugin_names: Sequence[str] = ()
    libraries: tuple[baselines.Library, ...] = ()
    spec_dirs: Sequence[str] = ()
    generated_dir: str | None = None
    roots: tuple[tuple[str, str], ...] = ()
    resume: bool = False
    samples: bool = True
    reproducible: bool = False
    lists_only: bool = False


def perform(request: Request) -> int:
    """Does what the flags ask for; returns the exit status.

    Raises:
      UserError: the flags ask for something that is not there, or the ops cannot be loaded.
    """
    choice = request.choice
    with _sources(request) as sources:
        brought: dict[plan.Name, str] = {}
        sources, said = _with_libraries(sources, request.libraries)
        classes = catalogue.load(sources, on_idle=_say_idle, brought=brought)
        libraries = {key: library.name for key, plugin in brought.items() if (library := sources.library(plugin))}
        plugins, watched = environment.plugins(
            sources, request.plugin_names, request.spec_dirs, [op_class.FUNC for op_class in classes.values()]
        )
        sources = dataclasses.replace(sources, plugin_files=watched)
        cases = bench_rows.select(classes, request.selection, request.listed_by)
        op_classes = dict.fromkeys(op_class for op_class, _ in cases)
        bench_rows.check_implementations(op_classes, choice.implementations, request.listed_by)
        asked = plan.asked(op_classes, choice.implementations, brought)
        if request.lists_only:
            return _list(request, cases, asked, brought, libraries)
        if request.device == "meta":
            return _price(request, plan.part(cases, choice), plugins)
        with contextlib.ExitStack() as pools:
            return _measure(
                request,
                cases,
                plugins,
                said,
                libraries,
                lambda: pools.enter_context(pool.pool(sources)),
                lambda path, rows: _say_unserved(
                    asked, files.served(path, rows), rows, cases, brought, choice, libraries
                ),
            )


@contextlib.contextmanager
def _sources(request: Request) -> Iterator[catalogue.Sources]:
    """Yields where the ops come from; modules emitted from --spec_dir exist during the block."""
    if not request.spec_dirs:
        generated = None if request.generated_dir is None else str(paths.user_path(request.generated_dir))
        yield catalogue.Sources(generated_dir=generated, roots=request.roots, plugins=request.plugins)
        return
    with tempfile.TemporaryDirectory(prefix="tileops-generated-") as folder:
        spec_dirs = [paths.user_path(spec_dir) for spec_dir in request.spec_dirs]
        emitting.emit(spec_dirs, pathlib.Path(folder), dict(request.roots))
        yield catalogue.Sources(generated_dir=folder, roots=request.roots, plugins=request.plugins)


def _with_libraries(
    sources: catalogue.Sources, asked: Sequence[baselines.Library]
) -> tuple[catalogue.Sources, list[benchmark_pb2.Baseline]]:
    """Returns the sources with the libraries that can be loaded, and what the header says of all of them. Says both.

    Each library is loaded in a process of its own first, so that one that fails, crashes or hangs leaves nothing here.
    """
    loaded, said = [], []
    for library in asked:
        version = library.version()
        reason = f"{library.package} is not installed" if version is None else _refusal(sources, library)
        said.append(
            benchmark_pb2.Baseline(
                library=library.name, package=library.package, version=version or "", skipped=" ".join(reason.split())
            )
        )
        if reason:
            command.say(f"{library.flag}: skipped: {said[-1].skipped}")
        else:
            loaded.append(library)
            command.say(f"{library.flag}: {library.package} {version}")
    return dataclasses.replace(sources, libraries=tuple(loaded)), said


def _refusal(sources: catalogue.Sources, library: baselines.Library) -> str:
    """Returns why a library cannot be loaded; "" if it can."""
    # Without the user's plug-ins, whose errors are not the library's.
    alone = dataclasses.replace(sources, plugins=(), libraries=(library,))
    try:
        with pool.pool(alone) as tried:
            answer = tried.ask(bench_worker.TryLibrary(modules=library.modules), _LIBRARY_TIMEOUT_S)
    except (pool.TaskError, pool.ChildDiedError, pool.ChildTimeoutError) as error:
        return f"loading it failed: {error}"
    return (answer or b"").decode()


def _list(
    request: Request,
    cases: list[bench_rows.Case],
    asked: Mapping[plan.Name, Implementation],
    brought: Mapping[plan.Name, str],
    libraries: Collection[plan.Name],
) -> int:
    """Prints the rows of a run with their implementations; of those that the user asked for, only if they serve the row."""
    choice, kind = request.choice, environment.kind(request.device)
    listed = plan.part(cases, choice) if choice.rows is None else plan.rows(cases, choice, kind)
    served = set()
    for op_class, case in listed:
        names = bench_rows.implementations(op_class, choice.implementations)
        if any((op_class.ENTRY, name) in asked for name in names) and kind != "meta":
            serving = plan.serving(op_class, case, kind)
            names = tuple(name for name in names if name in serving)
            served |= {(op_class.ENTRY, name) for name in names}
        print(op_class.ENTRY, case.case_id, ",".join(names), sep="\t")
    if kind != "meta":  # a price belongs to no implementation
        rows = [(op_class.ENTRY, case.case_id) for op_class, case in listed]
        _say_unserved(asked, served, rows, cases, brought, choice, libraries)
    return command.EXIT_OK


def _say_unserved(
    asked: Mapping[plan.Name, Implementation],
    served: Collection[plan.Name],
    rows: Collection[tuple[str, str]],
    cases: Collection[bench_rows.Case],
    brought: Mapping[plan.Name, str],
    choice: plan.Choice,
    libraries: Collection[plan.Name],
) -> bool:
    """Says which implementations the user asked for and that serve none of `rows`, and which plug-ins are left out.

    Args:
      asked: the result of `plan.asked`.
      served: op and name of each implementation that serves a row.
      rows: op and case of each row of this shard.
      cases: the selected rows of all shards.
      brought: the plug-in by op and name of each implementation that a plug-in registered.
      choice: what to do with the rows.
      libraries: op and name of each implementation of a library. Libraries serve few ops, so only those that
        --implementation names are missed.

    Returns:
      Whether a plug-in serves no row at all; False for one shard of several, since others have other rows.
    """
    counts = collections.Counter(op for op, _ in rows)
    expected = {key for key in asked if key not in libraries or key[1] in choice.implementations}
    here = {key: each for key, each in asked.items() if key[0] in counts and key in expected}
    brought = {key: plugin for key, plugin in brought.items() if key not in libraries}
    named = plan.named(brought, choice.implementations)
    for plugin in plan.idle_plugins(named, brought):
        command.say(f"--implementation leaves out all that --plugin={plugin} registers")
    ops = {op_class.ENTRY for op_class, _ in cases}
    for line in (*plan.of_other_ops(named, ops), *plan.unserved(here, served, counts, brought)):
        command.say(line)
    return choice.shard.count == 1 and bool(plan.idle_plugins(served, named))


def _say_idle(flag: str) -> None:
    command.say(
        f"{flag}: registers no implementation of an op of this run. Register one by a line such as"
        ' catalogue.load()["RMSNormFwdOp"].register("mine", function)'
    )


def _price(request: Request, cases: list[bench_rows.Case], plugins: Sequence[benchmark_pb2.Plugin]) -> int:
    if request.choice.rows == "quick":
        raise RequestError("--rows=quick: not with --device=meta, which prices all rows in seconds")
    shard = request.choice.shard
    described = environment.describe_prices(request.reproducible)
    header = environment.header(described, plugins, shard, request.reproducible)
    priced = []
    with _writer(request, header) as writer:
        outcomes = files.recorded(writer)
        to_do = files.to_do([(op_class.ENTRY, case.case_id, "") for op_class, case in cases], outcomes)
        cases = [(op_class, case) for op_class, case in cases if (op_class.ENTRY, case.case_id, "") in to_do]
        files.say_resumed(outcomes, len(cases))
        with progress.bar(len(cases)) as shown:
            for op_class, case in cases:
                shown.begin(f"{op_class.ENTRY} {case.case_id}")
                record = records.price_case(op_class, case)
                writer.write(record)
                priced.append(record)
                outcomes[record.op, record.case_id, ""] = record.status
                shown.end(record.status in records.FAILED)
    return files.finish(writer.path, priced, outcomes, shard, f' --predict --profile="{_PREDICTED_DEVICE}"')


def _measure(
    request: Request,
    cases: list[bench_rows.Case],
    plugins: Sequence[benchmark_pb2.Plugin],
    said: Sequence[benchmark_pb2.Baseline],
    libraries: Mapping[plan.Name, str],
    make_pool: Callable[[], pool.Pool],
    say_unserved: Callable[[pathlib.Path, set[tuple[str, str]]], bool],
) -> int:
    choice = request.choice
    # A child answers: this process and the server from which children are forked touch no GPU.
    first = make_pool()
    try:
        described = first.ask(bench_worker.Describe(device=request.device), _DESCRIBE_TIMEOUT_S)
    except (pool.TaskError, pool.ChildDiedError, pool.ChildTimeoutError) as error:
        raise RequestError(f"--device={request.device}: {error}") from error
    machine = benchmark_pb2.Environment.FromString(described)
    names = devices.expand(request.device, machine)
    first.replace()  # it may have touched every GPU
    workers = [
        run.Worker(device=name, index=index, pool=make_pool() if index else first) for index, name in enumerate(names)
    ]
    command.say(f"measuring on {machine.device_name} ({', '.join(names)})")
    units = plan.units(cases, choice, machine)
    rows = {unit.key[:2] for unit in units}
    measured: list[Record] = []
    began = time.monotonic()
    with _writer(request, environment.header(machine, plugins, choice.shard, libraries=said)) as writer:
        outcomes = files.recorded(writer)
        to_do = files.to_do([unit.key for unit in units], outcomes)
        units = [unit for unit in units if unit.key in to_do]
        if outcomes and machine.device_kind == "cpu":
            units = plan.served(units)
        files.say_resumed(outcomes, len(units))
        try:
            with progress.bar(len(units)) as shown:
                ended = run.run(
                    units, workers, choice.row_timeout_s, begin=lambda unit: shown.begin(" ".join(unit.key))
                )
                for unit, record in ended:
                    if record is not None:
                        record.library = libraries.get((unit.op_class.ENTRY, unit.implementation), "")
                        if not request.samples and record.HasField("timing"):  # reading an absent field would add it
                            record.timing.ClearField("sample_ns")
                        writer.write(record)
                        measured.append(record)
                        outcomes[unit.key] = record.status
                    is_counted = record is not None  # the summary counts records too
                    shown.end(record is not None and record.status in records.FAILED, is_counted)
        except KeyboardInterrupt:
            writer.interrupt()
            held = words.counted(writer.counts.records, "record")
            command.say(f"interrupted; {writer.path} holds {held}, --resume continues it")
            return command.EXIT_INTERRUPTED
        except pool.RunEndedError as error:
            writer.interrupt()
            held = words.counted(writer.counts.records, "record")
            command.say(
                f"{error}; {writer.path} has {held}: start a new run, or restore the file and continue this run with"
                " --resume"
            )
            return command.EXIT_FOUND
    command.say(f"took {time.monotonic() - began:.0f} s")
    is_idle = say_unserved(writer.path, rows)
    status = files.finish(writer.path, measured, outcomes, choice.shard)
    return command.EXIT_FOUND if is_idle else status


def _writer(request: Request, header: benchmark_pb2.RunHeader) -> run_writer.RunWriter:
    return files.writer(paths.user_path(request.out), header, resume=request.resume)
