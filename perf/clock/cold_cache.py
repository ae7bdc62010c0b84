"""A cold last-level cache before a measured call."""

from __future__ import annotations

import torch

from tileops.perf.clock.measurement import Flush

# What either flush does to a row, on an H200 (60 MiB of L2; medians of this clock): a dirty one taxes reads with the
# write-backs of its own lines: an addition of 2048 x 4096 halves takes 14.5 us after it and 11.8 us after a clean one,
# a read of 48 MiB 21.8 and 17.6 us, of 1 GiB 252 and 245 us; fills take the same time after both. A clean one gives
# away the call's own write-backs, as the call's last writes are still in the cache when it ends: a copy of 48 MiB then
# moves 4.47e12 bytes/s where one of 2 GiB moves 4.24e12, and a kernel a little faster would seem to break the memory's
# limit. DIRTY, which can understate a row and never overstates it, is the default.

# The replacement policy is not strictly least-recently-used, so twice the cache is the least that surely empties it.
_CACHES = 4
# A device that does not report its cache has less than this. Bytes.
_UNREPORTED_L2_BYTES = 128 * 2**20


class ColdCache:
    """Empties a device's last-level cache by moving a buffer of several times its size through it.

    Attributes:
      flush: what `empty` leaves behind.
      buffer_bytes: size of the buffer. Bytes.
    """

    def __init__(self, device: torch.device, flush: Flush) -> None:
        """Allocate the buffer on a CUDA `device`; nothing is allocated for Flush.NONE."""
        self.flush = flush
        self.buffer_bytes = 0
        self._buffer = None
        if flush is not Flush.NONE:
            cache = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0) or _UNREPORTED_L2_BYTES
            self.buffer_bytes = _CACHES * cache
            # Never zeros: a device may hold a constant line compressed, in less of the cache than its size.
            self._buffer = torch.randint(0, 2**31, (self.buffer_bytes // 4,), dtype=torch.int32, device=device)

    def empty(self) -> None:
        """Launch the flush; the caller synchronizes."""
        if self.flush is Flush.DIRTY:
            self._buffer.add_(1)
        elif self.flush is Flush.CLEAN:
            # Reads every line; the one element written is all that stays dirty.
            torch.sum(self._buffer)
