"""The inference plan of an entry with many points: related tensors and lets are planned together, the others apart.

What reads a discriminant in common is one part. A part whose points all solve the same indices leaves nothing to tell
them apart afterwards; where they do not, whatever reads an index that only some of them solve joins the part.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tileops.manifest import expr
from tileops.manifest.domain import Domain
from tileops.manifest.model import Signature, Tensor
from tileops.manifest.plan import Planner, SolveDType, Step, holder, present_at
from tileops.manifest.points import Point, discriminants
from tileops.manifest.shapes import shape_at
from tileops.manifest.solved import Solved, missing
from tileops.manifest.sums import strict_parts


@dataclasses.dataclass(frozen=True)
class Segment:
    """What each point of one part does next; points that do the same share one tuple of steps."""

    branches: tuple[tuple[Point, tuple[Step, ...]], ...]


@dataclasses.dataclass(frozen=True)
class Apart:
    """The plan.

    Attributes:
      deciding: the solving of each dtype index on which a branch depends, before all else.
      terms: what decides each tensor and let.
      segments: in order.
      known: indices and lets that every call solves.
      partly: of each part, the other ones that each of its points solves; parts without any left out.
    """

    deciding: tuple[SolveDType, ...]
    terms: dict[str, list[expr.Expr]]
    segments: tuple[Segment, ...]
    known: frozenset[str]
    partly: tuple[tuple[tuple[Point, frozenset[str]], ...], ...]

    def steps_at(self, agrees: Callable[[Point], bool]) -> tuple[Step, ...]:
        """The steps of a call, which agrees with one point of each part."""
        chosen = (next(steps for point, steps in segment.branches if agrees(point)) for segment in self.segments)
        return (*self.deciding, *(step for steps in chosen for step in steps))


def item_terms(signature: Signature, name: str) -> list[expr.Expr]:
    """What is said of a tensor or let: its shape or value, its dtype, and when it is there."""
    if name in signature.lets:
        return [signature.lets[name].expr]
    tensor = signature.tensors[name]
    return [tensor.shape.expr, tensor.dtype.expr, *([tensor.when.expr] if tensor.when is not None else [])]


def _deciding_terms(signature: Signature, domain: Domain, name: str) -> list[expr.Expr]:
    """Of what is said of a tensor or let, the parts on which it depends what there is to solve and to check.

    A condition that chooses between numbers alone is no such part: generated code asks it where the number is needed.
    """
    value, *others = item_terms(signature, name)
    if isinstance(value, expr.FamilyTerm):
        return [value, *others]
    solves = name in signature.bound  # from an axis, which has to be one thing to be solved
    indices = signature.forall.keys() | signature.lets.keys()
    telling = [
        part for part in strict_parts(value)
        if (solves and indices & {*part.free_names}) or _tells_apart(signature, domain, part)
    ]  # fmt: skip
    return [*telling, *others]


def _tells_apart(signature: Signature, domain: Domain, part: expr.Expr) -> bool:
    """Whether an expression reads other names at one point than at another."""
    if not discriminants(signature, [part]):
        return False
    read = {frozenset(point.fold(part).free_names).difference(signature.params) for point in domain.points([part])}
    return len(read) > 1


def build(signature: Signature, domain: Domain) -> Apart:
    """The plan. Raises TooManyPoints where one part has too many, NoCase of a family without a case."""
    deciding = _deciding(signature)
    terms = {name: _deciding_terms(signature, domain, name) for name in (*signature.tensors, *signature.lets)}
    groups = _grouped(signature, terms)
    solved = {step.index: step.tensor for step in deciding}
    while True:
        parts = [_Part(signature, domain, terms, members, solved) for members in groups]
        run = _Run(signature, parts, {step.index for step in deciding})
        run.go()
        together = run.entangled()
        if together is None:
            return run.result(deciding, terms)
        first, second = together
        groups = [group for group in groups if group not in together] + [first | second]


def needs(signature: Signature, domain: Domain, plan: Apart) -> Iterator[tuple[set[str], Point, set[str]]]:
    """(indices read, the point, those that no step solves there) of each tensor, let and rule, at each of its points.

    Raises NoCase and TooManyPoints as `build` does.
    """
    solved = Solved(plan.known, plan.partly)
    for terms, names, read in _readers(signature, domain, plan):
        yield from missing(domain, solved, terms, names, read)


def _readers(
    signature: Signature, domain: Domain, plan: Apart
) -> Iterator[tuple[list[expr.Expr], set[str], Callable[[Point], set[str]]]]:
    """Whatever reads indices: the terms that tell its points apart, all names in it, and what it reads at a point."""
    for tensor in signature.tensors.values():
        names = {name for term in item_terms(signature, tensor.name) for name in term.free_names}
        yield plan.terms[tensor.name], names, lambda point, tensor=tensor: _tensor_reads(signature, tensor, point)
    for terms, expression in (
        *((plan.terms[name], let) for name, let in signature.lets.items()),
        *(([rule.expr] if _tells_apart(signature, domain, rule.expr) else [], rule) for rule in signature.rules),
    ):
        node = expression.expr
        yield terms, {*node.free_names}, lambda point, node=node: _indices(signature, point, [point.fold(node)])


def _tensor_reads(signature: Signature, tensor: Tensor, point: Point) -> set[str]:
    if not present_at(tensor, point):
        return set()
    return _indices(signature, point, [shape_at(signature, tensor, point), point.fold(tensor.dtype.expr)])


def _indices(signature: Signature, point: Point, terms: Iterable[expr.Expr]) -> set[str]:
    read = {name for term in terms for name in term.free_names} | {one.name for one, _ in point.assigned}
    return read & signature.forall.keys()


def _deciding(signature: Signature) -> list[SolveDType]:
    """The dtype indices that some branch depends on, each from a tensor that every call has."""
    terms = [term for name in (*signature.tensors, *signature.lets) for term in item_terms(signature, name)]
    found = []
    for one in discriminants(signature, [*terms, *(rule.expr for rule in signature.rules)]):
        if one.name in signature.forall:
            tensor = holder(signature, one.name)
            if tensor is not None:
                found.append(SolveDType(tensor.name, one.name, signature.forall[one.name].values))
    return found


def _grouped(signature: Signature, terms: dict[str, list[expr.Expr]]) -> list[frozenset[str]]:
    """Bound tensors and lets, joined where they read a discriminant in common; those that read none are one group."""
    joined: list[tuple[frozenset[str], frozenset[str]]] = []
    for group in (frozenset([name]) for name in (*signature.bound, *signature.lets)):
        read = frozenset(one.name for name in group for one in discriminants(signature, terms[name]))
        mine = [one for one in joined if one[0] & read or not (one[0] or read)]
        joined = [one for one in joined if one not in mine]
        joined.append((read.union(*(one[0] for one in mine)), group.union(*(one[1] for one in mine))))
    return [members for _, members in joined]


class _Part:
    """Related tensors and lets, with a planner for all points at which they are the same."""

    def __init__(
        self, signature: Signature, domain: Domain, terms: dict[str, list[expr.Expr]], members: frozenset[str],
        solved: dict[str, str],
    ) -> None:
        self.members = members
        order = [name for name in (*signature.bound, *signature.lets) if name in members]
        self.points = domain.points([term for name in order for term in terms[name]])
        self.planners: list[Planner] = []
        self.of: list[int] = []
        keys: dict[Any, int] = {}
        for point in self.points:
            planner = Planner(signature, point, members, solved)
            key = planner.key()
            if key not in keys:
                keys[key] = len(self.planners)
                self.planners.append(planner)
            self.of.append(keys[key])
        self.reads = frozenset(name for planner in self.planners for name in planner.reads())

    def common(self) -> set[str]:
        """What every point knows."""
        return set.intersection(*(planner.known for planner in self.planners)) if self.planners else set()

    def partly(self) -> set[str]:
        """What some points know and others do not."""
        return set().union(*(planner.known for planner in self.planners)) - self.common()


class _Run:
    """One attempt: passes over tensors and lets until nothing moves."""

    def __init__(self, signature: Signature, parts: list[_Part], known: set[str]) -> None:
        self._signature = signature
        self._parts = parts
        self._of = {name: part for part in parts for name in part.members}
        self._known = known | set(signature.params)
        self._segments: list[tuple[_Part, list[list[Step]]]] = []

    def go(self) -> None:
        """Pass over all tensors, and where nothing moves, over lets until one does."""
        bound, lets = self._signature.bound, self._signature.lets
        while any([self._moved(name) for name in bound]) or any(self._moved(name) for name in lets):
            pass

    def _moved(self, name: str) -> bool:
        """Whether the planners of a name's part make progress with it; what all come to know, every part knows."""
        part = self._of[name]
        for planner in part.planners:
            planner.known |= self._known
        moved = [planner.advance(name) for planner in part.planners]
        if not any(moved):
            return False
        taken = [planner.take() for planner in part.planners]
        if self._segments and self._segments[-1][0] is part:
            for steps, more in zip(self._segments[-1][1], taken, strict=True):
                steps.extend(more)
        else:
            self._segments.append((part, taken))
        self._known |= part.common()
        return True

    def entangled(self) -> tuple[frozenset[str], frozenset[str]] | None:
        """Two parts of which one reads what only some points of the other solve; None where there are none."""
        combined = {name for combo in self._signature.combos[:1] for name in combo}
        for part in self._parts:
            partly = part.partly() - self._known
            for other in self._parts:
                if other is not part and (partly & other.reads or (partly & combined and other.partly() & combined)):
                    return part.members, other.members
        return None

    def result(self, deciding: list[SolveDType], terms: dict[str, list[expr.Expr]]) -> Apart:
        """The plan that the passes made."""
        segments = []
        for part, steps in self._segments:
            shared = [tuple(one) for one in steps]
            segments.append(Segment(tuple((point, shared[at]) for point, at in zip(part.points, part.of, strict=True))))
        partly = []
        for part in self._parts:
            if part.partly() - self._known:
                more = [frozenset(planner.known - self._known) for planner in part.planners]
                partly.append(tuple((point, more[at]) for point, at in zip(part.points, part.of, strict=True)))
        known = frozenset(self._known - self._signature.params.keys())
        return Apart(tuple(deciding), terms, tuple(segments), known, tuple(partly))
