"""The child's side of an interpreter for formulas of another package. It runs as a script and imports no module of ours.

The parent (interpreter.py) writes requests to stdin and reads answers from stdout: each is a length of 8 bytes and that
much JSON. While a formula runs, the child may ask the parent for what is costly to send: contents of metadata tensors,
and the calls of stages. What a formula prints goes to stderr.
"""

from __future__ import annotations

import ast
import ctypes
import importlib
import inspect
import json
import os
import signal
import struct
import sys
import traceback
import types
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

_PR_SET_PDEATHSIG = 1
_HEAD = struct.Struct(">Q")
_SHOWN = 200  # characters of a value in a message
_MAX_BITS = 128  # of a price in an answer; the parent refuses what a record cannot hold


class OpNotAvailableError(RuntimeError):
    """A fact does not exist, such as the contents of a tensor that has no values."""


# ---- what a formula is


def problem_of(module: str, name: str, found: object) -> str:
    """Returns why an object is no formula, or "". A formula is a module-level function of the checked call."""
    if found is None:
        return f"{module} has no function {name!r}"
    if not isinstance(found, types.FunctionType):
        return f"{module}.{name} is no function but a {type(found).__name__}"
    if found.__module__ != module and not found.__module__.startswith(f"{module}."):
        return f"{module}.{name} is a function of {found.__module__}; name it by that module"
    if inspect.iscoroutinefunction(found) or inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found):
        return f"{module}.{name} is a coroutine or a generator, and a formula returns (flops, bytes)"
    parameters = list(inspect.signature(found).parameters.values())
    if (
        len(parameters) != 1
        or parameters[0].kind not in _POSITIONAL
        or parameters[0].default is not inspect.Parameter.empty
    ):
        return f"{module}.{name}{inspect.signature(found)} must take the checked call and nothing else"
    return ""


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def torch_import(module: types.ModuleType) -> str:
    """Returns where a module of formulas imports torch, which is not allowed, or ""."""
    try:
        source = inspect.getsource(module)
    except (OSError, TypeError):  # a compiled module has none
        return ""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        if any(name.partition(".")[0] == "torch" for name in names):
            return f"{module.__name__} imports torch (line {node.lineno}): formulas compute on the values of the call"
    return ""


# ---- the call that a formula sees


class Record(NamedTuple):
    """Shape and dtype of one tensor."""

    shape: tuple[int, ...]
    dtype: str


class Word(str):
    """A word in an algebraic value; `value` is the word, as of a member of an enum class."""

    __slots__ = ()

    @property
    def value(self) -> str:
        """Returns the word as a plain string."""
        return str(self)


class Algebraic:
    """An algebraic value: `kind` is its constructor, the other attributes are its fields."""

    kind: Word

    def __init__(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Takes the words among the fields as Word."""
        worded = {name: Word(value) if isinstance(value, str) else value for name, value in fields.items()}
        vars(self).update(worded, kind=Word(kind))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Algebraic) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(sorted((name, str(value)) for name, value in vars(self).items())))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if name != "kind")
        return f"{self.kind}({fields})"


class _Object:
    """Stands for a parameter that is an object of the parent's process."""

    def __init__(self, described: str) -> None:
        self.described = described


class Indices(Mapping[str, Any]):
    """Parameters, indices, dtypes and lets of a call by name."""

    def __init__(self, values: dict[str, Any]) -> None:
        """Holds values as `_read` makes them."""
        self._values = values

    def __getitem__(self, name: str) -> Any:
        value = self._values[name]
        if isinstance(value, _Object):
            raise OpNotAvailableError(
                f"parameter {name!r} is {value.described}, an object that the interpreter of the formula does not have"
            )
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Call:
    """One checked call, with the six members that formulas of another package read."""

    __slots__ = ("_ask", "_bytes", "_number", "_stages", "indices", "tensors")

    def __init__(self, sent: Mapping[str, Any], ask: Any) -> None:
        """Takes the call as the parent sent it; `ask` sends a question to the parent and returns the answer."""
        self._ask, self._number = ask, sent["number"]
        self._stages: dict[str, list[Call]] | None = None if sent["has_stages"] else {}
        self._bytes = {name: size for name, (_, _, size) in sent["tensors"].items()}
        self.indices = Indices({name: _read(value) for name, value in sent["indices"].items()})
        self.tensors = {name: Record(tuple(shape), dtype) for name, (shape, dtype, _) in sent["tensors"].items()}

    def present(self, name: str) -> bool:
        """Returns whether the call has the tensor; False also of a name that the entry lacks."""
        return name in self.tensors

    def bytes(self, name: str) -> int:
        """Returns the size of a present tensor in bytes."""
        if name not in self._bytes:
            raise KeyError(f"tensor {name!r} is absent from this call; present are {', '.join(self._bytes)}")
        return self._bytes[name]

    def metadata_values(self, name: str) -> Any:
        """Returns the contents of a metadata tensor as nested lists. Raises OpNotAvailableError if it has no values."""
        return self._ask({"ask": "values", "call": self._number, "name": name})

    @property
    def stages(self) -> dict[str, list[Call]]:
        """Returns the completed calls by stage; empty if no stage ran."""
        if self._stages is None:
            found = self._ask({"ask": "stages", "call": self._number})
            self._stages = {name: [Call(one, self._ask) for one in calls] for name, calls in found.items()}
        return self._stages


def _read(value: Any) -> Any:
    """Returns a value as a formula sees it: sequences as tuples, tagged mappings as what they stand for."""
    if isinstance(value, list):
        return tuple(map(_read, value))
    if isinstance(value, dict):
        if "object" in value:
            return _Object(value["object"])
        return Algebraic(value["kind"], {name: _read(part) for name, part in value["fields"].items()})
    return value


# ---- requests


class _Channel:
    """Frames in both directions."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests, self._answers = requests, answers

    def send(self, message: object) -> None:
        text = json.dumps(message).encode()
        self._answers.write(_HEAD.pack(len(text)) + text)
        self._answers.flush()

    def receive(self) -> Any:
        """Returns the next message. Ends the process if the parent is gone."""
        head = self._requests.read(_HEAD.size)
        if len(head) < _HEAD.size:
            os._exit(0)
        (length,) = _HEAD.unpack(head)
        text = self._requests.read(length)
        if len(text) < length:
            os._exit(0)
        return json.loads(text)

    def ask(self, question: object) -> Any:
        """Returns the parent's answer. Raises what the parent says is wrong."""
        self.send(question)
        answer = self.receive()
        if "unavailable" in answer:
            raise OpNotAvailableError(answer["unavailable"])
        if "missing" in answer:
            raise KeyError(answer["missing"])
        return answer["value"]


def _loaded(module_name: str) -> types.ModuleType:
    """Returns an imported module of formulas. Raises ImportError with the reason if it cannot be imported."""
    try:
        return importlib.import_module(module_name)
    except BaseException as error:  # whatever the module does on import, sys.exit included
        raise ImportError(f"{module_name} cannot be imported: {_described(error)}{_place(error)}") from None


def _problem(path: str) -> str:
    """Returns why a path names no formula, or ""."""
    module_name, _, name = path.rpartition(".")
    try:
        module = _loaded(module_name)
    except ImportError as error:
        return str(error)
    return problem_of(module_name, name, getattr(module, name, None)) or torch_import(module)


def _price(path: str, sent: Mapping[str, Any], channel: _Channel) -> dict[str, Any]:
    """Returns the answer to a request for a price."""
    module_name, _, name = path.rpartition(".")
    try:
        function: Any = getattr(_loaded(module_name), name, None)
    except ImportError as error:
        return {"problem": f"cannot be used: {error}"}
    if problem := problem_of(module_name, name, function):
        return {"problem": f"cannot be used: {problem}"}
    try:
        found = function(Call(sent, channel.ask))
    except OpNotAvailableError as error:
        return {"unavailable": str(error)}
    except BaseException as error:  # a formula may raise anything, sys.exit included; the parent says so
        return {"problem": f"raised {_described(error)}{_place(error)}"}
    if isinstance(found, tuple) and len(found) == 2 and all(type(part) is int for part in found):
        if max(abs(part).bit_length() for part in found) > _MAX_BITS:
            return {"problem": f"returned an integer of more than {_MAX_BITS} bits"}
        return {"price": list(found)}
    return {"problem": f"returned {_shown(found)}, but a formula must return (flops, bytes), two ints"}


def _described(error: BaseException) -> str:
    """Returns an exception as a message shows it."""
    if isinstance(error, SystemExit):
        return f"SystemExit({_shown(error.code)}), which is sys.exit"
    try:
        said = str(error)
    except BaseException:  # a formula's own exception may have any __str__
        said = "(its message cannot be shown)"
    return f"{type(error).__name__}: {said[:_SHOWN]}" if said else type(error).__name__


def _place(error: BaseException) -> str:
    """Returns " (file, line n)" of the innermost line outside this file and Python's own; "" if no line is outside."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    own = [frame for frame in frames if not frame.filename.startswith("<frozen")]
    return f" ({os.path.basename(own[-1].filename)}, line {own[-1].lineno})" if own else ""


def _shown(value: object) -> str:
    try:
        return repr(value)[:_SHOWN]
    except BaseException:  # any object of a formula
        return f"a {type(value).__name__}"


def _serve(channel: _Channel) -> None:
    """Answers requests until the parent ends."""
    while True:
        request = channel.receive()
        path = request["path"]
        if request["do"] == "check":
            channel.send({"problem": _problem(path)})
        else:
            channel.send(_price(path, request["call"], channel))


def main() -> None:
    """Takes the pipes for itself, sets the import path from the first request, and serves."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C, and ends this process
    channel = _Channel(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # what a formula reads from stdin is nothing
    os.dup2(2, 1)  # and what it prints does not disturb the answers
    start = channel.receive()
    if os.getppid() != start["parent"]:  # the parent ended before this process asked to follow it
        os._exit(0)
    sys.path[:] = [start["folder"], *sys.path, *(entry for entry in start["path"] if entry not in sys.path)]
    channel.send({"ready": True})
    _serve(channel)


if __name__ == "__main__":
    main()
