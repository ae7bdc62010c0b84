"""The shape, range of values and amount of work of a generator call, computed without making the values.

The domains of the generators are checked here, so that a call of a hostile size is refused, and a workload row's shapes
and most of its requirements are judged, while nothing is filled.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tileops.manifest.language.primitives import moe_layout

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
    _bounded(_size(rows, experts))
    return Extent(shape=(rows, k), within=(0, max(experts - 1, 0)), work=rows * experts)


def random_ids(*sizes: int) -> Extent:
    """Returns the extent of one drawn number per value."""
    *shape, bound = sizes
    if len(shape) == 1:
        _not_negative(count=shape[0])
    else:
        _positive(rows=shape[0], width=shape[1])
    _drawn_from(bound=bound)
    count = math.prod(shape)
    _bounded(count)
    return Extent(shape=tuple(shape), within=(0, bound - 1), work=count)


def sample_indices(count: int, bound: int) -> Extent:
    """Returns the extent of some different numbers."""
    if not 0 <= count <= bound:
        raise ValueError(f"{count} different numbers of [0, {bound}) do not exist")
    if bound:
        _drawn_from(bound=bound)
    return Extent(shape=(count,), within=(0, max(bound - 1, 0)), work=_sampled(count))


def paged_block_table(batch: int, width: int, pool: int) -> Extent:
    """Returns the extent of the table. A number is drawn per page of the pool, unless sequences share pages."""
    _not_negative(batch=batch, width=width)
    if batch and width > pool:
        raise ValueError(f"a sequence of {width} pages needs more than the {pool} pages of the pool")
    _bounded(_size(batch, width))
    if batch * width > pool:
        _drawn_from(pool=pool)
        return Extent(shape=(batch, width), within=(0, pool - 1), work=_sampled(batch * width))
    _bounded(pool)
    return Extent(shape=(batch, width), within=(0, max(pool - 1, 0)), work=pool)


def nsa_block_indices(lengths: Sequence[int], block: int, selected: int, heads: int) -> Extent:
    """Returns the extent of the indices. A number is drawn per block that a token and head may attend to."""
    _positive(block=block)
    _not_negative(selected=selected, heads=heads)
    sizes = _lengths(lengths)
    total = sum(sizes)
    _bounded(_size(total, heads, selected))
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
    _bounded(_size(tokens, heads))
    return Extent(shape=(tokens, heads), within=(1, selected), work=tokens * heads)


def causal_topk_indices(batch: int, tokens: int, heads: int, k: int, extent: int, start: int, stride: int) -> Extent:
    """Returns the extent of the selected keys. The first token sees the fewest keys, the last one the most."""
    _positive(batch=batch, tokens=tokens, heads=heads, k=k, stride=stride)
    _not_negative(start=start)
    _drawn_from(extent=extent)
    if start > 2**53:
        raise ValueError(f"start is {start}; it is at most 2**53")
    least, most = (min(max(1, (token + start) // stride), extent) for token in (0, tokens - 1))
    work = _sampled(batch * tokens * heads * k)
    return Extent(shape=(batch, tokens, heads, k), within=(0, extent if least < k else most - 1), work=work)


def attn_sparse_topk_positions(lengths: Sequence[int], queries: int, k: int) -> Extent:
    """Returns the extent of the positions. The first query of the shortest sequence sees the fewest tokens."""
    _positive(queries=queries, k=k)
    for position, length in enumerate(lengths):
        if length < queries:
            raise ValueError(f"length {position} is {length}; {queries} queries need as many tokens at least")
    shortest, longest = min(lengths, default=queries), max(lengths, default=queries)
    _drawn_from(length=longest)
    within = (-1 if shortest - queries + 1 < k else 0, longest - 1)
    shape = (len(lengths), queries, k)
    _bounded(_size(*shape))
    return Extent(shape=shape, within=within, work=_sampled(math.prod(shape)))


def packed_positions(lengths: Sequence[int]) -> Extent:
    """Returns the extent of one position per token."""
    total = _tokens(lengths)
    _bounded(total)
    return _list(total, within=(0, max(lengths) - 1))


def full(sizes: Sequence[int], value: int) -> Extent:
    """Returns the extent of a tensor of one value."""
    for axis, size in enumerate(sizes):
        if size < 0:
            raise ValueError(f"size {axis} is {size}; it must not be negative")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"the value {value} is outside int64's range")
    count = math.prod(sizes)
    _bounded(_size(*sizes))
    return Extent(shape=tuple(sizes), within=(value, value), work=count)


def key_windows(lengths: Sequence[int], first: int, count: int, side: str) -> Extent:
    """Returns the extent of one start or end per token."""
    total = _tokens(lengths)
    _not_negative(first=first, count=count)
    if first + count > total:
        raise ValueError(f"tokens [{first}, {first + count}) are not within the {total} of the sequences")
    _bounded(count)
    if not count:
        return _list(0, within=(0, 0))
    if side == "end":
        return _list(count, within=(first + 1, first + count))
    return _list(count, within=(_begin(lengths, first), _begin(lengths, first + count - 1)))


def _begin(lengths: Sequence[int], token: int) -> int:
    """Returns the first token of the sequence of a packed token."""
    begin = 0
    for length in lengths:
        if token < begin + length:
            break
        begin += length
    return begin


def moe_layout_metadata(layout: Any, rows: int, experts: int) -> Extent:
    """Returns the extent of a number per expert or per row."""
    found = moe_layout(layout)
    _positive(experts=experts)
    _not_negative(rows=rows)
    if rows >= 2**63:
        raise ValueError(f"{rows} rows are outside int64's range")
    if found.form == "masked":
        if rows != experts * found.size:
            raise ValueError(f"rows is {rows}; {experts} experts of {found.size} rows each have {experts * found.size}")
        _bounded(experts)
        return _list(experts, within=(found.size // 2 if experts > 1 else found.size, found.size))
    if rows % found.size:
        raise ValueError(f"rows is {rows}; it must be a multiple of the alignment {found.size}")
    _bounded(rows if found.by_row else experts)
    tiles = rows // found.size
    if found.by_row:
        return _list(rows, within=(0, max(min(tiles, experts) - 1, 0)))
    short = found.size // 2
    first = -(-tiles // experts) * found.size - short if tiles else 0
    return _list(experts, within=(first, rows - short if tiles >= experts else rows))


class Routing(NamedTuple):
    """How tokens spread over experts in `moe.masked_routed_metadata`.

    Attributes:
      idle: experts without a token.
      shares, remainders: of an expert of weight 2 and of weight 1: the share rounded down, and what is lost by that.
      left: the tokens left after the shares.
    """

    idle: int
    shares: tuple[int, int]
    remainders: tuple[int, int]
    left: int


def routing(experts: int, tokens: int) -> Routing:
    """Returns the routing of tokens to experts."""
    idle = round(experts * math.exp(-tokens / experts))
    heavy, light = (experts - idle + 1) // 2, (experts - idle) // 2
    total = max(2 * heavy + light, 1)
    (double, more), (single, less) = divmod(2 * tokens, total), divmod(tokens, total)
    return Routing(idle, (double, single), (more, less), tokens - heavy * double - light * single)


def moe_masked_routed_metadata(layout: Any, experts: int, tokens: int) -> Extent:
    """Returns the extent of a number per expert."""
    found = moe_layout(layout)
    if found.form != "masked":
        raise ValueError("the layout is not masked")
    _positive(experts=experts)
    _not_negative(tokens=tokens)
    _bounded(experts)
    if tokens >= 2**62:
        raise ValueError(f"{tokens} tokens are outside int64's range")
    spread = routing(experts, tokens)
    light = (experts - spread.idle) // 2
    before = light if spread.remainders[1] > spread.remainders[0] else 0  # experts of weight 1 that come first
    most = max(spread.shares[0] + (spread.left > before), spread.shares[1] + (spread.left > 0 and before > 0))
    if most > found.size:
        raise ValueError(f"an expert has {most} of the {tokens} tokens, and the layout has {found.size} rows of each")
    return _list(experts, within=(0, most))


def chunks(lengths: Sequence[int], chunk: int) -> list[int]:
    """Returns the number of chunks of at most `chunk` tokens in each sequence. Raises ValueError outside the domain."""
    _positive(chunk=chunk)
    return [-(-length // chunk) for length in _lengths(lengths)]


def _size(*sizes: int) -> int:
    """Returns the size of an array, with 1 for an axis of 0: NumPy refuses large axes beside it too."""
    return math.prod(max(size, 1) for size in sizes)


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


def _tokens(lengths: Sequence[int]) -> int:
    """Returns the number of tokens of packed sequences. Raises ValueError without a sequence, or if a sequence is empty."""
    if not lengths:
        raise ValueError("there are no lengths")
    for position, length in enumerate(lengths):
        if length <= 0:
            raise ValueError(f"length {position} is {length}; it must be positive")
    return sum(lengths)


def _drawn_from(**sizes: int) -> None:
    _positive(**sizes)
    for name, size in sizes.items():
        if size > 2**53:  # a drawn number has 53 bits
            raise ValueError(f"{name} is {size}; it is at most 2**53")


def _sampled(count: int) -> int:
    """Returns the work of drawing different numbers, which draws up to twice as many. Raises ValueError if too many."""
    _bounded(2 * count)
    return 2 * count


def _bounded(count: int) -> None:
    if count > MAX_VALUES:
        raise ValueError(f"{count} values are too many to generate; a call makes at most {MAX_VALUES}")
