"""A module of formulas that another interpreter runs (manifest/foreign/), and what goes there of a checked call."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from tileops.manifest.foreign.interpreter import FormulaFailedError, FormulaUnavailableError, Interpreter
from tileops.ops.algebraic import Algebraic, fields_of
from tileops.ops.checked_call import CheckedCall
from tileops.ops.errors import OpCallError, OpNotAvailableError


class ForeignModule:
    """Stands for a module of formulas whose package has a --root; its attributes are functions of a checked call."""

    def __init__(self, name: str, interpreter: Interpreter) -> None:
        """Of the module of a dotted name; the interpreter is that of its package."""
        self.__name__ = name
        self._interpreter = interpreter

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python asks of any object
            raise AttributeError(name)
        return functools.partial(self._price, f"{self.__name__}.{name}")

    def problem(self, name: str) -> str:
        """Returns why the module has no formula of this name, or ""."""
        return self._interpreter.problem(f"{self.__name__}.{name}")

    def _price(self, path: str, call: CheckedCall) -> tuple[int, int]:
        """Returns (flops, bytes) of a call.

        Raises:
          OpNotAvailableError: the formula needs a fact that does not exist.
          OpCallError: it raises, ends its interpreter, does not return in time, or gives no two ints.
        """
        sent = _Sent()
        try:
            price = self._interpreter.price(path, sent.add(call), sent.answer)
        except FormulaUnavailableError as error:
            raise OpNotAvailableError(f"{call.op}: {error}") from None
        except FormulaFailedError as error:
            raise OpCallError(f"{call.op}: {error}") from None
        if sent.lacked_stages:
            call._is_lower_bound = True
        return price


class _Sent:
    """The calls that a formula was given: the one that it prices and those of its stages, by number."""

    def __init__(self) -> None:
        self._calls: list[CheckedCall] = []
        self.lacked_stages = False

    def add(self, call: CheckedCall) -> dict[str, Any]:
        """Returns a call as server.Call takes it."""
        self._calls.append(call)
        return {
            "number": len(self._calls) - 1,
            "has_stages": call._stages is not None,
            "indices": {name: _plain(value) for name, value in {**call.params, **call.indices}.items()},
            "tensors": {name: (record.shape, record.dtype, record.bytes) for name, record in call.tensors.items()},
        }

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer to what a formula asks of one of the calls."""
        call = self._calls[question["call"]]
        if question["ask"] == "stages":
            return {"value": self._stages(call)}
        try:
            return {"value": call.values(question["name"]).tolist()}
        except KeyError as error:
            return {"missing": str(error.args[0])}
        except OpNotAvailableError as error:
            return {"unavailable": str(error)}

    def _stages(self, call: CheckedCall) -> dict[str, Any]:
        """Returns the completed calls by stage. Returns {} if none completed, and notes that."""
        try:
            stages: Mapping[str, list[CheckedCall]] = call.stages
        except OpNotAvailableError:  # the formula takes its lower bound, which the record says
            stages = {}
        if not any(stages.values()):
            self.lacked_stages = True
            return {}
        return {name: [self.add(one) for one in calls] for name, calls in stages.items()}


def _plain(value: Any) -> Any:
    """Returns a parameter, index or let as JSON has it; an object is described instead."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Algebraic):
        return {"kind": value.kind, "fields": {name: _plain(item) for name, item in fields_of(value).items()}}
    return {"object": f"a {type(value).__module__}.{type(value).__qualname__}"}
