"""Child processes from the parent's side: each replaced when it dies, hangs or is used up."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing import connection, forkserver, resource_tracker
from typing import Any

from tileops.perf.clock.measurement import Budget
from tileops.perf.harness import catalogue, worker

# Modules that the server imports once for all children. None of them touches a GPU.
_PRELOADED = ["tileops.perf.harness.server", "torch", "tileops.perf.harness.worker"]
# How long a child may take to vanish; one stuck in a driver call can take forever. Seconds.
_BURIAL_S = 10.0


class ChildDiedError(Exception):
    """The child ended without an answer; the message says how."""


class TaskError(Exception):
    """The child could not take the task up, or is not to be believed; the message says why."""


class RunEndedError(Exception):
    """No child of this run can take up a task any more; the message says why."""


class ChildTimeoutError(Exception):
    """The child gave no answer in time and was killed."""


class Pool:
    """At most one live child; a task starts it when there is none."""

    def __init__(self, sources: catalogue.Sources, budget: Budget | None = None) -> None:
        """Args are handed to every child; `budget` None is the clock's default."""
        self._arguments = (sources, budget)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOADED)
        self._process: Any = None
        self._connection: Any = None
        self._is_busy = False
        self._timeout_s: float | None = None
        self._deadline = math.inf

    def ask(self, task: worker.Describe | worker.RunRow, timeout_s: float | None) -> bytes | None:
        """The answer's payload, waited for. Raises as `answer` does."""
        self.begin(task, timeout_s)
        while not wait([self]):
            pass
        return self.answer()

    def begin(self, task: worker.Describe | worker.RunRow, timeout_s: float | None) -> None:
        """Hand a task to the child, which must be idle; `wait` says when to ask for its `answer`.

        Args:
          task: what to do.
          timeout_s: how long it may take. Seconds; None waits for ever.

        Raises:
          ChildDiedError: no child could be started.
        """
        if self._process is None:
            try:
                self._start()
            except (EOFError, OSError) as error:  # as where the server is killed while it starts one
                raise ChildDiedError(f"no process could be started: {type(error).__name__}: {error}") from error
        self._timeout_s = timeout_s
        self._deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        self._is_busy = True
        # A child that has died closes its end: `answer` finds that out too, and says how it died.
        with contextlib.suppress(OSError):
            self._connection.send(task)

    def answer(self) -> bytes | None:
        """The payload of the child's answer, once `wait` has named this pool.

        Raises:
          ChildDiedError: it crashed, exited or was killed from outside.
          ChildTimeoutError: it gave no answer in time.
          TaskError: it could not load the ops, has no such device, or something in it was replaced.
          RunEndedError: the files that ops come from are not what they were when the run began.
        """
        try:
            if not self._connection.poll():
                self.replace()
                raise ChildTimeoutError(f"no answer within {self._timeout_s:g} s")
            answer = self._connection.recv()
            self._is_busy = False
        except (EOFError, OSError) as error:
            raise ChildDiedError(self._bury()) from error
        if answer.is_broken:
            self.replace()
        if answer.ends_run:
            raise RunEndedError(answer.complaint)
        if answer.complaint:
            raise TaskError(answer.complaint)
        return answer.payload

    def replace(self) -> None:
        """End the child, if there is one; the next task gets a new one.

        An idle child ends by itself once its connection is closed, and puts away what it made (compilers' processes,
        a context on the device); a busy one is killed.
        """
        if self._process is None:
            return
        self._connection.close()
        if not self._is_busy:
            self._process.join(_BURIAL_S)
        self._process.kill()
        self._process.join(_BURIAL_S)
        self._process = self._connection = None
        self._is_busy = False

    def _start(self) -> None:
        _start_server()
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=worker.serve, args=(theirs, *self._arguments), name="tileops-bench-row", daemon=True
        )
        # A child whose arguments break off says so itself, with a traceback; one that is not known here is not ended.
        with _interrupts_deferred():
            try:
                process.start()
            finally:
                theirs.close()
            self._process, self._connection = process, ours

    def _bury(self) -> str:
        """How the child ended, in words."""
        self._process.join(_BURIAL_S)
        code = self._process.exitcode
        self.replace()
        if code is None:
            return "the process stopped answering"
        if code < 0:
            name = signal.Signals(-code).name
            hint = " (the system kills so when memory runs out)" if -code == signal.SIGKILL else ""
            return f"the process was killed by {name}{hint}"
        return f"the process exited with status {code}"


def wait(pools: Sequence[Pool]) -> list[Pool]:
    """Those of `pools`, all of them busy, that have an answer, have died or are out of time.

    Blocks until there is one, or nearly so: it may come back with none.
    """
    left_s = min(pool._deadline for pool in pools) - time.monotonic()
    ready = connection.wait([pool._connection for pool in pools], None if math.isinf(left_s) else max(0.0, left_s))
    now = time.monotonic()
    return [pool for pool in pools if pool._connection in ready or pool._deadline <= now]


def _start_server() -> None:
    """Start what children are forked from, if it is not there, deaf to Ctrl-C as they are: the parent answers it.

    It would otherwise be interrupted while it imports torch, and a child before it comes to serve. Children inherit
    the mask.
    """
    resource_tracker.ensure_running()  # before: it sets the mask too, and takes SIGINT out of it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM that come during the block arrive at its end: the handlers see them then, once each.

    Only the main thread hears signals, and only it may ask for this; elsewhere nothing has to be deferred.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: dict[int, None] = {}
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heard = [number for number, handler in before.items() if callable(handler)]
    for number in heard:
        signal.signal(number, lambda number, frame: came.setdefault(number))
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
        for late in came:
            signal.raise_signal(late)


@contextlib.contextmanager
def pool(sources: catalogue.Sources, budget: Budget | None = None) -> Iterator[Pool]:
    """A pool whose child does not outlive the block."""
    made = Pool(sources, budget)
    try:
        yield made
    finally:
        made.replace()
