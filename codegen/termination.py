"""Refuses formulas whose runs over sequences have no bound, or are too long for the entry's own rows.

`sum(sum(log2_floor(i + j + 1) for j in range(N)) for i in range(M))` has no closed form. Generated code adds it up term by
term, at most 2**20 terms in all, so it is bounded. It is refused if M * N is above the effort of an entry at some row. The
number of terms follows from the lengths of the ranges: no formula is evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tileops.manifest.language import effort, expr
from tileops.manifest.language.evaluate import UnknownNameError, evaluate
from tileops.manifest.language.invariants import expect
from tileops.manifest.language.sum_terms import is_long_sum, is_range_sum, sum_loop
from tileops.manifest.model import Signature
from tileops.manifest.rows.cases import Case

# Primitives that make a sequence as long as a size says, up to 2**20 items; the size is their last argument.
_LONG = frozenset({"balanced_sizes", "range", "repeat"})
# A sequence of a literal length up to this many items may be made at each step of another sequence.
_SHORT = 32
# A length without a value: of a call that has no price, which the test of every row's price reports.
_NO_VALUE = (UnknownNameError, ValueError, ArithmeticError, LookupError)


def too_long(signature: Signature, node: expr.Expr, cases: Iterable[Case]) -> str:
    """Returns why a formula's runs are too long, or "".

    Args:
      signature: of the entry, whose lets the formula may read.
      node: a kind-checked formula.
      cases: the entry's own calls.
    """
    return _unbounded(signature, node, "", False) or next(filter(None, (_at(node, case) for case in cases)), "")


def _unbounded(signature: Signature, node: expr.Expr, outer: str, counted: bool) -> str:
    """Returns why a part that is evaluated at each step of the run over `outer` could take 2**40 steps, or "".

    Args:
      signature, node: as too_long.
      outer: the long run around the part; "" if the part is evaluated once.
      counted: whether all runs around it are sums that generated code counts together.
    """
    if outer and _is_long(node):
        made = expr.to_source(node)
        return f"makes {made} at each step of {outer}, which may be 2**40 items; write a closed form or a func"
    if is_range_sum(node) and not outer:  # inside a run it would cost time at each step
        return ""
    if (is_long_sum(node) or is_range_sum(node)) and (counted or not outer):
        loop = sum_loop(node)
        count = _unbounded(signature, expect(loop.sequence, expr.Call).args[0], outer, counted)
        inner = expr.to_source(loop.sequence) if _is_long(loop.sequence) else outer
        every = [_unbounded(signature, part, inner, True) for part in _terms(loop)]
        return next(filter(None, [count, *every]), "")
    if not isinstance(node, expr.Comprehension):
        return next(
            (problem for part in expr.children(node) if (problem := _unbounded(signature, part, outer, counted))), ""
        )
    sequence = node.sequence
    let = signature.lets.get(sequence.id) if isinstance(sequence, expr.Name) else None
    is_long = _is_long(sequence if let is None else let.expr)
    if outer and is_long:
        run = expr.to_source(sequence)
        return f"runs over {run} at each step of {outer}, which may be 2**40 steps; write a closed form or a func"
    inner = expr.to_source(sequence) if is_long else outer
    every = [_unbounded(signature, part, inner, counted and not is_long) for part in _terms(node)]
    return next(filter(None, [*every, "" if is_long else _unbounded(signature, sequence, outer, counted)]), "")


def _terms(node: expr.Comprehension) -> list[expr.Expr]:
    """Returns what a comprehension evaluates at each step."""
    return [node.element] if node.condition is None else [node.element, node.condition]


def _is_long(node: expr.Expr) -> bool:
    """Returns whether a primitive makes a sequence whose length is large or not a literal."""
    if not isinstance(node, expr.Call) or node.function not in _LONG:
        return False
    length = node.args[-1]
    return not (isinstance(length, expr.Literal) and length.value <= _SHORT)


def _at(node: expr.Expr, case: Case) -> str:
    """Returns why a formula's runs are too long for a case, or ""."""
    sizes = {tensor.name: tensor.bytes for tensor in (*case.constants, *case.inputs, *case.outputs)}
    steps = _steps(_sized(node, sizes), case.values, case.present)
    if steps <= effort.MAX_STEPS:
        return ""
    return (
        f"takes {steps} steps at the row {case.label}, and at most {effort.MAX_STEPS} are allowed; write a closed form or"
        " a func"
    )


def _sized(node: expr.Expr, sizes: Mapping[str, int]) -> expr.Expr:
    """Returns the expression with the bytes of a case's tensors in place of `bytes(t)`."""
    if isinstance(node, expr.Call) and node.function == "bytes":
        return expr.Literal(sizes.get(expect(node.args[0], expr.Name).id, 0))
    return expr.rebuild(node, lambda part: _sized(part, sizes))


def _steps(node: expr.Expr, values: Mapping[str, Any], present: Mapping[str, bool]) -> int:
    """Returns how many terms a formula's runs have: of an inner run the longest, at either end of the outer run."""
    effort.spend()
    if is_range_sum(node):
        return 1
    try:
        if isinstance(node, expr.Conditional):
            taken = node.then if evaluate(node.test, values, present) else node.otherwise
            return 1 + _steps(node.test, values, present) + _steps(taken, values, present)
        if not isinstance(node, expr.Comprehension):
            return 1 + sum(_steps(part, values, present) for part in expr.children(node))
        sequence = _items(node.sequence, values, present)
    except _NO_VALUE:
        return 1
    ends = [sequence[0], sequence[-1]] if len(sequence) else []
    inner = [
        sum(_steps(part, {**values, node.variable: end}, present) for part in _terms(node))
        for end in dict.fromkeys(ends)
    ]
    return 1 + len(sequence) * max(inner, default=0)


def _items(node: expr.Expr, values: Mapping[str, Any], present: Mapping[str, bool]) -> Sequence[Any]:
    """Returns the sequence that a run takes; a range of any length, which its sum may refuse later."""
    if isinstance(node, expr.Call) and node.function == "range":
        return range(evaluate(node.args[0], values, present))
    found: Sequence[Any] = evaluate(node, values, present)
    return found
