"""Terms: the text of an expression together with its meaning, which is plain Python over the values of one call.

The meaning is composed beside the text, never read back from it: where a parser, a printer or an emitter misplaces an
operator, the two differ.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tileops.tests.codegen.random_draw import Draw

# Python's precedence, loosest first.
IF, OR, AND, NOT, COMPARE, SUM, PRODUCT, SIGN, ATOM = range(9)
MAX_VALUE = 2**60
MAX_RANGE = 40


class OutOfBoundsError(Exception):
    """A value grew beyond what a tiny call should count; the term or the call is drawn again."""


class Env(dict):
    """Values of one call by name; `("present", t)` and `("bytes", t)` of its tensors. Lets are worked out when read."""

    def __init__(self, values: Mapping[Any, Any], lets: Mapping[str, Term]) -> None:
        super().__init__(values)
        self.lets = lets

    def __missing__(self, name: Any) -> Any:
        value = self[name] = self.lets[name].of(self)
        return value

    def bound(self, variable: str, item: Any) -> Env:
        """The same call with a comprehension's variable."""
        return Env({**self, variable: item}, self.lets)


@dataclasses.dataclass(frozen=True)
class Term:
    """An expression.

    Attributes:
      text: as an entry writes it.
      level: the precedence of its outermost operator.
      of: its value in a call; raises what Python's operators raise outside their domain.
      reads: the names that it mentions.
      dim: whether the language knows by its form alone that it is an integer >= 0.
    """

    text: str
    level: int
    of: Callable[[Env], Any]
    reads: frozenset[str] = frozenset()
    dim: bool = False


def name(text: str, dim: bool = False) -> Term:
    """An index, parameter, let or comprehension variable."""
    return Term(text, ATOM, lambda env: env[text], frozenset({text}), dim)


def literal(value: Any, draw: Draw | None = None) -> Term:
    """A constant; strings in either kind of quotes."""
    if isinstance(value, str):
        quote = draw.choice("'\"") if draw else "'"
        text = f"{quote}{value}{quote}"
    elif isinstance(value, tuple):
        text = f"({', '.join(literal(item, draw).text for item in value)}{',' if len(value) == 1 else ''})"
    else:
        text = "inf" if value == float("inf") else repr(value)
    negative = isinstance(value, (int, float)) and value < 0
    return Term(text, SIGN if negative else ATOM, lambda env: value, dim=type(value) is int and value >= 0)


def all_reads(*terms: Term) -> frozenset[str]:
    """Names that any of the terms mentions."""
    return frozenset().union(*(term.reads for term in terms))


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}
_COMPARISON: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
}


class Writer:
    """Composes terms, with the parentheses that Python needs and now and then one that it does not."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def place(self, term: Term, level: int) -> str:
        """The term's text where something of `level` or tighter has to stand."""
        return f"({term.text})" if term.level < level or self._draw.chance(4) else term.text

    def arithmetic(self, op: str, left: Term, right: Term) -> Term:
        """`left op right`, for + - * // %."""
        level, compute = (SUM if op in "+-" else PRODUCT), _ARITHMETIC[op]

        def value(env: Env) -> int:
            result = compute(left.of(env), right.of(env))
            if abs(result) > MAX_VALUE:
                raise OutOfBoundsError
            return result

        dim = left.dim and right.dim and op in "+*"
        if op in ("//", "%"):
            dim = left.dim and right.dim
        text = f"{self.place(left, level)} {op} {self.place(right, level + 1)}"
        return Term(text, level, value, all_reads(left, right), dim)

    def sign(self, op: str, operand: Term) -> Term:
        """`-operand` or `+operand`."""
        text = f"{op}{self.place(operand, SIGN)}"
        factor = -1 if op == "-" else 1
        return Term(text, SIGN, lambda env: factor * operand.of(env), operand.reads, op == "+" and operand.dim)

    def negation(self, operand: Term) -> Term:
        """`not operand`."""
        return Term(f"not {self.place(operand, NOT)}", NOT, lambda env: not operand.of(env), operand.reads)

    def comparison(self, first: Term, *rest: tuple[str, Term]) -> Term:
        """`a < b <= c`: each neighbour with the next, the first failure deciding."""
        text = self.place(first, SUM)
        for op, operand in rest:
            text += f" {op} {self.place(operand, SUM)}"

        def value(env: Env) -> bool:
            left = first.of(env)
            for op, operand in rest:
                right = operand.of(env)
                if not _COMPARISON[op](left, right):
                    return False
                left = right
            return True

        return Term(text, COMPARE, value, all_reads(first, *(operand for _, operand in rest)))

    def logic(self, op: str, operands: Sequence[Term]) -> Term:
        """`a and b and c` or `a or b or c`."""
        level = AND if op == "and" else OR
        text = f" {op} ".join(self.place(operand, level + 1) for operand in operands)

        def value(env: Env) -> bool:
            for operand in operands:
                if operand.of(env) is (op == "or"):
                    return op == "or"
            return op == "and"

        return Term(text, level, value, all_reads(*operands))

    def conditional(self, test: Term, then: Term, otherwise: Term) -> Term:
        """`then if test else otherwise`."""
        text = f"{self.place(then, OR)} if {self.place(test, OR)} else {self.place(otherwise, IF)}"
        return Term(
            text,
            IF,
            lambda env: then.of(env) if test.of(env) else otherwise.of(env),
            all_reads(test, then, otherwise),
            then.dim and otherwise.dim,
        )

    def call(
        self, function: str, compute: Callable[..., Any], *args: Term, dim: bool = False, optional: str = ""
    ) -> Term:
        """`function(args)`; `compute` says what it gives for the arguments' values.

        `optional` is the name of the last argument, which at times is written by it.
        """
        texts = [arg.text for arg in args]
        if optional and self._draw.chance(50):
            self._draw.use("argument by name")
            texts[-1] = f"{optional}={texts[-1]}"
        text = f"{function}({', '.join(texts)})"
        return Term(text, ATOM, lambda env: compute(*(arg.of(env) for arg in args)), all_reads(*args), dim)

    def tuple(self, *items: Term) -> Term:
        """`(a, b)`."""
        text = f"({', '.join(item.text for item in items)}{',' if len(items) == 1 else ''})"
        dim = bool(items) and all(item.dim for item in items)
        return Term(text, ATOM, lambda env: tuple(item.of(env) for item in items), all_reads(*items), dim)

    def subscript(self, sequence: Term, index: Term) -> Term:
        """`sequence[index]`."""
        text = f"{self.place(sequence, ATOM)}[{index.text}]"
        return Term(text, ATOM, lambda env: sequence.of(env)[index.of(env)], all_reads(sequence, index), sequence.dim)

    def slice(self, sequence: Term, start: int | None, stop: int | None) -> Term:
        """`sequence[start:stop]`."""
        text = f"{self.place(sequence, ATOM)}[{'' if start is None else start}:{'' if stop is None else stop}]"
        return Term(text, ATOM, lambda env: tuple(sequence.of(env)[start:stop]), sequence.reads, sequence.dim)

    def comprehension(
        self,
        function: str,
        reduce: Callable[[list[Any]], Any],
        element: Term,
        variable: str,
        sequence: Term,
        condition: Term | None,
        default: Term | None = None,
    ) -> Term:
        """`function(element for variable in sequence if condition)`, at times with `default=` behind it."""
        tail = "" if condition is None else f" if {self.place(condition, OR)}"
        text = f"{element.text} for {variable} in {self.place(sequence, OR)}{tail}"
        text = f"{function}({text})" if default is None else f"{function}(({text}), default={default.text})"

        def value(env: Env) -> Any:
            found = []
            for item in sequence.of(env):
                inner = env.bound(variable, item)
                if condition is None or condition.of(inner):
                    found.append(element.of(inner))
            if default is None:
                return reduce(found)
            otherwise = default.of(env)  # worked out as every argument is, also if there are items
            return reduce(found) if found else otherwise

        parts = [element, sequence] if condition is None else [element, sequence, condition]
        reads = all_reads(*parts) - {variable}
        dim = element.dim and function != "all"
        if default is not None:
            return Term(text, ATOM, value, reads | default.reads, dim and default.dim)
        return Term(text, ATOM, value, reads, dim)
