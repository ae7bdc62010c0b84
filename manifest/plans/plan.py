"""The inference plan: in which order a call's indices are solved from its inputs, and what is checked against them.

A worked example. GEMMFwdOp (manifest/spec/gemm.yaml) has two flags, each of which chooses the shape of one input:

    params:   trans_a: bool, trans_b: bool
    types:    Mat[transposed, rows, columns] = [rows, columns] or, if transposed, [columns, rows]
    inputs:   a: T Mat[trans_a, M, K], b: T Mat[trans_b, K, N]
    outputs:  d: T[M, N]

The flags are its *discriminants*: finite facts of a call on which its types depend. Each pair of their values is a
*discriminant point*; there are four. At the point `trans_a = False, trans_b = True` the shape of `b` is *decided*: its
family is applied and *folded* to `[N, K]`.

No expression reads both flags, so the entry has two *parts*: `a`, planned at the two points of `trans_a`, and `b`,
planned at the two points of `trans_b`. The plan is a list of *segments*, each what one part does next:

    1  every call                T := dtype of a
    2  trans_a = False           a has 2 axes; M := axis 0; K := axis 1
       trans_a = True            a has 2 axes; K := axis 0; M := axis 1
    3  every call                the dtype of b is T
    4  trans_b = False           b has 2 axes; axis 0 is K; N := axis 1
       trans_b = True            b has 2 axes; N := axis 0; axis 1 is K

Segments 1 and 3 hold the first steps of their parts, which are the same at every point of the part. After segment 2
every call knows M and K, whatever `trans_a` is, so `b` can be planned without asking for `trans_a` again. If only
`trans_a = False` solved K, K would be known *partly*; `a` and `b` would then be *entangled* and planned as one part at
all four points. Twenty flags that no expression relates thus make twenty small parts, not a million points.

What all four points agree on (`d`, of shape `[M, N]`) is a tree of one leaf (trees.py); the emitted `check` branches
only where a tree splits.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from tileops.manifest.language import expr, kinds
from tileops.manifest.language.invariants import expect
from tileops.manifest.model import Signature, Tensor
from tileops.manifest.plans.domain import Domain
from tileops.manifest.plans.plan_steps import SolveDType, SolveLet, Step
from tileops.manifest.plans.planner import Planner, present_at
from tileops.manifest.plans.points import Discriminant, Point, discriminants, domain_restrictions, holder
from tileops.manifest.plans.shapes import shape_at
from tileops.manifest.plans.solved import Solved, missing
from tileops.manifest.plans.sums import grouped, strict_parts
from tileops.manifest.plans.trees import Leaf, Tree, decide


@dataclasses.dataclass(frozen=True)
class Branch:
    """The next steps of some points of one part.

    Attributes:
      steps: in order.
      shapes: the shape of each tensor of the steps, by name; without those whose shapes the points do not share.
    """

    steps: tuple[Step, ...]
    shapes: tuple[tuple[str, expr.ShapeTerm], ...]


@dataclasses.dataclass(frozen=True)
class Segment:
    """The next steps of each point of one part."""

    branches: tuple[tuple[Point, Branch], ...]

    @functools.cached_property
    def tree(self) -> Tree[Branch]:
        """Returns the branches as a tree of discriminants. Raises TooManyBranchesError."""
        return decide(self.branches)


@dataclasses.dataclass(frozen=True)
class Plan:
    """The plan of an entry.

    Attributes:
      deciding: the solving of each dtype index on which a branch depends, before all else.
      terms: the expressions that decide each tensor and let.
      segments: in order.
      solved: the indices and lets that calls solve.
      solvers: the optional tensors that solve indices, so that the plan splits at their presence.
    """

    deciding: tuple[SolveDType, ...]
    terms: dict[str, list[expr.Expr]]
    segments: tuple[Segment, ...]
    solved: Solved
    solvers: frozenset[str]

    def steps_at(self, has: Callable[[Discriminant, Any], bool]) -> list[Step]:
        """Returns the steps of one call; `has` says whether the call has a value of a discriminant."""
        steps: list[Step] = [*self.deciding]
        for segment in self.segments:
            tree = segment.tree
            while not isinstance(tree, Leaf):
                tree = next(branch for value, branch in tree.branches if has(tree.discriminant, value))
            steps += tree.value.steps
        return steps


def returned(signature: Signature, domain: Domain, plan: Plan) -> dict[str, Tree[expr.ShapeTerm | None]]:
    """Returns the shape of each output at each point, None if a call does not return it. Raises TooManyBranchesError."""
    found = {}
    for name, tensor in signature.outputs.items():
        points = domain.points(plan.terms[name])
        found[name] = decide(
            [(point, shape_at(signature, tensor, point) if present_at(tensor, point) else None) for point in points]
        )
    return found


def solved_combinations(signature: Signature, plan: Plan) -> Tree[bool]:
    """Returns where a call knows all dtypes of which `dtype_combos` lists the combinations."""
    names = {name for combo in signature.combos[:1] for name in combo}
    unknown = names - plan.solved.known - signature.params.keys()
    part = next((part for part in plan.solved.partly for _, found in part if unknown & found), None)
    if part is None:
        return Leaf(bool(names) and not unknown)
    return decide([(point, unknown <= found) for point, found in part])


def solved_partly(plan: Plan) -> list[Tree[frozenset[str]]]:
    """Returns the indices and lets that each part solves at some of its points only."""
    return [decide(part) for part in plan.solved.partly]


def item_terms(signature: Signature, name: str) -> list[expr.Expr]:
    """Returns the expressions of a tensor or let: its shape or value, its dtype, and its condition."""
    if name in signature.lets:
        return [signature.lets[name].expr]
    tensor = signature.tensors[name]
    return [tensor.shape.expr, tensor.dtype.expr, *([tensor.when.expr] if tensor.when is not None else [])]


def needed_at(signature: Signature, point: Point) -> list[str]:
    """Returns the indices and lets that a present tensor or a rule reads at this point, directly or through lets."""
    read: set[str] = set()
    for tensor in signature.tensors.values():
        read |= _tensor_reads(signature, tensor, point)
    for rule in signature.rules:
        read |= _reads(signature, rule.expr, point)
    return list(through_lets(signature, read, point))


def through_lets(signature: Signature, read: Iterable[str], point: Point) -> dict[str, None]:
    """Returns the names, and the indices and lets that the lets among them read at a point."""
    found = dict.fromkeys(read)
    waiting = [name for name in found if name in signature.lets]
    while waiting:
        more = _reads(signature, signature.lets[waiting.pop()].expr, point) - found.keys()
        found.update(dict.fromkeys(sorted(more)))
        waiting += [name for name in more if name in signature.lets]
    return found


def _deciding_terms(
    signature: Signature, domain: Domain, name: str, solvers: AbstractSet[str] = frozenset()
) -> list[expr.Expr]:
    """Returns the parts of a tensor's or let's expressions that decide which steps the plan has for it.

    A condition that only chooses between numbers is no such part: generated code tests it where it needs the number.
    """
    value, *others = item_terms(signature, name)
    if name in solvers:
        others.append(expr.Call("present", (expr.Name(name),)))
    if isinstance(value, expr.FamilyTerm):
        return [value, *others]
    solves = name in signature.bound  # from an axis, which must be the same at every point to be solved
    indices = signature.forall.keys() | signature.lets.keys()
    telling = [
        part
        for part in strict_parts(value)
        if (solves and indices & {*part.free_names}) or _tells_apart(signature, domain, part)
    ]
    return [*telling, *others]


def _tells_apart(signature: Signature, domain: Domain, part: expr.Expr) -> bool:
    """Returns whether an expression reads different names at different points."""
    if not discriminants(signature, [part]):
        return False
    read = {frozenset(point.fold(part).free_names).difference(signature.params) for point in domain.points([part])}
    return len(read) > 1


def build(signature: Signature, domain: Domain) -> Plan:
    """Returns the plan. Raises TooManyPointsError, and NoCaseError if a family lacks a case.

    An optional tensor is only compared if other tensors solve all that it reads. Otherwise it is a solver: its presence
    becomes a discriminant of its part, and it solves indices as any tensor does at the points that have it.
    """
    plan = _built(signature, domain, frozenset())
    solvers = frozenset(
        tensor.name
        for tensor in signature.bound.values()
        if tensor.optional
        and any(unsolved for _, _, unsolved in missing(domain, plan.solved, *_tensor_reader(signature, plan, tensor)))
    )
    return _built(signature, domain, solvers) if solvers else plan


def _built(signature: Signature, domain: Domain, solvers: frozenset[str]) -> Plan:
    """Returns the plan in which these optional tensors solve indices."""
    terms = {name: _deciding_terms(signature, domain, name, solvers) for name in (*signature.tensors, *signature.lets)}
    deciding = _deciding(signature, terms)
    groups = _grouped(signature, terms)
    solved = {step.index: step.tensor for step in deciding}
    while True:
        parts = [_Part(signature, domain, terms, members, solved, solvers) for members in groups]
        run = _Run(signature, parts, {step.index for step in deciding}, solvers)
        run.go()
        together = run.entangled()
        if together is None:
            return run.result(deciding, terms)
        first, second = together
        groups = [group for group in groups if group not in together] + [first | second]


def needs(signature: Signature, domain: Domain, plan: Plan) -> Iterator[tuple[set[str], Point, set[str]]]:
    """Yields (indices read, point, unsolved indices among them) for each tensor, let and rule at each point.

    Raises NoCaseError and TooManyPointsError as `build` does.
    """
    for terms, names, read in _readers(signature, domain, plan):
        yield from missing(domain, plan.solved, terms, names, read)


_Reader = tuple[list[expr.Expr], set[str], Callable[[Point], set[str]]]


def _readers(signature: Signature, domain: Domain, plan: Plan) -> Iterator[_Reader]:
    """Yields, for all that reads indices: the terms that decide its points, its names, and its reads at a point."""
    for tensor in signature.tensors.values():
        yield _tensor_reader(signature, plan, tensor)
    for rule in signature.rules:
        terms = [rule.expr] if _tells_apart(signature, domain, rule.expr) else []
        yield _reader(signature, plan, terms, rule.expr.free_names, functools.partial(_reads, signature, rule.expr))


def _tensor_reader(signature: Signature, plan: Plan, tensor: Tensor) -> _Reader:
    written = [tensor.mutated.expr] if tensor.mutated is not None else []
    names = {name for term in (*item_terms(signature, tensor.name), *written) for name in term.free_names}
    terms = [*plan.terms[tensor.name], *written]
    return _reader(signature, plan, terms, names, functools.partial(_tensor_reads, signature, tensor))


def _reader(
    signature: Signature, plan: Plan, terms: list[expr.Expr], names: Iterable[str], read: Callable[[Point], set[str]]
) -> _Reader:
    """Returns a reader that also reads what its lets read, as far as not every call solves it."""
    found, waiting, terms = {*names}, [*names], [*terms]
    while waiting:
        name = waiting.pop()
        if name in signature.lets and name not in plan.solved.known:
            terms += plan.terms[name]
            more = {*signature.lets[name].expr.free_names} - found
            found |= more
            waiting += sorted(more)

    def indices(point: Point) -> set[str]:
        return through_lets(signature, read(point), point).keys() & signature.forall.keys()

    return terms, found, indices


def _tensor_reads(signature: Signature, tensor: Tensor, point: Point) -> set[str]:
    """Returns the indices and lets that a tensor reads at a point; none if the point lacks the tensor."""
    if not present_at(tensor, point):
        return set()
    term = tensor.shape.expr
    axes = point.once("axes", term, lambda: _derived(signature, shape_at(signature, tensor, point)))
    read = axes | _decided_reads(signature, term, point)
    for found in (tensor.dtype, tensor.when, tensor.mutated):
        if found is not None:
            read |= _reads(signature, found.expr, point)
    return read


def _reads(signature: Signature, term: expr.Expr, point: Point) -> set[str]:
    """Returns the indices and lets that a term reads at a point."""
    folded = point.once("names", term, lambda: _derived(signature, point.fold(term)))
    return folded | _decided_reads(signature, term, point)


def _derived(signature: Signature, node: expr.Expr) -> set[str]:
    """Returns the indices and lets that an expression reads."""
    return {name for name in node.free_names if name in signature.forall or name in signature.lets}


def _decided_reads(signature: Signature, term: expr.Expr, point: Point) -> set[str]:
    """Returns the dtype indices that folding removes, although a call must solve them to choose its branch."""
    decided = {one.name for one, _ in point.assigned if one.name in signature.forall}
    if not decided & {*term.free_names}:
        return set()
    others = Point(tuple((one, value) for one, value in point.assigned if one.name not in decided))
    return point.once("decided", term, lambda: decided & {*others.fold(term).free_names})


def _deciding(signature: Signature, terms: dict[str, list[expr.Expr]]) -> list[SolveDType]:
    """Returns the steps that solve the dtype indices on which branches depend, each from a tensor of every call."""
    found = []
    deciding = [term for name in terms for term in terms[name]]
    for one in discriminants(signature, [*deciding, *domain_restrictions(signature)]):
        if one.name in signature.forall:
            tensor = holder(signature, one.name)
            if tensor is not None:
                values = expect(signature.forall[one.name], kinds.DType).values
                found.append(SolveDType(tensor.name, one.name, values))
    return found


def _grouped(signature: Signature, terms: dict[str, list[expr.Expr]]) -> list[frozenset[str]]:
    """Returns bound tensors and lets in groups that share discriminants. Those without discriminants are one group."""
    names = (*signature.bound, *signature.lets)
    found = grouped((frozenset(one.name for one in discriminants(signature, terms[name])), name) for name in names)
    return [frozenset(members) for _, members in found]


class _Part:
    """Related tensors and lets, with one planner for all points at which they are equal."""

    def __init__(
        self,
        signature: Signature,
        domain: Domain,
        terms: dict[str, list[expr.Expr]],
        members: frozenset[str],
        solved: dict[str, str],
        solvers: frozenset[str],
    ) -> None:
        self.members = members
        order = [name for name in (*signature.bound, *signature.lets) if name in members]
        self.points = domain.points([term for name in order for term in terms[name]])
        self.planners: list[Planner] = []
        self.of: list[int] = []
        keys: dict[Any, int] = {}
        for point in self.points:
            planner = Planner(signature, point, members, solved, solvers)
            key = planner.key()
            if key not in keys:
                keys[key] = len(self.planners)
                self.planners.append(planner)
            self.of.append(keys[key])
        self.reads = frozenset(name for planner in self.planners for name in planner.reads())

    @property
    def solves(self) -> set[str]:
        """Returns the names that the part's own steps solve at some point."""
        return set().union(*(planner.solves for planner in self.planners))

    def common(self) -> set[str]:
        """Returns the names that every point knows."""
        return set.intersection(*(planner.known for planner in self.planners)) if self.planners else set()

    def partly(self) -> set[str]:
        """Returns the names that some points know and others do not."""
        return set().union(*(planner.known for planner in self.planners)) - self.common()


class _Run:
    """One attempt to plan: passes over tensors and lets until no planner finds a step."""

    def __init__(self, signature: Signature, parts: list[_Part], known: set[str], solvers: frozenset[str]) -> None:
        self._signature = signature
        self._solvers = solvers
        self._parts = parts
        self._of = {name: part for part in parts for name in part.members}
        self._known = known | set(signature.params)
        self._pieces: list[tuple[_Part | None, list[Branch]]] = []  # no part: the same at every point

    def go(self) -> None:
        """Passes over all tensors. If no tensor has a step, passes over lets until one has; then over solvers."""
        lets, solvers = self._signature.lets, [name for name in self._signature.bound if name in self._solvers]
        bound = [name for name in self._signature.bound if name not in self._solvers]
        while (
            any([self._moved(name) for name in bound])  # noqa: C419 - move all
            or any(self._moved(name) for name in lets)
            or any(self._moved(name) for name in solvers)
        ):
            pass

    def _moved(self, name: str) -> bool:
        """Advances the planners of a name's part, and returns whether one took a step. Shares what all of them know."""
        part = self._of[name]
        for planner in part.planners:
            planner.known |= self._known
        moved = [planner.advance(name) for planner in part.planners]
        if not any(moved):
            return False
        taken = [planner.take() for planner in part.planners]
        shortest = min(map(len, taken))
        alike = next((at for at in range(shortest) if any(steps[at] != taken[0][at] for steps in taken)), shortest)
        if alike:
            self._append(None, [_branch(part.planners, taken[0][:alike])])
        if any(len(steps) > alike for steps in taken):
            self._append(part, [_branch([one], steps[alike:]) for one, steps in zip(part.planners, taken, strict=True)])
        self._known |= part.common()
        return True

    def _append(self, part: _Part | None, branches: list[Branch]) -> None:
        """Adds branches to the last piece if it is of the same part, else as a new piece."""
        if self._pieces and self._pieces[-1][0] is part:
            before = self._pieces.pop()[1]
            branches = [
                Branch((*one.steps, *two.steps), (*one.shapes, *two.shapes))
                for one, two in zip(before, branches, strict=True)
            ]
        self._pieces.append((part, branches))

    def entangled(self) -> tuple[frozenset[str], frozenset[str]] | None:
        """Returns two parts of which one reads or solves what only some points of the other solve, or None."""
        combined = {name for combo in self._signature.combos[:1] for name in combo}
        for part in self._parts:
            partly = part.partly() - self._known
            for other in self._parts:
                if other is part:
                    continue
                both_combined = partly & combined and other.partly() & combined
                if partly & other.reads or part.solves & other.solves or both_combined:
                    return part.members, other.members
        return None

    def result(self, deciding: list[SolveDType], terms: dict[str, list[expr.Expr]]) -> Plan:
        """Returns the plan that the passes made."""
        segments = []
        for part, branches in self._pieces:
            points = [(Point(()), 0)] if part is None else zip(part.points, part.of, strict=True)
            segments.append(Segment(tuple((point, branches[at]) for point, at in points)))
        partly = []
        for part in self._parts:
            if part.partly() - self._known:
                more = [frozenset(planner.known - self._known) for planner in part.planners]
                partly.append(tuple((point, more[at]) for point, at in zip(part.points, part.of, strict=True)))
        known = frozenset(self._known - self._signature.params.keys())
        return Plan(tuple(deciding), terms, tuple(segments), Solved(known, tuple(partly)), self._solvers)


def _branch(planners: Sequence[Planner], steps: Sequence[Step]) -> Branch:
    shapes: dict[str, expr.ShapeTerm] = {}
    for name in dict.fromkeys(step.tensor for step in steps if not isinstance(step, SolveLet)):
        found = [planner.shapes[name] for planner in planners]
        if all(shape == found[0] for shape in found):
            shapes[name] = found[0]
    return Branch(tuple(steps), tuple(shapes.items()))
