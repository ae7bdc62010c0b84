"""Child processes from the parent's side: one at a time, replaced when it dies, hangs or is used up."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
from collections.abc import Iterator
from multiprocessing import forkserver, resource_tracker
from typing import Any

from tileops.perf import bench_catalogue, bench_worker
from tileops.perf.clock.measurement import Budget

# Modules that the server imports once for all children. None of them touches a GPU.
_PRELOADED = ["tileops.perf.bench_server", "torch", "tileops.perf.bench_worker"]
# How long a child may take to vanish; one stuck in a driver call can take forever. Seconds.
_BURIAL_S = 10.0


class ChildDiedError(Exception):
    """The child ended without an answer; the message says how."""


class TaskError(Exception):
    """The child could not take the task up; the message says why."""


class ChildTimeoutError(Exception):
    """The child gave no answer in time and was killed."""


class Pool:
    """At most one live child; `ask` starts it when there is none."""

    def __init__(self, sources: bench_catalogue.Sources, budget: Budget | None = None) -> None:
        """Args are handed to every child; `budget` None is the clock's default."""
        self._arguments = (sources, budget)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOADED)
        self._process: Any = None
        self._connection: Any = None
        self._is_busy = False

    def ask(self, task: bench_worker.Describe | bench_worker.RunRow, timeout_s: float | None) -> bytes | None:
        """The answer's payload. Seconds; None waits for ever.

        Raises:
          ChildDiedError: it crashed, exited or was killed from outside.
          ChildTimeoutError: no answer within `timeout_s`.
          TaskError: it could not load the ops, or has no such device.
        """
        if self._process is None:
            self._start()
        try:
            self._is_busy = True
            self._connection.send(task)
            if not self._connection.poll(timeout_s):
                self.replace()
                raise ChildTimeoutError(f"no answer within {timeout_s:g} s")
            answer = self._connection.recv()
            self._is_busy = False
        except (EOFError, OSError) as error:
            raise ChildDiedError(self._bury()) from error
        if answer.is_broken:
            self.replace()
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
            target=bench_worker.serve, args=(theirs, *self._arguments), name="tileops-bench-row", daemon=True
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
        for number in came:
            signal.raise_signal(number)


@contextlib.contextmanager
def pool(sources: bench_catalogue.Sources, budget: Budget | None = None) -> Iterator[Pool]:
    """A pool whose child does not outlive the block."""
    made = Pool(sources, budget)
    try:
        yield made
    finally:
        made.replace()
