"""Draws different numbers for many rows at once, at a cost that follows what is drawn and not what it is drawn from."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

# Values of the rows that are drawn together: their temporaries stay small.
_TOGETHER = 2**20


def distinct(stream: np.random.Generator, bounds: Sequence[int] | np.ndarray, k: int, fill: int) -> np.ndarray:
    """Returns for each row min(k, bound) different numbers of [0, bound) in random order; `fill` in the places left.

    Every order of every choice is equally likely. A row with a bound of at most 2 * k shuffles [0, bound). For a larger
    bound it draws until it has k different numbers, which takes at most 1.4 * k draws on average.

    Args:
      stream: gives the draws.
      bounds: one per row; positive, at most 2**53.
      k: numbers per row.
      fill: stands behind the numbers of a row with fewer than k.

    Returns:
      int64[len(bounds), k].
    """
    limits = np.asarray(bounds, dtype=np.int64)
    result = np.full((len(limits), k), fill, dtype=np.int64)
    if k == 0:
        return result
    step = max(_TOGETHER // k, 1)
    for first in range(0, len(limits), step):
        rows = slice(first, first + step)
        narrow = limits[rows] <= 2 * k
        at = first + np.flatnonzero(narrow)
        if at.size:
            result[at] = _shuffled(stream, limits[at], k, fill)
        at = first + np.flatnonzero(~narrow)
        if at.size:
            result[at] = _rejected(stream, limits[at], k)
    return result


def _shuffled(stream: np.random.Generator, limits: np.ndarray, k: int, fill: int) -> np.ndarray:
    """Returns the first k of a random order of each [0, limit)."""
    widest = int(limits.max())
    bits = widest.bit_length()
    # One sort orders the draws with the numbers in their low bits; NumPy sorts integers faster than it argsorts.
    keys = (stream.random((len(limits), widest)) * 2.0 ** (62 - bits)).astype(np.int64) << bits
    keys |= np.arange(widest)
    keys[np.arange(widest) >= limits[:, None]] = np.iinfo(np.int64).max
    keys.sort(axis=1)
    order = keys[:, :k] & ((1 << bits) - 1)
    if widest < k:
        order = np.pad(order, ((0, 0), (0, k - widest)))
    return np.where(np.arange(k) < limits[:, None], order, fill)


def _rejected(stream: np.random.Generator, limits: np.ndarray, k: int) -> np.ndarray:
    """Returns for each row the first k different of a sequence of draws; each limit is above 2 * k."""
    drawn = _draws(stream, limits, _enough(int(limits.min()), k))
    result = np.empty((len(limits), k), dtype=np.int64)
    rows = np.arange(len(limits))
    while rows.size:
        is_new = _first_occurrences(drawn)
        counts = is_new.sum(axis=1)
        done = counts >= k
        kept = is_new[done] & (np.cumsum(is_new[done], axis=1) <= k)
        result[rows[done]] = drawn[done][kept].reshape(-1, k)
        rows = rows[~done]
        if rows.size:  # goes on with the sequences that have too few
            drawn = np.concatenate((drawn[~done], _draws(stream, limits[rows], k)), axis=1)
    return result


def _draws(stream: np.random.Generator, limits: np.ndarray, count: int) -> np.ndarray:
    return (stream.random((len(limits), count)) * limits[:, None]).astype(np.int64)


def _enough(limit: int, k: int) -> int:
    """Returns a number of draws from [0, limit) among which k different ones are all but certain."""
    expected = limit * math.log(limit / (limit - k))
    return math.ceil(expected + 4 * math.sqrt(expected - k + 1)) + 1


def _first_occurrences(drawn: np.ndarray) -> np.ndarray:
    """Returns whether each number is the first of its value in its row."""
    count = drawn.shape[1]
    bits = count.bit_length()
    if int(drawn.max()).bit_length() + bits < 63:
        keys = np.sort(drawn << bits | np.arange(count), axis=1)
        order, ordered = keys & ((1 << bits) - 1), keys >> bits
    else:
        order = np.argsort(drawn, axis=1, kind="stable")
        ordered = np.take_along_axis(drawn, order, axis=1)
    is_new = np.ones(drawn.shape, dtype=bool)
    row, place = np.nonzero(ordered[:, 1:] == ordered[:, :-1])
    is_new[row, order[row, place + 1]] = False
    return is_new
