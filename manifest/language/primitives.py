"""The primitives of the manifest language, as the validator, the analysis and generated code call them.

Each raises ValueError outside its domain. The reference shows the first line of its docstring, and the line `Domain:`.
A dotted name of the language is a function with an underscore here: `conv.out` is `conv_out`. The set of primitives is
the table PRIMITIVES of declarations.py, which names these functions.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from tileops.manifest.language import dtypes
from tileops.manifest.language.range_sums import MAX_WORK as MAX_ITEMS
from tileops.manifest.language.range_sums import counted_sum as counted_sum  # which generated code calls
from tileops.manifest.language.range_sums import range_sum as range_sum  # as above

# The constructors of layouts of routed rows, each with the fields that the language reads: words, or () for an integer.
# The first three are this project's; `contiguous` and `masked` are those of published manifests.
MOE_LAYOUTS: dict[str, dict[str, tuple[str, ...]]] = {
    "Nopad": {},
    "Padded": {"block": ()},
    "Masked": {"capacity": ()},
    "contiguous": {"packing": ("tight", "aligned"), "metadata_kind": ("physical_psum", "per_row"), "alignment": ()},
    "masked": {"max_m": ()},
}


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that all shapes broadcast to, from both sides: (3, 1) with (1, 4) is (3, 4).

    Domain: no size is negative; on each axis, counted from the last, the sizes other than 1 are equal.
    """
    _sizes(*shapes)
    rank = builtins.max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size != 1:
                if result[axis] not in (1, size):
                    raise ValueError(f"shapes {' and '.join(str(list(shape)) for shape in shapes)} do not broadcast")
                result[axis] = size
    return tuple(result)


def _sizes(*shapes: Sequence[int]) -> None:
    for shape in shapes:
        if builtins.min(shape, default=0) < 0:
            raise ValueError(f"{list(shape)} is no shape: a size is negative")


def _axes(dim: int | Sequence[int], rank: int) -> list[int]:
    """Returns the axes counted from the front. A rank-0 tensor has one scalar axis, named 0 or -1."""
    axes = [dim] if isinstance(dim, int) else list(dim)
    limit = builtins.max(rank, 1)
    for axis in axes:
        if not -limit <= axis < limit:
            raise ValueError(f"axis {axis} is outside [{-limit}, {limit}) of rank {rank}")
    return [axis % limit for axis in axes]


def reduced(shape: Sequence[int], dim: int | Sequence[int] | None, keepdim: bool, empty: str) -> tuple[int, ...]:
    """Shape after reducing the axes `dim`; None is all. `empty` says what no axes mean: 'full', 'noop' or 'reject'.

    Domain: no size is negative; every axis lies in [-rank, rank); an axis is named if `empty` is 'reject'.
    """
    _sizes(shape)
    rank = len(shape)
    axes = set(builtins.range(rank)) if dim is None else set(_axes(dim, rank))
    if dim is not None and not axes:
        if empty == "reject":
            raise ValueError("an empty dim is not allowed here")
        axes = set(builtins.range(rank)) if empty == "full" else set()
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape) if keepdim or axis not in axes)


def ceil_div(value: int, by: int) -> int:
    """`value` / `by`, rounded up.

    Domain: `by` is positive.
    """
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
    """Largest value; `default` of nothing.

    Domain: there is a value or a default.
    """
    return _extreme(builtins.max, values, default)


def min(values: Iterable[int], default: int | None = None) -> int:  # noqa: A001
    """Smallest value; `default` of nothing.

    Domain: there is a value or a default.
    """
    return _extreme(builtins.min, values, default)


def _extreme(choose, values: Iterable[int], default: int | None) -> int:
    found = list(values)
    if found:
        return choose(found)
    if default is None:
        raise ValueError("no values and no default")
    return default


def log2_floor(value: int) -> int:
    """Largest n with 2**n <= `value`.

    Domain: `value` is positive.
    """
    if value <= 0:
        raise ValueError(f"logarithm of {value}; the value must be positive")
    return value.bit_length() - 1


def per_axis(
    value: int | Sequence[int | None] | None, i: int, n: int, fallback: int | Sequence[int] | None = None
) -> int:
    """Item `i` of a parameter over `n` axes: an int or one item holds for every axis.

    `fallback` stands for a None, which may be the whole value or the item.

    Domain: `i` lies in [0, `n`); the value has 1 or `n` items; there is a fallback for None.
    """
    if not 0 <= i < n:
        raise ValueError(f"axis {i} is outside [0, {n})")
    found = _on_axis(value, i, n)
    if found is None:
        found = _on_axis(fallback, i, n)
    if found is None:
        raise ValueError(f"axis {i} of {value} is None, and there is no fallback")
    return found


def _on_axis(value: int | Sequence[int | None] | None, i: int, n: int) -> int | None:
    """Returns what a parameter over `n` axes gives for axis `i`."""
    if value is None or isinstance(value, int):
        return value
    if len(value) not in (1, n):
        raise ValueError(f"{list(value)} has {len(value)} items; write an int, one item or {n} items")
    return value[i if len(value) == n else 0]


def _window(length: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Returns the padded axis length less one window. Raises ValueError for arguments that no window can have."""
    for name, size in (("length", length), ("kernel", kernel), ("stride", stride), ("dilation", dilation)):
        if size <= 0:
            raise ValueError(f"{name} is {size}; it must be positive")
    if padding < 0:
        raise ValueError(f"padding is {padding}; it must not be negative")
    return length + 2 * padding - dilation * (kernel - 1) - 1


def conv_out(length: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Length of a convolution's output axis, as torch.nn.functional.conv1d gives it; `padding` is each side's.

    Domain: length, kernel, stride and dilation are positive, padding >= 0, and the dilated kernel fits the padded axis.
    """
    room = _window(length, kernel, stride, padding, dilation)
    if room < 0:
        raise ValueError(
            f"a kernel of {kernel} with dilation {dilation} is longer than an axis of {length} with padding {padding}"
        )
    return room // stride + 1


def pool_out(length: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """Length of a pooling's output axis, as torch.nn.functional.max_pool1d gives it; `padding` is each side's.

    With `ceil_mode` a last window may run over the end, but must start inside the axis or its left padding.

    Domain: length, kernel, stride and dilation are positive, 0 <= padding <= kernel // 2, and a window fits.
    """
    room = _window(length, kernel, stride, padding, dilation)
    if padding > kernel // 2:
        raise ValueError(f"padding is {padding}; it must be at most half the kernel of {kernel}")
    count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= length + padding:
        count -= 1
    if count <= 0:
        raise ValueError(
            f"no window of {kernel} with dilation {dilation} fits an axis of {length} with padding {padding}"
        )
    return count


def moe_capacity(layout: Any, rows: int, experts: int) -> int:
    """Rows of a buffer that holds `rows` routed rows sorted by expert, however they are routed.

    `layout` is as in `moe_layout`.

    - tight: experts follow each other without a gap: `rows`.
    - aligned to `size`: each expert's rows are rounded up to a multiple of `size`, so each may add size - 1:
      `rows + experts * (size - 1)`, itself rounded up to a multiple of `size`.
    - masked: each expert has `size` rows, used or not: `experts * size`.

    Domain: `kind` is that of a layout; rows, experts, `capacity`, `max_m` >= 0; `block`, `alignment` are positive.
    """
    found = moe_layout(layout)
    for name, count in (("rows", rows), ("experts", experts)):
        if count < 0:
            raise ValueError(f"{name} is {count}; it must not be negative")
    if found.form == "tight":
        return rows
    if found.form == "aligned":
        return ceil_div(rows + experts * (found.size - 1), found.size) * found.size
    return experts * found.size


class MoELayout(NamedTuple):
    """How the rows that a router sends to experts lie in their buffer.

    Attributes:
      form: "tight": experts follow each other without a gap; "aligned": each expert begins at a multiple of `size`;
        "masked": each expert has `size` rows.
      size: the multiple or the number of rows; 1 if tight.
      by_row: whether metadata says each row's expert; otherwise it says where each expert's rows end.
    """

    form: Literal["tight", "aligned", "masked"]
    size: int
    by_row: bool = False


def moe_layout(layout: Any) -> MoELayout:
    """Returns what a value of an algebraic type of layouts means, in either spelling of MOE_LAYOUTS.

    Args:
      layout: an adt.AdtValue, or an object or a mapping with `kind` and that constructor's fields.

    Raises:
      ValueError: an unknown kind, a missing field, a negative `capacity` or `max_m`, or no positive alignment.
    """
    kind = _field(layout, "kind")
    if kind not in MOE_LAYOUTS:
        raise ValueError(f"a layout of kind {kind!r} is unknown; the kinds are {', '.join(MOE_LAYOUTS)}")
    if kind in ("Masked", "masked"):
        field = "max_m" if kind == "masked" else "capacity"
        size = _field(layout, field)
        if size < 0:
            raise ValueError(f"{field} is {size}; it must not be negative")
        return MoELayout("masked", size)
    by_row = kind == "contiguous" and _field(layout, "metadata_kind") == "per_row"
    if kind == "Nopad" or (kind == "contiguous" and _field(layout, "packing") == "tight"):
        return MoELayout("tight", 1, by_row)
    field = "alignment" if kind == "contiguous" else "block"
    size = _field(layout, field)
    if size <= 0:
        raise ValueError(f"{field} is {size}; it must be positive")
    return MoELayout("aligned", size, by_row)


def mhc_expansion(q: int) -> int:
    """The n > 0 with n * n + 2 * n == `q`: how many streams a mix of that many numbers per token connects.

    Domain: there is such an n.
    """
    n = math.isqrt(builtins.max(q + 1, 0)) - 1
    if n <= 0 or n * n + 2 * n != q:
        raise ValueError(f"no n > 0 has n * n + 2 * n == {q}")
    return n


def _field(value: Any, name: str) -> Any:
    try:
        if isinstance(value, Mapping):
            return value[name]
        read = getattr(value, "field", None)
        return read(name) if callable(read) else getattr(value, name)
    except (AttributeError, KeyError):
        raise ValueError(f"the layout {value} has no field {name!r}") from None


def range(count: int) -> builtins.range:  # noqa: A001
    """0 to `count` - 1, for a comprehension to run over; nothing if `count` is negative.

    Domain: `count` is at most 2**20, unless the sum has a closed form.
    """
    return builtins.range(_items(count))


def balanced_sizes(total: int, count: int) -> tuple[int, ...]:
    """`count` sizes that sum to `total` and differ by at most 1, the larger ones first.

    Domain: `total` >= 0; `count` is positive and at most 2**20.
    """
    if total < 0:
        raise ValueError(f"total is {total}; it must not be negative")
    if count <= 0:
        raise ValueError(f"count is {count}; it must be positive")
    size, larger = divmod(total, _items(count))
    return (size + 1,) * larger + (size,) * (count - larger)


def repeat(value: int, count: int) -> tuple[int, ...]:
    """`value`, `count` times.

    Domain: `count` lies in [0, 2**20].
    """
    if count < 0:
        raise ValueError(f"count is {count}; it must not be negative")
    return (value,) * _items(count)


def _items(count: int) -> int:
    if count > MAX_ITEMS:
        raise ValueError(f"{count} items are too many; a sequence has at most {MAX_ITEMS}")
    return count


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


def category(x: str | int | float | bool) -> str:
    """'bool', 'int', 'float' or 'complex': what a dtype holds, or a number is by its type."""
    if isinstance(x, str):
        return dtypes.category(x)
    return "bool" if isinstance(x, bool) else "int" if isinstance(x, int) else "float"


def representable(value: int | float | bool, dtype: str) -> bool:
    """Whether PyTorch converts the number `value` to the dtype, as it does with a number that fills a tensor.

    bool takes any number. An integer dtype takes any finite number in its range, also 0.5; an unsigned one also the
    integers from -max to -1, which wrap around. A float dtype takes what lies between its least and greatest finite
    value, infinity and NaN if it has them; a complex dtype what its parts take.
    """
    kind = dtypes.category(dtype)
    if kind == "bool":
        return True
    if kind == "int":
        least, most = dtypes.integer_range(dtype)
        wraps = least == 0 and isinstance(value, int)
        return (-most if wraps else least) <= value <= most  # false of NaN
    lowest, greatest, infinite = _FLOAT_RANGES[_COMPLEX_PARTS.get(dtype, dtype)]
    # Python compares an int with a float exactly, so an int too large for a float needs no conversion.
    return value != value or (infinite and value in (math.inf, -math.inf)) or lowest <= value <= greatest


def is_int(value: int | float | bool) -> bool:
    """Whether a number is an integer or a Bool by its type, as 2 is and 2.0 is not."""
    return isinstance(value, int)


# Least and greatest finite value, and whether there are infinities; every float dtype has a NaN.
_FLOAT_RANGES: dict[str, tuple[float, float, bool]] = {
    "float8_e4m3fn": (-448.0, 448.0, False),
    "float8_e5m2": (-57344.0, 57344.0, True),
    "float8_e8m0fnu": (2.0**-127, 2.0**127, False),  # only powers of two: no zero and no sign
    "float16": (-65504.0, 65504.0, True),
    "bfloat16": (-(2 - 2.0**-7) * 2.0**127, (2 - 2.0**-7) * 2.0**127, True),
    "float32": (-(2 - 2.0**-23) * 2.0**127, (2 - 2.0**-23) * 2.0**127, True),
    "float64": (-(2 - 2.0**-52) * 2.0**1023, (2 - 2.0**-52) * 2.0**1023, True),
}
_COMPLEX_PARTS = {"complex64": "float32", "complex128": "float64"}
_CATEGORIES = ("bool", "int", "float", "complex")
# PyTorch has these dtypes, but does not promote two different ones.
_WIDE_UNSIGNED = ("uint16", "uint32", "uint64")


def promote_int_to_float(dtype: str) -> str:
    """float32 for bool and the integer dtypes, else the dtype itself: what torch.sqrt gives."""
    return "float32" if dtypes.category(dtype) in ("bool", "int") else dtype


def promote_types(first: str, second: str) -> str:
    """The dtype that two dtypes promote to, as torch.promote_types gives it.

    Domain: a float8 dtype meets itself alone; uint16, uint32 and uint64 meet themselves and the wider floats alone.
    """
    low, high = sorted((first, second), key=lambda dtype: _CATEGORIES.index(dtypes.category(dtype)))
    if low == high:
        return low
    categories = dtypes.category(low), dtypes.category(high)
    wide_unsigned = low in _WIDE_UNSIGNED or high in _WIDE_UNSIGNED
    if any(dtype.startswith("float8") for dtype in (low, high)) or (wide_unsigned and categories[1] != "float"):
        raise ValueError(f"{first} and {second} promote to no dtype")
    if categories == ("float", "complex"):
        return "complex128" if low == "float64" else high
    if categories[0] != categories[1]:
        return high
    return _promoted_within(low, high)


def _promoted_within(first: str, second: str) -> str:
    """Returns the wider of two dtypes of one category; if neither holds the other, the next dtype that holds both."""
    pair = {first, second}
    if pair == {"float16", "bfloat16"}:
        return "float32"
    if pair == {"uint8", "int8"}:
        return "int16"
    return builtins.max(first, second, key=dtypes.BITS.__getitem__)


def coalesce_dtype(dtype: str | None, fallback: str) -> str:
    """`dtype` if it is given, else `fallback`."""
    return fallback if dtype is None else dtype


def divided(size: int, factor: int, offset: int) -> int | None:
    """Returns the M >= 0 with factor * M + offset == size, or None. `factor` is positive."""
    difference = size - offset  # a symbolic size, which torch.compile traces with, has no divmod
    return difference // factor if difference >= 0 and difference % factor == 0 else None
