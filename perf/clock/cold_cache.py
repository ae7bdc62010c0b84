"""A cold last-level cache before a measured call."""

from __future__ import annotations

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
# Elements that are read or written in a row: 128 KiB, so that read and written lines lie mixed throughout the cache.
_RUN = 1 << 15
# Beyond so many reads for each write, or writes for each read, a flush is as good as clean, or dirty.
_MOST = 32


class ColdCache:
    """Empties a device's last-level cache by moving a buffer of several times its size through it.

    Attributes:
      flush: what `empty` leaves behind.
      buffer_bytes: size of the buffer. Bytes.
      written_share: of a MATCHED flush, the share of the lines that it leaves written; from 0 to 1, else None.
    """

    def __init__(self, device: torch.device, flush: Flush, written_share: float | None = None) -> None:
        """Allocate the buffer on a CUDA `device`; nothing is allocated for Flush.NONE.

        `written_share` is the share of written lines that Flush.MATCHED is to leave; it leaves the nearest that whole
        numbers of reads for each write, or of writes for each read, make.
        """
        self.flush = flush
        self.buffer_bytes = 0
        self.written_share = None
        self._empty: Callable[[], object] = lambda: None
        if flush is Flush.NONE:
            return
        cache = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0) or _UNREPORTED_L2_BYTES
        self.buffer_bytes = _CACHES * cache
        # Never zeros: a device may hold a constant line compressed, in less of the cache than its size.
        buffer = torch.randint(0, 2**31, (self.buffer_bytes // 4,), dtype=torch.int32, device=device)
        reads, writes = {Flush.DIRTY: (0, 1), Flush.CLEAN: (1, 0)}.get(flush) or shares(written_share)
        if flush is Flush.MATCHED:
            self.written_share = writes / (reads + writes)
        self._empty = _sweep(buffer, reads, writes)

    def empty(self) -> None:
        """Launch the flush; the caller synchronizes."""
        self._empty()


def shares(written_share: float) -> tuple[int, int]:
    """(reads, writes) in whole numbers, one of them at most 1, nearest to a share of writes from 0 to 1."""
    if not 0 <= written_share <= 1:
        raise ValueError(f"written_share is {written_share}, and a share is from 0 to 1")
    if written_share * (_MOST + 1) < 1:
        return 1, 0
    if (1 - written_share) * (_MOST + 1) < 1:
        return 0, 1
    odds = (1 - written_share) / written_share
    return (round(odds), 1) if odds >= 1 else (1, round(1 / odds))


def _sweep(buffer: torch.Tensor, reads: int, writes: int) -> Callable[[], object]:
    """What goes through the buffer once, reading and writing in these shares."""
    if not reads:
        return lambda: buffer.add_(1)
    if not writes:
        return lambda: torch.sum(buffer)  # the one element written is all that stays dirty
    steps = buffer.numel() // ((reads + writes) * _RUN)
    source = buffer[: steps * reads * _RUN].view(steps, reads, _RUN)
    target = buffer[steps * reads * _RUN :][: steps * writes * _RUN].view(steps, writes, _RUN)
    if reads > 1:
        return lambda: torch.amax(source, dim=1, keepdim=True, out=target)
    return lambda: target.copy_(source.expand_as(target))
