"""Philox 4x32-10, the counter-based generator of random bits, in PyTorch operations."""

from __future__ import annotations

import torch

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)


def words(seed: int, count: int, device: torch.device | str) -> torch.Tensor:
    """The first `count` random words of a key, each in [0, 2**32), as int64[count].

    Word w of counter c stands at 4 c + w. The key is the 64 bits of `seed`, in [0, 2**63). (Salmon and others, Parallel
    random numbers: as easy as 1, 2, 3, 2011.)
    """
    return blocks(seed, torch.arange(-(-count // 4), dtype=torch.int64, device=device)).reshape(-1)[:count]


def blocks(seed: int, counters: torch.Tensor) -> torch.Tensor:
    """The four words of each counter, int64 in [0, 2**63), as int64[*counters, 4]."""
    state = [counters & _WORD, counters >> 32, torch.zeros_like(counters), torch.zeros_like(counters)]
    key = [seed & _WORD, seed >> 32]
    for _ in range(10):
        # The low 64 bits of a product are right in int64 too; its high word is shifted with the sign, so it is masked.
        left, right = state[0] * _MULTIPLIERS[0], state[2] * _MULTIPLIERS[1]
        state = [
            (right >> 32 & _WORD) ^ state[1] ^ key[0],
            right & _WORD,
            (left >> 32 & _WORD) ^ state[3] ^ key[1],
            left & _WORD,
        ]
        key = [(one + step) & _WORD for one, step in zip(key, _KEY_STEPS, strict=True)]
    return torch.stack(state, dim=-1)
