"""Generators: what fills a metadata tensor when a workload row is instantiated.

Seeded ones draw from a private stream that the caller's seed alone decides, so a draw elsewhere moves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def as_tensor(values: Sequence[int]) -> np.ndarray:
    """The list itself; int64[len(values)]."""
    return np.asarray(values, dtype=np.int64)


def prefix_sum(values: Sequence[int]) -> np.ndarray:
    """Inclusive running sums; int64[len(values)]."""
    return np.cumsum(np.asarray(values, dtype=np.int64))


def exclusive_prefix_sum(values: Sequence[int]) -> np.ndarray:
    """0, then the running sums; int64[len(values) + 1]."""
    return np.concatenate(([0], prefix_sum(values)))


def topk_ids(stream: np.random.Generator, rows: int, k: int, experts: int) -> np.ndarray:
    """For each row, `k` different experts of `experts`, uniform and in random order; int64[rows, k]."""
    if not 0 <= k <= experts:
        raise ValueError(f"{k} different experts of {experts} do not exist")
    return np.argsort(stream.random((rows, experts)), axis=1)[:, :k].astype(np.int64)


def local_expert_map(experts: int, local: int, first: int) -> np.ndarray:
    """Local number of each expert where [first, first + local) are local, -1 elsewhere; int64[experts]."""
    if not 0 <= first <= first + local <= experts:
        raise ValueError(f"experts [{first}, {first + local}) are not within {experts}")
    result = np.full(experts, -1, dtype=np.int64)
    result[first : first + local] = np.arange(local)
    return result


_PLAIN: dict[str, Callable[..., np.ndarray]] = {
    "as_tensor": as_tensor,
    "prefix_sum": prefix_sum,
    "exclusive_prefix_sum": exclusive_prefix_sum,
    "local_expert_map": local_expert_map,
}
_SEEDED: dict[str, Callable[..., np.ndarray]] = {"topk_ids": topk_ids}


def generate(name: str, args: Sequence[Any], seed: int) -> np.ndarray:
    """Contents of a metadata tensor.

    Args:
      name: a generator of the language.
      args: its arguments, plain values.
      seed: decides a seeded generator's stream; the others ignore it.

    Raises:
      KeyError: no such generator.
      ValueError: arguments outside the generator's domain.
    """
    if name in _PLAIN:
        return _PLAIN[name](*args)
    return _SEEDED[name](np.random.Generator(np.random.PCG64(seed)), *args)
