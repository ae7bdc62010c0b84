"""Empties the last-level cache before a measured call: the flush.

An example: an addition reads two lines for each line that it writes, so a third of its lines are written. Flush.MATCHED
sweeps a buffer of several times the cache in the same shares. The cache then holds no data of the call, and a third of
its lines have to be written back to memory when the call needs their place.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from tileops.perf.clock.measurement import Flush

# What a flush leaves behind is part of a row's time: bringing data in pushes lines out, and written ones have to reach
# memory first. After a dirty flush a call pays for the harness's writes, up to 25% of a row that reads; after a clean
# one its own last writes are still in the cache when it ends, and nobody pays for them. Used over and over on data of
# its own, a call finds what calls like it left: MATCHED leaves that (docs/measuring.md has the experiment).

# The replacement policy is not strictly least-recently-used, so twice the cache is the least that surely empties it.
_CACHES = 4
# A device that does not report its cache has less than this. Bytes.
_UNREPORTED_L2_BYTES = 128 * 2**20
# Elements that are read or written in a row where one is read for several written: 128 KiB, so that read and written
# lines lie mixed throughout the cache.
_RUN = 1 << 15
# Kernels that read so many bytes for each that they write: what they call, dtypes of source and target, sources.
_READING = {
    1: (torch.bitwise_not, torch.int32, torch.int32, 1),
    2: (torch.add, torch.int32, torch.int32, 2),
    3: (torch.addcmul, torch.int32, torch.int32, 3),
    8: (torch.ne, torch.int32, torch.bool, 2),
    16: (torch.ne, torch.int64, torch.bool, 2),
}
# Reads for each write, or writes for each read, from which on a call is as good as one that only reads, or writes.
_MOST = 32
# A broadcast addition reads a little less than twice what it writes, and counts as twice.
_NEARLY = 0.1


class ColdCache:
    """Empties a device's last-level cache by moving a buffer of several times its size through it.

    Attributes:
      flush: what `empty` leaves behind.
      buffer_bytes: size of the buffer. Bytes.
      written_share: of a MATCHED flush, the share of the lines that it leaves written; from 0 to 1, else None.
    """

    def __init__(self, device: torch.device, flush: Flush, written_share: float | None = None) -> None:
        """Allocates the buffer on a CUDA `device`; nothing is allocated for Flush.NONE.

        `written_share` is the share of written lines that Flush.MATCHED leaves: the nearest possible with whole numbers of
        reads per write, or of writes per read.
        """
        self.flush = flush
        self.buffer_bytes = 0
        self.written_share: float | None = None
        self._empty: Callable[[], object] = lambda: None
        if flush is Flush.NONE:
            return
        self.buffer_bytes = _CACHES * cache_bytes(device)
        # Never zeros: a device may hold a constant line compressed, in less of the cache than its size.
        buffer = torch.randint(0, 2**31, (self.buffer_bytes // 4,), dtype=torch.int32, device=device)
        if flush is Flush.MATCHED:
            assert written_share is not None, "a matched flush needs the share to match"
            reads, writes = shares(written_share)
            self.written_share = writes / (reads + writes)
        else:
            reads, writes = (0, 1) if flush is Flush.DIRTY else (1, 0)
        self._empty = _sweep(buffer, reads, writes)

    def empty(self) -> None:
        """Launches the flush; the caller synchronizes."""
        self._empty()


def cache_bytes(device: torch.device) -> int:
    """Returns the size of a CUDA device's last-level cache, or an upper bound of it. Bytes."""
    return getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0) or _UNREPORTED_L2_BYTES


def shares(written_share: float) -> tuple[int, int]:
    """Returns (reads, writes) of a sweep, one of them at most 1, for a share of writes from 0 to 1.

    Between two possible sweeps it returns the one with more writes, which never makes a time too short. An example: 1/3
    gives (2, 1).
    """
    if not 0 <= written_share <= 1:
        raise ValueError(f"written_share is {written_share}, and a share is from 0 to 1")
    if written_share * (_MOST + 1) < 1:
        return 1, 0
    if (1 - written_share) * (_MOST + 1) < 1:
        return 0, 1
    odds = (1 - written_share) / written_share
    if odds < 1 - _NEARLY:
        return 1, math.ceil(1 / odds - _NEARLY)
    return max(reads for reads in _READING if reads <= odds + _NEARLY), 1


def _sweep(buffer: torch.Tensor, reads: int, writes: int) -> Callable[[], object]:
    """Returns a function that goes through the buffer [int32] once and reads and writes in these shares.

    It uses elementwise kernels, which read and write side by side. A reduction would leave another mix in the cache.
    """
    if not reads:
        return lambda: buffer.add_(1)
    if not writes:
        return lambda: torch.sum(buffer)  # the one element written is all that stays dirty
    if writes > 1:
        steps = buffer.numel() // ((1 + writes) * _RUN)
        source = buffer[: steps * _RUN].view(steps, 1, _RUN)
        target = buffer[steps * _RUN :][: steps * writes * _RUN].view(steps, writes, _RUN)
        return lambda: torch.bitwise_not(source.expand_as(target), out=target)
    function, source_type, target_type, count = _READING[reads]
    part = buffer.nbytes // (reads + 1) // 16 * 16  # of what is written, aligned for every dtype
    each = part * reads // count
    data = buffer.view(torch.uint8)
    sources = [data[at * each :][:each].view(source_type) for at in range(count)]
    target = data[count * each :][:part].view(target_type)
    return lambda: function(*sources, out=target)
