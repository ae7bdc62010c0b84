"""Predicates: the conditions (`requires`) on the contents of metadata tensors, which are integer NumPy arrays.

Each takes the tensor first, then the arguments of the entry. None raises, whatever shape and size the contents have.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tileops.manifest.language.primitives import moe_layout


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


def sums_to(tensor: np.ndarray, total: int) -> bool:
    """Whether the values sum to `total`."""
    return tensor.ndim == 1 and sum(tensor.tolist()) == total


def exclusive_prefix_of(tensor: np.ndarray, sizes: Sequence[int] | np.ndarray) -> bool:
    """Whether each value is the sum of the `sizes` before it; there are as many."""
    given = np.asarray(sizes).tolist()
    return tensor.ndim == 1 and tensor.tolist() == [0, *itertools.accumulate(given)][: len(given)]


def indices_within(tensor: np.ndarray, offsets: Sequence[int] | np.ndarray) -> bool:
    """Whether each row (i, j) names a segment i between neighbouring `offsets`, and a place j in that segment."""
    sizes = _segments(np.asarray(offsets))
    if tensor.ndim != 2 or tensor.shape[1] != 2:
        return False
    return all(0 <= segment < len(sizes) and 0 <= place < sizes[segment] for segment, place in tensor.tolist())


def chunk_offsets_of(tensor: np.ndarray, offsets: Sequence[int] | np.ndarray, chunk: int) -> bool:
    """Whether the tensor is offsets of the counts of `chunk`-sized pieces, the last one possibly short, of segments.

    The segments lie between neighbouring `offsets`.
    """
    given = np.asarray(offsets)
    sizes = _segments(given)
    if tensor.ndim != 1 or given.size == 0 or chunk <= 0 or min(sizes, default=0) < 0:
        return False
    return tensor.tolist() == [0, *itertools.accumulate(-(-size // chunk) for size in sizes)]


def moe_layout_valid(tensor: np.ndarray, layout: Any, rows: int, experts: int) -> bool:
    """Whether the contents say, as the `layout` does, how `rows` rows in a buffer belong to `experts` experts.

    - masked: a number in [0, `max_m`] for each expert.
    - by row: each row's expert, never falling, in [0, experts); if aligned also `experts`, for a row that only pads, and
      it changes at multiples of the alignment only.
    - ends, tight: where each expert's rows end, never falling, the last one at `rows`.
    - ends, aligned: each at or behind the one before, rounded up to a multiple of the alignment; the last within `rows`.
    """
    found = moe_layout(layout)
    values = tensor.tolist()
    if tensor.ndim != 1 or len(values) != (rows if found.by_row else experts):
        return False
    if found.form == "masked":
        return all(0 <= value <= found.size for value in values)
    if found.by_row:
        within = experts if found.form == "aligned" else experts - 1
        return all(0 <= value <= within for value in values) and all(
            value >= before and (value == before or at % found.size == 0)
            for at, (before, value) in enumerate(itertools.pairwise(values), 1)
        )
    begins = (-(-end // found.size) * found.size for end in (0, *values[:-1]))
    last = values[-1] if values else 0
    return all(value >= begin for begin, value in zip(begins, values, strict=False)) and (
        last == rows if found.form == "tight" else last <= rows
    )


def attn_paged_fits(tensor: np.ndarray, cu: Sequence[int] | np.ndarray, cap: int) -> bool:
    """Whether each sequence's cached tokens and its new ones fit its pages, which hold `cap` tokens each.

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
    "sums_to": sums_to,
    "exclusive_prefix_of": exclusive_prefix_of,
    "indices_within": indices_within,
    "chunk_offsets_of": chunk_offsets_of,
    "moe.layout_valid": moe_layout_valid,
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
