"""Numbers that count the arithmetic done with them, and the polynomial that such counts follow.

For algorithms whose count no shape shows at once, recurrences and chunked scans: written out over scalars, each
operation is counted as it is performed. The count at small sizes is exact; where it is a polynomial of the extents,
enough small sizes decide it at any.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import torch


class Arithmetic:
    """Where numbers are made; `flops` is what has been performed with them, by the seed's section 1.3."""

    def __init__(self) -> None:
        self.flops = 0

    def number(self, value: float) -> Scalar:
        """A number of this arithmetic; making one counts nothing."""
        return Scalar(value, self)

    def numbers(self, tensor: torch.Tensor) -> Any:
        """The values of a tensor as nested lists of numbers; of a tensor without axes the number alone."""
        return self._nested(tensor.tolist())

    def _nested(self, values: Any) -> Any:
        return [self._nested(one) for one in values] if isinstance(values, list) else self.number(values)


@dataclasses.dataclass(frozen=True, eq=False)
class Scalar:
    """One number. Each operator and function counts 1; with a plain number that makes it the identity, 0."""

    value: float
    arithmetic: Arithmetic

    def _count(self, value: float) -> Scalar:
        self.arithmetic.flops += 1
        return Scalar(value, self.arithmetic)

    def __add__(self, other: Scalar | float) -> Scalar:
        return self if _is_plain(other, 0) else self._count(self.value + _value(other))

    def __sub__(self, other: Scalar | float) -> Scalar:
        return self if _is_plain(other, 0) else self._count(self.value - _value(other))

    def __mul__(self, other: Scalar | float) -> Scalar:
        return self if _is_plain(other, 1) else self._count(self.value * _value(other))

    def __truediv__(self, other: Scalar | float) -> Scalar:
        return self if _is_plain(other, 1) else self._count(self.value / _value(other))

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> Scalar:
        return self._count(other - self.value)

    def __rtruediv__(self, other: float) -> Scalar:
        return self._count(other / self.value)

    def __neg__(self) -> Scalar:
        return self._count(-self.value)

    def __abs__(self) -> Scalar:
        return self._count(abs(self.value))

    def max(self, other: Scalar | float) -> Scalar:
        """The greater: one compare and select."""
        return self._count(max(self.value, _value(other)))

    def min(self, other: Scalar | float) -> Scalar:
        """The lesser: one compare and select."""
        return self._count(min(self.value, _value(other)))

    def apply(self, function: Callable[[float], float]) -> Scalar:
        """A transcendental call, a root or a reciprocal root."""
        return self._count(function(self.value))

    def exp(self) -> Scalar:
        """e to its power."""
        return self.apply(math.exp)

    def log(self) -> Scalar:
        """Its natural logarithm."""
        return self.apply(math.log)

    def tanh(self) -> Scalar:
        """Its hyperbolic tangent."""
        return self.apply(math.tanh)

    def rsqrt(self) -> Scalar:
        """Its reciprocal root."""
        return self.apply(lambda value: 1 / math.sqrt(value))

    def __bool__(self) -> bool:
        raise TypeError(
            "a branch on a number would make the count depend on data; use max and min, or decide by the extents"
        )

    def __eq__(self, other: object) -> bool:
        raise TypeError("a comparison of numbers is not counted; compare their values, or add a counted predicate")

    __hash__ = None


def _value(other: Scalar | float) -> float:
    return other.value if isinstance(other, Scalar) else other


def _is_plain(other: Scalar | float, number: int) -> bool:
    return not isinstance(other, Scalar) and other == number


def plain(numbers: Any) -> torch.Tensor:
    """Nested lists of numbers as a float64 tensor; counts nothing."""
    return torch.tensor(_values(numbers), dtype=torch.float64)


def _values(numbers: Any) -> Any:
    return [_values(one) for one in numbers] if isinstance(numbers, list) else numbers.value


@dataclasses.dataclass(frozen=True)
class Polynomial:
    """The polynomial through counts on a grid: of degree len(grid[extent]) - 1 in each extent.

    Attributes:
      grid: the values of each extent, by name.
      counts: by one value an extent, in the order of the grid.
    """

    grid: Mapping[str, Sequence[int]]
    counts: Mapping[tuple[int, ...], int]

    def at(self, extents: Mapping[str, int]) -> int:
        """Its value at extents of any size.

        Raises:
          ValueError: it is no whole number there, so that the counts follow no polynomial of these degrees.
        """
        weights = {name: _lagrange(values, extents[name]) for name, values in self.grid.items()}
        total = Fraction(0)
        for point, count in self.counts.items():
            total += math.prod(
                (weights[name][value] for name, value in zip(self.grid, point, strict=True)), start=Fraction(count)
            )
        if total.denominator != 1:
            raise ValueError(
                f"the counts on {dict(self.grid)} follow no polynomial: it would be {total} at {dict(extents)}"
            )
        return int(total)


def _lagrange(values: Sequence[int], at: int) -> dict[int, Fraction]:
    """The weight at `at` of the count at each value."""
    return {
        one: math.prod((Fraction(at - other, one - other) for other in values if other != one), start=Fraction(1))
        for one in values
    }


def polynomial(grid: Mapping[str, Sequence[int]], count: Callable[[dict[str, int]], int]) -> Polynomial:
    """The polynomial through `count` at every point of a grid."""
    points = itertools.product(*grid.values())
    return Polynomial(grid, {point: count(dict(zip(grid, point, strict=True))) for point in points})
