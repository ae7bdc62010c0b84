"""Finds the steps for some tensors and lets of a call at one discriminant point.

The order follows from what each axis needs, so declaring inputs in another order solves the same indices.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tileops.manifest.language import expr, kinds
from tileops.manifest.language.invariants import expect
from tileops.manifest.model import Signature, Tensor
from tileops.manifest.plans import plan_steps
from tileops.manifest.plans.points import Point
from tileops.manifest.plans.shapes import shape_at


def present_at(tensor: Tensor, point: Point) -> bool:
    """Returns whether a call at the point may have the tensor."""
    if tensor.optional and point.present.get(tensor.name) is False:
        return False
    return tensor.when is None or point.fold(tensor.when.expr) != expr.Literal(False)


class Planner:
    """Finds the steps of some tensors and lets at one point.

    Attributes:
      known: the names that the steps so far solve, and those that other planners solve.
      solves: those of them that its own steps solve.
      shapes: the shape at the point of each tensor that may be there.
    """

    def __init__(
        self,
        signature: Signature,
        point: Point,
        members: Collection[str],
        solved: Mapping[str, str],
        solvers: Collection[str] = (),
    ) -> None:
        """Makes a planner that has taken no step yet.

        Args:
          signature: the entry's.
          point: the point.
          members: the tensors and lets to plan.
          solved: dtype indices solved beforehand, each with the tensor that it is solved from.
          solvers: the optional tensors that solve indices at the points that have them; other optional ones solve none.
        """
        self.signature = signature
        self.steps: list[plan_steps.Step] = []
        self.known: set[str] = {*signature.params, *solved}
        self.solves: set[str] = set()
        self._point = point
        wanted = {name: tensor for name, tensor in signature.bound.items() if name in members}
        self._tensors = {name: tensor for name, tensor in wanted.items() if present_at(tensor, point)}
        self._compared = {name for name, tensor in wanted.items() if tensor.optional and name not in solvers}
        self.shapes = {name: shape_at(signature, tensor, point) for name, tensor in self._tensors.items()}
        self._opened: dict[str, int | None] = {}
        self._pending: dict[str, list[int]] = {}
        self._dtypes = self._tensors.keys() - solved.values()
        self._lets = {name: point.fold(let.expr) for name, let in signature.lets.items() if name in members}

    def key(self) -> tuple[Any, ...]:
        """Returns a key that equal plans of one signature share."""
        dtypes = (self._point.fold(tensor.dtype.expr) for tensor in self._tensors.values())
        return *self._tensors, *map(id, (*self.shapes.values(), *dtypes, *self._lets.values()))

    def reads(self) -> set[str]:
        """Returns the names that the planned tensors and lets read."""
        dtypes = [self._point.fold(tensor.dtype.expr) for tensor in self._tensors.values()]
        return {name for term in (*self.shapes.values(), *dtypes, *self._lets.values()) for name in term.free_names}

    def advance(self, name: str) -> bool:
        """Takes the steps that a tensor or let allows now, and returns whether there were any."""
        if name in self._tensors:
            return self._pass(self._tensors[name])
        return name in self._lets and self._solve(name)

    def take(self) -> list[plan_steps.Step]:
        """Returns the steps since the last call."""
        taken, self.steps = self.steps, []
        return taken

    def _learn(self, name: str) -> None:
        """Records that a step solves an index or let. A dtype's own name is no index."""
        if name in self.signature.forall or name in self.signature.lets:
            self.known.add(name)
            self.solves.add(name)

    def _knows(self, node: expr.Expr) -> bool:
        return all(
            name in self.known or name in kinds.ALL_DTYPES.values or name in self.signature.tensors or name == "out"
            for name in expr.names(node)
        )

    def _solve(self, name: str) -> bool:
        term = self._lets[name]
        if not self._knows(term):
            return False
        self.steps.append(plan_steps.SolveLet(name, term))
        self._learn(name)
        del self._lets[name]
        return True

    def _pass(self, tensor: Tensor) -> bool:
        moved = self._dtype(tensor)
        if tensor.name not in self._opened:
            if not self._open(tensor):
                return moved
            moved = True
        axes = self.shapes[tensor.name].axes
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
            if tensor.name in self._compared:
                return False
            self.steps.append(
                plan_steps.SolveDType(tensor.name, term.id, expect(self.signature.forall[term.id], kinds.DType).values)
            )
            self._learn(term.id)
        elif self._knows(term):
            self.steps.append(plan_steps.CheckDType(tensor.name, term))
            declared = tensor.dtype.expr
            if tensor.name not in self._compared and isinstance(declared, expr.Name) and declared.id not in self.known:
                self._learn(declared.id)  # an index whose value the point decides
        else:
            return False
        self._dtypes.remove(tensor.name)
        return True

    def _open(self, tensor: Tensor) -> bool:
        """Plans the check of the tensor's rank. At most one run may be unknown, and it must be a Shape index."""
        axes = self.shapes[tensor.name].axes
        unknown = [
            position
            for position, axis in enumerate(axes)
            if isinstance(axis, expr.Splice) and not self._knows(axis.sequence)
        ]
        if len(unknown) > 1:
            return False
        if unknown:
            run = expect(axes[unknown[0]], expr.Splice).sequence
            if tensor.name in self._compared or not (
                isinstance(run, expr.Name) and isinstance(self.signature.forall.get(run.id), kinds.Shape)
            ):
                return False
        self._opened[tensor.name] = unknown[0] if unknown else None
        self._pending[tensor.name] = list(range(len(axes)))
        rest = [axis for position, axis in enumerate(axes) if position not in unknown]
        self.steps.append(
            plan_steps.Rank(tensor.name, expr.to_source(self.shapes[tensor.name]), _offset(rest), bool(unknown))
        )
        return True

    def _axis(self, tensor: Tensor, axes: tuple[expr.Expr, ...], position: int) -> bool:
        split = self._opened[tensor.name]
        axis = axes[position]
        if position == split:
            index = expect(expect(axis, expr.Splice).sequence, expr.Name).id
            self.steps.append(
                plan_steps.SolveRun(tensor.name, index, _offset(axes[:position]), _offset(axes[position + 1 :]))
            )
            self._learn(index)
            return True
        from_back = split is not None and position > split
        at = _offset(axes[position:]) if from_back else _offset(axes[:position])
        if isinstance(axis, expr.Splice):
            self.steps.append(plan_steps.CheckRun(tensor.name, axis.sequence, at, from_back, position == len(axes) - 1))
            return True
        if self._knows(axis):
            self.steps.append(plan_steps.CheckAxis(tensor.name, axis, at, from_back))
            return True
        solved = None if tensor.name in self._compared else affine(axis, self.known)
        if solved is None or solved[0] not in self.signature.forall:  # a let is worked out, not solved
            return False
        index, factor, offset = solved
        self.steps.append(plan_steps.SolveAxis(tensor.name, index, axis, factor, offset, at, from_back))
        self._learn(index)
        return True


def _offset(axes) -> plan_steps.Offset:
    runs = tuple(axis.sequence for axis in axes if isinstance(axis, expr.Splice))
    return plan_steps.Offset(len(axes) - len(runs), runs)


def affine(node: expr.Expr, known: set[str]) -> tuple[str, int, expr.Expr] | None:
    """Returns (index, factor, offset) of an axis `factor * index + offset` with one unknown index, or None."""
    unknown = [name for name in expr.names(node) if name not in known]
    if len(unknown) != 1:
        return None
    index = unknown[0]

    def split(part: expr.Expr) -> tuple[int, expr.Expr] | None:
        """Returns (factor, offset) of `part` as factor * index + offset, or None."""
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
