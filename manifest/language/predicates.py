"""Predicates: the conditions (`requires`) on the contents of metadata tensors, which are integer NumPy arrays.

Each takes the tensor first, then the arguments of the entry. None raises, whatever shape and size the contents have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def prefix_offsets(tensor: np.ndarray, total: int) -> bool:
    """Whether the tensor is offsets of segments laid end to end: rank 1, from 0, never falling, to `total`."""
    return (
        tensor.ndim == 1
        and tensor.size > 0
        and bool(tensor[0] == 0 and tensor[-1] == total and (tensor[1:] >= tensor[:-1]).all())
    )


def max_segment(tensor: np.ndarray, bound: int) -> bool:
    """Whether no segment between neighbouring offsets is longer than `bound`."""
    return tensor.ndim == 1 and all(size <= bound for size in _segments(tensor))


def in_range(tensor: np.ndarray, lo: int, hi: int) -> bool:
    """Whether every value lies in [`lo`, `hi`); true of an empty tensor."""
    return tensor.size == 0 or lo <= int(tensor.min()) and int(tensor.max()) < hi


def attn_paged_fits(tensor: np.ndarray, cu: Sequence[int] | np.ndarray, cap: int) -> bool:
    """Whether each sequence's cached tokens and its new ones fit its pages, which hold `cap` tokens a sequence.

    The tensor counts the cached tokens of each of n sequences; `cu` are the n + 1 offsets of their new tokens, as the
    variable-length attention libraries pass them.
    """
    offsets = np.asarray(cu)
    if tensor.ndim != 1 or offsets.shape != (len(tensor) + 1,):
        return False
    tokens = zip(tensor.tolist(), _segments(offsets), strict=True)
    return all(cached >= 0 and new >= 0 and cached + new <= cap for cached, new in tokens)


def _segments(offsets: np.ndarray) -> list[int]:
    """Returns the differences of neighbours as Python integers, which do not overflow."""
    values = offsets.tolist()
    return [after - before for before, after in zip(values, values[1:], strict=False)]


# Every predicate of the language with its function.
PREDICATE_FUNCTIONS: dict[str, Callable[..., bool]] = {
    "prefix_offsets": prefix_offsets,
    "max_segment": max_segment,
    "in_range": in_range,
    "attn.paged_fits": attn_paged_fits,
}


def holds(name: str, tensor: np.ndarray, args: Sequence[Any]) -> bool:
    """Returns whether a metadata tensor's contents satisfy a predicate of the language.

    Args:
      name: a predicate of the language.
      tensor: the contents, an integer array.
      args: the predicate's arguments, plain values.

    Raises:
      KeyError: no such predicate.
    """
    return PREDICATE_FUNCTIONS[name](tensor, *args)


def follows(name: str, within: tuple[int, int] | None, args: Sequence[Any]) -> bool:
    """Returns whether a predicate holds for all contents between the two values of `within`."""
    return name == "in_range" and within is not None and args[0] <= within[0] and within[1] < args[1]
