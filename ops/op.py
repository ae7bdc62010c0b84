"""The base class of every op: what base.py has, and the execution of its calls."""

from __future__ import annotations

from typing import Any

from tileops.ops import execution, library
from tileops.ops.base import BaseOp


class Op(BaseOp):
    __doc__ = BaseOp.__doc__

    def _enter_process(self) -> None:
        super()._enter_process()
        self.handle = library.enroll(self)

    # Run a checked call and record it, or hand it to whatever traces it: what a generated `forward` does.
    _complete = execution.complete
    # Run and record it, whatever traces.
    _execute = execution.execute

    def _in_graph(self, *inputs: Any, out: Any = None) -> Any:
        """The call as one operator (library.py); what a generated `forward` does while it is being traced."""
        buffers = out if isinstance(out, (tuple, list)) else (out,)
        return library.call_in_graph(self, inputs, buffers if self.BUFFER_NAMES else ())
