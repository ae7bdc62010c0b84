"""What a guard establishes: which names are present, and which values an enum, dtype or algebraic value can have."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tileops.manifest.language import effort, expr

Values = frozenset[Any]


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is known at one place of an expression.

    Attributes:
      shown: tensors and Maybes known to be present.
      only: name -> the values that it can have, if a guard lists them.
      never: name -> values that it cannot have.
    """

    shown: frozenset[str] = frozenset()
    only: Mapping[str, Values] = dataclasses.field(default_factory=dict)
    never: Mapping[str, Values] = dataclasses.field(default_factory=dict)

    def also(self, other: Facts) -> Facts:
        """Returns what is known if both facts hold."""
        only = dict(self.only)
        for name, values in other.only.items():
            only[name] = only[name] & values if name in only else values
        never = dict(self.never)
        for name, values in other.never.items():
            never[name] = never.get(name, frozenset()) | values
        return Facts(self.shown | other.shown, only, never)

    def either(self, other: Facts) -> Facts:
        """Returns what is known if at least one of the two facts holds."""
        return Facts(
            self.shown & other.shown,
            {name: values | other.only[name] for name, values in self.only.items() if name in other.only},
            {name: values & other.never[name] for name, values in self.never.items() if name in other.never},
        )

    def allows(self, name: str, value: Any) -> bool:
        """Returns whether `name` can still have `value`."""
        return value not in self.never.get(name, ()) and (name not in self.only or value in self.only[name])


NOTHING = Facts()


def learn(node: expr.Expr, holds: bool) -> Facts:
    """Returns what is known if `node` is true (`holds`) or false."""
    return _Learner().learn(node, holds)


class _Learner:
    """Finds what one guard establishes. The result for each part of the guard is computed once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bool], Facts] = {}

    def learn(self, node: expr.Expr, holds: bool) -> Facts:
        key = id(node), holds
        if key not in self._known:
            effort.spend()
            self._known[key] = self._from(node, holds)
        return self._known[key]

    def _from(self, node: expr.Expr, holds: bool) -> Facts:
        if isinstance(node, expr.Call) and node.function == "present" and holds:
            return Facts(frozenset(arg.id for arg in node.args if isinstance(arg, expr.Name)))
        if isinstance(node, expr.Unary) and node.op == "not":
            return self.learn(node.operand, not holds)
        if isinstance(node, expr.Logic):
            return self._logic(node, holds)
        if isinstance(node, expr.Conditional):
            taken = self.learn(node.test, True).also(self.learn(node.then, holds))
            return taken.either(self.learn(node.test, False).also(self.learn(node.otherwise, holds)))
        if isinstance(node, expr.Compare) and len(node.ops) == 1:
            left, right = node.operands
            return _comparison(node.ops[0], left, right, holds)
        return NOTHING

    def _logic(self, node: expr.Logic, holds: bool) -> Facts:
        """Returns what an `and` or `or` establishes. An operand is reached only if those before it did not decide."""
        combine: Callable[[Facts, Facts], Facts] = Facts.also if (node.op == "and") == holds else Facts.either
        facts = self.learn(node.operands[0], holds)
        before = self.learn(node.operands[0], not holds)
        for operand in node.operands[1:]:
            found = self.learn(operand, holds)
            facts = combine(facts, found if combine is Facts.also else before.also(found))
            before = before.also(self.learn(operand, not holds))
        return facts


def _comparison(op: str, left: expr.Expr, right: expr.Expr, holds: bool) -> Facts:
    if op in ("==", "!=") and subject(left) is None:
        left, right = right, left
    name = subject(left)
    values = _literals(right, op)
    if name is None or values is None or op not in ("==", "!=", "in", "not in"):
        return NOTHING
    if (op in ("==", "in")) == holds:
        shown = frozenset() if None in values else frozenset({name})
        return Facts(shown, {name: values})
    return Facts(frozenset({name}) if None in values else frozenset(), {}, {name: values})


def subject(node: expr.Expr) -> str | None:
    """Returns the name whose values a comparison of `x`, `x.value` or `x.kind` narrows, or None."""
    if isinstance(node, expr.Name):
        return node.id
    if isinstance(node, expr.Value):
        return node.name
    return node.name if isinstance(node, expr.Field) and node.field == "kind" else None


def _literals(node: expr.Expr, op: str) -> Values | None:
    if op in ("in", "not in"):
        if not isinstance(node, expr.Tuple):
            return None
        literals = [item for item in node.items if isinstance(item, expr.Literal)]
        return frozenset(literal.value for literal in literals) if len(literals) == len(node.items) else None
    return frozenset({node.value}) if isinstance(node, expr.Literal) else None
