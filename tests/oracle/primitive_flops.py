"""What one ATen operation counts, by the seed's section 1.3 and docs/what-counts.md: the one table of primitive counts.

Every row is exact, and an operation that has no row is an error: nothing counts zero by default. Shapes, dtypes and
numbers decide a count, never a tensor's values, so operations on `meta` tensors are counted like any other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch


class UnknownOperation(Exception):
    """An ATen operation without a row in the table, or used in a way that its row does not count."""


@dataclasses.dataclass(frozen=True)
class Use:
    """One use of an operation.

    Attributes:
      name: ATen's, without the overload.
      args: what was passed, by the names of ATen's schema.
      result: the tensor that it returns, of several the first; None where it returns none.
    """

    name: str
    args: Mapping[str, Any]
    result: torch.Tensor | None

    @property
    def elements(self) -> int:
        """Of the result."""
        return self.result.numel()

    @property
    def input(self) -> torch.Tensor:
        """What it is applied to."""
        return self.args["self"]


@dataclasses.dataclass(frozen=True)
class Count:
    """How a group of operations is counted.

    Attributes:
      rule: the count in words, as the documentation prints it.
      flops: of one use.
      operations: the ATen names of the group, without overloads.
    """

    rule: str
    flops: Callable[[Use], int]
    operations: tuple[str, ...]


def _per_element(count: int) -> Callable[[Use], int]:
    return lambda use: count * use.elements


def _unless(identity: Callable[[Use], bool], count: int = 1) -> Callable[[Use], int]:
    """`count` an element, and nothing where the use is the identity."""
    return lambda use: 0 if identity(use) else count * use.elements


def _is_number(value: Any, number: int) -> bool:
    return isinstance(value, (int, float)) and value == number


def _whole(use: Use) -> bool:
    """Of integers, which are whole already."""
    return not use.input.dtype.is_floating_point


def _never_negative(use: Use) -> bool:
    return use.input.dtype in (torch.bool, torch.uint8)


def _sum_or_difference(use: Use) -> int:
    """One an element, and the multiples that `alpha` makes before they are broadcast; nothing where the number 0 is
    added.

    An alpha of 0 is a multiply like any other: 0 times infinity is NaN.
    """
    other = use.args.get("other")
    if _is_number(other, 0) and use.name != "rsub":
        return 0
    multiplied = use.input if use.name == "rsub" else other
    is_made = use.args.get("alpha", 1) != 1 and isinstance(multiplied, torch.Tensor) and use.elements > 0
    return use.elements + (multiplied.numel() if is_made else 0)


def _round(use: Use) -> int:
    if _whole(use):
        return 0
    return use.elements * (1 if use.args.get("decimals", 0) == 0 else 3)


def _reduction(use: Use) -> int:
    """n adds (or compares) for a result over n values."""
    return use.input.numel()


def _contraction(use: Use) -> int:
    """Two a term; the left factor's last axis is summed over."""
    return 2 * use.elements * use.input.shape[-1]


def _gelu(use: Use) -> int:
    return use.elements * {"none": 5, "tanh": 9}[use.args.get("approximate", "none")]


def _fft(use: Use) -> int:
    """5 n log2 n per transform, along one axis after another; unscaled, of lengths that are powers of two."""
    lengths = [use.input.shape[axis] for axis in use.args["dim"]]
    if use.args["normalization"] or any(length.bit_count() != 1 for length in lengths):
        raise UnknownOperation(
            f"aten.{use.name} of lengths {lengths} with normalization {use.args['normalization']}: the table counts unscaled"
            " transforms of powers of two; count the algorithm that the entry names by hand"
        )
    return sum(5 * use.elements * (length.bit_length() - 1) for length in lengths)


TABLE: tuple[Count, ...] = (
    Count(
        "1 per output element, and 1 per element of what `alpha` multiplies if it is not 1; 0 if the number 0 is added or"
        " subtracted",
        _sum_or_difference,
        ("add", "sub", "rsub"),
    ),
    Count(
        "1 per output element; 0 of a number that is 1",
        _unless(lambda use: _is_number(use.args.get("other"), 1)),
        ("mul", "div"),
    ),
    Count(
        "1 per output element; 0 for the exponent 1",
        _unless(lambda use: _is_number(use.args.get("exponent"), 1)),
        ("pow",),
    ),
    Count("1 per output element; 0 of integers", _unless(_whole), ("floor", "ceil", "trunc")),
    Count("1 per output element, 3 if `decimals` is not 0; 0 of integers", _round, ("round",)),
    Count("1 per output element; 0 of unsigned integers", _unless(_never_negative), ("abs", "relu")),
    Count("1 per output element; 0 of bools", _unless(lambda use: use.input.dtype == torch.bool), ("sign",)),
    Count(
        "1 per output element",
        _per_element(1),
        (
            "neg",
            "reciprocal",
            "remainder",
            "floor_divide",
            "exp",
            "expm1",
            "log",
            "log1p",
            "erf",
            "tanh",
            "sin",
            "cos",
            "sqrt",
            "rsqrt",
            "fmod",
            "maximum",
            "minimum",
            "clamp",
            "clamp_min",
            "clamp_max",
            "where",
            "masked_fill",
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "isnan",
            "isinf",
            "isfinite",
            "logical_and",
            "logical_or",
            "logical_not",
            "logical_xor",
            "bitwise_and",
            "bitwise_or",
            "bitwise_not",
            "bitwise_xor",
        ),
    ),
    Count("4 per output element: negate, exp, add, reciprocal", _per_element(4), ("sigmoid",)),
    Count("5 per output element: sigmoid and the multiply", _per_element(5), ("silu",)),
    Count("4 per output element: exp, log1p, tanh, multiply", _per_element(4), ("mish",)),
    Count(
        "5 per output element: scale, erf, add, halve, multiply; by tanh 9: square, cube, scale, add x, scale, tanh, add, halve,"
        " multiply",
        _gelu,
        ("gelu",),
    ),
    Count("5 per element: max, subtract, exp, sum, divide", _per_element(5), ("_softmax",)),
    Count("1 per reduced value", _reduction, ("sum", "prod", "amax", "amin", "max", "min", "argmax", "argmin")),
    Count("1 per reduced value and 1 divide per result", lambda use: _reduction(use) + use.elements, ("mean",)),
    Count("2 per value: the predicate and the add", lambda use: 2 * _reduction(use), ("count_nonzero",)),
    Count("1 per value: one compare per candidate", _reduction, ("topk",)),
    Count("1 per element", _per_element(1), ("cumsum", "cumprod")),
    Count(
        "2 per element in training: compare and multiply; the generator 0",
        _unless(lambda use: use.args.get("train") is False, 2),
        ("native_dropout",),
    ),
    Count("2 per term", _contraction, ("mm", "bmm")),
    Count("5 n log2 n per transform, if n is a power of two", _fft, ("_fft_c2c",)),
    Count(
        "0: index arithmetic, copies, casts, layout and views",
        lambda use: 0,
        (
            "_to_copy",
            "view",
            "_unsafe_view",
            "expand",
            "permute",
            "transpose",
            "t",
            "unsqueeze",
            "squeeze",
            "slice",
            "select",
            "clone",
            "copy_",
            "alias",
            "detach",
            "empty",
            "zeros",
            "full",
            "arange",
            "cat",
            "index",
            "split",
            "split_with_sizes",
            "unbind",
            "view_as_complex",
            "view_as_real",
        ),
    ),
)

_BY_NAME = {name: count for count in TABLE for name in count.operations}
# Rows whose counts are of real arithmetic: one operation of complex numbers is several.
_OF_COMPLEX = frozenset({"_fft_c2c", *TABLE[-1].operations})

# Functions that PyTorch takes apart before a dispatch mode sees them, into more than they count; the row of each.
FUNCTIONS: dict[Any, str] = {
    torch.isfinite: "isfinite",
    torch.Tensor.isfinite: "isfinite",
    torch.Tensor.__rdiv__: "div",
    torch.Tensor.__rtruediv__: "div",
}


def flops_of(operation: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> int:
    """FLOPs of one call of an ATen overload.

    Args:
      operation: the overload, as a dispatch mode gets it.
      args, kwargs, result: of the call; tensors of any device.

    Raises:
      UnknownOperation: the table has no row for it, or its row does not count this use.
    """
    namespace, name = operation._schema.name.split("::")
    if namespace != "aten" or name not in _BY_NAME:
        raise UnknownOperation(
            f"{operation} has no row in the table of primitive counts; add one, with its count from docs/what-counts.md"
        )
    names = [argument.name for argument in operation._schema.arguments]
    return _counted(name, {**dict(zip(names, args, strict=False)), **kwargs}, result)


def flops_of_function(function: Any, args: tuple[Any, ...], result: Any) -> int:
    """FLOPs of one call of a function of FUNCTIONS."""
    return _counted(FUNCTIONS[function], {"self": args[0]}, result)


def _counted(name: str, args: Mapping[str, Any], result: Any) -> int:
    first = result[0] if isinstance(result, (tuple, list)) and result else result
    tensors = [one for one in (*args.values(), first) if isinstance(one, torch.Tensor)]
    if name not in _OF_COMPLEX and any(tensor.dtype.is_complex for tensor in tensors):
        raise UnknownOperation(
            f"aten.{name} of complex numbers: the table counts real arithmetic; write it in real and imaginary parts"
        )
    return _BY_NAME[name].flops(Use(name, args, first if isinstance(first, torch.Tensor) else None))


def documented_table() -> list[str]:
    """Rows of the table in docs/what-counts.md, one a group of operations."""
    return [f"| {count.rule} | {', '.join(count.operations)} |" for count in TABLE]
