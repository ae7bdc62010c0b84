"""Child processes as the parent sees them. A child that dies, hangs or is used up is replaced."""

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

# The server imports these modules once for all children. None of them touches a GPU.
_PRELOADED = ["tileops.perf.harness.server", "torch", "tileops.perf.harness.worker"]
# How long to wait for the end of a child, which never comes if it is stuck in a driver call. Seconds.
_BURIAL_S = 10.0


class ChildDiedError(Exception):
    """The child ended without an answer; the message says how."""


class TaskError(Exception):
    """The child could not do the task, or its answer cannot be trusted; the message says why."""


class RunEndedError(Exception):
    """No child of this run can do a task any more; the message says why."""


class ChildTimeoutError(Exception):
    """The child gave no answer in time and was killed."""


class Pool:
    """Has at most one live child. A task starts a child if there is none."""

    def __init__(self, sources: catalogue.Sources, budget: Budget | None = None) -> None:
        """Every child gets these arguments; `budget` None is the clock's default."""
        self._arguments = (sources, budget)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOADED)
        self._process: Any = None
        self._connection: Any = None
        self._is_busy = False
        self._timeout_s: float | None = None
        self._deadline = math.inf

    def ask(self, task: worker.Describe | worker.RunRow | worker.TryLibrary, timeout_s: float | None) -> bytes | None:
        """Waits for the answer and returns its payload. Raises as `answer` does."""
        self.begin(task, timeout_s)
        while not wait([self]):
            pass
        return self.answer()

    def begin(self, task: worker.Describe | worker.RunRow | worker.TryLibrary, timeout_s: float | None) -> None:
        """Sends a task to the child, which must be idle. `wait` says when to call `answer`.

        Args:
          task: what to do.
          timeout_s: time limit. Seconds; None for no limit.

        Raises:
          ChildDiedError: no child could be started.
        """
        if self._process is None:
            try:
                self._start()
            except (EOFError, OSError) as error:  # such as when the server is killed meanwhile
                raise ChildDiedError(f"no process could be started: {type(error).__name__}: {error}") from error
        self._timeout_s = timeout_s
        self._deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        self._is_busy = True
        # If the child has died, `answer` says how.
        with contextlib.suppress(OSError):
            self._connection.send(task)

    def answer(self) -> bytes | None:
        """Returns the payload of the child's answer, after `wait` has returned this pool.

        Raises:
          ChildDiedError: the child crashed, exited or was killed.
          ChildTimeoutError: the child gave no answer in time.
          TaskError: the child could not load the ops, has no such device, or user code replaced something in it.
          RunEndedError: files that ops come from changed since the run began.
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
        """Ends the child if there is one. The next task gets a new child.

        An idle child ends when its connection closes, and cleans up (compilers' processes, a context on the device). A
        busy child is killed.
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
        # An interrupt in between would leave a child that this pool does not know and so does not end.
        with _interrupts_deferred():
            try:
                process.start()
            finally:
                theirs.close()
            self._process, self._connection = process, ours

    def _bury(self) -> str:
        """Returns in words how the child ended."""
        self._process.join(_BURIAL_S)
        code = self._process.exitcode
        self.replace()
        if code is None:
            return "the process stopped answering"
        if code < 0:
            name = signal.Signals(-code).name
            hint = " (the system does so when memory runs out)" if -code == signal.SIGKILL else ""
            return f"the process was killed by {name}{hint}"
        return f"the process exited with status {code}"


def wait(pools: Sequence[Pool]) -> list[Pool]:
    """Waits for busy pools; returns those whose child has answered, died or run out of time.

    It may return an empty list.
    """
    left_s = min(pool._deadline for pool in pools) - time.monotonic()
    ready = connection.wait([pool._connection for pool in pools], None if math.isinf(left_s) else max(0.0, left_s))
    now = time.monotonic()
    return [pool for pool in pools if pool._connection in ready or pool._deadline <= now]


def _start_server() -> None:
    """Starts the server from which children are forked, if it is not running. It ignores Ctrl-C: the parent answers it.

    Otherwise Ctrl-C would interrupt the server while it imports torch, and a child before it serves. Children inherit
    the signal mask.
    """
    resource_tracker.ensure_running()  # first, since it takes SIGINT out of the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Delivers Ctrl-C and SIGTERM of the block at its end, once each.

    Only the main thread gets signals, so other threads have nothing to defer.
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
    """Yields a pool whose child ends with the block."""
    made = Pool(sources, budget)
    try:
        yield made
    finally:
        made.replace()
