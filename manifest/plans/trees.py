"""Decision trees over discriminant points. Points with the same decision share a leaf."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from tileops.manifest.plans.points import Discriminant, Point, TooManyPointsError

# Leaves of one tree. Each is lines of generated code: a product of sixteen flags would make 65,536 leaves and 40 MB.
MAX_LEAVES = 1024

Path = tuple[tuple[Discriminant, Any], ...]  # the tests that lead to a leaf
T = TypeVar("T")
U = TypeVar("U")


@dataclasses.dataclass(frozen=True)
class Leaf(Generic[T]):
    """The decision at every point that leads here."""

    value: T


@dataclasses.dataclass(frozen=True)
class Split(Generic[T]):
    """A branch per value of one discriminant, in order."""

    discriminant: Discriminant
    branches: tuple[tuple[Any, Tree[T]], ...]


Tree = Leaf[T] | Split[T]


class TooManyBranchesError(TooManyPointsError):
    """A tree needs more than MAX_LEAVES leaves; `args[0]` names the discriminants of its points."""

    @classmethod
    def at(cls, point: Point) -> TooManyBranchesError:
        """Returns the error of a tree over points like this one."""
        return cls(", ".join(one.key for one, _ in point.assigned))

    def __str__(self) -> str:
        return (
            f"more than {MAX_LEAVES} branches of generated code are too many: {self.args[0]} give another result in nearly"
            " every combination; write a sum of terms that depend on few of them, or split the op"
        )


def decide(decisions: Sequence[tuple[Point, T]]) -> Tree[T]:
    """Returns the smallest tree that gives each point its decision, testing discriminants in the points' order.

    Raises:
      TooManyBranchesError: the tree has more than MAX_LEAVES leaves.
    """
    return _decide(decisions)[0]


def _decide(decisions: Sequence[tuple[Point, T]]) -> tuple[Tree[T], int]:
    """Returns the tree, and the number of its leaves."""
    first = decisions[0][1]
    if all(decision == first for _, decision in decisions):
        return Leaf(first), 1
    for position, (discriminant, _) in enumerate(decisions[0][0].assigned):
        groups: dict[Any, list[tuple[Point, T]]] = {}
        for point, decision in decisions:
            groups.setdefault(point.assigned[position][1], []).append((point, decision))
        if len(groups) < 2:
            continue
        made = [(value, *_decide(group)) for value, group in groups.items()]
        branches = tuple((value, branch) for value, branch, _ in made)
        if any(branch != branches[0][1] for _, branch in branches):
            number = sum(own for *_, own in made)
            if number > MAX_LEAVES:
                raise TooManyBranchesError.at(decisions[0][0])
            return Split(discriminant, branches), number
    raise AssertionError("points that differ in no discriminant have different decisions")


def leaves(tree: Tree[T]) -> Iterator[T]:
    """Yields what is decided at each leaf, in the order of the branches."""
    if isinstance(tree, Leaf):
        yield tree.value
        return
    for _, branch in tree.branches:
        yield from leaves(branch)


def paths(tree: Tree[T], path: Path = ()) -> Iterator[tuple[Path, T]]:
    """Yields (the tests that lead to a leaf, what is decided there), in the order of the branches."""
    if isinstance(tree, Leaf):
        yield path, tree.value
        return
    for value, branch in tree.branches:
        yield from paths(branch, (*path, (tree.discriminant, value)))


def project(tree: Tree[T], change: Callable[[T], U]) -> Tree[U]:
    """Returns the tree with `change` applied at each leaf; branches that agree afterwards become one."""
    if isinstance(tree, Leaf):
        return Leaf(change(tree.value))
    branches = tuple((value, project(branch, change)) for value, branch in tree.branches)
    same = all(branch == branches[0][1] for _, branch in branches)
    return branches[0][1] if same else Split(tree.discriminant, branches)
