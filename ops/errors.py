"""Errors that an op raises; each message names the op, the place, the declared term and what was found."""

from __future__ import annotations


class OpError(Exception):
    """Base of every error that an op raises on its own account."""


class OpConstructionError(OpError, ValueError):
    """A construction parameter does not fit its declaration."""


class OpCallError(OpError, ValueError):
    """A call does not fit the op's signature, or an implementation's outputs do not."""


class OpNotAvailableError(OpError, RuntimeError):
    """A fact does not exist: there is no completed call, no value on meta, or no implementation that serves the call."""


class OpFormulaError(OpError, ImportError):
    """The `func` of an implemented entry names no function that can be imported, so its class cannot be created.

    Attributes:
      place: file:line of the manifest.
      module: of the function.
    """

    def __init__(self, op: str, place: str, module: str, problem: str) -> None:
        super().__init__(f"{place}: {op}: func: {problem}")
        self.place = place
        self.module = module


class UnknownOpError(OpError, KeyError):
    """No op has this name; the message suggests names."""

    __str__ = Exception.__str__  # that of KeyError quotes the message
