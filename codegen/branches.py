"""Finds the branches of an entry's price that each workload row takes, so that an audit can choose rows for them all.

A branch is a group of discriminant points at which a formula folds to the same expression.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from tileops.codegen.analysis import Analysis
from tileops.manifest.language import expr, kinds
from tileops.manifest.language.adt import AdtValue, same
from tileops.manifest.model import Entry, Param, Signature
from tileops.manifest.plans.domain import Domain
from tileops.manifest.plans.points import Discriminant, Point, domain_restrictions
from tileops.manifest.plans.shapes import shape_at
from tileops.manifest.plans.trees import Leaf, Split, Tree, decide, paths
from tileops.manifest.rows.cases import Case


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Partition:
    """The branches of one formula, or of one tensor's charge.

    Attributes:
      texts: its branches, in words.
      of: the branch that a case takes, as a position in `texts`; None if it takes none.
    """

    texts: tuple[str, ...]
    of: Callable[[Case], int | None]


class Branches:
    """The branches of an entry's price.

    Attributes:
      texts: each branch in words, as in "bytes: present(weight) = True"; formulas in the order flops, bytes.
    """

    def __init__(self, entry: Entry, analysis: Analysis) -> None:
        """Finds the branches of an entry without defects."""
        self._partitions = _partitions(entry, analysis)
        self.texts = tuple(text for partition in self._partitions for text in partition.texts)

    def of(self, case: Case) -> tuple[int, ...]:
        """Returns the branches that a case takes, as positions in `texts`."""
        taken, first = [], 0
        for partition in self._partitions:
            position = partition.of(case)
            if position is not None:
                taken.append(first + position)
            first += len(partition.texts)
        return tuple(taken)


def _partitions(entry: Entry, analysis: Analysis) -> list[_Partition]:
    if analysis.func:
        return _opaque(entry.signature)
    found = []
    if analysis.flops is not None:
        found += _of_trees("flops", analysis.flops.trees)
    if analysis.bytes is not None:
        found += _of_trees("bytes", analysis.bytes.trees)
    elif analysis.traffic is not None:
        found += _of_trees("bytes", analysis.traffic)
        found += _charges(entry.signature)
    return found


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
                found.append(_of_tree(f"bytes({tensor.name})", tree))
    return found


def _opaque(signature: Signature) -> list[_Partition]:
    """Returns the branches of a formula in Python: each value of each discriminant is a branch."""
    found = []
    for param in signature.params.values():
        inner = param.kind.given
        values = () if param.name in signature.constants else _finite(inner)
        if values:
            values += (None,) if inner is not param.kind else ()
            points = [((Discriminant(param.name, False, values), value),) for value in values]
            found.append(_of_points("func", points, signature))
        elif inner is not param.kind:
            found.append(_presence("func", param.name))
    for name, tensor in signature.tensors.items():
        if tensor.may_be_absent:
            found.append(_presence("func", name))
    return found or [_of_tree("func", Leaf(None))]


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


def _of_points(formula: str, points: list[Any], signature: Signature) -> _Partition:
    """Returns a branch for each point that the entry's restrictions accept."""
    restrictions = domain_restrictions(signature)
    accepted = [
        point
        for point in map(Point, points)
        if all(point.fold(restriction) != expr.Literal(False) for restriction in restrictions)
    ]
    return _of_leaves(formula, [(point.assigned, position) for position, point in enumerate(accepted)])


def _presence(formula: str, name: str) -> _Partition:
    texts = tuple(f"{formula}: present({name}) = {value}" for value in (False, True))
    return _Partition(texts=texts, of=lambda case: int(_is_present(case, name)))


def _is_present(case: Case, name: str) -> bool:
    """Returns whether a case passes or returns the tensor, or gives the parameter a value."""
    return any(tensor.name == name for tensor in (*case.constants, *case.inputs, *case.outputs)) or bool(
        case.present.get(name)
    )


def _of_trees(formula: str, trees: Sequence[Tree[Any]]) -> list[_Partition]:
    """Returns a partition for each tree that splits, or one partition if no tree does."""
    return [_of_tree(formula, tree) for tree in trees if isinstance(tree, Split)] or [_of_tree(formula, trees[0])]


def _of_tree(formula: str, tree: Tree[Any]) -> _Partition:
    return _of_leaves(formula, [*paths(tree)])


def _of_leaves(formula: str, leaves: list[tuple[tuple[tuple[Discriminant, Any], ...], Any]]) -> _Partition:
    """Returns a partition with one branch for all leaves that are equal."""
    groups: list[tuple[Any, list[tuple[tuple[Discriminant, Any], ...]]]] = []
    for path, leaf in leaves:
        for known, taken in groups:
            if known == leaf:
                taken.append(path)
                break
        else:
            groups.append((leaf, [path]))
    texts = tuple(f"{formula}: {' or '.join(map(_text, taken))}" for _, taken in groups)

    def of(case: Case) -> int | None:
        for position, (_, taken) in enumerate(groups):
            if any(all(_holds(case, discriminant, value) for discriminant, value in path) for path in taken):
                return position
        return None

    return _Partition(texts=texts, of=of)


def _text(path: tuple[tuple[Discriminant, Any], ...]) -> str:
    return ", ".join(f"{discriminant.key} = {value}" for discriminant, value in path) or "every call"


def _holds(case: Case, discriminant: Discriminant, value: Any) -> bool:
    """Returns whether a case has this value of a discriminant."""
    if discriminant.presence:
        return _is_present(case, discriminant.name) == value
    found = case.values.get(discriminant.name)
    return type(found) is type(value) and same(found, value)
