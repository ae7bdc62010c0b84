"""What one ATen operation counts, by the seed's section 1.3 and docs/what-counts.md: the one table of primitive counts.

Every row is exact, and an operation that has no row is an error: nothing counts zero by default. Shapes alone decide a
count, so operations on `meta` tensors are counted like any other.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch


class UnknownOperation(Exception):
    """An ATen operation without a row in the table."""


@dataclasses.dataclass(frozen=True)
class Count:
    """How a group of operations is counted.

    Attributes:
      rule: the count in words, as the documentation prints it.
      flops: (arguments, keyword arguments, result) -> FLOPs.
      operations: the ATen names of the group, without overloads.
    """

    rule: str
    flops: Callable[[tuple[Any, ...], dict[str, Any], Any], int]
    operations: tuple[str, ...]


def _elements(result: Any) -> int:
    return math.prod(result.shape)


def _per_element(count: int) -> Callable[..., int]:
    return lambda args, kwargs, result: count * _elements(result)


def _add(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    """One an element, and the multiply by `alpha` unless that is the identity."""
    return _elements(result) * (1 if kwargs.get("alpha", 1) == 1 else 2)


def _reduction(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    """n adds for a result over n values."""
    return math.prod(args[0].shape)


def _mean(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    """The sum, and one divide a result."""
    return math.prod(args[0].shape) + _elements(result)


def _contraction(first: int) -> Callable[..., int]:
    """Two a term; `first` is the place of the left factor among the arguments, whose last axis is summed over."""
    return lambda args, kwargs, result: 2 * _elements(result) * args[first].shape[-1]


def _softmax(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    """Max, subtract, exp, sum and divide."""
    return 5 * _elements(result)


TABLE: tuple[Count, ...] = (
    Count("1 an output element, and 1 for `alpha` where it is not 1", _add, ("add", "sub", "rsub")),
    Count(
        "1 an output element", _per_element(1),
        (
            "mul", "div", "neg", "abs", "reciprocal", "sign", "floor", "ceil", "round", "trunc", "remainder", "floor_divide",
            "square", "exp", "expm1", "log", "log1p", "erf", "tanh", "sin", "cos", "sqrt", "rsqrt", "pow", "fmod",
            "maximum", "minimum", "clamp", "clamp_min", "clamp_max", "where", "relu", "masked_fill",
            "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite",
            "logical_and", "logical_or", "logical_not", "logical_xor",
            "bitwise_and", "bitwise_or", "bitwise_not", "bitwise_xor",
        ),
    ),
    Count("4 an output element: negate, exp, add, reciprocal", _per_element(4), ("sigmoid",)),
    Count("5 an output element: sigmoid and the multiply", _per_element(5), ("silu",)),
    Count("5 an element: max, subtract, exp, sum, divide", _softmax, ("_softmax",)),
    Count("1 a reduced value", _reduction, ("sum", "prod", "amax", "amin", "max", "min", "argmax", "argmin")),
    Count("1 a reduced value and 1 divide a result", _mean, ("mean",)),
    Count("1 an element", _per_element(1), ("cumsum", "cumprod")),
    Count("2 a term", _contraction(0), ("mm", "bmm")),
    Count(
        "0: index arithmetic, copies, casts, layout and views", _per_element(0),
        (
            "_to_copy", "view", "_unsafe_view", "reshape", "expand", "permute", "transpose", "t", "unsqueeze", "squeeze",
            "slice", "select", "clone", "copy_", "alias", "detach", "empty", "zeros", "full", "arange", "cat", "index",
        ),
    ),
)  # fmt: skip

# Operations that return views of their argument in a list.
_FREE_LISTS = frozenset({"split", "split_with_sizes", "unbind", "chunk"})
_BY_NAME = {name: count for count in TABLE for name in count.operations}


def flops_of(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    """FLOPs of one call of an ATen overload.

    Args:
      operation: the overload, as a dispatch mode gets it.
      args, kwargs, result: of the call; tensors of any device.

    Raises:
      UnknownOperation: the table has no row for it.
    """
    namespace, name = operation._schema.name.split("::")
    if namespace == "aten" and name in _FREE_LISTS:
        return 0
    if namespace != "aten" or name not in _BY_NAME:
        raise UnknownOperation(
            f"{operation} has no row in the table of primitive counts; add one, with its count from docs/what-counts.md"
        )
    if not isinstance(result, torch.Tensor):
        raise UnknownOperation(f"{operation} returns {type(result).__name__}, and the table's counts are of one tensor")
    return _BY_NAME[name].flops(args, kwargs, result)


def documented_table() -> list[str]:
    """Rows of the table in docs/what-counts.md, one a group of operations."""
    return [f"| {count.rule} | {', '.join(count.operations)} |" for count in TABLE]
