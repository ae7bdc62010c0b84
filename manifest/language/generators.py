"""Generators: functions that fill the metadata tensors of a workload row.

Seeded generators draw from a stream that only the caller's seed decides, so other draws change nothing. They use
no draw but the stream's uniform floats, whose sequence NumPy keeps from release to release.

A list of lengths describes sequences laid end to end, as the variable-length attention libraries pack them: the
`lengths[i]` tokens of sequence i follow those of sequence i - 1.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from tileops.manifest.language import extents
from tileops.manifest.language.extents import Extent, chunks

Argument = Literal["int", "list"]  # the list is of integers


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
    """Local number of each expert where [first, first + local) are local, -1 elsewhere; int64[experts].

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


def random_ids(stream: np.random.Generator, count: int, bound: int) -> np.ndarray:
    """`count` numbers of [0, `bound`), uniform, each drawn for itself; int64[count].

    The rows that an embedding looks up, or the class of each sample: a number may stand more than once.

    Domain: count >= 0 and is at most 2**28; `bound` is positive and at most 2**53.
    """
    return (stream.random((count,)) * bound).astype(np.int64)


def paged_block_table(stream: np.random.Generator, batch: int, width: int, pool: int) -> np.ndarray:
    """For each of `batch` sequences, the `width` pages that hold it, in order; int64[batch, width].

    Pages are numbers in [0, pool), in random order, and no page is twice in the table: no sequence shares one with
    another. A paged cache of `pool` pages is read through it as the paged attention libraries do: token t of sequence b
    lies in page table[b, t // page size] at t % page size.

    Domain: batch and width are >= 0; batch * width <= pool; pool is at most 2**28.
    """
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
      takes: the sort of each argument.
      rank: number of axes of the result.
      is_seeded: whether `fill` draws random numbers.
    """

    fill: Callable[..., np.ndarray]
    extent: Callable[..., Extent]
    takes: tuple[Argument, ...]
    rank: int
    is_seeded: bool = False


# Every generator by its name in the language, which is the name of its function here and in extents.py.
REGISTRY: dict[str, Registered] = {
    one.fill.__name__: one
    for one in (
        Registered(as_tensor, extents.as_tensor, ("list",), 1),
        Registered(running_sums, extents.running_sums, ("list",), 1),
        Registered(offsets, extents.offsets, ("list",), 1),
        Registered(starts, extents.starts, ("list",), 1),
        Registered(padded_offsets, extents.padded_offsets, ("list", "int"), 1),
        Registered(chunk_indices, extents.chunk_indices, ("list", "int"), 2),
        Registered(token_indices, extents.token_indices, ("list",), 2),
        Registered(chunk_offsets, extents.chunk_offsets, ("list", "int"), 1),
        Registered(local_expert_map, extents.local_expert_map, ("int", "int", "int"), 1),
        Registered(topk_ids, extents.topk_ids, ("int", "int", "int"), 2, is_seeded=True),
        Registered(random_ids, extents.random_ids, ("int", "int"), 1, is_seeded=True),
        Registered(paged_block_table, extents.paged_block_table, ("int", "int", "int"), 2, is_seeded=True),
        Registered(nsa_block_indices, extents.nsa_block_indices, ("list", "int", "int", "int"), 3, is_seeded=True),
        Registered(nsa_block_counts, extents.nsa_block_counts, ("int", "int", "int"), 2, is_seeded=True),
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
