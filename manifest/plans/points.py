"""Discriminants and discriminant points: the finite facts of a call on which its types and its price depend."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

from tileops.manifest.language import effort, expr, kinds
from tileops.manifest.language.adt import AdtValue
from tileops.manifest.language.evaluate import fold
from tileops.manifest.model import Signature, Tensor

MAX_POINTS = 65_536


@dataclasses.dataclass(frozen=True)
class Discriminant:
    """One finite fact of a call.

    Attributes:
      name: the parameter, tensor or dtype index.
      presence: whether the fact is `present(name)` rather than the value of `name`.
      values: the values it takes, in order; of an algebraic parameter its constructors, with the finite fields read.
    """

    name: str
    presence: bool
    values: tuple[Any, ...]

    @property
    def key(self) -> str:
        """Returns the discriminant as messages and comments write it."""
        return f"present({self.name})" if self.presence else self.name


class _Decided:
    """The results for one term at the points of one enumeration, by the values of the discriminants that it reads."""

    def __init__(self, point: Point, term: expr.Expr) -> None:
        self.term = term  # kept, since its identity is the key to this
        names = set(expr.names(term))
        self.positions = tuple(at for at, (one, _) in enumerate(point.assigned) if one.name in names)
        self.results: dict[tuple[Any, ...], Any] = {}


@dataclasses.dataclass(frozen=True)
class Point:
    """One assignment of discriminants, in their order.

    Attributes:
      assigned: each discriminant with its value.
      shared: by the points of one enumeration, most of which decide a term alike: what they worked out.
    """

    assigned: tuple[tuple[Discriminant, Any], ...]
    shared: dict[Any, Any] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @functools.cached_property
    def values(self) -> dict[str, Any]:
        """Returns the values of parameters and dtype indices."""
        return {d.name: value for d, value in self.assigned if not d.presence}

    @functools.cached_property
    def present(self) -> dict[str, bool]:
        """Returns the presence of tensors and Maybes. A Maybe with a value at the point is present if not None."""
        maybes = {d.name: value is not None for d, value in self.assigned if None in d.values}
        return maybes | {d.name: value for d, value in self.assigned if d.presence}

    def fold(self, node: expr.Expr) -> expr.Expr:
        """Returns the expression with all that the point decides worked out."""
        return self.once("fold", node, lambda: fold(node, self.values, self.present))

    def once(self, what: str, term: expr.Expr, make: Callable[[], Any]) -> Any:
        """Returns what `make` gives for a term, made once for all points that agree in the term's discriminants."""
        effort.spend()
        found = self.shared.get((what, id(term)))
        if found is None:
            found = self.shared[what, id(term)] = _Decided(self, term)
        key = tuple([self.assigned[at][1] for at in found.positions])
        if key not in found.results:
            found.results[key] = make()
        return found.results[key]

    def __str__(self) -> str:
        return ", ".join(f"{d.key} = {value}" for d, value in self.assigned) or "every call"


class TooManyPointsError(Exception):
    """The discriminants span more than MAX_POINTS points; `args[0]` is their number."""

    def __str__(self) -> str:
        return f"{self.args[0]} discriminant points are too many"


class _Read:
    """The names, presences and fields of algebraic values that some expressions test."""

    def __init__(self) -> None:
        self.tested: set[str] = set()
        self.compared: set[str] = set()
        self.present: set[str] = set()
        self.fields: dict[str, set[str]] = {}

    def test(self, node: expr.Expr) -> None:
        """Records what `node` tests, if its truth or value decides a branch."""
        if isinstance(node, (expr.Name, expr.Value)):
            self.tested.add(node.id if isinstance(node, expr.Name) else node.name)
        elif isinstance(node, expr.Field):
            self.fields.setdefault(node.name, set()).add(node.field)
        elif isinstance(node, expr.Conditional):  # the chosen branch takes its place
            self.test(node.then)
            self.test(node.otherwise)

    def compare(self, node: expr.Expr) -> None:
        if isinstance(node, (expr.Name, expr.Value)):
            self.compared.add(node.id if isinstance(node, expr.Name) else node.name)
        elif isinstance(node, expr.Conditional):
            self.compare(node.then)
            self.compare(node.otherwise)
        elif isinstance(node, expr.Tuple):
            for item in node.items:
                self.compare(item)
        else:
            self.test(node)

    def scan(self, root: expr.Expr) -> None:
        self.test(root)
        for part in expr.walk(root):
            if isinstance(part, expr.Call) and part.function == "present" and isinstance(part.args[0], expr.Name):
                self.present.add(part.args[0].id)
            elif isinstance(part, expr.Conditional):
                self.test(part.test)
            elif isinstance(part, expr.Unary) and part.op == "not":
                self.test(part.operand)
            elif isinstance(part, expr.Logic):
                for operand in part.operands:
                    self.test(operand)
            elif isinstance(part, expr.Compare):
                for operand in part.operands:
                    self.compare(operand)
            elif isinstance(part, expr.FamilyTerm):
                for arg in part.args:
                    self.compare(arg)
                    self.test(arg)
            if isinstance(part, expr.Field):
                self.fields.setdefault(part.name, set())


def discriminants(signature: Signature, read_by: Iterable[expr.Expr]) -> list[Discriminant]:
    """Returns the discriminants that decide a branch, case or presence in the expressions, in signature order.

    A Bool that is only handed to a primitive decides nothing here: the primitive takes either value.
    """
    read = _Read()
    for root in read_by:
        read.scan(root)
    for family in signature.families.values():
        for case in family.cases:
            for name, pattern in zip(family.match, case.patterns, strict=True):
                kind = family.params.get(name)
                if kind is not None and isinstance(kind.given, kinds.Adt):
                    for argument in _arguments(signature, family.name, name):
                        if argument in read.fields or argument in read.tested:
                            read.fields.setdefault(argument, set()).update(field for field, _ in pattern.fields)
    found: list[Discriminant] = []
    for name, kind in (*signature.forall.items(), *((p.name, p.kind) for p in signature.params.values())):
        maybe = isinstance(kind, kinds.Maybe)
        values = _values(name, kind.given, read)
        if values:
            found.append(Discriminant(name, False, (*values, None) if maybe else values))
        elif maybe and name in read.present and name not in signature.constants:
            found.append(Discriminant(name, True, (False, True)))
    for name, tensor in signature.bound.items():
        if name in read.present and tensor.optional:
            found.append(Discriminant(name, True, (False, True)))
    if "out" in read.present and signature.takes_out:
        found.append(Discriminant("out", True, (False, True)))
    return found


def _values(name: str, kind: kinds.Kind, read: _Read) -> tuple[Any, ...]:
    """Returns the values of a finite parameter or index if the expressions depend on it, else ()."""
    if isinstance(kind, kinds.Bool) and name in read.tested | read.compared:
        return (False, True)
    if isinstance(kind, (kinds.Enum, kinds.DType)) and name in read.compared:
        return kind.values
    if isinstance(kind, kinds.Adt) and name in read.fields:
        return tuple(
            AdtValue(constructor.name, tuple(zip(finite, chosen, strict=True)))
            for constructor in kind.constructors
            for finite, domains in [_finite_fields(constructor, read.fields[name])]
            for chosen in itertools.product(*domains)
        )
    return ()


def _finite_fields(constructor: kinds.Constructor, wanted: set[str]) -> tuple[list[str], list[tuple[Any, ...]]]:
    names, domains = [], []
    for field, kind in constructor.fields:
        if field in wanted and isinstance(kind, (kinds.Bool, kinds.Enum)):
            names.append(field)
            domains.append((False, True) if isinstance(kind, kinds.Bool) else kind.values)
    return names, domains


def _arguments(signature: Signature, family: str, param: str) -> list[str]:
    """Returns the names that applications of a family pass for its parameter."""
    position = list(signature.families[family].params).index(param)
    return [
        argument.id
        for tensor in signature.tensors.values()
        if isinstance(term := tensor.shape.expr, expr.FamilyTerm)
        and term.family == family
        and position < len(term.args)
        and isinstance(argument := term.args[position], expr.Name)
    ]


def check_number(found: Iterable[Discriminant]) -> int:
    """Returns the number of points of discriminants. Raises TooManyPointsError."""
    number = math.prod(len(one.values) for one in found)
    if number > MAX_POINTS:
        raise TooManyPointsError(number)
    return number


def enumerate_points(found: list[Discriminant], restrictions: Iterable[expr.Expr] = ()) -> list[Point]:
    """Returns all assignments that no restriction rejects, the last discriminant fastest. Raises TooManyPointsError."""
    check_number(found)
    last: list[list[expr.Expr]] = [
        [] for _ in range(len(found) + 1)
    ]  # each restriction, at the last discriminant that it reads
    for restriction in restrictions:
        names = set(expr.names(restriction))
        last[max((at + 1 for at, one in enumerate(found) if one.name in names), default=0)].append(restriction)
    points = [Point((), {})]
    for depth, values in enumerate([None, *(one.values for one in found)]):
        if values is not None:
            points = [
                Point((*point.assigned, (found[depth - 1], value)), point.shared)
                for point in points
                for value in values
            ]
        for restriction in last[depth]:
            points = [point for point in points if point.fold(restriction) != expr.Literal(False)]
    return points


def holder(signature: Signature, index: str) -> Tensor | None:
    """Returns the first tensor of a dtype index that every call has, from which `check` solves the index first."""
    for tensor in signature.bound.values():
        if tensor.dtype.expr == expr.Name(index) and not tensor.may_be_absent:
            return tensor
    return None


def domain_restrictions(signature: Signature) -> list[expr.Expr]:
    """Returns the shape rules that read only discriminants. `check` applies them before it chooses branches.

    A rule on a dtype that only some calls have is none of them: `check` applies it once it has solved the dtype.
    """
    return [rule.expr for rule in signature.rules if _reads_only_discriminants(signature, rule.expr)]


def _reads_only_discriminants(signature: Signature, node: expr.Expr) -> bool:
    names = set(expr.names(node))
    found = {one.name for one in discriminants(signature, [node])}
    return (
        bool(names)
        and names <= found
        and all(holder(signature, name) is not None for name in names if name in signature.forall)
    )
