"""What each primitive gives, worked out another way than the language's implementation: by enumeration or by torch."""

from __future__ import annotations

import fractions
import math
from collections.abc import Sequence
from typing import Any

import torch

from tileops.tests.codegen.random_terms import MAX_RANGE, OutOfBoundsError


class OutOfDomainError(ValueError):
    """The primitive refuses these arguments, and so must the op."""


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """As PyTorch broadcasts, which, unlike NumPy, does not mind how many elements that would be."""
    try:
        return tuple(int(size) for size in torch.broadcast_shapes(*map(tuple, shapes)))
    except (ValueError, RuntimeError) as error:
        raise OutOfDomainError(str(error)) from None


def axes_of(dim: Any, rank: int) -> list[int]:
    """Axes from the front; a scalar has the one axis 0."""
    found = []
    for axis in (dim,) if isinstance(dim, int) else tuple(dim):
        places = list(range(max(rank, 1)))
        if axis not in places and axis not in [place - len(places) for place in places]:
            raise OutOfDomainError(f"axis {axis}")
        found.append(places[axis])
    return found


def reduced(shape: Sequence[int], dim: Any, keepdim: bool, empty: str) -> tuple[int, ...]:
    """Shape without (or with 1 for) the axes reduced."""
    if any(size < 0 for size in shape):
        raise OutOfDomainError("a negative size")
    named = list(range(len(shape))) if dim is None else axes_of(dim, len(shape))
    if dim is not None and not named:
        if empty == "reject":
            raise OutOfDomainError("no axes")
        named = list(range(len(shape))) if empty == "full" else []
    sizes = [(1 if axis in named else size, axis in named) for axis, size in enumerate(shape)]
    return tuple(size for size, gone in sizes if keepdim or not gone)


def ceil_div(value: int, by: int) -> int:
    """Rounded up, by exact fractions."""
    if by < 1:
        raise OutOfDomainError("divisor")
    return math.ceil(fractions.Fraction(value, by))


def prod(values: Sequence[int]) -> int:
    """Product."""
    result = 1
    for value in values:
        result *= value
    return result


def largest(values: Sequence[int], default: int | None = None) -> int:
    """Last of the sorted values."""
    return _end(values, default, -1)


def smallest(values: Sequence[int], default: int | None = None) -> int:
    """First of the sorted values."""
    return _end(values, default, 0)


def _end(values: Sequence[int], default: int | None, at: int) -> int:
    if values:
        return sorted(values)[at]
    if default is None:
        raise OutOfDomainError("no values")
    return default


def log2_floor(value: int) -> int:
    """How often the value halves before it is gone, less one."""
    if value < 1:
        raise OutOfDomainError("value")
    return len(bin(value)) - 3


def per_axis(value: Any, i: int, n: int, fallback: Any = None) -> int:
    """The i-th of n items, one item standing for all; of what is None, that of the fallback."""
    if not 0 <= i < n:
        raise OutOfDomainError("per_axis")
    for given in (value, fallback):
        items = tuple(given) * (n if len(given) == 1 else 1) if isinstance(given, tuple) else (given,) * n
        if len(items) != n:
            raise OutOfDomainError("items")
        if items[i] is not None:
            return items[i]
    raise OutOfDomainError("None")


def expansion(q: int) -> int:
    """The side of the square that is one more."""
    for n in range(1, 1001):
        if (n + 1) * (n + 1) == q + 1:
            return n
    if q > 1_000_000:
        raise OutOfBoundsError
    raise OutOfDomainError("expansion")


def conv_out(length: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """How many windows fit, counted."""
    if min(length, kernel, stride, dilation) < 1 or padding < 0:
        raise OutOfDomainError("window")
    starts = range(0, length + 2 * padding, stride)
    fitting = [start for start in starts if start + dilation * (kernel - 1) < length + 2 * padding]
    if not fitting:
        raise OutOfDomainError("kernel")
    return len(fitting)


def pool_out(length: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """How many windows fit; with ceil_mode one more that runs over the end, unless it starts behind the axis."""
    if min(length, kernel, stride, dilation) < 1 or padding < 0 or 2 * padding > kernel:
        raise OutOfDomainError("window")
    reach, padded = dilation * (kernel - 1), length + 2 * padding
    fitting = [start for start in range(0, padded, stride) if start + reach < padded]
    count = len(fitting)
    if ceil_mode:
        # One window more where the last that fits leaves columns over, or where none fits by less than a stride.
        following = count * stride
        beyond = following + reach - (padded - 1)
        if 0 < beyond < stride and following < length + padding:
            count += 1
    if count < 1:
        raise OutOfDomainError("kernel")
    return count


def capacity(layout: Any, rows: int, experts: int) -> int:
    """Rows of a routed buffer."""
    if rows < 0 or experts < 0:
        raise OutOfDomainError("count")
    form = type(layout).__name__
    if form == "Nopad":
        return rows
    if form == "Masked":
        if layout.capacity < 0:
            raise OutOfDomainError("capacity")
        return sum(layout.capacity for _ in range(experts))
    if layout.block < 1:
        raise OutOfDomainError("block")
    worst = rows + sum(layout.block - 1 for _ in range(experts))
    return worst + (-worst) % layout.block


def indices_below(count: int) -> range:
    """The numbers that a comprehension runs over; a tiny call has few."""
    if count > MAX_RANGE:
        raise OutOfBoundsError
    return range(count)


def balanced_sizes(total: int, count: int) -> tuple[int, ...]:
    """Dealt one by one."""
    if total < 0 or count < 1:
        raise OutOfDomainError("sizes")
    if max(total, count) > 1000:
        raise OutOfBoundsError
    sizes = [0] * count
    for dealt in range(total):
        sizes[dealt % count] += 1
    return tuple(sizes)


def repeat(value: int, count: int) -> tuple[int, ...]:
    """One value, several times."""
    if count < 0:
        raise OutOfDomainError("count")
    return tuple(value for _ in indices_below(count))


def valid_axes(dim: Any, rank: int) -> bool:
    """Whether every axis exists."""
    try:
        axes_of(() if dim is None else dim, rank)
    except OutOfDomainError:
        return False
    return True


def unique_axes(dim: Any, rank: int) -> bool:
    """Whether no axis is named twice; what is no axis is valid_axes' business."""
    if dim is None or not valid_axes(dim, rank):
        return True
    found = axes_of(dim, rank)
    return all(found.count(axis) == 1 for axis in found)


def torch_dtype(name: str) -> torch.dtype:
    """torch's dtype of that name."""
    return getattr(torch, name)


def dtype_name(dtype: torch.dtype) -> str:
    """Its name."""
    return str(dtype).removeprefix("torch.")


def category(name: Any) -> str:
    """What torch says the dtype holds, or the name of a number's type."""
    if not isinstance(name, str):
        return type(name).__name__
    dtype = torch_dtype(name)
    if dtype == torch.bool:
        return "bool"
    return "float" if dtype.is_floating_point else "complex" if dtype.is_complex else "int"


def representable(value: Any, name: str) -> bool:
    """Whether a number lies in the dtype's range, by torch's own limits; negative ones wrap around in unsigned dtypes."""
    if category(name) == "bool":
        return True
    if category(name) != "int":
        return torch.finfo(torch_dtype(name)).min <= value <= torch.finfo(torch_dtype(name)).max
    limits = torch.iinfo(torch_dtype(name))
    wraps = limits.min == 0 and isinstance(value, int)
    return (-limits.max if wraps else limits.min) <= value <= limits.max


def promote_types(first: str, second: str) -> str:
    """As torch promotes."""
    try:
        return dtype_name(torch.promote_types(torch_dtype(first), torch_dtype(second)))
    except RuntimeError as error:
        raise OutOfDomainError(str(error)) from None


def promote_int_to_float(name: str) -> str:
    """What torch.sqrt makes of it, by torch's promotion with a default float."""
    return "float32" if category(name) in ("bool", "int") else name


def coalesce_dtype(name: str | None, fallback: str) -> str:
    """The first that is given."""
    return next(found for found in (name, fallback) if found is not None)


def element_size(name: str) -> int:
    """Bytes of one element, as torch stores it."""
    return torch_dtype(name).itemsize
