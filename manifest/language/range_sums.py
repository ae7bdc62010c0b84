"""Exact sums over ranges of any length, in closed form.

`range_sum(S, lambda i: min((i + 1, W)))` runs the term on a polynomial in i in place of the index. The term compares
i + 1 with W. The answer is yes up to i = W - 1 and no from there on, so the range is split there and the term runs
again on each part. On [0, W) the term is the polynomial i + 1, on [W, S) the number W, and sums of polynomials have
formulas.

- A comparison asks for the sign of a linear polynomial: constant on the range, or the range is split at its root.
- A quotient by a number m that does not divide the coefficient of i splits the range by i modulo a divisor of m, or
  at the places where the quotient grows, whichever is fewer parts.
- A sum inside a term does the same with an inner index, whose range may end at a polynomial of the outer index. A
  comparison that only the outer index decides splits the outer range.

A term for which all this fails (floats, roots of squares, too many parts) is added up index by index, up to MAX_WORK.
"""

from __future__ import annotations

import builtins
import contextvars
import functools
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

# Terms that one sum works out, parts of ranges and single indices together, sums inside it included. It is also the
# longest sequence that a primitive makes: a hostile length is refused within a second.
MAX_WORK = 2**20
# Parts of ranges, and steps of polynomials (about a microsecond each), before the sum is added up index by index.
_MAX_PARTS = 2**14
MAX_STEPS = 400_000
# Ranges up to this length are added up index by index at once: that is faster.
_FEW = 8


class _OpenError(Exception):
    """The term is no piecewise polynomial of the index, or has too many pieces."""


class _SplitError(Exception):
    """The range of a variable must be split: `parts` are the new ranges with the index in each."""

    def __init__(self, variable: _Variable, parts: list[tuple[_Variable, Any]]) -> None:
        super().__init__()
        self.variable = variable
        self.parts = parts


class _Variable:
    """A whole number in [start, stop). Both ends may be polynomials in variables of lower depth."""

    __slots__ = ("depth", "start", "stop")

    def __init__(self, depth: int, start: Any, stop: Any) -> None:
        self.depth = depth
        self.start = start
        self.stop = stop


_Monomial = tuple[_Variable, ...]


class _Polynomial:
    """A polynomial in variables with whole or rational coefficients, which a term gets as its index.

    A comparison answers for all values that the variables have, or raises _SplitError.
    """

    __slots__ = ("terms",)
    __hash__ = None  # type: ignore[assignment]  # says that only equality is defined

    def __init__(self, terms: Mapping[_Monomial, Any]) -> None:
        self.terms = terms

    def __add__(self, other: Any) -> Any:
        terms = dict(self.terms)
        for monomial, factor in _terms(other).items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return _made(terms)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return _made({monomial: -factor for monomial, factor in self.terms.items()})

    def __pos__(self) -> Any:
        return self

    def __sub__(self, other: Any) -> Any:
        return self + -_number(other)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        terms: dict[_Monomial, Any] = {}
        factors = _terms(other)
        _spend(len(factors) * len(self.terms))
        for right, by in factors.items():
            for left, factor in self.terms.items():
                monomial = tuple(sorted((*left, *right), key=lambda one: one.depth))
                terms[monomial] = terms.get(monomial, 0) + factor * by
        return _made(terms)

    __rmul__ = __mul__

    def __floordiv__(self, by: Any) -> Any:
        if isinstance(by, _Polynomial):
            raise _OpenError
        if by == 0:
            raise ZeroDivisionError("integer division or modulo by zero")
        return _quotient(self, _number(by)) if by > 0 else _quotient(-self, -_number(by))

    def __mod__(self, by: Any) -> Any:
        return self - self // by * by

    def __rfloordiv__(self, other: Any) -> Any:
        raise _OpenError

    __rmod__ = __rfloordiv__

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __bool__(self) -> bool:
        return self != 0

    def __ge__(self, other: Any) -> bool:
        return _is_nonnegative(self - other)

    def __le__(self, other: Any) -> bool:
        return _is_nonnegative(-self + other)

    def __gt__(self, other: Any) -> bool:
        return _is_nonnegative(self - other - 1)

    def __lt__(self, other: Any) -> bool:
        return _is_nonnegative(-self + other - 1)

    def __eq__(self, other: Any) -> bool:
        return self >= other and self <= other

    def __ne__(self, other: Any) -> bool:
        return not self == other


def _free(steps: int) -> None:
    """Does nothing: generated code has no budget but that of the sum."""


def range_sum(count: int, term: Callable[[Any], Any], spend: Callable[[int], None] = _free) -> int:
    """Returns the sum of term(i) over i in [0, `count`), exactly as adding up index by index would.

    Args:
      count: how many indices; negative is none.
      term: made of + - * // % comparisons, max, min and abs of its argument, and of inner sums of this kind.
      spend: takes the steps that the polynomials cost, each about a microsecond; an error that it raises ends the sum.

    Raises:
      ValueError: it is no piecewise polynomial of few pieces, and has more than MAX_WORK terms.
      ArithmeticError, ValueError: as the term.
    """
    work = _WORK.get()
    if work is not None:  # inside a term of another sum, which counts this work
        return work.sum(count, term)
    work = _Work(spend)
    token = _WORK.set(work)
    try:
        return work.sum(count, term)
    except _OpenError:
        work.by_index = True
        work.left = MAX_WORK
        return work.sum(count, term)
    finally:
        _WORK.reset(token)


def counted_sum(count: int, term: Callable[[int], Any]) -> Any:
    """Returns the sum of term(index) over index in [0, count), added up index by index.

    Raises:
      ValueError: it has more than MAX_WORK terms, those of sums inside it included.
    """
    work = _WORK.get()
    if work is not None:
        return work.sum(count, term)
    work = _Work(_free)
    work.by_index, work.left = True, MAX_WORK
    token = _WORK.set(work)
    try:
        return work.sum(count, term)
    finally:
        _WORK.reset(token)


class _Work:
    """One sum with the sums inside it: the terms and steps left, and whether it adds up index by index."""

    def __init__(self, spend: Callable[[int], None]) -> None:
        self.by_index = False
        self.left = _MAX_PARTS
        self._spend = spend
        self._steps = MAX_STEPS
        self._depth = 0

    def spend(self, steps: int) -> None:
        """Counts steps of polynomials. Raises _OpenError if the sum takes too many of them."""
        self._steps -= steps
        if self._steps < 0:
            raise _OpenError
        self._spend(steps)

    def sum(self, count: Any, term: Callable[[Any], Any]) -> Any:
        """Returns what range_sum does. `count` and the result may be polynomials in the variables of outer sums."""
        if isinstance(count, int) and (self.by_index or count <= _FEW):
            return builtins.sum(self._one(term, index) for index in range(self._counted(count)))
        self._depth += 1
        try:
            return self._parts(_Variable(self._depth, 0, count), term)
        finally:
            self._depth -= 1

    def _counted(self, count: int) -> int:
        if self.by_index and count > self.left:
            terms = count if count > MAX_WORK else f"more than {MAX_WORK}"  # terms of inner sums count too
            raise ValueError(
                f"a sum of {terms} terms is too long: at most {MAX_WORK} are added up one by one. Sums of any length"
                " are those whose terms are made of + - * // %, comparisons, max and min, linear in the index inside"
                " all but + - *"
            )
        return count

    def _one(self, term: Callable[[Any], Any], index: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            if not self.by_index:
                raise _OpenError
            self._counted(MAX_WORK + 1)
        return term(index)

    def _parts(self, whole: _Variable, term: Callable[[Any], Any]) -> Any:
        total: Any = 0
        waiting: list[tuple[_Variable, Any]] = [(whole, _made({(whole,): 1}))]
        while waiting:
            variable, index = waiting.pop()
            if not variable.start < variable.stop:
                continue
            try:
                value = self._one(term, index)
            except _SplitError as split:
                if split.variable is not variable:
                    raise
                waiting += [(part, _substituted(index, variable, inner)) for part, inner in split.parts]
            else:
                total = total + _total(_number(value), variable)
        return total


_WORK: contextvars.ContextVar[_Work | None] = contextvars.ContextVar("range_sum", default=None)


def _spend(steps: int) -> None:
    work = _WORK.get()
    assert work is not None, "a polynomial outside every sum"
    work.spend(steps)


# ---- polynomials


def _number(value: Any) -> Any:
    """Returns a whole number or polynomial. Raises _OpenError for a float, whose sum depends on the order."""
    if not isinstance(value, (int, Fraction, _Polynomial)):
        raise _OpenError
    return value


def _terms(value: Any) -> Mapping[_Monomial, Any]:
    return value.terms if isinstance(value, _Polynomial) else {(): _number(value)}


def _made(terms: Mapping[_Monomial, Any]) -> Any:
    """Returns the polynomial without zero terms, as a number if no variable is left."""
    _spend(1 + len(terms))
    kept = {monomial: _whole(factor) for monomial, factor in terms.items() if factor}
    if kept.keys() <= {()}:
        return kept.get((), 0)
    return _Polynomial(kept)


def _whole(factor: Any) -> Any:
    return factor.numerator if factor.denominator == 1 else factor


def _substituted(value: Any, variable: _Variable, inner: Any) -> Any:
    """Returns the value, which is linear in the variable, with `inner` in place of the variable."""
    rest, factor = _linear_in(value, variable)
    return factor * inner + rest


def _linear_in(value: Any, variable: _Variable) -> tuple[Any, Any]:
    """Returns (rest, factor) of the polynomial rest + factor * variable."""
    rest = {monomial: factor for monomial, factor in value.terms.items() if variable not in monomial}
    return _made(rest), value.terms.get((variable,), 0)


def _innermost(value: _Polynomial, accept: Callable[[Any], bool]) -> _Variable | None:
    """Returns the deepest variable whose coefficient `accept` takes, or None.

    Raises _OpenError where the polynomial is not linear, with whole numbers.
    """
    found = None
    for monomial, factor in value.terms.items():
        if len(monomial) > 1 or not isinstance(factor, int):
            raise _OpenError
        if monomial and accept(factor) and (found is None or monomial[0].depth > found.depth):
            found = monomial[0]
    return found


def _is_nonnegative(value: Any) -> bool:
    """Returns whether the value is >= 0 for all values of its variables. Raises _SplitError if it differs."""
    if not isinstance(value, _Polynomial):
        return value >= 0
    variable = _innermost(value, bool)
    assert variable is not None, "a polynomial has a variable"
    rest, factor = _linear_in(value, variable)
    # It holds from `place` on where the factor is positive, else up to it.
    place = -(rest // factor) if factor > 0 else rest // -factor + 1
    if place <= variable.start:
        return factor > 0
    if place >= variable.stop:
        return factor < 0
    raise _SplitError(variable, [_part(variable, variable.start, place), _part(variable, place, variable.stop)])


def _part(variable: _Variable, start: Any, stop: Any) -> tuple[_Variable, Any]:
    part = _Variable(variable.depth, start, stop)
    return part, _made({(part,): 1})


def _quotient(value: Any, by: int) -> Any:
    """Returns value // by for a positive `by`."""
    if not isinstance(value, _Polynomial):
        return value // by
    variable = _innermost(value, lambda factor: factor % by != 0)
    if variable is None:
        return _made({monomial: factor // by for monomial, factor in value.terms.items()})
    rest, factor = _linear_in(value, variable)
    modulus = by // math.gcd(by, factor)
    if isinstance(rest, int) and isinstance(variable.start, int) and isinstance(variable.stop, int):
        ends = (factor * variable.start + rest) // by, (factor * (variable.stop - 1) + rest) // by
        low, high = min(ends), max(ends)
        if low == high:
            return low
        if high - low < modulus:
            middle = (low + high + 1) // 2  # the quotient is at least this much from `place` on, or before it
            place = -((rest - middle * by) // factor) if factor > 0 else (rest - middle * by) // -factor + 1
            raise _SplitError(variable, [_part(variable, variable.start, place), _part(variable, place, variable.stop)])
    if modulus > _MAX_PARTS:
        raise _OpenError
    parts = []
    for remainder in range(modulus):
        bounds = (-((remainder - bound) // modulus) for bound in (variable.start, variable.stop))
        part, index = _part(variable, *bounds)
        parts.append((part, modulus * index + remainder))
    raise _SplitError(variable, parts)


# ---- sums of powers


def _total(value: Any, variable: _Variable) -> Any:
    """Returns the sum of the value over all values of the variable."""
    if not isinstance(value, _Polynomial):
        return value * (variable.stop - variable.start)
    by_power: dict[int, dict[_Monomial, Any]] = {}
    for monomial, factor in value.terms.items():
        power = monomial.count(variable)
        others = tuple(one for one in monomial if one is not variable)
        by_power.setdefault(power, {})[others] = factor
    total: Any = 0
    for power, terms in by_power.items():
        total = total + _made(terms) * (_powers(variable.stop, power) - _powers(variable.start, power))
    return _whole(total) if isinstance(total, Fraction) else total


def _powers(count: Any, power: int) -> Any:
    """Returns the sum of k**power over k in [0, count), by Stirling numbers: sum of S(power, j) j! C(count, j + 1)."""
    total: Any = 0
    product: Any = count
    for j in range(power + 1):
        if j:
            product = product * (count - j)
        if number := _stirling(power, j):
            total = total + product * Fraction(number, j + 1)
    return total


@functools.cache
def _stirling(power: int, j: int) -> int:
    if power == j:
        return 1
    if j == 0 or j > power:
        return 0
    return j * _stirling(power - 1, j) + _stirling(power - 1, j - 1)
