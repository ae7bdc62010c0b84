"""Whether what measures, compares and prices is still what it was before code ran that nobody vouches for.

The clock binds what it calls when it is imported, so that most replacements change nothing for it; what is found is an
error all the same: whoever replaces a clock means to, and what else was changed is not known. Python lets code in the
same process do anything in the end, to the bench's instances by way of frames, say; this finds what it does to
functions, classes and constants.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Sequence

from tileops.ops.op import Op
from tileops.perf.clock.activities import ClockError
from tileops.perf.harness.fingerprint import Fingerprint

# Whose modules a measurement rests on. What plugins and generated files bring is looked at as the op's class.
_OURS = ("tileops.perf.", "tileops.ops.", "tileops.manifest.", "tileops.tools.")
# Looked up when modules are imported, and never again: replacing one changes no time, and says enough.
_CLOCKS = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns", "synchronize", "Event")
# Names that a message gives. A count.
_TOLD = 6


class Guard:
    """Notes what a measurement rests on when it is made, and tells what has changed since."""

    def __init__(self, classes: Iterable[type[Op]], with_implementations: bool = True) -> None:
        """Of the project's modules that are loaded, and of `classes`, with the functions that implement them or not."""
        ours = [
            module
            for name, module in sys.modules.items()
            if name.startswith(_OURS) and isinstance(module, types.ModuleType) and getattr(module, "__file__", None)
        ]
        self.changed = Fingerprint(ours, classes, with_implementations, _CLOCKS).sealed()

    def check(self, op: Op) -> None:
        """Raises ClockError where something that a measurement of `op` rests on was replaced."""
        hidden = [f"{op.ENTRY}.{name}" for name in vars(op) if callable(getattr(type(op), name, None))]
        if names := [*self.changed(), *hidden]:
            raise ClockError(describe(names))


def describe(names: Sequence[str]) -> str:
    """What was replaced, in words."""
    told = ", ".join(names[:_TOLD]) + (f" and {len(names) - _TOLD} more" if len(names) > _TOLD else "")
    return f"{told} was replaced by something else, so nothing that is measured here can be trusted"
