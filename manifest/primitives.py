"""The primitives of the manifest language: one implementation for validator, analysis and generated code.

Each raises ValueError outside its domain; whoever calls it names the declaration that did.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterable, Sequence

from tileops.manifest import dtypes


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that all shapes broadcast to, from both sides: (3, 1) with (1, 4) is (3, 4)."""
    rank = builtins.max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size != 1:
                if result[axis] not in (1, size):
                    raise ValueError(f"shapes {' and '.join(str(list(shape)) for shape in shapes)} do not broadcast")
                result[axis] = size
    return tuple(result)


def _axes(dim: int | Sequence[int], rank: int) -> list[int]:
    """Axes counted from the front. A rank-0 tensor has one scalar axis, named 0 or -1."""
    axes = [dim] if isinstance(dim, int) else list(dim)
    limit = builtins.max(rank, 1)
    for axis in axes:
        if not -limit <= axis < limit:
            raise ValueError(f"axis {axis} is outside [{-limit}, {limit}) of rank {rank}")
    return [axis % limit for axis in axes]


def reduced(shape: Sequence[int], dim: int | Sequence[int] | None, keepdim: bool, empty: str) -> tuple[int, ...]:
    """Shape after reducing the axes `dim`; None is all. `empty` says what no axes mean: 'full', 'noop' or 'reject'."""
    rank = len(shape)
    axes = set(range(rank)) if dim is None else set(_axes(dim, rank))
    if dim is not None and not axes:
        if empty == "reject":
            raise ValueError("an empty dim is refused here")
        axes = set(range(rank)) if empty == "full" else set()
    return tuple(
        1 if axis in axes else size for axis, size in enumerate(shape) if keepdim or axis not in axes
    )


def ceil_div(value: int, by: int) -> int:
    """`value` / `by`, rounded up; `by` is positive."""
    if by <= 0:
        raise ValueError(f"division by {by}; the divisor must be positive")
    return -(-value // by)


def prod(values: Iterable[int]) -> int:
    """Product; 1 of nothing."""
    return math.prod(values)


def sum(values: Iterable[int]) -> int:  # noqa: A001  # the language's own name
    """Sum; 0 of nothing."""
    return builtins.sum(values)


def max(values: Iterable[int], default: int | None = None) -> int:  # noqa: A001
    """Largest value; `default` of nothing."""
    return _extreme(builtins.max, values, default)


def min(values: Iterable[int], default: int | None = None) -> int:  # noqa: A001
    """Smallest value; `default` of nothing."""
    return _extreme(builtins.min, values, default)


def _extreme(choose, values: Iterable[int], default: int | None) -> int:
    found = list(values)
    if found:
        return choose(found)
    if default is None:
        raise ValueError("no values and no default")
    return default


def log2_floor(value: int) -> int:
    """Largest n with 2**n <= value; `value` is positive."""
    if value <= 0:
        raise ValueError(f"logarithm of {value}; the value must be positive")
    return value.bit_length() - 1


def valid_axes(dim: int | Sequence[int] | None, rank: int) -> bool:
    """Whether every axis of `dim` lies in [-rank, rank)."""
    try:
        _axes(() if dim is None else dim, rank)
    except ValueError:
        return False
    return True


def unique_axes(dim: int | Sequence[int] | None, rank: int) -> bool:
    """Whether no axis is named twice, counted from either end."""
    axes = _axes(() if dim is None else dim, rank) if valid_axes(dim, rank) else []
    return len(set(axes)) == len(axes)


def category(dtype: str) -> str:
    """'bool', 'int', 'float' or 'complex'."""
    return dtypes.category(dtype)


def coalesce_dtype(dtype: str | None, fallback: str) -> str:
    """`dtype` where it is given, else `fallback`."""
    return fallback if dtype is None else dtype


def divided(size: int, factor: int, offset: int) -> int | None:
    """The M >= 0 with factor * M + offset == size; None where there is none. `factor` is positive."""
    quotient, remainder = divmod(size - offset, factor)
    return quotient if remainder == 0 and quotient >= 0 else None
