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


class UnknownOpError(OpError, KeyError):
    """No op has this name; the message suggests names."""

    __str__ = Exception.__str__  # that of KeyError quotes the message
