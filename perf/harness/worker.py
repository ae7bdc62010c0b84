"""The child process in which ops run. It takes tasks over a connection and answers each, until the connection closes.

It is forked from a server that has imported torch and touched no GPU. A crash, an illegal access or a hang costs the
parent one row and a new process.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import signal
import sys
from multiprocessing.connection import Connection

import torch

from tileops.perf.clock.measurement import Budget
from tileops.perf.harness import catalogue, environment, errors, fingerprint, records, timing
from tileops.perf.harness import settings as bench_settings
from tileops.proto import benchmark_pb2

# torch has no exception type for this: its CPU allocator raises a RuntimeError whose message has this name.
_CPU_OUT_OF_MEMORY = "DefaultCPUAllocator"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Describe:
    """A task: describe this machine. The answer is an Environment as bytes."""

    device: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunRow:
    """A task: check and time one implementation on one case. The answer is a BenchmarkRecord as bytes.

    Attributes:
      op, case_id: the row.
      implementation: its name.
      device: "cuda:N" or "cpu".
    """

    op: str
    case_id: str
    implementation: str
    device: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class TryLibrary:
    """A task: load the libraries of the process's sources. The answer says as UTF-8 why they cannot be used, or nothing.

    Attributes:
      modules: what their functions import later.
    """

    modules: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """The outcome of a task.

    Attributes:
      payload: the serialized message; None if the implementation does not serve the row.
      is_broken: whether this process must run nothing more, since an error may have changed it.
      complaint: why this process can give no record (ops that cannot be loaded, a missing device, code that changed the
        bench); "" if it can.
      ends_run: whether all later processes would give the same complaint.
    """

    payload: bytes | None
    is_broken: bool = False
    complaint: str = ""
    ends_run: bool = False


def serve(connection: Connection, sources: catalogue.Sources, budget: Budget | None) -> None:
    """Answers tasks until the connection closes. Output of ops goes to stderr: stdout has the command's data."""
    # Not at the top: importing the module ties the process to its parent, which only a child wants.
    from tileops.perf.harness import server

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    server.follow()  # a hang must not outlive the run
    sys.stdout.flush()
    os.dup2(2, 1)
    worker, own = _Worker(sources, budget), os.getpid()
    os.register_at_fork(after_in_child=connection.close)  # a copy that lives on would hide that this process died
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        try:
            answer = worker.answer(task)
        except catalogue.SourceChangedError as error:
            answer = Answer(payload=None, is_broken=True, complaint=str(error), ends_run=True)
        except Exception as error:
            answer = Answer(payload=None, is_broken=True, complaint=errors.describe(error))
        if os.getpid() != own:  # the task's code forked: this copy must neither answer nor take the next task
            os._exit(0)
        connection.send(answer)
        if answer.is_broken:
            return


class _Worker:
    def __init__(self, sources: catalogue.Sources, budget: Budget | None) -> None:
        self._sources, self._budget = sources, budget
        self._classes: dict | None = None
        self._libraries: set[tuple[str, str]] = set()
        self._guards: dict[str, fingerprint.Guard] = {}
        self._row: timing.Row | None = None

    def answer(self, task: Describe | RunRow | TryLibrary) -> Answer:
        if isinstance(task, Describe):
            return Answer(payload=environment.describe(task.device).SerializeToString())
        if isinstance(task, TryLibrary):
            return Answer(payload=_refusal(self._sources, task.modules).encode(), is_broken=True)
        if task.device.startswith("cuda"):
            torch.cuda.set_device(task.device)  # launchers of kernels use the current device, not that of their tensors
        if self._classes is None:
            brought: dict[tuple[str, str], str] = {}
            self._classes = catalogue.load(self._sources, brought=brought)
            self._libraries = {key for key, plugin in brought.items() if self._sources.library(plugin) is not None}
        op_class = self._classes[task.op]
        case = next(case for case in op_class.CASES if case.case_id == task.case_id)
        if task.op not in self._guards:
            self._guards[task.op] = fingerprint.Guard([op_class])
        guard = self._guards[task.op]
        changed, describe = guard.changed, fingerprint.describe  # bound before code of the op runs
        is_broken, settings, threads = False, bench_settings.read(), bench_settings.alive()
        try:
            if self._row is None or (self._row.op_class, self._row.case) != (op_class, case):
                self._row = None  # frees the last row's tensors before the next one's are made
                libraries = frozenset(name for op, name in self._libraries if op == task.op)
                self._row = timing.Row(op_class, case, torch.device(task.device), guard, libraries)
            record = self._row.run(task.implementation, self._budget)
        except BaseException as error:  # an op may raise anything, SystemExit included; the run goes on
            self._row = None
            record = records.new_record(op_class, case, task.implementation)
            records.set_status(record, benchmark_pb2.STATUS_ERROR, _described(error))
        if names := changed():  # neither this outcome nor a later one in this process can be trusted
            return Answer(payload=None, is_broken=True, complaint=f"not timed: {describe(names)}")
        if not bench_settings.restore(settings) or bench_settings.busy(threads):
            is_broken = True  # the next task needs a process with the old settings and without other threads
        if record is not None and record.status == benchmark_pb2.STATUS_ERROR:
            is_broken = True  # what else the code did is unknown, and must not affect other implementations
        return Answer(payload=None if record is None else record.SerializeToString(), is_broken=is_broken)


def _refusal(sources: catalogue.Sources, modules: tuple[str, ...]) -> str:
    """Returns why the libraries of `sources` cannot be used; "" if they can."""
    try:
        catalogue.load(sources)
    except catalogue.CatalogueError as error:
        said = str(error)
        for library in sources.libraries:
            said = said.removeprefix(f"{library.flag}: ")
        return said
    for name in modules:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:
            return f"import {name}: {errors.describe(error)}"
    return ""


def _described(error: BaseException) -> str:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or _CPU_OUT_OF_MEMORY in str(error):
        return f"out of memory: {error}{errors.place(error)}"
    return errors.describe(error)
