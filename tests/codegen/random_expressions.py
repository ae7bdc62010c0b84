"""Random expressions of the whole language: integers and sequences over a scope, each with its meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tileops.tests.codegen import random_primitives as primitives
from tileops.tests.codegen import random_scope as sorts
from tileops.tests.codegen.random_conditions import Conditions
from tileops.tests.codegen.random_draw import Draw
from tileops.tests.codegen.random_scope import Scope
from tileops.tests.codegen.random_terms import Env, OutOfBoundsError, Term, Writer, literal, name

VARIABLES = ("i", "d", "item", "int8", "q_")


def accept(term: Term, envs: Sequence[Env], holds: Callable[[Any], bool] = lambda value: True) -> bool:
    """Whether the term has a value in every one of the calls, and the value is fit for its place."""
    try:
        return all(holds(term.of(env)) for env in envs)
    except (OutOfBoundsError, ArithmeticError, ValueError, IndexError):
        return False


class Expressions:
    """Draws terms. `depth` bounds how far an expression nests."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.write = Writer(draw)
        self.conditions = Conditions(self)

    def accepted(
        self, make: Callable[[], Term], envs: Sequence[Env], holds: Callable[[Any], bool], fallback: Callable[[], Term]
    ) -> Term:
        """A term that `accept`s in every call, by trial; the fallback where none does."""
        for _ in range(12):
            term = make()
            if accept(term, envs, holds):
                return term
        return fallback()

    # ---- integers

    def integer(self, scope: Scope, depth: int) -> Term:
        """An integer, negative ones among them."""
        if depth <= 0:
            return self.atom(scope)
        weights = {
            "atom": 3,
            "arithmetic": 10,
            "sign": 2,
            "conditional": 4,
            "primitive": 5,
            "comprehension": 3,
            "divided": 4,
        }
        form = self.draw.weighted({**weights, "size": 3} if scope.sizes else weights)
        found = getattr(self, f"_{form}")(scope, depth)
        # What reads nothing must have a value: the language works it out at once.
        return found if found.reads or accept(found, [Env({}, {})]) else self.atom(scope)

    def atom(self, scope: Scope) -> Term:
        """A literal, name, value of a Maybe, field of an algebraic value, item or length of a sequence."""
        names = scope.of(sorts.Integer)
        if names and self.draw.chance(65):
            return self.draw.choice(names)
        runs = scope.of(sorts.Sequence)
        if runs and self.draw.chance(40):
            run = self.draw.choice(runs)
            if self.draw.chance(50):
                self.draw.use("len")
                return self.write.call("len", len, run, dim=True)
            runs = scope.indexable()
            if not runs:
                return literal(1)
            self.draw.use("subscript")
            return self.write.subscript(self.draw.choice(runs), literal(self.draw.choice((0, 0, -1, 1))))
        return literal(self.draw.choice((0, 1, 1, 2, 3, 5, 7, 10, 64)))

    def _atom(self, scope: Scope, depth: int) -> Term:
        return self.atom(scope)

    def _arithmetic(self, scope: Scope, depth: int) -> Term:
        op = self.draw.choice("++--**")
        self.draw.use(f"operator {op}")
        return self.write.arithmetic(op, self.integer(scope, depth - 1), self.integer(scope, depth - 1))

    def _divided(self, scope: Scope, depth: int) -> Term:
        op = self.draw.choice(("//", "%"))
        self.draw.use(f"operator {op}")
        return self.write.arithmetic(op, self.integer(scope, depth - 1), self.divisor(scope, depth))

    def divisor(self, scope: Scope, depth: int) -> Term:
        """An integer that no discriminant alone makes zero; often negative."""
        names = scope.open()
        if self.draw.chance(25):
            return self.write.arithmetic("+", self.draw.choice(names or [literal(2)]), literal(1))
        if names and self.draw.chance(40):
            return self.draw.choice(names)
        if depth > 1 and self.draw.chance(20):
            return self.positive(scope, depth - 1)
        value = self.draw.choice((1, 2, 3, 4, 7, -1, -2, -3, -5))
        self.draw.use("negative divisor" if value < 0 else "positive divisor")
        return literal(value)

    def positive(self, scope: Scope, depth: int) -> Term:
        """An integer >= 1 in every call, whatever the discriminants are."""
        weights = {"literal": 3, "max": 2, "conditional": 1, "plus": 2}
        form = self.draw.weighted(weights) if depth > 0 else "literal"
        if form == "max":
            self.draw.use("max of a tuple")
            items = self.write.tuple(self.integer(scope, depth - 1), literal(1))
            return self.write.call("max", primitives.largest, items)
        if form == "conditional":
            test, yes, no = self.conditions.guard(scope, depth - 1)
            return self.write.conditional(test, self.positive(yes, depth - 1), self.positive(no, depth - 1))
        names = [term for term in scope.of(sorts.Integer) if term.dim]
        if form == "plus" and names:
            return self.write.arithmetic("+", self.draw.choice(names), literal(1))
        return literal(self.draw.integer(1, 4))

    def _sign(self, scope: Scope, depth: int) -> Term:
        self.draw.use("unary sign")
        return self.write.sign(self.draw.choice("--+"), self.integer(scope, depth - 1))

    def _conditional(self, scope: Scope, depth: int) -> Term:
        self.draw.use("conditional")
        test, yes, no = self.conditions.guard(scope, depth - 1)
        return self.write.conditional(test, self.integer(yes, depth - 1), self.integer(no, depth - 1))

    def _size(self, scope: Scope, depth: int) -> Term:
        """bytes(t), guarded where t may be absent."""
        tensor = self.draw.choice([one for one in scope.tensors if one != "out"])
        self.draw.use("bytes(t)")
        size = Term(f"bytes({tensor})", literal(0).level, lambda env: env["bytes", tensor], frozenset({tensor}), True)
        if scope.tensors[tensor] == "always" or tensor in scope.shown:
            return size
        return self.write.conditional(self.conditions.present(tensor), size, literal(0))

    def _primitive(self, scope: Scope, depth: int) -> Term:
        call, draw = self.write.call, self.draw
        form = draw.choice(
            (
                "abs",
                "prod",
                "sum",
                "len",
                "max",
                "min",
                "max default",
                "ceil_div",
                "log2_floor",
                "per_axis",
                "conv.out",
                "pool.out",
                "moe.capacity",
                "mhc.expansion",
            )
        )
        draw.use(form)
        deeper = depth - 1
        if form == "abs":
            return call("abs", abs, self.integer(scope, deeper), dim=True)
        if form in ("prod", "sum", "len"):
            run = self.sequence(scope, deeper)
            compute = {"prod": primitives.prod, "sum": sum, "len": len}[form]
            return call(form, compute, run, dim=form == "len" or run.dim)
        if form in ("max", "min"):
            items = self.write.tuple(*(self.integer(scope, deeper) for _ in range(draw.integer(1, 3))))
            return call(form, primitives.largest if form == "max" else primitives.smallest, items, dim=items.dim)
        if form == "max default":
            run, default = self.sequence(scope, deeper), self.atom(scope)
            function, compute = draw.choice((("max", primitives.largest), ("min", primitives.smallest)))
            return call(function, compute, run, default, dim=run.dim and default.dim, optional="default")
        if form == "ceil_div":
            value = self.integer(scope, deeper)
            return call("ceil_div", primitives.ceil_div, value, self.positive(scope, deeper), dim=value.dim)
        if form == "log2_floor":
            return call("log2_floor", primitives.log2_floor, self.positive(scope, deeper), dim=True)
        if form == "per_axis":
            return self._per_axis(scope)
        if form == "mhc.expansion":  # of a square less one: other numbers have no expansion
            side = self.write.arithmetic("+", self.positive(scope, min(deeper, 1)), literal(1))
            square = self.write.arithmetic("-", self.write.arithmetic("*", side, side), literal(1))
            return call("mhc.expansion", primitives.expansion, square, dim=True)
        if form == "moe.capacity":
            return self._capacity(scope, depth)
        # A length that facts may decide is long enough for every window drawn; another may well be too short.
        known = scope.open()
        length = self.write.arithmetic("+", self.positive(scope, deeper), literal(7))
        length = draw.choice(known) if known and draw.chance(60) else length
        kernel = draw.integer(1, 4)
        window = literal(kernel), literal(draw.integer(1, 3))
        padding, dilation = literal(draw.integer(0, kernel // 2)), literal(draw.integer(1, 2))
        if form == "conv.out":
            return call("conv.out", primitives.conv_out, length, *window, padding, dilation, dim=True)
        modes = scope.of(sorts.Flag)
        mode = draw.choice(modes) if modes and draw.chance(60) else literal(draw.chance(50))
        return call("pool.out", primitives.pool_out, length, *window, padding, dilation, mode, dim=True)

    def _per_axis(self, scope: Scope) -> Term:
        count = self.draw.integer(1, 3)
        where = literal(self.draw.integer(0, count - 1)), literal(count)
        either = scope.of(sorts.Axes, sorts.Sequence, sorts.Integer)
        maybe = [
            name(base)
            for base, sort in scope.names.items()
            if isinstance(sort, sorts.Maybe)
            and isinstance(sort.item, (sorts.Axes, sorts.Integer))
            and base not in scope.shown
        ]
        items = [name(base) for base, sort in scope.names.items() if isinstance(sort, sorts.Items)]
        fallback = literal(self.draw.integer(0, 3)) if self.draw.chance(70) else literal((2,))
        if (maybe or items) and self.draw.chance(60):
            value = self.draw.choice(maybe + items)
            self.draw.use("None among items" if value in items else "None in place of items")
            if self.draw.chance(20):
                return self.write.call("per_axis", primitives.per_axis, value, *where)
            return self.write.call("per_axis", primitives.per_axis, value, *where, fallback, optional="fallback")
        value = self.draw.choice(either) if either else literal(2)
        return self.write.call("per_axis", primitives.per_axis, value, *where, dim=value.dim)

    def _capacity(self, scope: Scope, depth: int) -> Term:
        layouts = [base for base, sort in scope.algebraic() if sort.type == "Layout"]
        if not layouts:
            return self.atom(scope)
        base = self.draw.choice(layouts)
        rows, experts = self.positive(scope, depth - 1), literal(self.draw.integer(0, 3))
        return self.write.call("moe.capacity", primitives.capacity, name(base), rows, experts, dim=True)

    def _comprehension(self, scope: Scope, depth: int) -> Term:
        draw = self.draw
        free = [variable for variable in VARIABLES if variable not in scope.names]
        if not free:
            return self.atom(scope)
        variable = draw.choice(free)
        if draw.chance(60) and not scope.variables:  # a formula runs over no range at each step of another
            draw.use("comprehension over range")
            run = self.write.call("range", primitives.indices_below, self.integer(scope, depth - 1))
            inner = scope.binding(variable, sorts.Integer(True))
        else:
            draw.use("comprehension over a sequence")
            run = self.sequence(scope, depth - 1)
            inner = scope.binding(variable, sorts.Integer(run.dim))
        condition = self.conditions.boolean(inner, depth - 1) if draw.chance(35) else None
        if condition is not None:
            draw.use("comprehension with a condition")
        function = draw.choice(("sum", "sum", "max", "min"))
        reduce = {"sum": sum, "max": primitives.largest, "min": primitives.smallest}[function]
        draw.use(f"{function} of a comprehension")
        default = None
        if function != "sum" and draw.chance(40):
            draw.use("default of a comprehension")
            default = self.atom(scope)
        element = self.integer(inner, depth - 1)
        return self.write.comprehension(function, reduce, element, variable, run, condition, default)

    # ---- sequences

    def sequence(self, scope: Scope, depth: int) -> Term:
        """A sequence of integers; inside a comprehension none whose length a size decides."""
        runs = scope.indexable() if scope.variables else scope.of(sorts.Sequence)
        if runs and (depth <= 0 or self.draw.chance(35)):
            return self.draw.choice(runs)
        if depth <= 0:
            return self.write.tuple(*(self.atom(scope) for _ in range(self.draw.integer(0, 2))))
        long = () if scope.variables else ("repeat", "balanced_sizes")
        form = self.draw.choice(("tuple", "slice", "broadcast", "reduced", "conditional", *long))
        self.draw.use(f"sequence {form}")
        if form == "slice" and runs:
            bounds = (None, None, 0, 1, 2, -1)
            return self.write.slice(self.draw.choice(runs), self.draw.choice(bounds), self.draw.choice(bounds))
        if form == "broadcast" and runs:
            shapes = [self.draw.choice(runs), *([self.draw.choice(runs)] if self.draw.chance(30) else []), self._ones()]
            return self.write.call("broadcast", primitives.broadcast, *self.draw.shuffled(shapes), dim=True)
        if form == "reduced" and runs:
            return self.reduced(scope, self.draw.choice(runs))
        if form == "repeat":
            value = self.integer(scope, depth - 1)
            return self.write.call("repeat", primitives.repeat, value, self._few(scope), dim=value.dim)
        if form == "balanced_sizes":
            total = self.write.call("abs", abs, self.integer(scope, depth - 1), dim=True)
            count = self.positive(scope, 0)
            return self.write.call("balanced_sizes", primitives.balanced_sizes, total, count, dim=True)
        if form == "conditional":
            test, yes, no = self.conditions.guard(scope, depth - 1)
            then = self.sequence(yes, depth - 1)
            otherwise = self.sequence(no, depth - 1)
            return self.write.conditional(test, then, otherwise)
        return self.write.tuple(*(self.integer(scope, depth - 1) for _ in range(self.draw.integer(1, 3))))

    def reduced(self, scope: Scope, run: Term) -> Term:
        """The run reduced over a drawn `dim`: a literal, a list or a parameter that may be None."""
        draw = self.draw
        dims: list[Term] = [literal(draw.choice((0, -1, 1))), literal(None), literal((0, -1)), literal(())]
        dims += scope.of(sorts.Axes) + [
            name(base)
            for base, sort in scope.names.items()
            if isinstance(sort, sorts.Maybe)
            and isinstance(sort.item, (sorts.Axes, sorts.Integer, sorts.Sequence))
            and base not in scope.shown
        ]
        flags = scope.of(sorts.Flag)
        keepdim = draw.choice(flags) if flags and draw.chance(60) else literal(draw.chance(50))
        mode = literal(draw.choice(("full", "noop", "reject")), draw)
        return self.write.call("reduced", primitives.reduced, run, draw.choice(dims), keepdim, mode, dim=True)

    def _ones(self) -> Term:
        return literal(tuple(1 for _ in range(self.draw.integer(1, 3))))

    def _few(self, scope: Scope) -> Term:
        dims = [term for term in scope.of(sorts.Integer) if term.dim]
        return self.draw.choice(dims) if dims and self.draw.chance(50) else literal(self.draw.integer(0, 3))
