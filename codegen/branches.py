"""Finds the branches of an entry's price that each workload row takes, so that an audit can choose rows for them all.

A branch is a group of discriminant points at which a formula folds to the same expression.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tileops.manifest.language import expr, kinds
from tileops.manifest.language.adt import AdtValue, same
from tileops.manifest.model import Param, Signature
from tileops.manifest.plans.domain import Domain
from tileops.manifest.plans.points import Discriminant, Point, domain_restrictions
from tileops.manifest.plans.shapes import shape_at
from tileops.manifest.plans.trees import Leaf, Split, Tree, decide, leaves, paths
from tileops.manifest.rows.cases import Case


@dataclasses.dataclass(frozen=True)
class Branches:
    """The branches of an entry's price.

    Attributes:
      texts: each branch in words, as in "bytes: present(weight) = True"; formulas in the order flops, bytes.
      taken: of each case of the entry, the branches that it takes, as positions in `texts`.
    """

    texts: tuple[str, ...]
    taken: tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True)
class _Partition:
    """The branches of one formula, or of one tensor's charge: the leaves of a tree, equal ones being one branch."""

    formula: str
    tree: Tree[Any]

    @property
    def texts(self) -> list[str]:
        """Returns its branches in words."""
        found: dict[Any, list[str]] = {}
        for path, leaf in paths(self.tree):
            decided = ", ".join(f"{discriminant.key} = {value}" for discriminant, value in path)
            found.setdefault(leaf, []).append(decided or "every call")
        return [f"{self.formula}: {' or '.join(where)}" for where in found.values()]

    def of(self, case: Case) -> int | None:
        """Returns the branch that a case takes, as a position in `texts`; None if it takes none."""
        tree = self.tree
        while isinstance(tree, Split):
            one = tree.discriminant
            found = next((branch for value, branch in tree.branches if _holds(case, one, value)), None)
            if found is None:
                return None
            tree = found
        return [*dict.fromkeys(leaves(self.tree))].index(tree.value)


def branches(
    signature: Signature,
    cases: Sequence[Case],
    formulas: Mapping[str, Sequence[Tree[Any]]] | None,
    traffic: Sequence[Tree[Any]] | None,
) -> Branches:
    """Returns the branches of an entry without defects.

    Args:
      signature: the entry's.
      cases: the calls that its rows describe.
      formulas: its inline formulas as trees, by name; None if its price is a function.
      traffic: what each call is charged, if its bytes follow from the signature.
    """
    if formulas is None:
        found = _opaque(signature)
    else:
        found = [partition for formula, trees in formulas.items() for partition in _of_trees(formula, trees)]
        if traffic is not None:
            found += [*_of_trees("bytes", traffic), *_charges(signature)]
    texts = [partition.texts for partition in found]
    firsts = [sum(map(len, texts[:at])) for at in range(len(texts))]
    taken = []
    for case in cases:
        positions = zip(firsts, (partition.of(case) for partition in found), strict=True)
        taken.append(tuple(first + position for first, position in positions if position is not None))
    return Branches(tuple(text for own in texts for text in own), tuple(taken))


def _charges(signature: Signature) -> list[_Partition]:
    """Returns the branches of derived bytes beside the effects: each tensor's presence and shape.

    Charges are a sum, so no expression relates those of two tensors: each is enumerated separately.
    """
    found = [
        _presence("bytes", name)
        for name, tensor in signature.tensors.items()
        if tensor.may_be_absent or _may_be_none(signature.params.get(name))
    ]
    for tensor in signature.tensors.values():
        if isinstance(tensor.shape.expr, expr.FamilyTerm):
            points = Domain(signature).points([tensor.shape.expr])
            tree = decide([(point, shape_at(signature, tensor, point)) for point in points])
            if isinstance(tree, Split):
                found.append(_Partition(f"bytes({tensor.name})", tree))
    return found


def _opaque(signature: Signature) -> list[_Partition]:
    """Returns the branches of a formula in Python: each value of each discriminant is a branch."""
    found = []
    for param in signature.params.values():
        inner = param.kind.given
        values = () if param.name in signature.constants else _finite(inner)
        if values:
            values += (None,) if inner is not param.kind else ()
            found.append(_accepted(signature, Discriminant(param.name, False, values)))
        elif inner is not param.kind:
            found.append(_presence("func", param.name))
    for name, tensor in signature.tensors.items():
        if tensor.may_be_absent:
            found.append(_presence("func", name))
    return found or [_Partition("func", Leaf(None))]


def _finite(kind: kinds.Kind) -> tuple[Any, ...]:
    if isinstance(kind, kinds.Bool):
        return (False, True)
    if isinstance(kind, kinds.Enum):
        return kind.values
    if isinstance(kind, kinds.Adt):
        return tuple(AdtValue(constructor.name, ()) for constructor in kind.constructors)
    return ()


def _may_be_none(param: Param | None) -> bool:
    return param is not None and isinstance(param.kind, kinds.Maybe)


def _accepted(signature: Signature, one: Discriminant) -> _Partition:
    """Returns a branch of a function for each value of a parameter that the entry's restrictions accept."""
    rules = domain_restrictions(signature)
    points = {value: Point(((one, value),)) for value in one.values}
    return _split(
        "func",
        one,
        (value for value, point in points.items() if all(point.fold(rule) != expr.Literal(False) for rule in rules)),
    )


def _presence(formula: str, name: str) -> _Partition:
    return _split(formula, Discriminant(name, True, (False, True)), (False, True))


def _split(formula: str, one: Discriminant, values: Iterable[Any]) -> _Partition:
    """Returns a branch for each value of a discriminant."""
    return _Partition(formula, Split(one, tuple((value, Leaf(at)) for at, value in enumerate(values))))


def _of_trees(formula: str, trees: Sequence[Tree[Any]]) -> list[_Partition]:
    """Returns a partition for each tree that splits, or one partition if no tree does."""
    return [_Partition(formula, tree) for tree in trees if isinstance(tree, Split)] or [_Partition(formula, trees[0])]


def _holds(case: Case, discriminant: Discriminant, value: Any) -> bool:
    """Returns whether a case has this value of a discriminant."""
    if discriminant.presence:
        return _is_present(case, discriminant.name) == value
    found = case.values.get(discriminant.name)
    return type(found) is type(value) and same(found, value)


def _is_present(case: Case, name: str) -> bool:
    """Returns whether a case passes or returns the tensor, or gives the parameter a value."""
    return any(tensor.name == name for tensor in (*case.constants, *case.inputs, *case.outputs)) or bool(
        case.present.get(name)
    )
