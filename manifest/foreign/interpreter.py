"""Runs formulas of another package in a Python interpreter of their own.

Example: `--root=acme=/src` and `func: acme._costs.price`. The first question about a function of `acme` starts a child
process, in which /src comes first on the import path. It imports acme._costs, prices one call after another, and ends with
this process. A child that hangs or dies costs the call that it was pricing; the next question starts another.
"""

from __future__ import annotations

import atexit
import json
import os
import pathlib
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

# Time limits of one import and of one price. Seconds.
IMPORT_TIMEOUT_S = 120.0
PRICE_TIMEOUT_S = 30.0

_SERVER = pathlib.Path(__file__).absolute().with_name("server.py")  # it reads no other file of this project
_HEAD = struct.Struct(">Q")
_CHUNK = 1 << 20

Answer = dict[str, Any]


class FormulaFailedError(Exception):
    """A formula gave no price; the message names the function and says why."""


class FormulaUnavailableError(FormulaFailedError):
    """A formula asked for a fact that does not exist, such as contents of a tensor on meta."""


class Interpreter:
    """The interpreter of one package. It is started when it is first asked, and again if it ended.

    Threads may share it. A process that was forked from one with a child starts a child of its own.
    """

    def __init__(self, folder: str) -> None:
        """Makes the packages of the folder importable there; starts nothing."""
        self._folder = folder
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._loaded: set[str] = set()  # the modules that the child has imported
        self._broken: dict[
            str, str
        ] = {}  # of each module that ended a child or kept it busy, why; it is not tried again
        atexit.register(self.close)

    def problem(self, path: str) -> str:
        """Returns why a dotted path names no formula of the package, or ""."""
        module = path.rpartition(".")[0]
        with self._lock:
            if module in self._broken:
                return self._broken[module]
            what = f"{module} cannot be imported: the import"
            try:
                found = str(self._ask(what, {"do": "check", "path": path}, IMPORT_TIMEOUT_S, None)["problem"])
            except FormulaFailedError as error:
                return self._broken.setdefault(module, str(error))
            if not found:  # what is wrong may be of the whole module, and then of its other functions too
                self._loaded.add(module)
            return found

    def price(self, path: str, call: Answer, answer: Callable[[Answer], Answer]) -> tuple[int, int]:
        """Returns (flops, bytes) of a call by the function of a dotted path.

        Args:
          path: the function.
          call: the call, as server.Call takes it.
          answer: answers a question that the function asks about the call.

        Raises:
          FormulaUnavailableError: the function needs a fact that does not exist.
          FormulaFailedError: the function raises, ends the interpreter, does not return in time, or gives no two ints.
        """
        with self._lock:
            self._start()
            if path.rpartition(".")[0] not in self._loaded and (problem := self.problem(path)):
                raise FormulaFailedError(f"{path} cannot be used: {problem}")
            found = self._ask(path, {"do": "price", "path": path, "call": call}, PRICE_TIMEOUT_S, answer)
        if "unavailable" in found:
            raise FormulaUnavailableError(f"{path}: {found['unavailable']}")
        if "problem" in found:
            raise FormulaFailedError(f"{path} {found['problem']}")
        flops, nbytes = found["price"]
        return flops, nbytes

    def close(self) -> None:
        """Ends the child, if there is one."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was not written yet goes nowhere
                    continue

    def _ask(self, what: str, request: Answer, timeout_s: float, answer: Callable[[Answer], Answer] | None) -> Answer:
        """Returns the child's reply. Whatever goes wrong meanwhile, Ctrl-C included, ends the child.

        Args:
          what: what the child does, at the head of messages.
          request: what it is asked.
          timeout_s: time limit. Seconds.
          answer: answers the child's own questions; None if it asks none.
        """
        try:
            self._start()
            deadline = time.monotonic() + timeout_s
            self._send(request)
            while True:
                reply = self._receive(deadline)
                if answer is None or "ask" not in reply:
                    return reply
                asked = time.monotonic()
                self._send(answer(reply))
                deadline += time.monotonic() - asked  # the parent's own time does not count
        except (EOFError, BrokenPipeError):
            raise FormulaFailedError(f"{what} ended its interpreter, with {self._status()}") from None
        except TimeoutError:
            self.close()
            raise FormulaFailedError(
                f"{what} did not return within {timeout_s:g} s; its interpreter was ended"
            ) from None
        except BaseException:
            self.close()
            raise

    def _status(self) -> str:
        """Returns how the child ended, and puts it away."""
        process = self._process
        status = None if process is None else process.wait()
        self.close()
        return f"signal {-status}" if status is not None and status < 0 else f"status {status}"

    def _start(self) -> None:
        """Starts the child unless one of this process is alive."""
        if self._process is not None and self._owner == os.getpid() and self._process.poll() is None:
            return
        self.close()
        self._loaded.clear()
        self._owner = os.getpid()
        # Python's own options: no site of the user, no variables such as PYTHONPATH, no .pyc files in others' folders.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-u", str(_SERVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal reaches this process alone
        )
        self._send({"folder": self._folder, "path": _import_path(), "parent": os.getpid()})
        self._receive(time.monotonic() + IMPORT_TIMEOUT_S)

    def _send(self, message: Answer) -> None:
        process = self._process
        if process is None or process.stdin is None:
            raise EOFError
        text = json.dumps(message).encode()
        process.stdin.write(_HEAD.pack(len(text)) + text)
        process.stdin.flush()

    def _receive(self, deadline: float) -> Answer:
        """Returns the child's next message. Raises EOFError if the child ended, TimeoutError after the deadline."""
        (length,) = _HEAD.unpack(self._read(_HEAD.size, deadline))
        found: Answer = json.loads(self._read(length, deadline))
        return found

    def _read(self, length: int, deadline: float) -> bytes:
        process = self._process
        if process is None or process.stdout is None:
            raise EOFError
        descriptor, parts, left = process.stdout.fileno(), [], length
        while left:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not select.select([descriptor], [], [], remaining)[0]:
                raise TimeoutError
            part = os.read(descriptor, min(left, _CHUNK))
            if not part:
                raise EOFError
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


def _import_path() -> list[str]:
    """Returns the folders of installed packages, in which formulas may find NumPy; never this project's own folder."""
    return [entry for entry in sys.path if entry and not os.path.isdir(os.path.join(entry, "tileops"))]
