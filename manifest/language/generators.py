"""Generators: functions that fill the metadata tensors of a workload row.

Seeded generators draw from a stream that only the caller's seed decides, so other draws change nothing. They use
no draw but the stream's uniform floats, whose sequence NumPy keeps from release to release.

A list of lengths describes sequences laid end to end, as the variable-length attention libraries pack them: the
`lengths[i]` tokens of sequence i follow those of sequence i - 1.
"""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from tileops.manifest.language import extents, sampling
from tileops.manifest.language.extents import Extent, chunks
from tileops.manifest.language.primitives import moe_layout

# The sort of an argument: an integer, a list of integers, a written tuple of sizes, a side of a window, or a layout of
# rows of experts.
Argument = Literal["int", "list", "sizes", "side", "layout"]


def as_tensor(values: Sequence[int]) -> np.ndarray:
    """The list itself; int64[len(values)].

    Domain: the values lie in int64's range.
    """
    return np.asarray(values, dtype=np.int64)


def running_sums(values: Sequence[int]) -> np.ndarray:
    """The sum of the values up to each, itself included; int64[len(values)].

    Domain: the values' magnitudes sum to less than 2**63.
    """
    return np.cumsum(np.asarray(values, dtype=np.int64))


def offsets(lengths: Sequence[int]) -> np.ndarray:
    """0, then the running sums of the lengths; int64[len(lengths) + 1].

    Domain: no length is negative; the lengths sum to less than 2**63.
    """
    return np.concatenate(([0], running_sums(lengths)))


def starts(lengths: Sequence[int]) -> np.ndarray:
    """The sum of the lengths before each: where each sequence starts; int64[len(lengths)].

    Domain: there is a length; no length is negative; the lengths sum to less than 2**63.
    """
    return offsets(lengths)[:-1]


def padded_offsets(lengths: Sequence[int], pad: int) -> np.ndarray:
    """0, then the running sums of the lengths, each rounded up to a multiple of `pad`; int64[len(lengths) + 1].

    Domain: no length is negative; `pad` is positive.
    """
    return offsets([-(-length // pad) * pad for length in lengths])


def chunk_indices(lengths: Sequence[int], chunk: int) -> np.ndarray:
    """(sequence, chunk within it) of every chunk of at most `chunk` tokens; int64[number of chunks, 2].

    No chunk spans two sequences: sequence i has ceil(lengths[i] / chunk), the last one possibly short. The same as
    prepare_chunk_indices of flash-linear-attention, but an empty sequence keeps its number.

    Domain: no length is negative; `chunk` is positive; the result has at most 2**28 values.
    """
    return _numbered(chunks(lengths, chunk))


def token_indices(lengths: Sequence[int]) -> np.ndarray:
    """(sequence, position within it) of every token; int64[sum(lengths), 2].

    The same as prepare_token_indices of flash-linear-attention, but an empty sequence keeps its number.

    Domain: no length is negative; the result has at most 2**28 values.
    """
    return _numbered(lengths)


def chunk_offsets(lengths: Sequence[int], chunk: int) -> np.ndarray:
    """0, then the running numbers of chunks of at most `chunk` tokens; int64[len(lengths) + 1].

    Row chunk_offsets[i] of `chunk_indices` is the first chunk of sequence i; prepare_chunk_offsets of
    flash-linear-attention.

    Domain: no length is negative; `chunk` is positive.
    """
    return offsets(chunks(lengths, chunk))


def local_expert_map(experts: int, local: int, first: int) -> np.ndarray:
    """Local number of each expert of [first, first + local), -1 for the others; int64[experts].

    Domain: 0 <= first <= first + local <= experts.
    """
    result = np.full(experts, -1, dtype=np.int64)
    result[first : first + local] = np.arange(local)
    return result


def topk_ids(stream: np.random.Generator, rows: int, k: int, experts: int) -> np.ndarray:
    """For each row, `k` different experts of `experts`, uniform and in random order; int64[rows, k].

    Domain: 0 <= k <= experts; rows >= 0; rows * experts is at most 2**28.
    """
    return np.argsort(stream.random((rows, experts)), axis=1)[:, :k].astype(np.int64)


def random_ids(stream: np.random.Generator, *sizes: int) -> np.ndarray:
    """Numbers of [0, `bound`), uniform, each drawn for itself; int64[count], or int64[rows, width].

    The rows that an embedding looks up, or the class of each sample: a number may stand more than once.

    Domain: `bound` is positive and at most 2**53; count >= 0; rows and width are positive; at most 2**28 numbers.
    """
    *shape, bound = sizes
    return (stream.random(shape) * bound).astype(np.int64)


def sample_indices(stream: np.random.Generator, count: int, bound: int) -> np.ndarray:
    """`count` different numbers of [0, `bound`), uniform and in random order; int64[count].

    Domain: 0 <= count <= bound; count is at most 2**27, `bound` at most 2**53.
    """
    return sampling.distinct(stream, [bound] if count else [1], count, 0)[0]


def paged_block_table(stream: np.random.Generator, batch: int, width: int, pool: int) -> np.ndarray:
    """For each of `batch` sequences, the `width` pages that hold it, in order; int64[batch, width].

    Pages are numbers in [0, pool), in random order. If the pool has enough pages, no page is twice in the table: no
    sequence shares one with another. Otherwise each sequence draws different pages of its own, as sequences with a
    common prompt share pages. A paged cache of `pool` pages is read through it as the paged attention libraries do:
    token t of sequence b lies in page table[b, t // page size] at t % page size.

    Domain: batch and width are >= 0; width <= pool; pool is at most 2**28, or 2**53 if sequences share pages.
    """
    if batch * width > pool:
        return sampling.distinct(stream, [pool] * batch, width, 0)
    return _shuffled(stream, (pool,))[: batch * width].reshape(batch, width)


def nsa_block_indices(
    stream: np.random.Generator, lengths: Sequence[int], block: int, selected: int, heads: int
) -> np.ndarray:
    """Key blocks of each token and head, numbered within the token's sequence; int64[sum(lengths), heads, selected].

    The packed block_indices of native-sparse-attention. A token at position t of its sequence draws, for each head,
    `selected` different blocks of the t // block + 1 that begin at or before the token, ascending. If there are fewer,
    all of them come first and sum(lengths), which is no block's number, fills the rest.

    Domain: no length is negative; `block` is positive; selected and heads are >= 0; result and draws are at most 2**28.
    """
    total = sum(lengths)
    result = np.full((total, heads, selected), total, dtype=np.int64)
    row = 0
    for size in lengths:
        for begin in range(0, size, block):
            tokens, choices = min(block, size - begin), begin // block + 1
            taken = min(selected, choices)
            drawn = _shuffled(stream, (tokens, heads, choices))[..., :taken]
            result[row : row + tokens, :, :taken] = np.sort(drawn, axis=-1)
            row += tokens
    return result


def nsa_block_counts(stream: np.random.Generator, tokens: int, heads: int, selected: int) -> np.ndarray:
    """How many of its `selected` blocks each token and head attends to, uniform in [1, selected]; int64[tokens, heads].

    The packed block_counts of native-sparse-attention. A count may pass the blocks that a token early in its sequence
    has; the fill of `nsa_block_indices` is then within it, and attended to by nobody.

    Domain: tokens and heads are >= 0, `selected` is positive; tokens * heads is at most 2**28.
    """
    return (stream.random((tokens, heads)) * selected).astype(np.int64) + 1


def causal_topk_indices(
    stream: np.random.Generator, batch: int, tokens: int, heads: int, k: int, extent: int, start: int, stride: int
) -> np.ndarray:
    """Keys that each token and head selects, of those before it; int64[batch, tokens, heads, k].

    Keys summarize `stride` tokens each, and `start` tokens come before the first one. Token t sees the first
    v = min(max(1, (t + start) // stride), extent) keys: it draws min(k, v) different of them, in random order, and
    `extent`, which is no key's number, fills the rest.

    Domain: all are positive, but `start` may be 0 and is at most 2**53; at most 2**27 keys are selected, of at most 2**53.
    """
    reached = (np.arange(tokens) + start) // min(stride, tokens + start)
    seen = np.minimum(np.maximum(reached, 1), extent)
    return sampling.distinct(stream, np.tile(np.repeat(seen, heads), batch), k, extent).reshape(batch, tokens, heads, k)


def attn_sparse_topk_positions(stream: np.random.Generator, lengths: Sequence[int], queries: int, k: int) -> np.ndarray:
    """Positions that the last `queries` tokens of each sequence attend to; int64[len(lengths), queries, k].

    Query s of a sequence of n tokens is its token n - queries + s. It draws min(k, v) different of the v tokens up to
    itself, in random order, and -1 fills the rest.

    Domain: queries and k are positive; each length is at least `queries`; at most 2**27 positions, of at most 2**53.
    """
    ends = np.asarray(lengths, dtype=np.int64)[:, None] - queries + np.arange(queries) + 1
    return sampling.distinct(stream, ends.reshape(-1), k, -1).reshape(len(lengths), queries, k)


def packed_positions(lengths: Sequence[int]) -> np.ndarray:
    """Position of every token within its sequence; int64[sum(lengths)].

    Domain: there is a length; all are positive; the result has at most 2**28 values.
    """
    return _numbered(lengths)[:, 1]


def full(sizes: Sequence[int], value: int) -> np.ndarray:
    """`value` everywhere; int64 of the shape that the written tuple `sizes` states.

    Domain: no size is negative; the result has at most 2**28 values; `value` lies in int64's range.
    """
    return np.full(tuple(sizes), value, dtype=np.int64)


def key_windows(lengths: Sequence[int], first: int, count: int, side: str) -> np.ndarray:
    """Where the keys of each of `count` packed tokens from token `first` on 'start' or 'end'; int64[count].

    Token p of the packed sequences attends to the tokens of its own sequence up to itself: they start where its
    sequence begins, and end at p + 1.

    Domain: there is a length; all are positive; first and count are >= 0; first + count <= sum(lengths).
    """
    tokens = np.arange(first, first + count, dtype=np.int64)
    if side == "end":
        return tokens + 1
    begins = offsets(lengths)
    return begins[np.searchsorted(begins, tokens, side="right") - 1]


def moe_layout_metadata(layout: Any, rows: int, experts: int) -> np.ndarray:
    """What a layout says of a balanced routing: each expert's number or end of rows, or each row's expert; int64[n].

    - masked: the numbers: all rows of every other expert, half of them of the others.
    - tight: balanced_sizes(rows, experts), as the end of each expert's rows or as each row's expert.
    - aligned to a: the same of rows / a tiles of a rows. An end lies a // 2 before the end of the expert's tiles; that
      of an expert without tiles is where the expert would begin.

    Domain: `experts` is positive; `rows` is experts * `max_m` if masked, a multiple of `alignment` if aligned.
    """
    found = moe_layout(layout)
    if found.form == "masked":
        return np.where(np.arange(experts) % 2 == 0, found.size, found.size // 2).astype(np.int64)
    sizes = _balanced(rows // found.size, experts) * found.size
    if found.by_row:
        return np.repeat(np.arange(experts), sizes)
    return np.cumsum(sizes) - np.where(sizes > 0, found.size // 2, 0)


def moe_masked_routed_metadata(layout: Any, experts: int, tokens: int) -> np.ndarray:
    """Number of tokens of each expert in an uneven routing of a masked layout; int64[experts].

    The more experts there are for each token, the more of them have none: round(experts * exp(-tokens / experts)),
    spread evenly. The others share the tokens by weights 2, 1, 2, 1, ...: the shares are rounded down, and what is left
    goes to the largest remainders, the first ones first.

    Domain: the layout is masked; `experts` is positive; tokens >= 0; no expert has more than its `max_m` rows.
    """
    routing = extents.routing(experts, tokens)
    result = np.zeros(experts, dtype=np.int64)
    is_idle = np.zeros(experts, dtype=bool)
    is_idle[(np.arange(routing.idle) * experts + experts // 2) // max(routing.idle, 1)] = True
    is_light = np.arange(experts - routing.idle) % 2
    shares = np.asarray(routing.shares, dtype=np.int64)[is_light]
    remainders = np.asarray(routing.remainders, dtype=np.int64)[is_light]
    shares[np.argsort(-remainders, kind="stable")[: routing.left]] += 1
    result[~is_idle] = shares
    return result


def _balanced(total: int, count: int) -> np.ndarray:
    """Returns the sizes that the primitive balanced_sizes gives; int64[count]."""
    size, larger = divmod(total, count)
    return np.where(np.arange(count) < larger, size + 1, size).astype(np.int64)


def _numbered(counts: Sequence[int]) -> np.ndarray:
    """Returns (i, j) for each i and each j < counts[i]; int64[sum(counts), 2]."""
    sizes = np.asarray(counts, dtype=np.int64)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    first = np.cumsum(sizes) - sizes
    return np.stack((owner, np.arange(len(owner)) - first[owner]), axis=1)


def _shuffled(stream: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Returns a random order of [0, shape[-1]) along the last axis; int64[shape]."""
    return np.argsort(stream.random(shape), axis=-1, kind="stable")


@dataclasses.dataclass(frozen=True)
class Registered:
    """One generator of the language.

    Attributes:
      fill: makes the values of arguments within the domain; a seeded one takes its stream first.
      extent: the extent of the values that `fill` makes of the same arguments; raises ValueError outside the domain.
      forms: the sorts of the arguments -> the number of axes of the result; None for those of the written sizes.
      is_seeded: whether `fill` draws random numbers.
    """

    fill: Callable[..., np.ndarray]
    extent: Callable[..., Extent]
    forms: dict[tuple[Argument, ...], int | None]
    is_seeded: bool = False


# Every generator by its name in the language. Its functions here and in extents.py have that name too, but for the dot.
REGISTRY: dict[str, Registered] = {
    re.sub("^(attn|moe)_", r"\1.", one.fill.__name__): one
    for one in (
        Registered(as_tensor, extents.as_tensor, {("list",): 1}),
        Registered(running_sums, extents.running_sums, {("list",): 1}),
        Registered(offsets, extents.offsets, {("list",): 1}),
        Registered(starts, extents.starts, {("list",): 1}),
        Registered(padded_offsets, extents.padded_offsets, {("list", "int"): 1}),
        Registered(chunk_indices, extents.chunk_indices, {("list", "int"): 2}),
        Registered(token_indices, extents.token_indices, {("list",): 2}),
        Registered(chunk_offsets, extents.chunk_offsets, {("list", "int"): 1}),
        Registered(local_expert_map, extents.local_expert_map, {("int", "int", "int"): 1}),
        Registered(packed_positions, extents.packed_positions, {("list",): 1}),
        Registered(full, extents.full, {("sizes", "int"): None}),
        Registered(key_windows, extents.key_windows, {("list", "int", "int", "side"): 1}),
        Registered(moe_layout_metadata, extents.moe_layout_metadata, {("layout", "int", "int"): 1}),
        Registered(moe_masked_routed_metadata, extents.moe_masked_routed_metadata, {("layout", "int", "int"): 1}),
        Registered(topk_ids, extents.topk_ids, {("int", "int", "int"): 2}, is_seeded=True),
        Registered(random_ids, extents.random_ids, {("int", "int"): 1, ("int", "int", "int"): 2}, is_seeded=True),
        Registered(sample_indices, extents.sample_indices, {("int", "int"): 1}, is_seeded=True),
        Registered(causal_topk_indices, extents.causal_topk_indices, {("int",) * 7: 4}, is_seeded=True),
        Registered(
            attn_sparse_topk_positions, extents.attn_sparse_topk_positions, {("list", "int", "int"): 3}, is_seeded=True
        ),
        Registered(paged_block_table, extents.paged_block_table, {("int", "int", "int"): 2}, is_seeded=True),
        Registered(nsa_block_indices, extents.nsa_block_indices, {("list", "int", "int", "int"): 3}, is_seeded=True),
        Registered(nsa_block_counts, extents.nsa_block_counts, {("int", "int", "int"): 2}, is_seeded=True),
    )
}


def tensor_seed(op: str, case_id: str, tensor: str, variant: int = 0) -> int:
    """Returns the seed of one tensor's random stream, which no other tensor's draws change."""
    return zlib.crc32("\0".join((op, case_id, tensor, str(variant))).encode())


def generate(name: str, args: Sequence[Any], seed: int) -> np.ndarray:
    """Returns the contents of a metadata tensor.

    Args:
      name: a generator of the language.
      args: its arguments, plain values.
      seed: decides a seeded generator's stream; the others ignore it.

    Raises:
      KeyError: no such generator.
      ValueError: arguments outside the generator's domain.
    """
    generator = REGISTRY[name]
    generator.extent(*args)
    if generator.is_seeded:
        return generator.fill(np.random.Generator(np.random.PCG64(seed)), *args)
    return generator.fill(*args)


def extent(name: str, args: Sequence[Any]) -> Extent:
    """Returns the extent of a generator call, without making its values.

    Raises:
      KeyError: no such generator.
      ValueError: arguments outside the generator's domain.
    """
    return REGISTRY[name].extent(*args)
