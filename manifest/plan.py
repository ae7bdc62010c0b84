"""The inference plan: in which order a call's indices are solved from its inputs, and what is checked against them.

The order comes from what each axis needs, not from where it stands, so declaring inputs in another order solves the
same indices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from tileops.manifest import expr, kinds
from tileops.manifest.model import Expression, Signature, Tensor
from tileops.manifest.points import Point
from tileops.manifest.shapes import shape_at


@dataclasses.dataclass(frozen=True)
class Offset:
    """A position among a tensor's axes: a number of axes plus the lengths of runs already known."""

    axes: int
    runs: tuple[expr.Expr, ...] = ()


@dataclasses.dataclass(frozen=True)
class Rank:
    """Tensor `tensor` has `least` axes, exactly or (`open`: one run is unknown) at least."""

    tensor: str
    term: str
    least: Offset
    open: bool


@dataclasses.dataclass(frozen=True)
class SolveDType:
    """`index` := dtype of `tensor`, which must be one of `allowed`."""

    tensor: str
    index: str
    allowed: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class CheckDType:
    """The dtype of `tensor` is what `term` gives."""

    tensor: str
    term: expr.Expr


@dataclasses.dataclass(frozen=True)
class SolveAxis:
    """`index` := (size - offset) / factor, exact and >= 0, of the axis at `at` from the front or the back."""

    tensor: str
    index: str
    term: expr.Expr
    factor: int
    offset: expr.Expr
    at: Offset
    from_back: bool


@dataclasses.dataclass(frozen=True)
class CheckAxis:
    """The axis at `at` is what `term` gives."""

    tensor: str
    term: expr.Expr
    at: Offset
    from_back: bool


@dataclasses.dataclass(frozen=True)
class SolveRun:
    """`index` := the axes after `front` and before `back`."""

    tensor: str
    index: str
    front: Offset
    back: Offset


@dataclasses.dataclass(frozen=True)
class CheckRun:
    """The axes from `at` on are what `term` (of known length) gives; `last`: no axis stands behind them."""

    tensor: str
    term: expr.Expr
    at: Offset
    from_back: bool
    last: bool


@dataclasses.dataclass(frozen=True)
class SolveLet:
    """`name` := what its expression gives."""

    name: str
    term: expr.Expr


Step = Rank | SolveDType | CheckDType | SolveAxis | CheckAxis | SolveRun | CheckRun | SolveLet


@dataclasses.dataclass(frozen=True)
class Plan:
    """Steps in order; `unsolved` names the indices that no input determines."""

    steps: tuple[Step, ...]
    unsolved: tuple[str, ...]


def build(signature: Signature, point: Point) -> Plan:
    """The plan at one discriminant point. Optional tensors are only checked: presence must not decide an index."""
    planner = Planner(signature, point)
    # The points of one enumeration share what they decide alike, down to the identity of the terms.
    plans = point.shared.setdefault("plans", {})
    key = planner.key()
    if key not in plans:
        planner.run()
        plans[key] = tuple(planner.steps), planner.known
    steps, known = plans[key]
    return Plan(steps, tuple(name for name in needed_at(signature, point) if name not in known))


def needed_at(signature: Signature, point: Point) -> list[str]:
    """Indices that a call at this point must know: those that a present tensor, a let or a rule reads there."""
    read: set[str] = set()
    terms = [expression.expr for expression in (*signature.lets.values(), *signature.rules)]
    present = [tensor for tensor in signature.tensors.values() if present_at(tensor, point)]
    terms += [tensor.dtype.expr for tensor in present]
    terms += [tensor.mutated.expr for tensor in present if tensor.mutated is not None]
    for term in terms:
        read.update(point.once("names", term, lambda term=term: expr.names(point.fold(term))))
    for tensor in present:
        term = tensor.shape.expr
        read.update(point.once("axes", term, lambda tensor=tensor: expr.names(shape_at(signature, tensor, point))))
    # A dtype index that the point decides is folded away, and yet a call has to solve it.
    decided = {one.name for one, _ in point.assigned if one.name in signature.forall}
    if decided:
        apart = Point(tuple((one, value) for one, value in point.assigned if one.name not in decided))
        terms += [tensor.shape.expr for tensor in present]
        for term in terms:
            read.update(point.once("apart", term, lambda term=term: decided.intersection(expr.names(apart.fold(term)))))
    return [name for name in signature.forall if name in read]


def holder(signature: Signature, index: str) -> Tensor | None:
    """The first tensor of a dtype index that every call has, which tells it before a branch is chosen."""
    for tensor in signature.bound.values():
        if tensor.dtype.expr == expr.Name(index) and not tensor.optional and tensor.when is None:
            return tensor
    return None


def rule_at(signature: Signature, rule: Expression, point: Point) -> Expression:
    """The rule as a call at this point can read it: folded where it names an index that only other points solve."""
    indices = {*signature.forall, *signature.lets} & {*rule.expr.free_names}
    if indices <= known_at(signature, point):
        return rule
    return dataclasses.replace(rule, expr=point.fold(rule.expr))


def known_at(signature: Signature, point: Point) -> set[str]:
    """Indices and lets that a call at this point knows."""
    planner = Planner(signature, point)
    planner.run()
    return planner.known | {name for name in point.values if name in signature.forall}


def present_at(tensor: Tensor, point: Point) -> bool:
    """Whether a tensor may be there at the point: its condition holds, and the point does not leave it out."""
    if tensor.optional and point.present.get(tensor.name) is False:
        return False
    return tensor.when is None or point.fold(tensor.when.expr) != expr.Literal(False)


class Planner:
    """Finds the steps at one point, of the whole call or of some of its tensors and lets.

    Attributes:
      known: the names that the steps so far solve, and whatever else the planner is told is solved.
    """

    def __init__(
        self, signature: Signature, point: Point, members: Collection[str] | None = None, solved: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Plan nothing yet.

        Args:
          signature: the entry's.
          point: where.
          members: the tensors and lets to plan; all by default.
          solved: dtype indices solved beforehand, each with the tensor that it is solved from.
        """
        self.signature = signature
        self.steps: list[Step] = []
        self.known: set[str] = {*signature.params, *solved}
        self._point = point
        wanted = {*signature.bound, *signature.lets} if members is None else members
        self._tensors = {name: tensor for name, tensor in signature.bound.items() if name in wanted and present_at(tensor, point)}
        self._shapes = {name: shape_at(signature, tensor, point) for name, tensor in self._tensors.items()}
        self._opened: dict[str, int | None] = {}
        self._pending: dict[str, list[int]] = {}
        self._dtypes = self._tensors.keys() - solved.values()
        self._lets = {name: point.fold(let.expr) for name, let in signature.lets.items() if name in wanted}

    def key(self) -> tuple[Any, ...]:
        """What tells apart the plans of one signature."""
        dtypes = (self._point.fold(tensor.dtype.expr) for tensor in self._tensors.values())
        return *self._tensors, *map(id, (*self._shapes.values(), *dtypes, *self._lets.values()))

    def reads(self) -> set[str]:
        """Names that the planned tensors and lets read."""
        dtypes = [self._point.fold(tensor.dtype.expr) for tensor in self._tensors.values()]
        return {name for term in (*self._shapes.values(), *dtypes, *self._lets.values()) for name in term.free_names}

    def advance(self, name: str) -> bool:
        """Take whatever steps a tensor or let allows now; whether there were any."""
        if name in self._tensors:
            return self._pass(self._tensors[name])
        return name in self._lets and self._solve(name)

    def take(self) -> list[Step]:
        """The steps since the last time."""
        taken, self.steps = self.steps, []
        return taken

    def run(self) -> None:
        # A step that solves and one that checks are both progress; each tensor, axis and let is done once.
        while any([self._pass(tensor) for tensor in self._tensors.values()]) or self._let():
            pass

    def _knows(self, node: expr.Expr) -> bool:
        return all(
            name in self.known or name in kinds.ALL_DTYPES.values or name in self.signature.tensors
            for name in expr.names(node)
        )

    def _let(self) -> bool:
        return any(self._solve(name) for name in list(self._lets))

    def _solve(self, name: str) -> bool:
        term = self._lets[name]
        if not self._knows(term):
            return False
        self.steps.append(SolveLet(name, term))
        self.known.add(name)
        del self._lets[name]
        return True

    def _pass(self, tensor: Tensor) -> bool:
        moved = self._dtype(tensor)
        if tensor.name not in self._opened:
            if not self._open(tensor):
                return moved
            moved = True
        axes = self._shapes[tensor.name].axes
        for position in list(self._pending[tensor.name]):
            if self._axis(tensor, axes, position):
                self._pending[tensor.name].remove(position)
                moved = True
        return moved

    def _dtype(self, tensor: Tensor) -> bool:
        if tensor.name not in self._dtypes:
            return False
        term = self._point.fold(tensor.dtype.expr)
        if isinstance(term, expr.Literal):
            term = expr.Name(term.value)  # a dtype that the point decides
        if isinstance(term, expr.Name) and term.id in self.signature.forall and term.id not in self.known:
            if tensor.optional:
                return False
            self.steps.append(SolveDType(tensor.name, term.id, self.signature.forall[term.id].values))
            self.known.add(term.id)
        elif self._knows(term):
            self.steps.append(CheckDType(tensor.name, term))
            if not tensor.optional and isinstance(tensor.dtype.expr, expr.Name):
                self.known.add(tensor.dtype.expr.id)  # an index whose value the point decides
        else:
            return False
        self._dtypes.remove(tensor.name)
        return True

    def _open(self, tensor: Tensor) -> bool:
        """Fix the tensor's rank; at most one run of axes may be unknown, and it must be a Shape index by itself."""
        axes = self._shapes[tensor.name].axes
        unknown = [
            position for position, axis in enumerate(axes)
            if isinstance(axis, expr.Splice) and not self._knows(axis.sequence)
        ]
        if len(unknown) > 1:
            return False
        if unknown:
            run = axes[unknown[0]].sequence
            if tensor.optional or not (isinstance(run, expr.Name) and isinstance(self.signature.forall.get(run.id), kinds.Shape)):
                return False
        self._opened[tensor.name] = unknown[0] if unknown else None
        self._pending[tensor.name] = list(range(len(axes)))
        rest = [axis for position, axis in enumerate(axes) if position not in unknown]
        self.steps.append(Rank(tensor.name, expr.to_source(self._shapes[tensor.name]), _offset(rest), bool(unknown)))
        return True

    def _axis(self, tensor: Tensor, axes: tuple[expr.Expr, ...], position: int) -> bool:
        split = self._opened[tensor.name]
        axis = axes[position]
        if position == split:
            self.steps.append(
                SolveRun(tensor.name, axis.sequence.id, _offset(axes[:position]), _offset(axes[position + 1 :]))
            )
            self.known.add(axis.sequence.id)
            return True
        from_back = split is not None and position > split
        at = _offset(axes[position:]) if from_back else _offset(axes[:position])
        if isinstance(axis, expr.Splice):
            self.steps.append(CheckRun(tensor.name, axis.sequence, at, from_back, position == len(axes) - 1))
            return True
        if self._knows(axis):
            self.steps.append(CheckAxis(tensor.name, axis, at, from_back))
            return True
        solved = None if tensor.optional else affine(axis, self.known)
        if solved is None or solved[0] not in self.signature.forall:  # a let is worked out, not solved
            return False
        index, factor, offset = solved
        self.steps.append(SolveAxis(tensor.name, index, axis, factor, offset, at, from_back))
        self.known.add(index)
        return True


def _offset(axes) -> Offset:
    runs = tuple(axis.sequence for axis in axes if isinstance(axis, expr.Splice))
    return Offset(len(axes) - len(runs), runs)


def affine(node: expr.Expr, known: set[str]) -> tuple[str, int, expr.Expr] | None:
    """(index, factor, offset) of an axis `factor * index + offset`: the index its only unknown, the factor constant."""
    unknown = [name for name in expr.names(node) if name not in known]
    if len(unknown) != 1:
        return None
    index = unknown[0]

    def split(part: expr.Expr) -> tuple[int, expr.Expr] | None:
        """`part` as factor * index + offset."""
        if part == expr.Name(index):
            return 1, expr.Literal(0)
        if not isinstance(part, expr.Binary):
            return None
        inside_left = index in expr.names(part.left)
        inner, other = (part.left, part.right) if inside_left else (part.right, part.left)
        if index in expr.names(other):
            return None
        found = split(inner)
        if found is None:
            return None
        factor, offset = found
        if part.op == "+":
            return factor, other if offset == expr.Literal(0) else expr.Binary("+", offset, other)
        if part.op == "-" and inside_left:
            return factor, expr.Binary("-", offset, other)
        if part.op == "*" and isinstance(other, expr.Literal) and type(other.value) is int and other.value > 0:
            scaled = offset if offset == expr.Literal(0) else expr.Binary("*", offset, other)
            return factor * other.value, scaled
        return None

    found = split(node)
    return None if found is None else (index, *found)
