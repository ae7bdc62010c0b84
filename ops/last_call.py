"""The last completed call of one op, one for each context: a thread or an asyncio task."""

from __future__ import annotations

import contextvars
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileops.ops.checked_call import CheckedCall

# A context never lets go of a variable that was set in it. Those of dead ops are handed on, so that there are no more
# than ops ever lived at once.
_FREE: list[contextvars.ContextVar] = []


class _Key:
    """Stands for one completed call in the contexts that see it."""

    __slots__ = ("__weakref__",)


class LastCall:
    """Holds what the last completed call of one op bound, as each context sees it.

    A context sees the last call that completed in it; until there is one, what the context that it was copied from saw
    at that moment. A new thread starts from an empty context and an asyncio task from a copy of its creator's, so
    neither ever sees what another completes.

    Contexts hold a key each, and the op holds the calls by key: a call (and the metadata tensors that it refers to) is
    freed when the last context that sees it moves on or ends, and with the op.
    """

    __slots__ = ("_calls", "_key", "_forget", "__weakref__")

    def __init__(self) -> None:
        """No call yet, in any context."""
        try:
            self._key = _FREE.pop()
        except IndexError:
            self._key = contextvars.ContextVar("tileops_last_call", default=None)
        self._calls: dict[weakref.ref, CheckedCall] = {}
        self._forget = self._calls.pop  # what a WeakKeyDictionary does in Python, at half its cost a call
        weakref.finalize(self, _FREE.append, self._key).atexit = False

    def __del__(self) -> None:
        # Each key's reference holds `_forget`, which holds the calls. A tracer makes instances without __init__.
        if hasattr(self, "_calls"):
            self._calls.clear()

    def set(self, call: CheckedCall) -> None:
        """Make `call` what this context sees."""
        key = _Key()
        self._calls[weakref.ref(key, self._forget)] = call
        self._key.set(key)

    def get(self) -> CheckedCall | None:
        """What this context sees; None where no call has completed."""
        key = self._key.get()
        # The variable may hold a key that its former op left behind.
        return None if key is None else self._calls.get(weakref.ref(key))
