"""What a row's calls find in the cache: the lines that the flush before a call leaves, or those of other calls.

A flush leaves written and read lines in the shares of the op's own call. But a flush is made of other kernels than the
row's, and a kernel can profit from what they leave. A kernel that marks what it reads as the first to be evicted pushes
out its own lines instead of written ones, and leaves the harness's write-backs to the next kernel. So the bench also
measures calls in rotation, without a flush: over input sets that together are several times the cache. There the
write-backs are the kernel's own.
"""

from __future__ import annotations

import collections
import itertools
import math
import random
from collections.abc import Iterable
from typing import Any

import torch

from tileops.ops.op import Op
from tileops.perf.clock import cold_cache
from tileops.perf.clock.measurement import Flush
from tileops.perf.harness.inputs import Inputs, RowInputs
from tileops.proto import benchmark_pb2

# The sets together are this many times the cache, so that nothing of a set is left when its turn comes again.
_CACHES = 3
# More sets than these would be of calls so small that they meet little of what the others left. A count.
_MOST_SETS = 24
# Share of the free memory that they may take, their outputs included.
_MEMORY_SHARE = 0.5


class Rotation:
    """The row's call on one set of inputs after the other. Its values are those of the row's first check.

    Attributes:
      sets: how many. A count.
    """

    def __init__(self, op: Op, inputs: RowInputs, sets: int) -> None:
        """Make the sets, of the values of the first check."""
        inputs.fill(0)
        self.sets = sets
        self._op = op
        self._turns = itertools.cycle([inputs.clone() for _ in range(sets)])
        # Held, so that each call's outputs have a place of their own, too.
        self._results: collections.deque[tuple[Inputs, Any]] = collections.deque(maxlen=sets)

    def call(self) -> Any:
        """What is timed: the next set's turn."""
        inputs = next(self._turns)
        returned = self._op(**inputs)
        self._results.append((inputs, returned))
        return returned

    def go_round(self) -> None:
        """Each set's turn once: an implementation may prepare something for each address that it meets."""
        for _ in range(self.sets):
            self.call()

    def some(self, count: int) -> list[tuple[Inputs, Any]]:
        """Inputs and results of some of the last calls, which nobody can foresee."""
        return random.SystemRandom().sample(list(self._results), min(count, len(self._results)))


def of_row(op: Op, inputs: RowInputs, device: torch.device, touched: int) -> Rotation | None:
    """The rotation of a row on a GPU; None where its call is small, or memory does not suffice.

    Args:
      op: has completed the row's call, which wrote none of its inputs.
      inputs: the row's.
      device: where the calls run.
      touched: what the call brings into the cache. Bytes.
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
    """What the device has left and what PyTorch keeps of earlier rows: the same whatever ran before."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + kept


# ---- the flush


def flush_of_row(op: Op, record: benchmark_pb2.BenchmarkRecord, written: Iterable[str]) -> dict[str, Any]:
    """`flush` and `written_share` for clock.measure.

    Args:
      op: has completed the row's call.
      record: holds that call's price.
      written: inputs that the call wrote.

    Returns:
      The matched flush with the share of lines that the call writes, of those that it touches; a dirty one, which never
      flatters, for an op that does not say how much of its bytes it reads.
    """
    if not record.HasField("read_bytes") or not record.bytes:
        return {"flush": Flush.DIRTY}
    touched, stored = touched_bytes(op, record, written), record.bytes - record.read_bytes
    return {"flush": Flush.MATCHED, "written_share": stored / touched if stored < touched else 1.0}


def touched_bytes(op: Op, record: benchmark_pb2.BenchmarkRecord, written: Iterable[str]) -> int:
    """Returns the bytes that the call brings into the cache: a tensor that is read and then written in place counts"
    " once."""
    return max(record.bytes - op.last_call.bytes_of(*written), 0)
