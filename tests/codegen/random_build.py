"""The state of an entry while it is drawn: its model, the calls of its rows, and the axes that fit all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tileops.tests.codegen import random_primitives as primitives
from tileops.tests.codegen import random_scope as sorts
from tileops.tests.codegen.random_draw import Draw
from tileops.tests.codegen.random_expressions import VARIABLES, Expressions, accept
from tileops.tests.codegen.random_model import Axis, Model
from tileops.tests.codegen.random_params import DTYPES
from tileops.tests.codegen.random_points import varies
from tileops.tests.codegen.random_scope import Scope
from tileops.tests.codegen.random_terms import ATOM, Env, Term, literal, name

MAX_AXIS = 12
MAX_POINTS = 48
# Names of any sort, among them such as generated code and Python use themselves.
NAMES = (
    "x",
    "y",
    "a",
    "b",
    "c",
    "w",
    "M",
    "N",
    "K",
    "B",
    "S",
    "T",
    "U",
    "rows",
    "scale",
    "bias",
    "offset",
    "count",
    "mode",
    "flag",
    "kind_",
    "left",
    "right",
    "axis",
    "dim0",
    "z9",
    "longer_name_of_something",
    "Q",
    "state",
    "ids",
    "layout",
    "alpha",
    "len",
    "sum",
    "max",
    "prod",
    "range",
    "abs",
    "all",
    "min",
    "call",
    "checks",
    "primitives",
    "torch",
    "math",
    "super",
    "int",
    "isinstance",
    "type",
    "str",
    "Op",
    "TensorRecord",
    "Layout",
    "Nopad",
    "params",
    "indices",
    "tensors",
    "device_",
    "x_shape",
    "x_dtype",
    "a_shape",
    "self_",
    "inputs",
    "buffers",
    "error",
    "read",
    "written",
    "flops",
    "nbytes",
    "kind",
    "value",
)


class Build:
    """One entry on its way: what later parts may read, and the calls that every part has to fit.

    Attributes:
      envs: the calls of the rows.
      known: what is solved by now, with its sort; `under` what only calls with a tensor know, `dtypes_under` dtypes
        that only those know.
      points: bound on the discriminant points declared so far.
    """

    def __init__(self, draw: Draw, op: str) -> None:
        self.draw = draw
        self.make = Expressions(draw)
        self.write = self.make.write
        self.model = Model(op)
        self.envs: list[Env] = []
        self.known: dict[str, sorts.Sort] = {}
        self.under: dict[str, dict[str, sorts.Sort]] = {}
        self.dtypes_under: dict[str, dict[str, sorts.Sort]] = {}
        self.tags: dict[str, str] = {}
        self.families: dict[str, Any] = {}
        self.forbidden: list[tuple[str, Any, str, Any]] = []
        self.points = 1
        self._taken: set[str] = {*VARIABLES, "size"}

    def name(self, prefix: str, plain: bool = True) -> str:
        """A name that the entry does not use yet; with `plain` one as authors choose them."""
        pool = [one for one in NAMES if one not in self._taken]
        found = self.draw.choice(pool) if plain and pool and self.draw.chance(70) else f"{prefix}{len(self._taken)}"
        while found in self._taken:
            found = f"{prefix}{len(self._taken)}_"
        self._taken.add(found)
        return found

    def scope(self, sizes: bool = False, types: bool = True) -> Scope:
        """All that is known by now; where `types` may depend on it, without what takes no part in types."""
        apart = (sorts.Number, sorts.Text) if types else ()
        known = {
            found: sort
            for found, sort in self.known.items()
            if not isinstance(sort.item if isinstance(sort, sorts.Maybe) else sort, apart)
        }
        under = {
            one: {**found, **({} if types else self.dtypes_under.get(one, {}))} for one, found in self.under.items()
        }
        return Scope(known, dict(self.tags), under, sizes)

    def finite(self, maybes: bool = True) -> Scope:
        """The facts that decide a branch: finite parameters, dtype indices, presence of optional tensors."""
        names = {
            found: sort
            for found, sort in self.known.items()
            if found not in self.model.lets
            and (
                isinstance(sort, (sorts.Flag, sorts.Word, sorts.Algebraic))
                or (isinstance(sort, sorts.DTypeName) and len(sort.values) < 6)
                or (maybes and isinstance(sort, sorts.Maybe) and _finite_item(sort.item))
            )
        }
        inputs = {tensor.name for tensor in self.model.of_role("constant", "input")}
        return Scope(names, {found: tag for found, tag in self.tags.items() if tag != "always" and found in inputs})

    # ---- terms of axes

    def accepted(
        self,
        make: Callable[[], Term],
        holds: Callable[[Any], bool],
        fallback: Callable[[], Term],
        envs: Sequence[Env] | None = None,
    ) -> Term:
        """A term that fits every call of the rows."""
        return self.make.accepted(make, self.envs if envs is None else envs, holds, fallback)

    def axis(self, scope: Scope, envs: Sequence[Env]) -> Axis:
        """An axis of any form that is a small size >= 0 in these calls."""
        draw, write = self.draw, self.write
        form = draw.weighted({"name": 6, "literal": 2, "product": 2, "expression": 4, "difference": 2, "clamped": 1})
        if form == "literal":
            return Axis(literal(draw.choice((0, 1, 1, 2, 3))))
        names = list(scope.of(sorts.Integer))

        def term() -> Term:
            if form == "expression":
                return self.make.integer(scope, draw.integer(1, 2))
            if form == "clamped":
                return write.call("max", primitives.largest, write.tuple(self.make.integer(scope, 1), literal(0)))
            one = draw.choice(names) if names else literal(1)
            if form == "difference":
                draw.use("axis that may be negative")
                return write.arithmetic("-", one, self.make.atom(scope))
            return one if form == "name" else write.arithmetic(draw.choice("*+"), one, self.make.atom(scope))

        def fits(value: Any) -> bool:
            return 0 <= value <= MAX_AXIS

        found = self.accepted(term, fits, lambda: literal(draw.integer(0, 2)), envs)
        if not found.dim and form == "expression":  # elsewhere it may be a constant below 0, which no axis is
            found = write.call("max", primitives.largest, write.tuple(found, literal(0)))
        draw.use(f"axis {form}")
        return Axis(found)

    def run(self, scope: Scope, envs: Sequence[Env]) -> Axis | None:
        """A run of axes that is known by now; None where none is found."""
        if not scope.of(sorts.Sequence):
            return None
        found = self.accepted(
            lambda: self.make.sequence(scope, self.draw.integer(0, 2)),
            lambda value: len(value) <= 3 and all(0 <= size <= MAX_AXIS for size in value),
            lambda: literal(None),
            envs,
        )
        if found.text == "None":
            return None
        self.draw.use("run of axes")
        return Axis(found, run=True)

    def axes(self, scope: Scope, envs: Sequence[Env], most: int = 3) -> list[Axis]:
        """Up to `most` axes and at times a run."""
        found = [self.axis(scope, envs) for _ in range(self.draw.integer(0, most))]
        if self.draw.chance(25) and (run := self.run(scope, envs)) is not None:
            found.insert(self.draw.integer(0, len(found)), run)
        while found and not self._small(found, envs):
            found.pop()
        if not found:
            self.draw.use("rank 0")
        return found

    def _small(self, axes: Sequence[Axis], envs: Sequence[Env]) -> bool:
        def count(env: Env) -> int:
            return primitives.prod([primitives.prod(a.term.of(env)) if a.run else a.term.of(env) for a in axes])

        return all(count(env) <= 4000 for env in envs)

    def text(self, axes: Sequence[Axis]) -> str:
        """The axes as a shape is written."""
        texts = [f"*{self.write.place(axis.term, ATOM)}" if axis.run else axis.term.text for axis in axes]
        return f"[{', '.join(texts)}]"

    # ---- dtypes

    def dtype(self, envs: Sequence[Env]) -> Term:
        """A dtype term of any form, over the dtype indices and parameters known by now."""
        draw, write = self.draw, self.write
        plain = [(found, sort) for found, sort in self.known.items() if isinstance(sort, sorts.DTypeName)]
        indices = [(found, sort) for found, sort in plain if found in self.model.dtype_indices]
        form = draw.weighted({"constant": 3, "name": 6, "coalesce": 3, "promote_types": 2, "promote_int_to_float": 2})
        draw.use(f"dtype {form}")
        if form == "constant" or not plain:
            return _constant(draw.choice(DTYPES))
        if form == "coalesce":
            maybes = [
                found
                for found, sort in self.known.items()
                if isinstance(sort, sorts.Maybe) and isinstance(sort.item, sorts.DTypeName)
            ]
            if maybes:
                fallback = name(draw.choice(plain)[0]) if draw.chance(70) else _constant(draw.choice(DTYPES))
                return write.call("coalesce_dtype", primitives.coalesce_dtype, name(draw.choice(maybes)), fallback)
        if form == "promote_types":
            first, second = draw.choice(plain), draw.choice(plain)
            terms = name(first[0]), name(second[0])
            if _promote(first[1].values, second[1].values):
                return write.call("promote_types", primitives.promote_types, *terms)
        if form == "promote_int_to_float":
            return write.call("promote_int_to_float", primitives.promote_int_to_float, name(draw.choice(plain)[0]))
        return name(draw.choice(indices or plain)[0])

    def presence(self) -> Term | None:
        """A condition on discriminants; None where nothing decides."""
        found = self.make.conditions.discriminant(self.finite(), self.draw.integer(0, 2))
        return found if accept(found, self.envs) and varies(self.model, found, ()) else None


def _finite_item(sort: sorts.Sort) -> bool:
    return not isinstance(sort, sorts.Opaque) and (not isinstance(sort, sorts.DTypeName) or len(sort.values) < 6)


def _constant(dtype: str) -> Term:
    return Term(dtype, ATOM, lambda env: dtype)


def _promote(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether every pair promotes."""
    try:
        return all(primitives.promote_types(a, b) for a in first for b in second)
    except primitives.OutOfDomainError:
        return False
