"""What a call finds in the cache: lines that the flush left, or in rotation, lines of the row's other calls.

An example of the flush: an addition of two 32 MB tensors writes one line of every three that it touches. The flush
before the call leaves written and read lines in the same shares, so that the call writes as many old lines back to
memory as a call in use does. The shares follow the sizes of the tensors that the call reads and writes. They follow no
formula: an op whose price is wrong is measured like any other.

But the flush consists of other kernels than the row's, and a kernel can profit from that. An example: a kernel marks
what it reads as the first to be evicted. Then it evicts its own lines instead of written ones, and the flush's written
lines stay for the next kernel to write back. So the bench also measures calls in rotation, without a flush. With an L2
of 60 MB, the addition rotates over 3 input sets, 96 MB each: when a set's turn comes again, nothing of it is left in the
cache, and all lines written back come from calls of the kernel itself. The slower of both times counts.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import torch

from tileops.ops.checked_call import CheckedCall
from tileops.ops.op import Op
from tileops.perf.clock import cold_cache
from tileops.perf.clock.measurement import Flush
from tileops.perf.harness.inputs import Inputs, RowInputs

# The sets together are this many times the cache, so that nothing of a set is left in it when its turn comes again.
_CACHES = 3
# A call that needs more sets is so small that it meets little of what the others left. A count.
_MOST_SETS = 24
# Share of the free memory that the sets may take, outputs included.
_MEMORY_SHARE = 0.5


class Rotation:
    """Makes the row's call on one set of inputs after the other. All sets hold the values of the row's first check.

    Attributes:
      sets: the number of sets.
    """

    def __init__(self, op: Op, inputs: RowInputs, sets: int) -> None:
        """Makes the sets."""
        inputs.fill(0)
        self.sets = sets
        self._op = op
        self._turns = itertools.cycle([inputs.clone() for _ in range(sets)])
        # Held, so that the outputs of each call have their own memory too.
        self._results: collections.deque[tuple[Inputs, Any]] = collections.deque(maxlen=sets)

    def call(self) -> Any:
        """Makes the timed call, on the next set."""
        inputs = next(self._turns)
        returned = self._op(**inputs)
        self._results.append((inputs, returned))
        return returned

    def go_round(self) -> None:
        """Makes one call per set: an implementation may prepare something for each new address."""
        for _ in range(self.sets):
            self.call()

    def some(self, count: int) -> list[tuple[Inputs, Any]]:
        """Returns inputs and results of some of the last calls, chosen at random so that no code can foresee them."""
        return random.SystemRandom().sample(list(self._results), min(count, len(self._results)))


def of_row(op: Op, inputs: RowInputs, device: torch.device, touched: int) -> Rotation | None:
    """Returns the rotation of a row on a GPU; None if its call is small or memory does not suffice.

    Args:
      op: has completed the row's call, which wrote no input.
      inputs: the row's inputs.
      device: where the calls run.
      touched: bytes that the call brings into the cache.
    """
    if device.type != "cuda" or not touched:
        return None
    sets = math.ceil(_CACHES * cold_cache.cache_bytes(device) / touched) + 1
    held = sum(tensor.nbytes for tensor in inputs.tensors.values() if tensor is not None)
    held += op.last_call.bytes_of(*op.last_call.outputs)
    if sets > _MOST_SETS or sets * held > _MEMORY_SHARE * _free_bytes(device):
        return None
    return Rotation(op, inputs, sets)


def _free_bytes(device: torch.device) -> int:
    """Returns the free memory plus what PyTorch keeps of earlier rows, so that the order of rows does not matter."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + kept


# ---- the flush


@dataclasses.dataclass(frozen=True, kw_only=True)
class Moved:
    """What a call brings into the cache and leaves written there, by the sizes of its tensors.

    An op that reads a part of a tensor, as a mixture of experts reads the weights of some experts, counts with the whole
    tensor.

    Attributes:
      touched: bytes of all inputs and outputs. A tensor that is read and written in place counts once.
      stored: bytes of the outputs and of the inputs that the call wrote.
      written: names of these inputs.
    """

    touched: int
    stored: int
    written: Sequence[str] = ()


def moved_by(op: Op, call: CheckedCall, written: Sequence[str]) -> Moved:
    """Returns what a call moves.

    Args:
      op: the op.
      call: passed its checks and has not run: it says which output is an input.
      written: names of the inputs that the call wrote.
    """
    inputs = {name: record.bytes for name, record in call.inputs.items() if name not in op.CPU_NAMES}
    outputs = sum(record.bytes for name, record in call.outputs.items() if name not in call.aliases)
    return Moved(
        touched=sum(inputs.values()) + outputs,
        stored=outputs + sum(inputs.get(name, 0) for name in written),
        written=tuple(written),
    )


def flush_of_row(moved: Moved) -> dict[str, Any]:
    """Returns `flush` and `written_share` for clock.measure: the matched flush with the call's share of written lines.

    A call without data gets the dirty flush, which never makes a time too short.
    """
    if not moved.touched:
        return {"flush": Flush.DIRTY}
    return {"flush": Flush.MATCHED, "written_share": moved.stored / moved.touched}
