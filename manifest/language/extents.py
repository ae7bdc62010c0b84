"""The shape, range of values and amount of work of a generator call, computed without making the values.

The domains of the generators are checked here, so that a call of a hostile size is refused, and a workload row's shapes
and most of its requirements are judged, while nothing is filled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

# The largest tensor and the most random numbers of one call. A workload's are smaller; a hostile size is refused.
MAX_VALUES = 2**28


@dataclasses.dataclass(frozen=True, kw_only=True)
class Extent:
    """The result of one generator call.

    Attributes:
      shape: the tensor's axes.
      within: (least, greatest) between which all of its values lie; None where only making them tells.
      work: values to write and random numbers to draw.
    """

    shape: tuple[int, ...]
    within: tuple[int, int] | None = None
    work: int


def as_tensor(values: Sequence[int]) -> Extent:
    """Returns the extent of generators.as_tensor. Each function here is named after its generator."""
    for position, value in enumerate(values):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"value {position} is {value}, which is outside int64's range")
    return _list(len(values), within=(min(values, default=0), max(values, default=0)))


def running_sums(values: Sequence[int]) -> Extent:
    """Returns an extent whose range is the sum of the negative values to the sum of the others."""
    if sum(abs(value) for value in values) >= 2**63:
        raise ValueError("the sums of the values exceed int64's range")
    least, greatest = sum(value for value in values if value < 0), sum(value for value in values if value > 0)
    return _list(len(values), within=(least, greatest))


def offsets(lengths: Sequence[int]) -> Extent:
    """Returns the extent of the running sums and a 0 before them."""
    return _list(len(lengths) + 1, within=(0, _total(lengths)))


def starts(lengths: Sequence[int]) -> Extent:
    """Returns the extent of the running sums without the last, and a 0 before them."""
    if not lengths:
        raise ValueError("there are no lengths, so no sequence starts anywhere")
    return _list(len(lengths), within=(0, _total(lengths) - lengths[-1]))


def padded_offsets(lengths: Sequence[int], pad: int) -> Extent:
    """Returns the extent of the sums of padded lengths."""
    _positive(pad=pad)
    return offsets([-(-length // pad) * pad for length in _lengths(lengths)])


def chunk_indices(lengths: Sequence[int], chunk: int) -> Extent:
    """Returns the extent of one pair per chunk."""
    return _numbered(chunks(lengths, chunk))


def token_indices(lengths: Sequence[int]) -> Extent:
    """Returns the extent of one pair per token."""
    return _numbered(_lengths(lengths))


def chunk_offsets(lengths: Sequence[int], chunk: int) -> Extent:
    """Returns the extent of the sums of numbers of chunks."""
    return offsets(chunks(lengths, chunk))


def local_expert_map(experts: int, local: int, first: int) -> Extent:
    """Returns the extent of one number per expert, which is -1 for an expert that is not local."""
    if not 0 <= first <= first + local <= experts:
        raise ValueError(f"experts [{first}, {first + local}) are not within {experts}")
    _bounded(experts)
    return _list(experts, within=(-1, max(local - 1, -1)))


def topk_ids(rows: int, k: int, experts: int) -> Extent:
    """Returns the extent of k numbers per row. Each row draws a number per expert."""
    if not 0 <= k <= experts:
        raise ValueError(f"{k} different experts of {experts} do not exist")
    _not_negative(rows=rows)
    _bounded(rows * experts)
    return Extent(shape=(rows, k), within=(0, max(experts - 1, 0)), work=rows * experts)


def random_ids(count: int, bound: int) -> Extent:
    """Returns the extent of one drawn number per value. Drawn numbers have 53 bits."""
    _not_negative(count=count)
    _positive(bound=bound)
    if bound > 2**53:
        raise ValueError(f"bound is {bound}; it is at most 2**53")
    _bounded(count)
    return Extent(shape=(count,), within=(0, bound - 1), work=count)


def paged_block_table(batch: int, width: int, pool: int) -> Extent:
    """Returns the extent of the table. A number is drawn per page of the pool."""
    _not_negative(batch=batch, width=width)
    if batch * width > pool:
        raise ValueError(f"{batch} sequences of {width} pages need more than the {pool} pages of the pool")
    _bounded(pool)
    return Extent(shape=(batch, width), within=(0, max(pool - 1, 0)), work=pool)


def nsa_block_indices(lengths: Sequence[int], block: int, selected: int, heads: int) -> Extent:
    """Returns the extent of the indices. A number is drawn per block that a token and head may attend to."""
    _positive(block=block)
    _not_negative(selected=selected, heads=heads)
    sizes = _lengths(lengths)
    total = sum(sizes)
    _bounded(total * heads * max(selected, 1))
    blocks = [divmod(size, block) for size in sizes]
    drawn = heads * sum(block * full * (full + 1) // 2 + rest * (full + 1) for full, rest in blocks)
    _bounded(drawn)
    loops = sum(full + 1 for full, _ in blocks)
    work = total * heads * selected + drawn + 1000 * loops
    return Extent(shape=(total, heads, selected), within=(0, total), work=work)


def nsa_block_counts(tokens: int, heads: int, selected: int) -> Extent:
    """Returns the extent of one drawn number per token and head."""
    _not_negative(tokens=tokens, heads=heads)
    _positive(selected=selected)
    _bounded(tokens * heads)
    return Extent(shape=(tokens, heads), within=(1, selected), work=tokens * heads)


def chunks(lengths: Sequence[int], chunk: int) -> list[int]:
    """Returns the number of chunks of at most `chunk` tokens in each sequence. Raises ValueError outside the domain."""
    _positive(chunk=chunk)
    return [-(-length // chunk) for length in _lengths(lengths)]


def _list(length: int, within: tuple[int, int]) -> Extent:
    return Extent(shape=(length,), within=within, work=length)


def _numbered(counts: Sequence[int]) -> Extent:
    """Returns the extent of the pairs (i, j) for each i and each j < counts[i]."""
    total = sum(counts)
    _bounded(2 * total)
    greatest = max([len(counts) - 1, *(count - 1 for count in counts), 0])
    return Extent(shape=(total, 2), within=(0, greatest), work=2 * total)


def _total(lengths: Sequence[int]) -> int:
    """Returns the sum of lengths. Raises ValueError if a length is negative, or int64 cannot hold the sum."""
    total = sum(_lengths(lengths))
    if total >= 2**63:
        raise ValueError(f"the lengths sum to {total}, which is outside int64's range")
    return total


def _lengths(values: Sequence[int]) -> Sequence[int]:
    for position, value in enumerate(values):
        if value < 0:
            raise ValueError(f"length {position} is {value}; it must not be negative")
    return values


def _positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size <= 0:
            raise ValueError(f"{name} is {size}; it must be positive")


def _not_negative(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 0:
            raise ValueError(f"{name} is {size}; it must not be negative")


def _bounded(count: int) -> None:
    if count > MAX_VALUES:
        raise ValueError(f"{count} values are too many to generate; a call makes at most {MAX_VALUES}")
