"""Random conditions: Bools over a scope, and guards, which also say what each arm behind them knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileops.tests.codegen import random_primitives as primitives
from tileops.tests.codegen import random_scope as sorts
from tileops.tests.codegen.random_scope import Scope
from tileops.tests.codegen.random_terms import ATOM, Term, literal, name

if TYPE_CHECKING:
    from tileops.tests.codegen.random_expressions import Expressions

Guard = tuple[Term, Scope, Scope]
FINITE = -1  # the depth that asks for a test of finite facts alone


class Conditions:
    """Draws conditions.

    A finite name that a test has read is compared with nothing behind it, unless what is left of it is known: the
    language refuses a comparison that can no longer hold.
    """

    def __init__(self, expressions: Expressions) -> None:
        self._of = expressions
        self._draw = expressions.draw
        self._write = expressions.write

    def present(self, subject: str) -> Term:
        """present(t) of a tensor or Maybe."""
        self._draw.use("present(t)")
        return Term(f"present({subject})", ATOM, lambda env: env["present", subject], frozenset({subject}))

    # ---- guards

    def guard(self, scope: Scope, depth: int) -> Guard:
        """A test, and the scope of the arm where it holds and of the one where it does not."""
        options = [self._presence, self._membership, self._constructor, self._given, self._plain, self._no_word]
        form = self._draw.choice(options)
        found = form(scope, depth)
        if found is None:
            found = self._plain(scope, depth)
        test, yes, no = found
        if self._draw.chance(15):
            self._draw.use("guard negated")
            return self._write.negation(test), no, yes
        if depth > 0 and self._draw.chance(20):
            return self._joined(scope, (test, yes, no), depth)
        return found

    def _joined(self, scope: Scope, first: Guard, depth: int) -> Guard:
        """`a and b`: b stands, and the arm too, where a holds. `a or b`: where it does not."""
        test, yes, no = first
        op = self._draw.choice(("and", "or"))
        self._draw.use(f"guard carried through {op}")
        other = self.boolean(yes if op == "and" else no, depth - 1)
        joined = self._write.logic(op, (test, other))
        neither = scope.blocking(joined.reads)
        kept = (yes if op == "and" else no).blocking(other.reads)
        return (joined, kept, neither) if op == "and" else (joined, neither, kept)

    def _plain(self, scope: Scope, depth: int) -> Guard:
        test = self.boolean(scope, depth)
        behind = scope.blocking(test.reads)
        return test, behind, behind

    def _presence(self, scope: Scope, depth: int) -> Guard | None:
        maybes = [base for base, sort in scope.names.items() if isinstance(sort, sorts.Maybe)]
        subjects = [one for one in (*maybes, *scope.tensors) if one not in scope.shown]
        if not subjects:
            return None
        subject = self._draw.choice(subjects)
        return self.present(subject), scope.showing(subject), scope

    def _given(self, scope: Scope, depth: int) -> Guard | None:
        """`x != None`, or `x == None` with the arms the other way round."""
        maybes = [
            base
            for base, sort in scope.names.items()
            if isinstance(sort, sorts.Maybe)
            and base not in scope.shown
            and scope.untouched(base)
            and (depth >= 0 or isinstance(sort.item, (sorts.Flag, sorts.Word, sorts.DTypeName)))
        ]
        if not maybes:
            return None
        subject = self._draw.choice(maybes)
        self._draw.use("Maybe compared with None")
        there = scope.showing(subject)
        if self._draw.chance(50):
            return self._write.comparison(name(subject), ("==", literal(None))), scope, there
        return self._write.comparison(name(subject), ("!=", literal(None))), there, scope

    def _membership(self, scope: Scope, depth: int) -> Guard | None:
        """`mode == 'a'`, `mode != 'a'`, `T in ('x', 'y')`: both arms know what is left."""
        finite = [
            (base, text, sort)
            for base, text, sort in scope.plain()
            if isinstance(sort, (sorts.Word, sorts.DTypeName)) and len(scope.values_of(base, sort)) > 1
        ]
        if not finite:
            return None
        base, text, sort = self._draw.choice(finite)
        values = scope.values_of(base, sort)
        self._draw.use("guard by dtype" if isinstance(sort, sorts.DTypeName) else "guard by enumeration")
        subject = Term(text, ATOM, lambda env: env[base], frozenset({base}))
        if len(values) > 2 and self._draw.chance(40):
            chosen = tuple(self._draw.some(values, 2, len(values) - 1))
            op, test = "in", literal(chosen, self._draw)
        else:
            chosen = (self._draw.choice(values),)
            op, test = "==", literal(chosen[0], self._draw)
        rest = tuple(value for value in values if value not in chosen)
        yes, no = scope.narrowed(base, chosen), scope.narrowed(base, rest)
        if self._draw.chance(30):
            return self._write.comparison(subject, ({"in": "not in", "==": "!="}[op], test)), no, yes
        if op == "==" and self._draw.chance(20):
            return self._write.comparison(test, (op, subject)), yes, no
        return self._write.comparison(subject, (op, test)), yes, no

    def _no_word(self, scope: Scope, depth: int) -> Guard | None:
        """`pad == 'keep'`, `pad in ('a', 'b')`: the other arm knows that it is no word."""
        found = [(base, sort) for base, sort in scope.names.items() if isinstance(sort, sorts.WordOr)]
        found = [(base, sort) for base, sort in found if scope.untouched(base)]
        if not found:
            return None
        base, sort = self._draw.choice(found)
        self._draw.use("union with words narrowed")
        yes, no = scope.blocking(frozenset({base})), scope.without_words(base, sort.item)
        words = tuple(self._draw.shuffled(sort.words))
        several = len(words) > 1
        op = "in" if several else "=="
        right = literal(words if several else words[0], self._draw)
        if self._draw.chance(30):
            return self._write.comparison(name(base), ({"in": "not in", "==": "!="}[op], right)), no, yes
        return self._write.comparison(name(base), (op, right)), yes, no

    def _constructor(self, scope: Scope, depth: int) -> Guard | None:
        """`layout.kind == 'Padded'`: the arm may read Padded's fields."""
        known = [(base, sort) for base, sort in scope.algebraic() if scope.untouched(base)]
        if not known:
            return None
        base, sort = self._draw.choice(known)
        constructors = tuple(sort.constructors)
        chosen = self._draw.choice(constructors)
        self._draw.use("guard by constructor")
        kind = Term(f"{base}.kind", ATOM, lambda env: type(env[base]).__name__, frozenset({base}))
        test = self._write.comparison(kind, ("==", literal(chosen, self._draw)))
        rest = tuple(one for one in constructors if one != chosen)
        return test, scope.narrowed(base, (chosen,)), scope.narrowed(base, rest)

    # ---- plain Bools

    def boolean(self, scope: Scope, depth: int) -> Term:
        """A Bool."""
        if depth <= 0:
            flags = scope.of(sorts.Flag)
            return self._draw.choice(flags) if flags and self._draw.chance(60) else self._comparison(scope, 0)
        form = self._draw.weighted(
            {
                "comparison": 6,
                "logic": 4,
                "negation": 2,
                "flag": 3,
                "finite": 3,
                "member": 2,
                "primitive": 3,
                "conditional": 1,
                "all": 1,
                "float": 1,
            }
        )
        return getattr(self, f"_{form}")(scope, depth)

    def _comparison(self, scope: Scope, depth: int) -> Term:
        count = self._draw.weighted({1: 6, 2: 2, 3: 1})
        if count > 1:
            self._draw.use("chained comparison")
        ops = ("==", "!=", "<", "<=", ">", ">=")
        rest = [(self._draw.choice(ops), self._of.integer(scope, depth - 1)) for _ in range(count)]
        return self._write.comparison(self._of.integer(scope, depth - 1), *rest)

    def _logic(self, scope: Scope, depth: int) -> Term:
        op = self._draw.choice(("and", "or"))
        self._draw.use(f"operator {op}")
        operands = []
        for _ in range(self._draw.integer(2, 3)):
            operands.append(self.boolean(scope, depth - 1))
            scope = scope.blocking(operands[-1].reads)
        return self._write.logic(op, operands)

    def _negation(self, scope: Scope, depth: int) -> Term:
        self._draw.use("operator not")
        return self._write.negation(self.boolean(scope, depth - 1))

    def _flag(self, scope: Scope, depth: int) -> Term:
        flags = scope.of(sorts.Flag)
        runs = scope.of(sorts.Flags)
        if runs and self._draw.chance(30):
            self._draw.use("item of a list of Bools")
            return self._write.subscript(self._draw.choice(runs), literal(0))
        if not flags:
            return self._comparison(scope, depth)
        flag = self._draw.choice(flags)
        if self._draw.chance(15):
            self._draw.use("Bool compared with a literal")
            return self._write.comparison(flag, (self._draw.choice(("==", "!=")), literal(self._draw.chance(50))))
        return flag

    def _finite(self, scope: Scope, depth: int) -> Term:
        """A test of a presence, an enumeration, a dtype or a constructor."""
        found = self._draw.choice((self._presence, self._membership, self._constructor, self._given))(scope, depth)
        return self._comparison(scope, depth) if found is None else found[0]

    def _member(self, scope: Scope, depth: int) -> Term:
        self._draw.use("operator in")
        listed = literal(tuple(self._draw.some(range(-1, 9), 1, 3)))
        options = self._of.sequence(scope, 0) if self._draw.chance(40) else listed
        op = self._draw.choice(("in", "not in"))
        return self._write.comparison(self._of.integer(scope, depth - 1), (op, options))

    def _primitive(self, scope: Scope, depth: int) -> Term:
        draw, runs = self._draw, scope.of(sorts.Sequence)
        dtypes = [
            (base, sort)
            for base, sort in scope.names.items()
            if isinstance(sort, sorts.DTypeName) and scope.untouched(base)
        ]
        numbers = [(base, sort) for base, sort in scope.names.items() if isinstance(sort, sorts.Number)]
        forms = ("valid_axes", "unique_axes", "category", "representable", "sequences", "number")
        form = draw.choice(forms)
        if form == "number" and numbers:
            draw.use("category of a number")
            base, sort = draw.choice(numbers)
            wanted = draw.choice(("int", "float", *(["bool"] if sort.bools else [])))
            found = self._write.call("category", primitives.category, name(base))
            return self._write.comparison(found, (draw.choice(("==", "!=")), literal(wanted, draw)))
        if form in ("valid_axes", "unique_axes") and runs:
            draw.use(form)
            dims = scope.of(sorts.Axes, sorts.Sequence) or [literal((0, 1, -1))]
            compute = primitives.valid_axes if form == "valid_axes" else primitives.unique_axes
            rank = self._write.call("len", len, draw.choice(runs), dim=True)
            return self._write.call(form, compute, draw.choice(dims), rank)
        if form == "category" and dtypes:
            draw.use(form)
            base, sort = draw.choice(dtypes)
            wanted = primitives.category(draw.choice(sort.values))
            found = self._write.call(form, primitives.category, name(base))
            return self._write.comparison(found, ("==", literal(wanted, draw)))
        if form == "representable" and dtypes:
            draw.use(form)
            value = literal(draw.choice((0, 1, 2, 200, 300, 70000, -1, -200, -300, 0.5, 255.5, 1.0e39)))
            value = name(draw.choice(numbers)[0]) if numbers and draw.chance(40) else value
            return self._write.call(form, primitives.representable, value, name(draw.choice(dtypes)[0]))
        lists = scope.indexable()  # the language may know the lengths of others, and refuses to compare unequal ones
        if len(lists) > 1 and form == "sequences":
            draw.use("sequences compared")
            return self._write.comparison(lists[0], (draw.choice(("==", "!=")), lists[-1]))
        return self._comparison(scope, depth)

    def _conditional(self, scope: Scope, depth: int) -> Term:
        self._draw.use("conditional of Bools")
        test, yes, no = self.guard(scope, depth - 1)
        return self._write.conditional(test, self.boolean(yes, depth - 1), self.boolean(no, depth - 1))

    def _all(self, scope: Scope, depth: int) -> Term:
        self._draw.use("all of a comprehension")
        run = self._of.sequence(scope, 0)
        variable = next(one for one in ("size", "i", "d", "item") if one not in scope.names)
        inner = scope.binding(variable, sorts.Integer(run.dim))
        return self._write.comprehension("all", all, self.boolean(inner, depth - 1), variable, run, None)

    def _float(self, scope: Scope, depth: int) -> Term:
        numbers = scope.of(sorts.Number)
        if not numbers:
            texts = scope.of(sorts.Text)
            if not texts:
                return self._comparison(scope, depth)
            self._draw.use("open text compared")
            text = literal(self._draw.choice(("a", "long text")), self._draw)
            return self._write.comparison(self._draw.choice(texts), ("==", text))
        self._draw.use("float compared")
        value = literal(self._draw.choice((0.0, 0.5, -1.5, float("inf"))))
        return self._write.comparison(self._draw.choice(numbers), (self._draw.choice(("<", ">=", "==")), value))

    # ---- conditions on discriminants alone

    def discriminant(self, scope: Scope, depth: int) -> Term:
        """A condition that finite facts decide; `scope` holds nothing else. Literal True where there are none."""
        flags = scope.of(sorts.Flag)
        guards = (self._presence, self._membership, self._constructor, self._given)
        atoms = [found[0] for find in guards if (found := find(scope, FINITE)) is not None] + flags[:2]
        if not atoms:
            return literal(True)
        atom = self._draw.choice(atoms)
        if depth <= 0:
            return atom
        if self._draw.chance(25):
            return self._write.negation(atom)
        behind = scope.blocking(atom.reads)
        other = self.discriminant(behind, depth - 1)
        if other.text == "True":
            return atom
        return self._write.logic(self._draw.choice(("and", "or")), (atom, other))
